//! Stream contents that show every misplaced byte.

use crate::events::mix;

/// Fills `buf` with what stream `stream` carries from byte `offset` on: bytes that depend on
/// nothing but stream and position, so that a byte in a wrong place shows.
pub fn fill(stream: u64, offset: u64, buf: &mut [u8]) {
    let mut position = offset;
    let mut rest = buf;
    while !rest.is_empty() {
        let word = word(stream, position);
        let skip = (position % 8) as usize;
        let len = rest.len().min(8 - skip);
        let (head, tail) = rest.split_at_mut(len);
        head.copy_from_slice(&word[skip..skip + len]);
        position += len as u64;
        rest = tail;
    }
}

/// The stream offset of the first byte of `data`, which was read at `offset`, that isn't what
/// [`fill`] put there.
pub fn first_mismatch(stream: u64, offset: u64, data: &[u8]) -> Option<u64> {
    let mut expected = vec![0; data.len()];
    fill(stream, offset, &mut expected);
    let at = expected.iter().zip(data).position(|(a, b)| a != b)?;
    Some(offset + at as u64)
}

fn word(stream: u64, position: u64) -> [u8; 8] {
    mix(mix(stream) ^ (position / 8)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depends_on_position_alone_however_it_is_cut() {
        let mut whole = [0; 100];
        fill(5, 1000, &mut whole);
        for cut in 0..100 {
            let mut parts = [0; 100];
            let (head, tail) = parts.split_at_mut(cut);
            fill(5, 1000, head);
            fill(5, 1000 + cut as u64, tail);
            assert_eq!(parts, whole);
        }
        assert_eq!(first_mismatch(5, 1000, &whole), None);
        whole[33] ^= 1;
        assert_eq!(first_mismatch(5, 1000, &whole), Some(1033));
    }

    #[test]
    fn another_place_or_stream_shows_at_once() {
        let mut data = [0; 64];
        fill(5, 0, &mut data);
        for (stream, offset) in [(5, 1), (5, 8), (5, 1 << 40), (6, 0)] {
            assert!(first_mismatch(stream, offset, &data).is_some());
        }
    }
}

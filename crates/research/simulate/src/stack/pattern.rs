//! Stream contents that show every misplaced byte, without work for each of them.

use std::sync::LazyLock;

use crate::events::mix;

/// After so many bytes a stream's contents begin again. A prime: a piece of any usual size that is
/// in a wrong place, or twice, shows.
const PERIOD: usize = 65_521;

/// The longest piece.
pub(super) const PIECE: usize = 64 << 10;

static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let words = (0..).flat_map(|n| mix(n).to_le_bytes());
    words.take(PERIOD).collect::<Vec<u8>>().repeat(3)
});

/// What stream `stream` carries from byte `offset` on, at most [`PIECE`] bytes.
pub(super) fn piece(stream: u64, offset: u64, len: usize) -> &'static [u8] {
    let period = PERIOD as u64;
    let from = ((mix(stream) % period + offset % period) % period) as usize;
    &BYTES[from..from + len.min(PIECE)]
}

/// The stream offset of the first byte of `data`, which was read at `offset`, that isn't what
/// [`piece`] has there.
pub(super) fn first_mismatch(stream: u64, offset: u64, data: &[u8]) -> Option<u64> {
    let mut at = offset;
    for data in data.chunks(PIECE) {
        let expected = piece(stream, at, data.len());
        if data != expected {
            let wrong = expected.iter().zip(data).position(|(a, b)| a != b);
            return wrong.map(|wrong| at + wrong as u64);
        }
        at += data.len() as u64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depends_on_position_alone_however_it_is_cut() {
        // Past the place where the contents begin again.
        let mut whole = piece(5, 65_000, PIECE).to_vec();
        for cut in [0, 1, 520, 521, 522, PIECE] {
            let (head, tail) = whole.split_at(cut);
            assert_eq!(head, piece(5, 65_000, cut));
            assert_eq!(tail, piece(5, 65_000 + cut as u64, PIECE - cut));
        }
        assert_eq!(first_mismatch(5, 65_000, &whole), None);
        whole[33] ^= 1;
        assert_eq!(first_mismatch(5, 65_000, &whole), Some(65_033));
    }

    #[test]
    fn longer_data_is_compared_to_its_end() {
        let mut data = [piece(1, 0, PIECE), piece(1, PIECE as u64, 100)].concat();
        assert_eq!(first_mismatch(1, 0, &data), None);
        data[PIECE + 99] ^= 1;
        assert_eq!(first_mismatch(1, 0, &data), Some(PIECE as u64 + 99));
    }

    #[test]
    fn another_place_or_stream_shows_at_once() {
        let data = piece(5, 0, 64);
        for (stream, offset) in [(5, 1), (5, 8), (5, 1434), (5, 1 << 40), (6, 0)] {
            assert!(first_mismatch(stream, offset, data).is_some());
        }
    }
}

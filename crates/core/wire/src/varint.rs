//! Variable-length integers of 1, 2, 4 or 8 bytes (RFC 9000, section 16): the two highest bits of
//! the first byte say how many, the rest is the number, big-endian.

use bytes::BufMut;

/// The largest number a varint can hold: 2^62 - 1.
pub const MAX: u64 = (1 << 62) - 1;

/// Bytes that [`put`] takes for `value`: 1, 2, 4 or 8.
pub const fn len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Writes `value` in as few bytes as possible, and a value above [`MAX`] as [`MAX`].
pub fn put(buf: &mut impl BufMut, value: u64) {
    let value = value.min(MAX);
    match len(value) {
        1 => buf.put_u8(value as u8),
        2 => buf.put_u16(value as u16 | 1 << 14),
        4 => buf.put_u32(value as u32 | 2 << 30),
        _ => buf.put_u64(value | 3 << 62),
    }
}

/// Takes a varint from the front of `bytes`, in any of its encodings. Returns `None`, and takes
/// nothing, if it is cut short.
pub fn get(bytes: &mut &[u8]) -> Option<u64> {
    // A number of each length by itself, most have one byte or two: a loop over the bytes takes
    // several times as long, and an ACK alone has dozens of numbers.
    match bytes.first()? >> 6 {
        0 => take(bytes).map(|[byte]| u64::from(byte)),
        1 => take(bytes).map(|two| u64::from(u16::from_be_bytes(two) & 0x3fff)),
        2 => take(bytes).map(|four| u64::from(u32::from_be_bytes(four) & 0x3fff_ffff)),
        _ => take(bytes).map(|eight| u64::from_be_bytes(eight) & MAX),
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (field, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*field)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(value: u64) -> Vec<u8> {
        let mut buf = Vec::new();
        put(&mut buf, value);
        buf
    }

    /// RFC 9000, appendix A.1.
    #[test]
    fn the_examples_of_the_rfc() {
        let examples: [(&[u8], u64); 4] = [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ];
        for (bytes, value) in examples {
            assert_eq!(get(&mut &*bytes), Some(value));
            assert_eq!(encoded(value), bytes);
        }
        // A longer encoding than needed is one nevertheless.
        assert_eq!(get(&mut &[0x40, 0x25][..]), Some(37));
    }

    #[test]
    fn the_largest_of_each_length() {
        for (value, bytes) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            ((1 << 30) - 1, 4),
            (1 << 30, 8),
            (MAX, 8),
        ] {
            assert_eq!(len(value), bytes, "{value}");
            assert_eq!(encoded(value).len(), bytes, "{value}");
            assert_eq!(get(&mut &*encoded(value)), Some(value));
        }
    }

    #[test]
    fn too_large_a_number_is_written_as_the_largest() {
        assert_eq!(encoded(u64::MAX), encoded(MAX));
        assert_eq!(len(u64::MAX), 8);
    }

    proptest! {
        #[test]
        fn round_trip(
            value in (0..=MAX, 0u32..62).prop_map(|(v, shift)| v >> shift),
            tail: Vec<u8>,
        ) {
            let mut bytes = encoded(value);
            prop_assert_eq!(bytes.len(), len(value));
            for cut in 0..bytes.len() {
                let mut short = &bytes[..cut];
                prop_assert_eq!(get(&mut short), None);
                prop_assert_eq!(short.len(), cut);
            }
            bytes.extend(&tail);
            let mut rest = &*bytes;
            prop_assert_eq!(get(&mut rest), Some(value));
            prop_assert_eq!(rest, tail);
        }
    }
}

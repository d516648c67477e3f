use bytes::BufMut;

use crate::DecodeError;

/// The largest number a varint can say: 62 bits.
pub const MAX_VARINT: u64 = (1 << 62) - 1;

/// Bytes that `value` takes as a varint (RFC 9000, section 16).
pub const fn varint_len(value: u64) -> usize {
    match value {
        0..=63 => 1,
        64..=16_383 => 2,
        16_384..=1_073_741_823 => 4,
        _ => 8,
    }
}

/// Writes a varint; values over 62 bits are cut to [`MAX_VARINT`].
pub(crate) fn put_varint(buf: &mut impl BufMut, value: u64) {
    let value = value.min(MAX_VARINT);
    match varint_len(value) {
        1 => buf.put_u8(value as u8),
        2 => buf.put_u16(value as u16 | 0x4000),
        4 => buf.put_u32(value as u32 | 0x8000_0000),
        _ => buf.put_u64(value | 0xc000_0000_0000_0000),
    }
}

/// Takes fields off the front of a datagram; `what` names the field in errors.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Truncated { what })?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(DecodeError::Truncated { what })?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub(crate) fn varint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let &first = self.rest.first().ok_or(DecodeError::Truncated { what })?;
        let bytes = self.bytes(1 << (first >> 6), what)?;
        let value = bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
        Ok(value & (u64::MAX >> (2 + 64 - 8 * bytes.len() as u32)))
    }

    /// A varint that must fit 32 bits.
    pub(crate) fn varint32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        u32::try_from(self.varint(what)?).map_err(|_| DecodeError::Invalid { what })
    }

    /// The bytes behind a varint length.
    pub(crate) fn counted(&mut self, max: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.varint(what)?;
        let len = usize::try_from(len).ok().filter(|len| *len <= max).ok_or(DecodeError::Invalid { what })?;
        self.bytes(len, what)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rfc_9000_examples() {
        // RFC 9000, appendix A.1.
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(Reader::new(bytes).varint("test"), Ok(value));
        }
    }

    proptest! {
        #[test]
        fn round_trip(value in 0..=MAX_VARINT, shift in 0u32..62) {
            let value = value >> shift;
            let mut buf = Vec::new();
            put_varint(&mut buf, value);
            prop_assert_eq!(buf.len(), varint_len(value));
            for end in 0..buf.len() {
                prop_assert!(Reader::new(&buf[..end]).varint("test").is_err());
            }
            prop_assert_eq!(Reader::new(&buf).varint("test"), Ok(value));
        }
    }
}

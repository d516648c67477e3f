use bytes::BufMut;

use crate::varint::Reader;
use crate::{ConnectionId, DecodeError};

/// Bytes of a DATA packet before the ciphertext; authenticated, not encrypted.
pub const DATA_HEADER_LEN: usize = 14;
/// Bytes of the AEAD tag at the end of a DATA packet.
pub const TAG_LEN: usize = 16;

/// What a datagram is, by its first byte.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PacketType {
    /// The handshake's first message.
    Init = 0x01,
    /// The handshake's second message.
    Reply = 0x02,
    /// A sealed packet.
    Data = 0x10,
}

impl PacketType {
    /// The type of `datagram`; `None` if it is empty or of no known type.
    pub fn of(datagram: &[u8]) -> Option<Self> {
        match datagram.first()? {
            0x01 => Some(PacketType::Init),
            0x02 => Some(PacketType::Reply),
            0x10 => Some(PacketType::Data),
            _ => None,
        }
    }
}

/// The header of a DATA packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The receiver's connection id for the packet's path.
    pub cid: ConnectionId,
    /// The epoch of the key it is sealed with, modulo 256.
    pub epoch: u8,
    /// Low 32 bits of the packet number; see [`expand_pn`].
    pub pn_low: u32,
}

impl DataHeader {
    /// Bytes of the header.
    pub const LEN: usize = DATA_HEADER_LEN;

    /// Appends the header.
    pub fn encode(&self, buf: &mut impl BufMut) {
        buf.put_u8(PacketType::Data as u8);
        buf.put_slice(&self.cid.0);
        buf.put_u8(self.epoch);
        buf.put_u32(self.pn_low);
    }

    /// Reads the header of a DATA packet.
    ///
    /// # Errors
    /// The datagram is of another type or too short for header and tag.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        if PacketType::of(datagram) != Some(PacketType::Data) {
            return Err(DecodeError::OtherType { expected: "a DATA packet" });
        }
        if datagram.len() < DATA_HEADER_LEN + TAG_LEN {
            return Err(DecodeError::Truncated { what: "DATA packet" });
        }
        let mut reader = Reader::new(&datagram[1..]);
        Ok(Self {
            cid: ConnectionId(reader.array("connection id")?),
            epoch: reader.u8("epoch")?,
            pn_low: u32::from_be_bytes(reader.array("packet number")?),
        })
    }
}

/// The packet number whose low 32 bits are `low` and which is nearest to the one after `largest`, the
/// largest that has arrived on the path (RFC 9000, appendix A.3).
pub fn expand_pn(low: u32, largest: Option<u64>) -> u64 {
    const WINDOW: u64 = 1 << 32;
    let expected = largest.map_or(0, |largest| largest.saturating_add(1));
    let candidate = expected & !(WINDOW - 1) | u64::from(low);
    if candidate + WINDOW / 2 <= expected && candidate < (1 << 62) - WINDOW {
        candidate + WINDOW
    } else if candidate > expected + WINDOW / 2 && candidate >= WINDOW {
        candidate - WINDOW
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn header_is_bit_for_bit() {
        let header = DataHeader { cid: ConnectionId([1, 2, 3, 4, 5, 6, 7, 8]), epoch: 9, pn_low: 0x0a0b_0c0d };
        let mut buf = Vec::new();
        header.encode(&mut buf);
        assert_eq!(buf, [0x10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
        assert!(DataHeader::decode(&buf).is_err());
        buf.resize(DATA_HEADER_LEN + TAG_LEN, 0);
        assert_eq!(DataHeader::decode(&buf), Ok(header));
    }

    proptest! {
        #[test]
        fn numbers_near_the_largest_are_recovered(largest in 0u64..1 << 60, ahead in -1_000_000i64..1_000_000_000) {
            let number = largest.saturating_add_signed(ahead);
            prop_assert_eq!(expand_pn(number as u32, Some(largest)), number);
        }

        #[test]
        fn any_header_is_safe(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = DataHeader::decode(&bytes);
        }

        #[test]
        fn any_number_is_safe(low: u32, largest: Option<u64>) {
            let _ = expand_pn(low, largest.map(|l| l >> 2));
        }
    }
}

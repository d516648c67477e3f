use bytes::BufMut;

use crate::reader::Reader;
use crate::{CID_LEN, ConnectionId, DecodeError};

/// Bytes of a DATA packet's header, which is the AEAD's associated data.
pub const DATA_HEADER_LEN: usize = 1 + CID_LEN + 1 + 4;

/// Bytes of the AEAD's tag at the end of a DATA packet.
pub const TAG_LEN: usize = 16;

/// Bytes of the shortest DATA packet: header and tag, with nothing between them.
pub const MIN_DATA_LEN: usize = DATA_HEADER_LEN + TAG_LEN;

/// A datagram without meaning: it opens the sender's NAT for datagrams in the other direction. The
/// receiver drops it.
pub const OPENING: [u8; 2] = [0x04, 0x01];

/// The kind of a datagram, by its first byte.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DatagramType {
    /// The first message of a handshake: [`Init`](crate::Init).
    Init = 0x01,
    /// The listener's answer: [`Reply`](crate::Reply).
    Reply = 0x02,
    /// The listener's answer under load: [`Cookie`](crate::Cookie).
    Cookie = 0x03,
    /// The listener's answer to another version: [`OtherVersion`](crate::OtherVersion).
    OtherVersion = 0x05,
    /// A sealed packet: [`DataHeader`], ciphertext, tag.
    Data = 0x10,
}

impl DatagramType {
    /// The kind that `datagram` claims; `None` if it isn't one of ours.
    pub fn of(datagram: &[u8]) -> Option<Self> {
        match datagram.first()? {
            0x01 => Some(Self::Init),
            0x02 => Some(Self::Reply),
            0x03 => Some(Self::Cookie),
            0x05 => Some(Self::OtherVersion),
            0x10 => Some(Self::Data),
            _ => None,
        }
    }

    pub(crate) fn expect(self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let found = reader.u8("the datagram's type")?;
        if found == self as u8 {
            return Ok(());
        }
        let expected = match self {
            Self::Init => "an INIT",
            Self::Reply => "a REPLY",
            Self::Cookie => "a COOKIE",
            Self::OtherVersion => "a VERSION",
            Self::Data => "a DATA packet",
        };
        Err(DecodeError::WrongType { expected, found })
    }
}

/// The header of a DATA packet: in the clear, but authenticated.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataHeader {
    /// The receiver's connection id for the path.
    pub cid: ConnectionId,
    /// The key epoch the packet is sealed in, modulo 256.
    pub epoch: u8,
    /// The low 32 bits of the packet number: see [`expand_pn`].
    pub pn_low: u32,
}

impl DataHeader {
    /// Bytes of the header: [`DATA_HEADER_LEN`].
    pub const LEN: usize = DATA_HEADER_LEN;

    /// Reads the header of a whole datagram.
    ///
    /// # Errors
    /// The datagram isn't a DATA packet, or is shorter than header and tag.
    pub fn decode(datagram: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(datagram);
        DatagramType::Data.expect(&mut reader)?;
        let header = Self {
            cid: ConnectionId(reader.array("a DATA packet's connection id")?),
            epoch: reader.u8("a DATA packet's epoch")?,
            pn_low: reader.u32("a DATA packet's number")?,
        };
        reader.take(TAG_LEN, "a DATA packet's tag")?;
        Ok(header)
    }

    /// Writes the header.
    pub fn encode(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.to_bytes());
    }

    /// The header's bytes.
    pub fn to_bytes(&self) -> [u8; DATA_HEADER_LEN] {
        let mut bytes = [0; DATA_HEADER_LEN];
        bytes[0] = DatagramType::Data as u8;
        bytes[1..9].copy_from_slice(&self.cid.0);
        bytes[9] = self.epoch;
        bytes[10..].copy_from_slice(&self.pn_low.to_be_bytes());
        bytes
    }
}

/// The packet number whose low 32 bits are `low` and which is nearest to the one after `largest`,
/// the largest received on the path so far (RFC 9000, appendix A.3). Correct while the two are less
/// than 2^31 apart.
pub fn expand_pn(low: u32, largest: Option<u64>) -> u64 {
    const WINDOW: u64 = 1 << 32;
    let expected = largest.map_or(0, |largest| largest.saturating_add(1));
    let candidate = expected & !(WINDOW - 1) | u64::from(low);
    if expected.saturating_sub(candidate) >= WINDOW / 2 {
        candidate.checked_add(WINDOW).unwrap_or(candidate)
    } else if candidate.saturating_sub(expected) > WINDOW / 2 {
        candidate.checked_sub(WINDOW).unwrap_or(candidate)
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: DataHeader = DataHeader {
        cid: ConnectionId([1, 2, 3, 4, 5, 6, 7, 8]),
        epoch: 9,
        pn_low: 0x0a0b_0c0d,
    };

    #[test]
    fn a_header_byte_by_byte() {
        let bytes = [0x10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x0a, 0x0b, 0x0c, 0x0d];
        assert_eq!(HEADER.to_bytes(), bytes);
        let mut encoded = Vec::new();
        HEADER.encode(&mut encoded);
        assert_eq!(encoded, bytes);
    }

    #[test]
    fn a_packet_has_room_for_header_and_tag() {
        let mut packet = HEADER.to_bytes().to_vec();
        packet.resize(MIN_DATA_LEN, 0);
        assert_eq!(DataHeader::decode(&packet), Ok(HEADER));
        for cut in 0..packet.len() {
            let error = DataHeader::decode(&packet[..cut]).unwrap_err();
            assert!(
                matches!(error, DecodeError::Truncated { .. }),
                "{cut}: {error}"
            );
        }
        packet[0] = 0x01;
        let error = DataHeader::decode(&packet).unwrap_err();
        assert_eq!(
            error,
            DecodeError::WrongType {
                expected: "a DATA packet",
                found: 1
            }
        );
    }

    #[test]
    fn datagrams_by_their_first_byte() {
        for kind in [
            DatagramType::Init,
            DatagramType::Reply,
            DatagramType::Cookie,
            DatagramType::OtherVersion,
            DatagramType::Data,
        ] {
            assert_eq!(DatagramType::of(&[kind as u8, 0]), Some(kind));
        }
        assert_eq!(DatagramType::of(&[]), None);
        assert_eq!(DatagramType::of(&[0x40]), None);
    }

    #[test]
    fn packet_numbers_at_the_edges() {
        assert_eq!(expand_pn(0, None), 0);
        // Nothing lies below zero, whatever the sender claims.
        assert_eq!(expand_pn(u32::MAX, None), u64::from(u32::MAX));
        assert_eq!(expand_pn(0, Some(u64::from(u32::MAX))), 1 << 32);
        assert_eq!(expand_pn(u32::MAX, Some(1 << 32)), u64::from(u32::MAX));
        // The example of RFC 9000, appendix A.3, at our width.
        assert_eq!(expand_pn(0xa82f_9b32, Some(0xa82f_30ea)), 0xa82f_9b32);
        assert_eq!(expand_pn(0, Some(u64::MAX)), !0xffff_ffff);
    }

    proptest! {
        #[test]
        fn numbers_near_the_expected_one_come_back(
            largest in 0u64..1 << 62,
            distance in -(1i64 << 31) + 1..1 << 31,
        ) {
            let Some(number) = (largest + 1).checked_add_signed(distance) else { return Ok(()) };
            prop_assert_eq!(expand_pn(number as u32, Some(largest)), number);
        }

        /// Of two that are equally near, it is the later one, as in RFC 9000, appendix A.3.
        #[test]
        fn a_tie_goes_to_the_later_number(expected in 1u64 << 31..1 << 62) {
            let later = expected + (1 << 31);
            prop_assert_eq!(expand_pn(later as u32, Some(expected - 1)), later);
        }

        #[test]
        fn any_number_expands_to_one_with_its_low_bits(low: u32, largest: Option<u64>) {
            prop_assert_eq!(expand_pn(low, largest) as u32, low);
        }
    }
}

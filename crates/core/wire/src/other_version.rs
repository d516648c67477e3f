//! What all versions of the protocol have in common, so that two of them can tell each other: the
//! idea is that of RFC 8999 for QUIC.

use crate::datagram::DatagramType;
use crate::handshake::{append_mac1, split_mac1};
use crate::reader::{Reader, exactly};
use crate::{
    CID_LEN, ConnectionId, DecodeError, INIT_LEN, MAC1_LEN, MAC2_LEN, Signed, TICKET_ID_LEN,
};

/// Bytes of an [`OtherVersion`].
pub const OTHER_VERSION_LEN: usize = 2 + CID_LEN + MAC1_LEN;

/// What an INIT of every version says: that of another one gets an [`OtherVersion`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AnyInit {
    /// The version that its sender speaks.
    pub version: u8,
    /// The initiator's connection id for path 0.
    pub sender_cid: ConnectionId,
    /// Id of the ticket that the initiator holds.
    pub ticket_id: [u8; TICKET_ID_LEN],
}

/// A listener's answer to an INIT of another version. It is the same in every version.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct OtherVersion {
    /// The version that the listener speaks.
    pub version: u8,
    /// The initiator's connection id for path 0, from its INIT.
    pub receiver_cid: ConnectionId,
}

impl AnyInit {
    /// Reads what an INIT of any version has.
    ///
    /// # Errors
    /// The datagram isn't an INIT, or has another length than [`INIT_LEN`].
    pub fn decode(datagram: &[u8]) -> Result<Signed<'_, Self>, DecodeError> {
        let mut reader = Reader::new(datagram);
        DatagramType::Init.expect(&mut reader)?;
        exactly(datagram, INIT_LEN, "an INIT")?;
        let message = Self {
            version: reader.u8("the protocol version")?,
            sender_cid: ConnectionId(reader.array("an INIT's connection id")?),
            ticket_id: reader.array("an INIT's ticket id")?,
        };
        let signed = &datagram[..INIT_LEN - MAC2_LEN];
        let (authenticated, mac1) = split_mac1(signed, "an INIT's mac1")?;
        Ok(Signed {
            message,
            authenticated,
            mac1,
        })
    }
}

impl OtherVersion {
    /// Reads a listener's answer to an INIT of another version.
    ///
    /// # Errors
    /// The datagram isn't such an answer, or doesn't have [`OTHER_VERSION_LEN`] bytes.
    pub fn decode(datagram: &[u8]) -> Result<Signed<'_, Self>, DecodeError> {
        let mut reader = Reader::new(datagram);
        DatagramType::OtherVersion.expect(&mut reader)?;
        exactly(datagram, OTHER_VERSION_LEN, "a VERSION")?;
        let message = Self {
            version: reader.u8("the protocol version")?,
            receiver_cid: ConnectionId(reader.array("a VERSION's connection id")?),
        };
        let (authenticated, mac1) = split_mac1(datagram, "a VERSION's mac1")?;
        Ok(Signed {
            message,
            authenticated,
            mac1,
        })
    }

    /// The answer's bytes, [`OTHER_VERSION_LEN`] of them, with the `mac1` that `sign` makes of the
    /// bytes before it.
    pub fn seal(&self, sign: impl FnOnce(&[u8]) -> [u8; MAC1_LEN]) -> Vec<u8> {
        let mut datagram = Vec::with_capacity(OTHER_VERSION_LEN);
        datagram.extend_from_slice(&[DatagramType::OtherVersion as u8, self.version]);
        datagram.extend_from_slice(&self.receiver_cid.0);
        append_mac1(datagram, sign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Init, VERSION};

    #[test]
    fn an_answer_byte_by_byte() {
        let answer = OtherVersion {
            version: 9,
            receiver_cid: ConnectionId(*b"abcdefgh"),
        };
        let datagram = answer.seal(|bytes| [bytes.len() as u8; MAC1_LEN]);
        assert_eq!(datagram[..10], *b"\x05\x09abcdefgh");
        assert_eq!(datagram[10..], [10; MAC1_LEN]);
        assert_eq!((datagram.len(), OTHER_VERSION_LEN), (42, 42));
        let signed = OtherVersion::decode(&datagram).unwrap();
        assert_eq!(signed.message, answer);
        assert_eq!(signed.authenticated, &datagram[..10]);
        let long = [&datagram[..], &[0]].concat();
        let cuts = (0..datagram.len()).map(|cut| &datagram[..cut]);
        for other in cuts.chain([&long[..]]) {
            assert!(OtherVersion::decode(other).is_err(), "{}", other.len());
        }
        let mut reply = datagram;
        reply[0] = DatagramType::Reply as u8;
        let error = OtherVersion::decode(&reply).unwrap_err();
        assert!(matches!(error, DecodeError::WrongType { found: 2, .. }));
    }

    #[test]
    fn an_init_of_any_version_says_who_asks() {
        let init = Init {
            sender_cid: ConnectionId(*b"abcdefgh"),
            ticket_id: *b"ticketid",
            noise: b"NOISE",
            mac2: [7; MAC2_LEN],
        };
        let mut datagram = init.seal(|_| [8; MAC1_LEN]);
        for version in [0, 1, VERSION, 255] {
            datagram[1] = version;
            // Another version may have anything between the ids and `mac1`.
            datagram[18..1152].fill(version);
            let signed = AnyInit::decode(&datagram).unwrap();
            assert_eq!(
                signed.message,
                AnyInit {
                    version,
                    sender_cid: init.sender_cid,
                    ticket_id: init.ticket_id,
                }
            );
            assert_eq!(signed.authenticated, &datagram[..1152]);
            assert_eq!(signed.mac1, &[8; MAC1_LEN]);
        }
        let long = [&datagram[..], &[0]].concat();
        for other in [&datagram[..1199], &long, &[], &[1, 9]] {
            assert!(AnyInit::decode(other).is_err());
        }
    }
}

use std::ops::Deref;

use crate::varint::Reader;
use crate::{ConnectionId, DecodeError, PacketType, VERSION};

/// Bytes of an INIT, always: no REPLY is longer, so nobody can be made to amplify.
pub const INIT_LEN: usize = 1200;
/// Bytes of `mac1`, the last field of INIT and REPLY.
pub const MAC1_LEN: usize = 32;

/// The handshake's first message, from initiator to listener.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// The initiator's connection id for path 0.
    pub sender_cid: ConnectionId,
    /// The ticket it holds.
    pub ticket_id: [u8; 8],
    /// Noise message 1.
    pub noise: &'a [u8],
}

/// The handshake's second message, from listener to initiator.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// INIT's `sender_cid`.
    pub receiver_cid: ConnectionId,
    /// Noise message 2.
    pub noise: &'a [u8],
}

/// A decoded message with its MAC, still to be verified.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Maced<'a, T> {
    /// The message.
    pub message: T,
    /// The bytes that `mac1` covers.
    pub authenticated: &'a [u8],
    /// The MAC.
    pub mac1: &'a [u8],
}

impl<T> Deref for Maced<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.message
    }
}

impl<'a> Init<'a> {
    const HEADER_LEN: usize = 20;
    /// Most bytes of Noise message that an INIT holds.
    pub const MAX_NOISE: usize = INIT_LEN - Self::HEADER_LEN - MAC1_LEN;

    /// The datagram, padded to [`INIT_LEN`]; `mac` signs all that comes before the MAC.
    ///
    /// # Panics
    /// If `noise` is longer than [`Init::MAX_NOISE`].
    pub fn seal(&self, mac: impl FnOnce(&[u8]) -> [u8; MAC1_LEN]) -> Vec<u8> {
        assert!(self.noise.len() <= Self::MAX_NOISE, "the Noise message doesn't fit an INIT");
        let mut datagram = start(PacketType::Init, INIT_LEN);
        datagram.extend_from_slice(&self.sender_cid.0);
        datagram.extend_from_slice(&self.ticket_id);
        push_noise(&mut datagram, self.noise);
        datagram.resize(INIT_LEN - MAC1_LEN, 0);
        finish(datagram, mac)
    }

    /// Reads an INIT; its MAC has to be verified before anything in it is believed.
    ///
    /// # Errors
    /// Another type, version or length, or a Noise message that claims more bytes than there are.
    pub fn decode(datagram: &'a [u8]) -> Result<Maced<'a, Self>, DecodeError> {
        let (mut reader, authenticated, mac1) = open(datagram, PacketType::Init, "an INIT")?;
        if datagram.len() != INIT_LEN {
            return Err(DecodeError::Invalid { what: "INIT length" });
        }
        let sender_cid = ConnectionId(reader.array("connection id")?);
        let ticket_id = reader.array("ticket id")?;
        let len = reader.u16("Noise message length")?;
        let noise = reader.bytes(len.into(), "Noise message")?;
        Ok(Maced { message: Self { sender_cid, ticket_id, noise }, authenticated, mac1 })
    }
}

impl<'a> Reply<'a> {
    const HEADER_LEN: usize = 12;
    /// Most bytes of Noise message that a REPLY holds.
    pub const MAX_NOISE: usize = INIT_LEN - Self::HEADER_LEN - MAC1_LEN;

    /// The datagram; `mac` signs all that comes before the MAC.
    ///
    /// # Panics
    /// If `noise` is longer than [`Reply::MAX_NOISE`].
    pub fn seal(&self, mac: impl FnOnce(&[u8]) -> [u8; MAC1_LEN]) -> Vec<u8> {
        assert!(self.noise.len() <= Self::MAX_NOISE, "the Noise message doesn't fit a REPLY");
        let mut datagram = start(PacketType::Reply, Self::HEADER_LEN + self.noise.len() + MAC1_LEN);
        datagram.extend_from_slice(&self.receiver_cid.0);
        push_noise(&mut datagram, self.noise);
        finish(datagram, mac)
    }

    /// Reads a REPLY; its MAC has to be verified before anything in it is believed.
    ///
    /// # Errors
    /// Another type or version, longer than an INIT, or a length that doesn't fit the Noise message.
    pub fn decode(datagram: &'a [u8]) -> Result<Maced<'a, Self>, DecodeError> {
        let (mut reader, authenticated, mac1) = open(datagram, PacketType::Reply, "a REPLY")?;
        if datagram.len() > INIT_LEN {
            return Err(DecodeError::Invalid { what: "REPLY length" });
        }
        let receiver_cid = ConnectionId(reader.array("connection id")?);
        let len = reader.u16("Noise message length")?;
        let noise = reader.bytes(len.into(), "Noise message")?;
        if !reader.is_empty() {
            return Err(DecodeError::TrailingBytes { what: "REPLY" });
        }
        Ok(Maced { message: Self { receiver_cid, noise }, authenticated, mac1 })
    }
}

fn start(packet: PacketType, capacity: usize) -> Vec<u8> {
    let mut datagram = Vec::with_capacity(capacity);
    datagram.extend_from_slice(&[packet as u8, VERSION]);
    datagram
}

fn push_noise(datagram: &mut Vec<u8>, noise: &[u8]) {
    // Its length was checked against the datagram's, which fits 16 bits.
    datagram.extend_from_slice(&(noise.len() as u16).to_be_bytes());
    datagram.extend_from_slice(noise);
}

fn finish(mut datagram: Vec<u8>, mac: impl FnOnce(&[u8]) -> [u8; MAC1_LEN]) -> Vec<u8> {
    let mac1 = mac(&datagram);
    datagram.extend_from_slice(&mac1);
    datagram
}

/// Splits the MAC off and checks type and version; the reader stands behind them.
fn open<'a>(
    datagram: &'a [u8],
    packet: PacketType,
    expected: &'static str,
) -> Result<(Reader<'a>, &'a [u8], &'a [u8]), DecodeError> {
    if PacketType::of(datagram) != Some(packet) {
        return Err(DecodeError::OtherType { expected });
    }
    let at = datagram.len().checked_sub(MAC1_LEN).filter(|at| *at >= 2);
    let at = at.ok_or(DecodeError::Truncated { what: "handshake datagram" })?;
    let (authenticated, mac1) = datagram.split_at(at);
    if authenticated[1] != VERSION {
        return Err(DecodeError::UnknownVersion(authenticated[1]));
    }
    Ok((Reader::new(&authenticated[2..]), authenticated, mac1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CID: ConnectionId = ConnectionId([7; 8]);

    proptest! {
        #[test]
        fn init_round_trip(noise in prop::collection::vec(any::<u8>(), 0..=Init::MAX_NOISE)) {
            let init = Init { sender_cid: CID, ticket_id: [3; 8], noise: &noise };
            let datagram = init.seal(|bytes| [bytes.len() as u8; 32]);
            prop_assert_eq!(datagram.len(), INIT_LEN);
            let decoded = Init::decode(&datagram).expect("its own encoding");
            prop_assert_eq!(decoded.message, init);
            prop_assert_eq!(decoded.authenticated.len(), INIT_LEN - MAC1_LEN);
            for end in 0..datagram.len() {
                prop_assert!(Init::decode(&datagram[..end]).is_err());
            }
        }

        #[test]
        fn reply_round_trip(noise in prop::collection::vec(any::<u8>(), 0..300)) {
            let reply = Reply { receiver_cid: CID, noise: &noise };
            let datagram = reply.seal(|_| [1; 32]);
            prop_assert_eq!(Reply::decode(&datagram).expect("its own encoding").message, reply);
            for end in 0..datagram.len() {
                prop_assert!(Reply::decode(&datagram[..end]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_safe(mut bytes in prop::collection::vec(any::<u8>(), 0..1300)) {
            for first in [1, 2] {
                if bytes.len() > 1 {
                    bytes[0] = first;
                    bytes[1] = VERSION;
                }
                let _ = Init::decode(&bytes);
                let _ = Reply::decode(&bytes);
            }
        }
    }
}

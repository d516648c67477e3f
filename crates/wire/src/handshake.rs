use std::ops::Deref;

use crate::datagram::DatagramType;
use crate::reader::Reader;
use crate::{CID_LEN, ConnectionId, DecodeError, TICKET_ID_LEN};

/// The version of the protocol that this crate speaks.
pub const VERSION: u8 = 1;

/// Bytes of an INIT, always, so that no answer is longer than its request.
pub const INIT_LEN: usize = 1200;

/// Bytes of the longest REPLY.
pub const MAX_REPLY_LEN: usize = INIT_LEN;

/// Bytes of `mac1`, the last field of an INIT or REPLY.
pub const MAC1_LEN: usize = 32;

/// Bytes of the longest Noise message that fits an INIT.
pub const MAX_INIT_NOISE: usize = INIT_LEN - INIT_HEADER_LEN - MAC1_LEN;

/// Bytes of the longest Noise message that fits a REPLY.
pub const MAX_REPLY_NOISE: usize = MAX_REPLY_LEN - REPLY_HEADER_LEN - MAC1_LEN;

const INIT_HEADER_LEN: usize = 2 + CID_LEN + TICKET_ID_LEN + 2;
const REPLY_HEADER_LEN: usize = 2 + CID_LEN + 2;

/// The first datagram of a handshake, from the initiator.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// The initiator's connection id for path 0.
    pub sender_cid: ConnectionId,
    /// Id of the ticket that the initiator holds.
    pub ticket_id: [u8; TICKET_ID_LEN],
    /// Noise message 1, at most [`MAX_INIT_NOISE`] bytes.
    pub noise: &'a [u8],
}

/// The answer to an [`Init`], from the listener.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The initiator's connection id for path 0, from its INIT.
    pub receiver_cid: ConnectionId,
    /// Noise message 2, at most [`MAX_REPLY_NOISE`] bytes.
    pub noise: &'a [u8],
}

/// A decoded handshake datagram with its `mac1`, which is *not* checked yet. Dereferences to the message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Signed<'a, M> {
    /// The message: an [`Init`] or a [`Reply`].
    pub message: M,
    /// The bytes that `mac1` is over: the datagram up to it.
    pub authenticated: &'a [u8],
    /// The message's authentication code. Compare it in constant time.
    pub mac1: &'a [u8; MAC1_LEN],
}

impl<M> Deref for Signed<'_, M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.message
    }
}

impl<'a> Init<'a> {
    /// Reads an INIT.
    ///
    /// # Errors
    /// The datagram is no INIT, of another version, of another length than [`INIT_LEN`], or its padding isn't zero.
    pub fn decode(datagram: &'a [u8]) -> Result<Signed<'a, Self>, DecodeError> {
        let mut reader = Reader::new(datagram);
        start(DatagramType::Init, &mut reader)?;
        if datagram.len() != INIT_LEN {
            let found = datagram.len();
            return Err(DecodeError::WrongLength {
                what: "an INIT",
                expected: INIT_LEN,
                found,
            });
        }
        let (authenticated, mac1) = split_mac1(datagram, "an INIT's mac1")?;
        let mut reader = Reader::new(&authenticated[2..]);
        let message = Self {
            sender_cid: ConnectionId(reader.array("an INIT's connection id")?),
            ticket_id: reader.array("an INIT's ticket id")?,
            noise: noise(&mut reader, "an INIT's Noise message")?,
        };
        if reader.rest().iter().any(|&byte| byte != 0) {
            return Err(DecodeError::Malformed {
                what: "an INIT's padding",
            });
        }
        Ok(Signed {
            message,
            authenticated,
            mac1,
        })
    }

    /// The INIT as it is sent, [`INIT_LEN`] bytes, with the `mac1` that `sign` makes of the bytes before it.
    ///
    /// # Panics
    /// If `noise` is longer than [`MAX_INIT_NOISE`].
    pub fn seal(&self, sign: impl FnOnce(&[u8]) -> [u8; MAC1_LEN]) -> Vec<u8> {
        assert!(
            self.noise.len() <= MAX_INIT_NOISE,
            "Noise message 1 must fit the INIT"
        );
        let mut datagram = Vec::with_capacity(INIT_LEN);
        datagram.extend_from_slice(&[DatagramType::Init as u8, VERSION]);
        datagram.extend_from_slice(&self.sender_cid.0);
        datagram.extend_from_slice(&self.ticket_id);
        put_noise(&mut datagram, self.noise);
        datagram.resize(INIT_LEN - MAC1_LEN, 0);
        append_mac1(datagram, sign)
    }
}

impl<'a> Reply<'a> {
    /// Reads a REPLY.
    ///
    /// # Errors
    /// The datagram is no REPLY, of another version, or longer or shorter than its Noise message says.
    pub fn decode(datagram: &'a [u8]) -> Result<Signed<'a, Self>, DecodeError> {
        let mut reader = Reader::new(datagram);
        start(DatagramType::Reply, &mut reader)?;
        if datagram.len() > MAX_REPLY_LEN {
            let (value, limit) = (datagram.len() as u64, MAX_REPLY_LEN as u64);
            return Err(DecodeError::TooLarge {
                what: "a REPLY's length",
                value,
                limit,
            });
        }
        let receiver_cid = ConnectionId(reader.array("a REPLY's connection id")?);
        let noise = noise(&mut reader, "a REPLY's Noise message")?;
        let expected = REPLY_HEADER_LEN + noise.len() + MAC1_LEN;
        if datagram.len() != expected {
            let found = datagram.len();
            return Err(DecodeError::WrongLength {
                what: "a REPLY",
                expected,
                found,
            });
        }
        let (authenticated, mac1) = split_mac1(datagram, "a REPLY's mac1")?;
        let message = Self {
            receiver_cid,
            noise,
        };
        Ok(Signed {
            message,
            authenticated,
            mac1,
        })
    }

    /// The REPLY as it is sent, with the `mac1` that `sign` makes of the bytes before it.
    ///
    /// # Panics
    /// If `noise` is longer than [`MAX_REPLY_NOISE`].
    pub fn seal(&self, sign: impl FnOnce(&[u8]) -> [u8; MAC1_LEN]) -> Vec<u8> {
        assert!(
            self.noise.len() <= MAX_REPLY_NOISE,
            "Noise message 2 must fit the REPLY"
        );
        let mut datagram = Vec::with_capacity(REPLY_HEADER_LEN + self.noise.len() + MAC1_LEN);
        datagram.extend_from_slice(&[DatagramType::Reply as u8, VERSION]);
        datagram.extend_from_slice(&self.receiver_cid.0);
        put_noise(&mut datagram, self.noise);
        append_mac1(datagram, sign)
    }
}

/// Type and version. The version comes before all else, so that an old release says the right thing of a new one.
fn start(kind: DatagramType, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    kind.expect(reader)?;
    match reader.u8("the protocol version")? {
        VERSION => Ok(()),
        found => Err(DecodeError::UnsupportedVersion { found }),
    }
}

fn noise<'a>(reader: &mut Reader<'a>, what: &'static str) -> Result<&'a [u8], DecodeError> {
    let len = reader.u16(what)?;
    reader.take(usize::from(len), what)
}

fn split_mac1<'a>(
    datagram: &'a [u8],
    what: &'static str,
) -> Result<(&'a [u8], &'a [u8; MAC1_LEN]), DecodeError> {
    datagram
        .split_last_chunk()
        .ok_or(DecodeError::Truncated { what })
}

fn put_noise(datagram: &mut Vec<u8>, noise: &[u8]) {
    datagram.extend_from_slice(&(noise.len() as u16).to_be_bytes());
    datagram.extend_from_slice(noise);
}

fn append_mac1(mut datagram: Vec<u8>, sign: impl FnOnce(&[u8]) -> [u8; MAC1_LEN]) -> Vec<u8> {
    let mac1 = sign(&datagram);
    datagram.extend_from_slice(&mac1);
    datagram
}

use std::ops::Deref;

use crate::datagram::DatagramType;
use crate::reader::{Reader, exactly};
use crate::{CID_LEN, ConnectionId, DecodeError, TICKET_ID_LEN, VERSION};

/// Bytes of every INIT: no answer is longer than its request.
pub const INIT_LEN: usize = 1200;

/// Bytes of the longest REPLY.
pub const MAX_REPLY_LEN: usize = INIT_LEN;

/// Bytes of `mac1`, the last field of a REPLY or COOKIE.
pub const MAC1_LEN: usize = 32;

/// Bytes of `mac2`, which follows `mac1` in an INIT; zeros without a cookie.
pub const MAC2_LEN: usize = 16;

/// Bytes of a cookie.
pub const COOKIE_VALUE_LEN: usize = 16;

/// Bytes of a COOKIE's nonce.
pub const COOKIE_NONCE_LEN: usize = 16;

/// Bytes of a COOKIE.
pub const COOKIE_LEN: usize = 2 + CID_LEN + COOKIE_NONCE_LEN + COOKIE_VALUE_LEN + MAC1_LEN;

/// Bytes of the longest Noise message that fits an INIT.
pub const MAX_INIT_NOISE: usize = INIT_LEN - INIT_HEADER_LEN - MAC1_LEN - MAC2_LEN;

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
    /// The code that proves a cookie, over all bytes before it; zeros without one.
    pub mac2: [u8; MAC2_LEN],
}

/// The answer to an [`Init`], from the listener.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The initiator's connection id for path 0, from its INIT.
    pub receiver_cid: ConnectionId,
    /// Noise message 2, at most [`MAX_REPLY_NOISE`] bytes.
    pub noise: &'a [u8],
}

/// A listener's answer under load instead of a [`Reply`]. It finds out whether the sender is at the
/// address from which it seems to send.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// The initiator's connection id for path 0, from its INIT.
    pub receiver_cid: ConnectionId,
    /// Random; never used twice.
    pub nonce: [u8; COOKIE_NONCE_LEN],
    /// The cookie, masked so that only a holder of the ticket can read it.
    pub masked: [u8; COOKIE_VALUE_LEN],
}

/// A decoded handshake datagram with its `mac1`, which is *not* checked yet. Dereferences to the
/// message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Signed<'a, M> {
    /// The message: an [`Init`], a [`Reply`] or a [`Cookie`].
    pub message: M,
    /// The bytes that `mac1` covers: the datagram up to it.
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
    /// The datagram isn't an INIT, has another version or another length than [`INIT_LEN`], or its
    /// padding isn't zero.
    pub fn decode(datagram: &'a [u8]) -> Result<Signed<'a, Self>, DecodeError> {
        let mut reader = Reader::new(datagram);
        start(DatagramType::Init, &mut reader)?;
        exactly(datagram, INIT_LEN, "an INIT")?;
        let (rest, mac2) = datagram.split_last_chunk().ok_or(DecodeError::Truncated {
            what: "an INIT's mac2",
        })?;
        let (authenticated, mac1) = split_mac1(rest, "an INIT's mac1")?;
        let mut reader = Reader::new(&authenticated[2..]);
        let message = Self {
            sender_cid: ConnectionId(reader.array("an INIT's connection id")?),
            ticket_id: reader.array("an INIT's ticket id")?,
            noise: noise(&mut reader, "an INIT's Noise message")?,
            mac2: *mac2,
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

    /// The INIT's bytes, [`INIT_LEN`] of them, with the `mac1` that `sign` makes of the bytes
    /// before it.
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
        datagram.resize(INIT_LEN - MAC1_LEN - MAC2_LEN, 0);
        let mut datagram = append_mac1(datagram, sign);
        datagram.extend_from_slice(&self.mac2);
        datagram
    }
}

impl<'a> Reply<'a> {
    /// Reads a REPLY.
    ///
    /// # Errors
    /// The datagram isn't a REPLY, has another version, or is longer or shorter than its Noise
    /// message says.
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
        exactly(datagram, expected, "a REPLY")?;
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

    /// The REPLY's bytes, with the `mac1` that `sign` makes of the bytes before it.
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

impl Cookie {
    /// Reads a COOKIE.
    ///
    /// # Errors
    /// The datagram isn't a COOKIE, has another version, or doesn't have [`COOKIE_LEN`] bytes.
    pub fn decode(datagram: &[u8]) -> Result<Signed<'_, Self>, DecodeError> {
        let mut reader = Reader::new(datagram);
        start(DatagramType::Cookie, &mut reader)?;
        exactly(datagram, COOKIE_LEN, "a COOKIE")?;
        let message = Self {
            receiver_cid: ConnectionId(reader.array("a COOKIE's connection id")?),
            nonce: reader.array("a COOKIE's nonce")?,
            masked: reader.array("a COOKIE's value")?,
        };
        let (authenticated, mac1) = split_mac1(datagram, "a COOKIE's mac1")?;
        Ok(Signed {
            message,
            authenticated,
            mac1,
        })
    }

    /// The COOKIE's bytes, [`COOKIE_LEN`] of them, with the `mac1` that `sign` makes of the bytes
    /// before it.
    pub fn seal(&self, sign: impl FnOnce(&[u8]) -> [u8; MAC1_LEN]) -> Vec<u8> {
        let mut datagram = Vec::with_capacity(COOKIE_LEN);
        datagram.extend_from_slice(&[DatagramType::Cookie as u8, VERSION]);
        datagram.extend_from_slice(&self.receiver_cid.0);
        datagram.extend_from_slice(&self.nonce);
        datagram.extend_from_slice(&self.masked);
        append_mac1(datagram, sign)
    }
}

/// Checks type and version. It checks the version first, so that an old release names the right
/// cause when it meets a new one.
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

pub(crate) fn split_mac1<'a>(
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

pub(crate) fn append_mac1(
    mut datagram: Vec<u8>,
    sign: impl FnOnce(&[u8]) -> [u8; MAC1_LEN],
) -> Vec<u8> {
    let mac1 = sign(&datagram);
    datagram.extend_from_slice(&mac1);
    datagram
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fuzzing;

    /// Not a MAC, but depends on every byte it is given.
    fn sign(bytes: &[u8]) -> [u8; MAC1_LEN] {
        let sum = bytes.iter().fold(bytes.len() as u64, |sum, &byte| {
            sum.wrapping_mul(31) + u64::from(byte)
        });
        let mut mac1 = [0xaa; MAC1_LEN];
        mac1[..8].copy_from_slice(&sum.to_be_bytes());
        mac1
    }

    fn init(noise: &[u8]) -> Vec<u8> {
        let init = Init {
            sender_cid: ConnectionId(*b"abcdefgh"),
            ticket_id: *b"ticketid",
            noise,
            mac2: *b"the cookie's mac",
        };
        init.seal(sign)
    }

    fn reply(noise: &[u8]) -> Vec<u8> {
        Reply {
            receiver_cid: ConnectionId(*b"abcdefgh"),
            noise,
        }
        .seal(sign)
    }

    #[test]
    fn an_init_byte_by_byte() {
        let datagram = init(b"NOISE");
        assert_eq!(datagram.len(), INIT_LEN);
        assert_eq!(datagram[..20], *b"\x01\x03abcdefghticketid\x00\x05");
        assert_eq!(datagram[20..25], *b"NOISE");
        assert_eq!(datagram[25..1152], [0; 1127]);
        assert_eq!(datagram[1152..1184], sign(&datagram[..1152]));
        assert_eq!(datagram[1184..], *b"the cookie's mac");

        let signed = Init::decode(&datagram).unwrap();
        assert_eq!(signed.authenticated, &datagram[..1152]);
        assert_eq!(signed.mac1, &sign(&datagram[..1152]));
        assert_eq!(signed.mac2, *b"the cookie's mac");
        assert_eq!(
            (signed.sender_cid.0, signed.ticket_id, signed.noise),
            (*b"abcdefgh", *b"ticketid", &b"NOISE"[..])
        );
    }

    #[test]
    fn a_reply_byte_by_byte() {
        let datagram = reply(b"NOISE");
        assert_eq!(datagram[..17], *b"\x02\x03abcdefgh\x00\x05NOISE");
        assert_eq!(datagram[17..], sign(&datagram[..17]));
        let signed = Reply::decode(&datagram).unwrap();
        assert_eq!(signed.authenticated, &datagram[..17]);
        assert_eq!(
            (signed.receiver_cid.0, signed.noise),
            (*b"abcdefgh", &b"NOISE"[..])
        );
    }

    #[test]
    fn a_cookie_byte_by_byte() {
        let cookie = Cookie {
            receiver_cid: ConnectionId(*b"abcdefgh"),
            nonce: *b"used once, never",
            masked: *b"0123456789abcdef",
        };
        let datagram = cookie.seal(sign);
        assert_eq!(
            datagram[..42],
            *b"\x03\x03abcdefghused once, never0123456789abcdef"
        );
        assert_eq!(datagram[42..], sign(&datagram[..42]));
        assert_eq!((datagram.len(), COOKIE_LEN), (74, 74));
        let signed = Cookie::decode(&datagram).unwrap();
        assert_eq!(signed.authenticated, &datagram[..42]);
        assert_eq!(signed.message, cookie);
        for cut in 0..datagram.len() {
            assert!(Cookie::decode(&datagram[..cut]).is_err());
        }
        let mut long = datagram.clone();
        long.push(0);
        assert!(matches!(
            Cookie::decode(&long),
            Err(DecodeError::WrongLength { expected: 74, .. })
        ));
        let mut other = datagram;
        other[1] = 1;
        assert_eq!(
            Cookie::decode(&other),
            Err(DecodeError::UnsupportedVersion { found: 1 })
        );
    }

    #[test]
    fn the_longest_messages_fit() {
        let noise = [7; INIT_LEN];
        assert_eq!(
            Init::decode(&init(&noise[..MAX_INIT_NOISE]))
                .unwrap()
                .noise
                .len(),
            1132
        );
        let longest = reply(&noise[..MAX_REPLY_NOISE]);
        assert_eq!(
            longest.len(),
            MAX_REPLY_LEN,
            "no answer is longer than its request"
        );
        assert_eq!(Reply::decode(&longest).unwrap().noise.len(), 1156);
    }

    #[test]
    #[should_panic(expected = "must fit the INIT")]
    fn too_long_a_message_is_a_mistake_of_the_caller() {
        init(&[0; MAX_INIT_NOISE + 1]);
    }

    #[test]
    fn an_init_that_is_not_one() {
        let good = init(b"NOISE");
        let with = |at: usize, byte: u8| {
            let mut datagram = good.clone();
            datagram[at] = byte;
            Init::decode(&datagram).map(|_| ()).unwrap_err()
        };
        assert_eq!(
            with(0, 0x02),
            DecodeError::WrongType {
                expected: "an INIT",
                found: 2
            }
        );
        assert_eq!(with(1, 1), DecodeError::UnsupportedVersion { found: 1 });
        assert_eq!(
            with(18, 5),
            DecodeError::Truncated {
                what: "an INIT's Noise message"
            }
        );
        assert_eq!(
            with(19, 4),
            DecodeError::Malformed {
                what: "an INIT's padding"
            }
        );
        for at in [25, 600, 1151] {
            assert_eq!(
                with(at, 1),
                DecodeError::Malformed {
                    what: "an INIT's padding"
                }
            );
        }
        let mut long = good.clone();
        long.push(0);
        for datagram in [&good[..1199], &long] {
            assert!(matches!(
                Init::decode(datagram),
                Err(DecodeError::WrongLength { expected: 1200, .. })
            ));
        }
    }

    #[test]
    fn a_reply_that_is_not_one() {
        let good = reply(b"NOISE");
        let mut long = good.clone();
        long.push(0);
        let error = Reply::decode(&long).map(|_| ()).unwrap_err();
        assert_eq!(
            error,
            DecodeError::WrongLength {
                what: "a REPLY",
                expected: 49,
                found: 50
            }
        );
        let mut other = good.clone();
        other[1] = 9;
        assert_eq!(
            Reply::decode(&other),
            Err(DecodeError::UnsupportedVersion { found: 9 })
        );
        assert!(matches!(
            Reply::decode(&init(b"")),
            Err(DecodeError::WrongType { .. })
        ));
        let mut huge = reply(&[0; MAX_REPLY_NOISE]);
        huge.push(0);
        assert!(matches!(
            Reply::decode(&huge),
            Err(DecodeError::TooLarge { value: 1201, .. })
        ));
    }

    #[test]
    fn every_prefix_is_refused() {
        let (init, reply) = (init(b"NOISE"), reply(b"NOISE"));
        for cut in 0..init.len() {
            assert!(Init::decode(&init[..cut]).is_err());
        }
        for cut in 0..reply.len() {
            assert!(Reply::decode(&reply[..cut]).is_err());
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            cid: [u8; 8],
            ticket_id: [u8; 8],
            noise in prop::collection::vec(any::<u8>(), 0..=MAX_INIT_NOISE),
        ) {
            let cid = ConnectionId(cid);
            let message = Init {
                sender_cid: cid,
                ticket_id,
                noise: &noise,
                mac2: [noise.len() as u8; MAC2_LEN],
            };
            let datagram = message.seal(sign);
            prop_assert_eq!(Init::decode(&datagram).unwrap().message, message);
            let message = Reply { receiver_cid: cid, noise: &noise };
            let datagram = message.seal(sign);
            prop_assert_eq!(Reply::decode(&datagram).unwrap().message, message);
        }

        #[test]
        fn anything_is_safe(bytes: Vec<u8>, at: prop::sample::Index, byte: u8) {
            for (kind, target) in [
                (1, fuzzing::init as fn(&[u8])),
                (2, fuzzing::reply),
                (3, fuzzing::cookie),
            ] {
                target(&bytes);
                let mut headed = vec![kind, VERSION];
                headed.extend(&bytes);
                target(&headed);
                headed.resize(INIT_LEN, 0);
                target(&headed);
                let mut damaged = if kind == 1 { init(&bytes) } else { reply(&bytes) };
                damaged[0] = kind;
                *at.get_mut(&mut damaged) = byte;
                target(&damaged);
            }
        }
    }
}

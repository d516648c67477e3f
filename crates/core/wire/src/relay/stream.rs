//! The messages that a relay exchanges over TCP before it forwards a stream. Every message has a
//! fixed length, given by its first byte, so a reader takes no byte of the stream that follows.

use std::fmt;

use bytes::BufMut;

use super::{
    Consent, ForwardHeader, HELLO_LEN, LISTEN_LEN, MINT_LEN, Peer, RelayId, RelayType,
    SIGNATURE_LEN, VOUCHER_LEN, Voucher,
};
use crate::DecodeError;
use crate::reader::{Reader, exactly};

/// The longest message that a relay reads over TCP.
pub const STREAM_REQUEST_MAX_LEN: usize = MINT_LEN;

/// The longest message that a relay writes over TCP.
pub const STREAM_REPLY_MAX_LEN: usize = 1 + TOKEN_LEN;

const _: () = assert!(STREAM_REQUEST_MAX_LEN >= StreamConnect::LEN);

/// Bytes of a [`Challenge`] and of a [`CallToken`].
const TOKEN_LEN: usize = 16;

/// The context in front of a CONNECT when it is signed.
const CONTEXT: &[u8] = b"manyway relay connect 1";

/// The type of a message over TCP, by its first byte. Neither a session's records nor a relay's
/// datagrams begin with these bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StreamType {
    /// Asks for a [`Challenge`]: an initiator's first message.
    Hello = 0x30,
    /// Answers HELLO.
    Welcome = 0x31,
    /// Asks to be connected: [`StreamConnect`].
    Connect = 0x32,
    /// Asks to be called: [`StreamListen`], a listener's first and only request on this connection.
    Listen = 0x33,
    /// Tells a listener that an initiator wants a connection.
    Call = 0x34,
    /// Answers CALL: [`StreamAnswer`], the first message of the listener's new connection.
    Answer = 0x35,
    /// Accepts LISTEN, CONNECT or ANSWER. After the latter two, the stream follows.
    Ok = 0x36,
    /// Refuses CONNECT, LISTEN or ANSWER.
    Refused = 0x37,
    /// On a listener's connection: a sign of life, answered by another one.
    Ping = 0x38,
    /// On a listener's connection: the relay is about to stop.
    Leaving = 0x39,
}

impl StreamType {
    /// The type that a first byte stands for.
    pub fn of(first: u8) -> Option<Self> {
        Some(match first {
            0x30 => Self::Hello,
            0x31 => Self::Welcome,
            0x32 => Self::Connect,
            0x33 => Self::Listen,
            0x34 => Self::Call,
            0x35 => Self::Answer,
            0x36 => Self::Ok,
            0x37 => Self::Refused,
            0x38 => Self::Ping,
            0x39 => Self::Leaving,
            _ => return None,
        })
    }

    /// Bytes of every message of this type.
    #[expect(clippy::len_without_is_empty, reason = "no message is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Hello => 1 + RelayId::LEN,
            Self::Welcome | Self::Call => 1 + TOKEN_LEN,
            Self::Connect => StreamConnect::LEN,
            Self::Listen => 1 + RelayId::LEN + ListenKey::LEN,
            Self::Answer => 1 + RelayId::LEN + TOKEN_LEN,
            Self::Refused => 2,
            Self::Ok | Self::Ping | Self::Leaving => 1,
        }
    }
}

/// The length of a request that begins with this byte. Messages of the UDP protocol have a length,
/// too, so that the relay can refuse them with a reason.
pub fn stream_request_len(first: u8) -> Option<usize> {
    match RelayType::of(&[first]) {
        Some(RelayType::Forward4) => return Some(ForwardHeader::LEN_V4),
        Some(RelayType::Forward6) => return Some(ForwardHeader::LEN_V6),
        Some(RelayType::Hello) => return Some(HELLO_LEN),
        Some(RelayType::Listen) => return Some(LISTEN_LEN),
        Some(RelayType::Mint) => return Some(MINT_LEN),
        _ => {}
    }
    match StreamType::of(first)? {
        kind @ (StreamType::Hello
        | StreamType::Connect
        | StreamType::Listen
        | StreamType::Answer
        | StreamType::Ping) => Some(kind.len()),
        _ => None,
    }
}

/// The length of a reply that begins with this byte.
pub fn stream_reply_len(first: u8) -> Option<usize> {
    match StreamType::of(first)? {
        kind @ (StreamType::Welcome
        | StreamType::Call
        | StreamType::Ok
        | StreamType::Refused
        | StreamType::Ping
        | StreamType::Leaving) => Some(kind.len()),
        _ => None,
    }
}

/// Random bytes that a relay draws for one connection. A CONNECT that is signed over them is valid
/// on no other.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Challenge(pub [u8; TOKEN_LEN]);

/// Random bytes that a relay draws for one call. Only the called listener can present them. `Debug`
/// doesn't show them.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct CallToken(pub [u8; TOKEN_LEN]);

impl fmt::Debug for CallToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallToken(..)")
    }
}

/// A listener's key to its name at a relay over TCP. The name is a hash of it, so somebody who
/// knows the name can call the listener but can't take its place. `Debug` doesn't show it.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct ListenKey(pub [u8; Self::LEN]);

impl ListenKey {
    /// Bytes of a key.
    pub const LEN: usize = 16;

    /// The bytes whose SHA-256 hash begins with the listener's name, its first
    /// [`ListenerName::LEN`](super::ListenerName::LEN) bytes.
    pub fn hashed_bytes(&self) -> Vec<u8> {
        [b"manyway relay listener 1", &self.0[..]].concat()
    }
}

impl fmt::Debug for ListenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListenKey(..)")
    }
}

/// A message to a relay over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamRequest {
    /// HELLO to the relay with this id.
    Hello(RelayId),
    /// CONNECT, with its signature over [`StreamConnect::signed_bytes`]. Decoding checks neither
    /// this signature nor the voucher's.
    Connect(Box<StreamConnect>, [u8; SIGNATURE_LEN]),
    /// LISTEN.
    Listen(StreamListen),
    /// ANSWER.
    Answer(StreamAnswer),
    /// PING.
    Ping,
}

/// Asks a relay to connect this stream with a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamConnect {
    /// The listener. Over TCP this has to be a name; a consent is for UDP, and the relay refuses
    /// it.
    pub peer: Peer,
    /// The voucher of the account that pays.
    pub voucher: Voucher,
}

impl StreamConnect {
    /// Bytes of a CONNECT.
    pub const LEN: usize = Self::UNSIGNED_LEN + SIGNATURE_LEN;
    const UNSIGNED_LEN: usize = 1 + 1 + Consent::LEN + VOUCHER_LEN;

    /// The message. `sign` signs with the key that the voucher names as the client's.
    pub fn seal(
        &self,
        challenge: &Challenge,
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_LEN],
    ) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let mut buf = &mut bytes[..];
        buf.put_u8(StreamType::Connect as u8);
        self.peer.encode(&mut buf);
        buf.put_slice(&self.voucher.to_bytes());
        let signature = sign(&self.signed_bytes(challenge));
        bytes[Self::UNSIGNED_LEN..].copy_from_slice(&signature);
        bytes
    }

    /// The bytes that the signature covers, on the connection that got `challenge`.
    pub fn signed_bytes(&self, challenge: &Challenge) -> Vec<u8> {
        let mut bytes = [CONTEXT, &challenge.0].concat();
        bytes.put_u8(StreamType::Connect as u8);
        self.peer.encode(&mut bytes);
        bytes.put_slice(&self.voucher.to_bytes());
        bytes
    }
}

/// Asks a relay to call when an initiator wants a connection. That needs no access.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StreamListen {
    /// The relay.
    pub relay: RelayId,
    /// The key, whose hash is the listener's name.
    pub key: ListenKey,
}

/// Accepts a call, on a new connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StreamAnswer {
    /// The relay.
    pub relay: RelayId,
    /// The CALL's token.
    pub token: CallToken,
}

impl StreamRequest {
    /// The message; a CONNECT with its signature.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(STREAM_REQUEST_MAX_LEN);
        match self {
            Self::Hello(relay) => {
                bytes.put_u8(StreamType::Hello as u8);
                bytes.put_slice(&relay.0);
            }
            Self::Connect(connect, signature) => {
                bytes.put_slice(&connect.seal(&Challenge([0; TOKEN_LEN]), |_| *signature));
            }
            Self::Listen(listen) => {
                bytes.put_u8(StreamType::Listen as u8);
                bytes.put_slice(&listen.relay.0);
                bytes.put_slice(&listen.key.0);
            }
            Self::Answer(answer) => {
                bytes.put_u8(StreamType::Answer as u8);
                bytes.put_slice(&answer.relay.0);
                bytes.put_slice(&answer.token.0);
            }
            Self::Ping => bytes.put_u8(StreamType::Ping as u8),
        }
        bytes
    }

    /// Reads a whole message of [`stream_request_len`] bytes.
    ///
    /// # Errors
    /// It is none of these, has another length, or a field has a value without meaning.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let what = "a message to a relay";
        let (kind, mut reader) = open(message, what)?;
        Ok(match kind {
            StreamType::Hello => Self::Hello(RelayId(reader.array("a HELLO's relay")?)),
            StreamType::Connect => {
                let connect = StreamConnect {
                    peer: Peer::get(&mut reader)?,
                    voucher: Voucher::get(&mut reader)?,
                };
                let signature = reader.array("a CONNECT's signature")?;
                Self::Connect(Box::new(connect), signature)
            }
            StreamType::Listen => Self::Listen(StreamListen {
                relay: RelayId(reader.array("a LISTEN's relay")?),
                key: ListenKey(reader.array("a LISTEN's key")?),
            }),
            StreamType::Answer => Self::Answer(StreamAnswer {
                relay: RelayId(reader.array("an ANSWER's relay")?),
                token: CallToken(reader.array("an ANSWER's token")?),
            }),
            StreamType::Ping => Self::Ping,
            _ => return Err(not(what, message)),
        })
    }
}

/// A message from a relay over TCP.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StreamReply {
    /// The bytes over which a CONNECT on this connection has to be signed.
    Welcome(Challenge),
    /// An initiator wants a connection.
    Call(CallToken),
    /// The request is granted. After CONNECT and ANSWER, the next byte is the other end's.
    Ok,
    /// The request is refused, and the relay closes the connection.
    Refused(StreamRefusal),
    /// The answer to a PING.
    Ping,
    /// The relay is about to stop: listen elsewhere.
    Leaving,
}

impl StreamReply {
    /// The message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let token = |kind: StreamType, token: &[u8]| [&[kind as u8], token].concat();
        match self {
            Self::Welcome(challenge) => token(StreamType::Welcome, &challenge.0),
            Self::Call(call) => token(StreamType::Call, &call.0),
            Self::Ok => vec![StreamType::Ok as u8],
            Self::Refused(reason) => vec![StreamType::Refused as u8, *reason as u8],
            Self::Ping => vec![StreamType::Ping as u8],
            Self::Leaving => vec![StreamType::Leaving as u8],
        }
    }

    /// Reads a whole message of [`stream_reply_len`] bytes.
    ///
    /// # Errors
    /// It is none of these, has another length, or an unknown reason.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let what = "a relay's message";
        let (kind, mut reader) = open(message, what)?;
        Ok(match kind {
            StreamType::Welcome => Self::Welcome(Challenge(reader.array("a WELCOME's challenge")?)),
            StreamType::Call => Self::Call(CallToken(reader.array("a CALL's token")?)),
            StreamType::Ok => Self::Ok,
            StreamType::Refused => Self::Refused(StreamRefusal::get(&mut reader)?),
            StreamType::Ping => Self::Ping,
            StreamType::Leaving => Self::Leaving,
            _ => return Err(not(what, message)),
        })
    }
}

/// Why a relay doesn't forward a stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum StreamRefusal {
    /// No key that the relay trusts has signed the voucher, or its client hasn't signed the CONNECT
    /// for this connection.
    #[error("the relay doesn't accept the voucher: ask its operator for a new one")]
    Voucher = 1,
    /// The voucher has expired.
    #[error("the voucher for the relay has expired: ask for a new one")]
    VoucherExpired = 2,
    /// The message is a grant, a consent or another one for UDP.
    #[error(
        "that is for the relay's UDP port: over TCP there are no grants or consents, and \
         initiators name the listener"
    )]
    ForUdp = 3,
    /// Nobody listens under the name.
    #[error("the listener isn't at the relay over TCP")]
    UnknownName = 4,
    /// The relay doesn't serve such addresses.
    #[error(
        "the relay doesn't serve private addresses: inside one network start it with \
         --allow-private"
    )]
    Address = 5,
    /// The relay is about to stop.
    #[error("the relay is about to stop")]
    Leaving = 6,
    /// The relay has no capacity for it now.
    #[error("the relay is too busy")]
    Busy = 7,
    /// The listener didn't answer the call.
    #[error("the listener is at the relay, but didn't answer its call")]
    NoAnswer = 8,
    /// The initiator is gone or has waited too long, or the call was answered before.
    #[error("the call is over")]
    CallOver = 9,
    /// Another connection with the same key listens now.
    #[error("another listener has taken the name")]
    Replaced = 10,
    /// The account has its most connections already.
    #[error("the account has reached its limit of connections at the relay")]
    Account = 11,
    /// The operator has revoked the account's access.
    #[error("the relay's operator has revoked this access")]
    Revoked = 12,
}

impl StreamRefusal {
    /// All reasons.
    pub const ALL: [Self; 12] = [
        Self::Voucher,
        Self::VoucherExpired,
        Self::ForUdp,
        Self::UnknownName,
        Self::Address,
        Self::Leaving,
        Self::Busy,
        Self::NoAnswer,
        Self::CallOver,
        Self::Replaced,
        Self::Account,
        Self::Revoked,
    ];

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let what = "a REFUSED's reason";
        let found = reader.u8(what)?;
        let reason = Self::ALL.into_iter().find(|reason| *reason as u8 == found);
        reason.ok_or(DecodeError::Malformed { what })
    }
}

/// A message's type, and a reader behind it. Checks that the length is that of the type.
fn open<'a>(
    message: &'a [u8],
    what: &'static str,
) -> Result<(StreamType, Reader<'a>), DecodeError> {
    let mut reader = Reader::new(message);
    let kind = StreamType::of(reader.u8(what)?).ok_or_else(|| not(what, message))?;
    exactly(message, kind.len(), what)?;
    Ok((kind, reader))
}

fn not(expected: &'static str, message: &[u8]) -> DecodeError {
    DecodeError::WrongType {
        expected,
        found: message.first().copied().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{ListenerName, RateClass, VoucherTerms};
    use super::*;
    use crate::fuzzing;

    fn connect() -> StreamConnect {
        let voucher = VoucherTerms {
            relay: RelayId([0xa1; 32]),
            signer: RelayId([0xa2; 32]),
            account: [0xa3; 8],
            class: RateClass::MAX,
            expires: 0x7000_0000,
            client: RelayId([0xa4; 32]),
        }
        .seal(|_| [0xa5; 64]);
        StreamConnect {
            peer: Peer::Name(ListenerName([9; 16])),
            voucher,
        }
    }

    fn requests() -> [StreamRequest; 5] {
        let relay = RelayId([1; 32]);
        let (key, token) = (ListenKey([0x7e; 16]), CallToken([0x7d; 16]));
        [
            StreamRequest::Hello(relay),
            StreamRequest::Connect(Box::new(connect()), [0x5c; 64]),
            StreamRequest::Listen(StreamListen { relay, key }),
            StreamRequest::Answer(StreamAnswer { relay, token }),
            StreamRequest::Ping,
        ]
    }

    fn replies() -> [StreamReply; 6] {
        [
            StreamReply::Welcome(Challenge([3; 16])),
            StreamReply::Call(CallToken([0x7d; 16])),
            StreamReply::Ok,
            StreamReply::Refused(StreamRefusal::ForUdp),
            StreamReply::Ping,
            StreamReply::Leaving,
        ]
    }

    #[test]
    fn lengths_are_exact_and_told_by_the_first_byte() {
        for request in requests() {
            let mut bytes = request.to_bytes();
            assert_eq!(stream_request_len(bytes[0]), Some(bytes.len()));
            assert_eq!(StreamRequest::decode(&bytes).as_ref(), Ok(&request));
            for cut in 0..bytes.len() {
                assert!(StreamRequest::decode(&bytes[..cut]).is_err());
            }
            bytes.push(0);
            assert!(StreamRequest::decode(&bytes).is_err());
            assert!(bytes.len() <= STREAM_REQUEST_MAX_LEN);
        }
        for reply in replies() {
            let mut bytes = reply.to_bytes();
            assert_eq!(stream_reply_len(bytes[0]), Some(bytes.len()));
            assert_eq!(StreamReply::decode(&bytes), Ok(reply));
            assert!(bytes.len() <= STREAM_REPLY_MAX_LEN);
            bytes.push(0);
            assert!(StreamReply::decode(&bytes).is_err());
        }
        for reason in StreamRefusal::ALL {
            let bytes = StreamReply::Refused(reason).to_bytes();
            assert_eq!(
                StreamReply::decode(&bytes),
                Ok(StreamReply::Refused(reason))
            );
        }
        assert!(StreamReply::decode(&[0x37, 0]).is_err());
    }

    /// What one side says makes no sense to itself, so nothing that a relay writes makes a relay
    /// act. Only PING is both ways, and on a listener's connection alone.
    #[test]
    fn requests_are_no_replies() {
        for first in 0..=255 {
            if let (Some(_), Some(_)) = (stream_request_len(first), stream_reply_len(first)) {
                assert_eq!(first, StreamType::Ping as u8);
            }
        }
    }

    #[test]
    fn what_is_signed_is_for_one_connection_and_purpose() {
        let (one, other) = (Challenge([1; 16]), Challenge([2; 16]));
        let signed = connect().signed_bytes(&one);
        assert!(signed.starts_with(b"manyway relay connect 1\x01\x01"));
        assert!(signed.ends_with(&[0xa5; 64]), "the voucher is covered");
        assert_ne!(signed, connect().signed_bytes(&other));
        let bytes = connect().seal(&one, |bytes| {
            assert_eq!(bytes, signed);
            [0x99; 64]
        });
        assert!(signed.ends_with(&bytes[..StreamConnect::LEN - 64]));
        assert_eq!(bytes[StreamConnect::LEN - 64..], [0x99; 64]);
    }

    #[test]
    fn debug_shows_no_secret() {
        let text = format!("{:?} {:?}", requests()[2], replies());
        let answer = format!("{:?}", requests()[3]);
        for secret in ["126, 126", "125, 125"] {
            assert!(!text.contains(secret) && !answer.contains(secret), "{text}");
        }
    }

    proptest! {
        #[test]
        fn anything_is_safe(
            first in 0x1fu8..0x40,
            mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        ) {
            bytes.insert(0, first);
            fuzzing::relay_stream_request(&bytes);
            fuzzing::relay_stream_reply(&bytes);
            for len in [stream_request_len(first), stream_reply_len(first)].into_iter().flatten() {
                bytes.resize(len, 0);
                fuzzing::relay_stream_request(&bytes);
                fuzzing::relay_stream_reply(&bytes);
            }
        }
    }
}

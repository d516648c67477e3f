//! What a stream begins with that carries a pipe or a forwarded TCP connection, or asks for a
//! tunnel (`docs/forward.md`).
//!
//! Who opens the stream sends a [`Request`], the other side a [`Reply`]; bytes as they are follow.
//! Both begin with a [`Header`], which tells them from a file transfer's first message.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use bytes::BufMut;

use crate::DecodeError;
use crate::reader::Reader;
use crate::varint;

/// The first bytes of a stream that carries no file transfer.
pub const MAGIC: [u8; 4] = *b"mwfw";
/// The version of requests and replies.
pub const VERSION: u8 = 1;
/// Length of a [`Header`], in bytes.
pub const HEADER_LEN: usize = 8;
/// Longest body of a request or a reply, in bytes.
pub const MAX_BODY: usize = 1024;
/// Longest host of a [`Target`], in bytes: that of a name in the DNS and in SOCKS (RFC 1928).
pub const MAX_HOST: usize = 255;

/// The first byte and the fifth to eighth of a file transfer's Hello, in version 4.
const HELLO: (u8, [u8; 4]) = (1, *b"mwft");

const HELLO_REQUEST: u8 = 0;
const PIPE: u8 = 1;
const CONNECT: u8 = 2;
const LISTEN: u8 = 3;
const ACCEPTED: u8 = 4;
const TUNNEL: u8 = 5;

/// Most addresses of a side in a [`Request::Tunnel`].
pub const MAX_TUNNEL_ADDRESSES: usize = 16;

/// What precedes a body: magic (4 bytes), version, kind, length of the body (2 bytes, big-endian).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of request, or a reply's code.
    pub kind: u8,
    /// Bytes that follow, at most [`MAX_BODY`].
    pub len: usize,
}

/// Why a stream doesn't begin with a [`Header`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// It begins like a file transfer.
    #[error("the other side transfers files")]
    FileTransfer,
    /// It is of another version.
    #[error(
        "the other side has version {0} of the forwarding protocol and this one version {VERSION}: \
         install the same release on both hosts"
    )]
    Version(u8),
    /// It is none of these.
    #[error("the other side doesn't speak the forwarding protocol")]
    Other,
}

impl Header {
    /// Reads the first bytes of a stream, or of the answer on it.
    ///
    /// # Errors
    /// [`HeaderError`].
    pub fn decode(bytes: [u8; HEADER_LEN]) -> Result<Self, HeaderError> {
        let [kind, _, _, _, hello @ ..] = bytes;
        if (kind, hello) == HELLO {
            return Err(HeaderError::FileTransfer);
        }
        let [magic @ .., version, kind, high, low] = bytes;
        if magic != MAGIC {
            return Err(HeaderError::Other);
        }
        if version != VERSION {
            return Err(HeaderError::Version(version));
        }
        let len = usize::from(u16::from_be_bytes([high, low]));
        if len > MAX_BODY {
            return Err(HeaderError::Other);
        }
        Ok(Self { kind, len })
    }
}

/// A header and a body. The callers keep bodies within [`MAX_BODY`].
fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    debug_assert!(body.len() <= MAX_BODY);
    let mut bytes = MAGIC.to_vec();
    bytes.extend([VERSION, kind]);
    bytes.put_u16(body.len() as u16);
    bytes.extend(body);
    bytes
}

/// What a stream is opened for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// 0: nothing more than an answer.
    Hello,
    /// 1: a pipe's bytes, which the opener sends or else receives.
    Pipe {
        /// Whether the opener is the sender.
        sends: bool,
    },
    /// 2: a TCP connection to this target, or to the one that the other side has chosen.
    Connect(Option<Target>),
    /// 3: TCP connections to this address of the other side, for as long as the stream is open. The
    /// answer has the port.
    Listen(Target),
    /// 4: a TCP connection that came to an address that was asked for.
    Accepted {
        /// The number of the stream that asked.
        listener: u64,
    },
    /// 5: a tunnel for IP packets, which go in datagrams (`docs/tun.md`).
    Tunnel {
        /// The opener's addresses in the tunnel: 1 to [`MAX_TUNNEL_ADDRESSES`].
        addresses: Vec<IpAddr>,
    },
}

impl Request {
    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let kind = match self {
            Self::Hello => HELLO_REQUEST,
            Self::Pipe { sends } => {
                body.push(u8::from(*sends));
                PIPE
            }
            Self::Connect(target) => {
                target.iter().for_each(|target| target.encode(&mut body));
                CONNECT
            }
            Self::Listen(target) => {
                target.encode(&mut body);
                LISTEN
            }
            Self::Accepted { listener } => {
                varint::put(&mut body, *listener);
                ACCEPTED
            }
            Self::Tunnel { addresses } => {
                put_addresses(&mut body, addresses);
                TUNNEL
            }
        };
        framed(kind, &body)
    }

    /// Decodes the body behind a header of this kind.
    ///
    /// # Errors
    /// An unknown kind, or a body that isn't the kind's.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let request = match kind {
            HELLO_REQUEST => Self::Hello,
            PIPE => match reader.u8("direction")? {
                sends @ 0..=1 => Self::Pipe { sends: sends == 1 },
                _ => return Err(DecodeError::Malformed { what: "direction" }),
            },
            CONNECT if body.is_empty() => Self::Connect(None),
            CONNECT => Self::Connect(Some(Target::decode(&mut reader)?)),
            LISTEN => Self::Listen(Target::decode(&mut reader)?),
            ACCEPTED => Self::Accepted {
                listener: reader.varint("listener")?,
            },
            TUNNEL => Self::Tunnel {
                addresses: addresses(&mut reader)?,
            },
            _ => return Err(DecodeError::Malformed { what: "request" }),
        };
        match reader.is_empty() {
            true => Ok(request),
            false => Err(DecodeError::Malformed { what: "request" }),
        }
    }
}

/// For each address: 4 or 6, and its bytes.
fn put_addresses(body: &mut Vec<u8>, addresses: &[IpAddr]) {
    for address in addresses.iter().take(MAX_TUNNEL_ADDRESSES) {
        match address {
            IpAddr::V4(address) => {
                body.push(4);
                body.extend(address.octets());
            }
            IpAddr::V6(address) => {
                body.push(6);
                body.extend(address.octets());
            }
        }
    }
}

/// Takes all that is left.
fn addresses(reader: &mut Reader<'_>) -> Result<Vec<IpAddr>, DecodeError> {
    const WHAT: &str = "address in the tunnel";
    let mut addresses = Vec::new();
    while !reader.is_empty() {
        addresses.push(match reader.u8(WHAT)? {
            4 => Ipv4Addr::from(reader.array(WHAT)?).into(),
            6 => Ipv6Addr::from(reader.array(WHAT)?).into(),
            _ => return Err(DecodeError::Malformed { what: WHAT }),
        });
    }
    match (1..=MAX_TUNNEL_ADDRESSES).contains(&addresses.len()) {
        true => Ok(addresses),
        false => Err(DecodeError::Malformed { what: WHAT }),
    }
}

/// The codes of a [`Reply`]: those of SOCKS (RFC 1928, section 6), which say what they mean.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// 0: bytes may follow.
    Done = 0,
    /// 1: none of the others.
    Failed = 1,
    /// 2: the other side's user doesn't allow it.
    NotAllowed = 2,
    /// 3: no route leads to the target's network.
    NetworkUnreachable = 3,
    /// 4: the target has no address, or doesn't answer there.
    HostUnreachable = 4,
    /// 5: nobody listens on the target's port.
    Refused = 5,
    /// 7: this request makes no sense there.
    Unsupported = 7,
}

impl Code {
    fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Done,
            2 => Self::NotAllowed,
            3 => Self::NetworkUnreachable,
            4 => Self::HostUnreachable,
            5 => Self::Refused,
            7 => Self::Unsupported,
            _ => Self::Failed,
        }
    }
}

/// The answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What came of it.
    pub code: Code,
    /// The port of a [`Request::Listen`]; 0 otherwise.
    pub port: u16,
    /// Why it failed, in words for people; empty if it didn't. It is the peer's: escape it.
    pub reason: String,
}

impl Reply {
    /// A success without a port.
    pub fn done() -> Self {
        Self {
            code: Code::Done,
            port: 0,
            reason: String::new(),
        }
    }

    /// A failure.
    pub fn failed(code: Code, reason: impl Into<String>) -> Self {
        Self {
            code,
            port: 0,
            reason: reason.into(),
        }
    }

    /// The bytes; of the reason, as much as fits.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = self.port.to_be_bytes().to_vec();
        let room = MAX_BODY - body.len();
        let fits = |end: &usize| *end <= room && self.reason.is_char_boundary(*end);
        let end = (0..=self.reason.len().min(room)).rfind(fits).unwrap_or(0);
        body.extend(&self.reason.as_bytes()[..end]);
        framed(self.code as u8, &body)
    }

    /// Decodes the body behind a header of this kind. A code that nobody knows is a failure.
    ///
    /// # Errors
    /// A body that is none.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let port = reader.u16("port")?;
        let reason = str::from_utf8(reader.rest());
        let reason = reason.map_err(|_| DecodeError::Malformed { what: "reason" })?;
        Ok(Self {
            code: Code::from_byte(kind),
            port,
            reason: reason.to_owned(),
        })
    }
}

/// A host, by name or address, and a TCP port.
///
/// Text: `HOST:PORT`, with IPv6 addresses in brackets. A name has 1 to [`MAX_HOST`] lower-case
/// letters, digits, dots, hyphens and underscores. Addresses have their usual form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    host: String,
    port: u16,
}

impl Target {
    /// A target.
    ///
    /// # Errors
    /// The host is none.
    pub fn new(host: &str, port: u16) -> Result<Self, TargetError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let named = (1..=MAX_HOST).contains(&host.len()) && host.bytes().all(plain);
        let host = match host.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) if named => host.to_ascii_lowercase(),
            Err(_) => return Err(TargetError::Host),
        };
        Ok(Self { host, port })
    }

    /// The host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn encode(&self, body: &mut Vec<u8>) {
        body.put_u16(self.port);
        body.extend(self.host.as_bytes());
    }

    /// Takes all that is left.
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let malformed = DecodeError::Malformed { what: "host" };
        let port = reader.u16("port")?;
        let host = reader.take(reader.rest().len(), "host")?;
        let host = str::from_utf8(host).map_err(|_| malformed)?;
        Self::new(host, port).map_err(|_| malformed)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.parse::<Ipv6Addr>() {
            Ok(_) => write!(f, "[{host}]:{port}"),
            Err(_) => write!(f, "{host}:{port}"),
        }
    }
}

/// Text that is no [`Target`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The part before the last colon is no host.
    #[error(
        "a target is HOST:PORT, such as localhost:22 or [2001:db8::1]:22; this has no valid host"
    )]
    Host,
    /// The part behind the last colon is no port.
    #[error(
        "a target is HOST:PORT, such as localhost:22 or [2001:db8::1]:22; this has no port from 1 \
         to 65535"
    )]
    Port,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (host, port) = text.rsplit_once(':').ok_or(TargetError::Port)?;
        let port = port.parse().map_err(|_| TargetError::Port)?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        match (bare, host.contains(':')) {
            (Some(address), _) if address.parse::<Ipv6Addr>().is_ok() => Self::new(address, port),
            (None, false) => Self::new(host, port),
            _ => Err(TargetError::Host),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requests() -> impl Strategy<Value = Request> {
        let target = || {
            ("[a-z0-9.-]{1,255}", any::<u16>())
                .prop_filter_map("a host", |(host, port)| Target::new(&host, port).ok())
        };
        prop_oneof![
            Just(Request::Hello),
            any::<bool>().prop_map(|sends| Request::Pipe { sends }),
            proptest::option::of(target()).prop_map(Request::Connect),
            target().prop_map(Request::Listen),
            (0..1u64 << 62).prop_map(|listener| Request::Accepted { listener }),
            proptest::collection::vec(any::<IpAddr>(), 1..=MAX_TUNNEL_ADDRESSES)
                .prop_map(|addresses| Request::Tunnel { addresses }),
        ]
    }

    /// As a reader takes it apart.
    fn parts(bytes: &[u8]) -> (Header, &[u8]) {
        let (head, body) = bytes.split_first_chunk().unwrap();
        let header = Header::decode(*head).unwrap();
        assert_eq!(header.len, body.len());
        (header, body)
    }

    proptest! {
        #[test]
        fn requests_come_back(request in requests()) {
            let bytes = request.encode();
            let (header, body) = parts(&bytes);
            prop_assert_eq!(Request::decode(header.kind, body), Ok(request));
        }

        #[test]
        fn replies_come_back(code in 0u8..9, port: u16, reason in "\\PC{0,300}") {
            let reply = Reply { code: Code::from_byte(code), port, reason };
            let bytes = reply.encode();
            let (header, body) = parts(&bytes);
            let read = Reply::decode(header.kind, body).unwrap();
            prop_assert_eq!((read.code, read.port), (reply.code, reply.port));
            prop_assert!(reply.reason.starts_with(&read.reason));
            prop_assert!(read.reason == reply.reason || body.len() > MAX_BODY - 4);
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            head: [u8; HEADER_LEN],
            kind in 0u8..8,
            body in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let _ = Header::decode(head);
            if let Ok(request) = Request::decode(kind, &body) {
                // Varints and letters have more than one form.
                let bytes = request.encode();
                let (header, body) = parts(&bytes);
                prop_assert_eq!(Request::decode(header.kind, body), Ok(request));
            }
            let _ = Reply::decode(kind, &body);
        }

        #[test]
        fn targets_are_read_as_they_are_written(text in "\\PC{0,40}") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string().parse(), Ok(target));
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let connect = Request::Connect(Some("localhost:22".parse().unwrap())).encode();
        assert_eq!(connect, b"mwfw\x01\x02\x00\x0b\x00\x16localhost");
        assert_eq!(
            Request::Pipe { sends: true }.encode(),
            b"mwfw\x01\x01\x00\x01\x01"
        );
        assert_eq!(Reply::done().encode(), b"mwfw\x01\x00\x00\x02\x00\x00");
        let refused = Reply::failed(Code::Refused, "no").encode();
        assert_eq!(refused, b"mwfw\x01\x05\x00\x04\x00\x00no");
    }

    #[test]
    fn other_protocols_are_told_apart() {
        let decode = |bytes: &[u8; HEADER_LEN]| Header::decode(*bytes).unwrap_err();
        assert_eq!(decode(b"\x01\x00\x00\x07mwft"), HeaderError::FileTransfer);
        assert_eq!(decode(b"mwfw\x02\x00\x00\x00"), HeaderError::Version(2));
        assert_eq!(decode(b"GET / HT"), HeaderError::Other);
        assert_eq!(decode(b"mwfw\x01\x00\xff\xff"), HeaderError::Other);
    }

    #[test]
    fn targets_have_one_form() {
        let text = |text: &str| text.parse::<Target>().map(|target| target.to_string());
        assert_eq!(text("LocalHost:22").unwrap(), "localhost:22");
        assert_eq!(text("[2001:DB8:0::1]:22").unwrap(), "[2001:db8::1]:22");
        assert_eq!(text("192.0.2.1:80").unwrap(), "192.0.2.1:80");
        for (wrong, error) in [
            ("localhost", TargetError::Port),
            ("localhost:", TargetError::Port),
            ("localhost:65536", TargetError::Port),
            (":22", TargetError::Host),
            ("::1:22", TargetError::Host),
            ("[::1:22", TargetError::Host),
            ("[localhost]:22", TargetError::Host),
            ("a b:22", TargetError::Host),
            ("a\u{1b}[1m:22", TargetError::Host),
        ] {
            assert_eq!(text(wrong), Err(error), "{wrong:?}");
        }
        assert!(Target::new(&"x".repeat(256), 1).is_err());
    }
}

//! SOCKS5 (RFC 1928), as a server for programs of this host: no authentication, CONNECT only.
//!
//! The parsers do no I/O: they take what has come so far and say what it is and how long.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use manyway_wire::forward::{Code, Target};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// A client says what it wants within this time.
const WAIT: Duration = Duration::from_secs(10);
const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// Why a client isn't served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SocksError {
    #[error("a program {}", other_protocol(*.0))]
    Version(u8),
    #[error("a program wants to log in to the SOCKS proxy: use it without a user name")]
    Method,
    #[error("a program offered the SOCKS proxy no way to log in, not even none")]
    NoMethod,
    #[error("a program sent SOCKS command {0}, but manyway supports only CONNECT (1)")]
    Command(u8),
    #[error("a program asked the SOCKS proxy for an invalid host name")]
    Host,
    #[error("a program opened a SOCKS connection but made no request for {} s", WAIT.as_secs())]
    Late,
    #[error("a program closed its SOCKS connection before its request was complete")]
    End,
}

impl SocksError {
    /// The code for the client, once it may be sent one.
    fn code(&self) -> u8 {
        match self {
            Self::Command(_) => 7,
            Self::Host => 8,
            _ => 1,
        }
    }
}

/// What a connection that begins so speaks, and what to do about it.
fn other_protocol(first: u8) -> String {
    match first {
        4 => "speaks SOCKS4: choose SOCKS5 in its settings".to_owned(),
        b'A'..=b'Z' => "speaks HTTP, it seems: choose this port as its SOCKS5 proxy".to_owned(),
        other => format!(
            "doesn't speak SOCKS5, and this port is a SOCKS5 proxy (first byte: {other:#04x})"
        ),
    }
}

/// A value and the bytes that it takes, or `None` as long as more has to come.
type Parsed<T> = Result<Option<(T, usize)>, SocksError>;

/// Version and methods; what is wrong with them unless no authentication is among them.
fn greeting(bytes: &[u8]) -> Parsed<Option<SocksError>> {
    match *bytes {
        [] => Ok(None),
        [VERSION] => Ok(None),
        [VERSION, count, ref rest @ ..] => {
            let methods = rest.get(..usize::from(count));
            let wrong = methods.map(|methods| match methods {
                [] => Some(SocksError::NoMethod),
                methods if methods.contains(&NO_AUTHENTICATION) => None,
                _ => Some(SocksError::Method),
            });
            Ok(wrong.map(|wrong| (wrong, 2 + usize::from(count))))
        }
        [other, ..] => Err(SocksError::Version(other)),
    }
}

/// A request: where to connect.
fn request(bytes: &[u8]) -> Parsed<Target> {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else {
        return match bytes {
            [] | [VERSION, ..] => Ok(None),
            [other, ..] => Err(SocksError::Version(*other)),
        };
    };
    let [version, command, _, kind] = *head;
    if version != VERSION {
        return Err(SocksError::Version(version));
    }
    if command != CONNECT {
        return Err(SocksError::Command(command));
    }
    let (host, port) = match kind {
        1 => match rest.split_first_chunk::<4>() {
            Some((host, port)) => (Ipv4Addr::from(*host).to_string(), port),
            None => return Ok(None),
        },
        4 => match rest.split_first_chunk::<16>() {
            Some((host, port)) => (Ipv6Addr::from(*host).to_string(), port),
            None => return Ok(None),
        },
        3 => {
            let named = rest.split_first();
            let named = named.and_then(|(len, rest)| rest.split_at_checked(usize::from(*len)));
            let Some((host, port)) = named else {
                return Ok(None);
            };
            let host = str::from_utf8(host).map_err(|_| SocksError::Host)?;
            (host.to_owned(), port)
        }
        _ => return Err(SocksError::Host),
    };
    let Some((port, rest)) = port.split_first_chunk() else {
        return Ok(None);
    };
    let target = Target::new(&host, u16::from_be_bytes(*port)).map_err(|_| SocksError::Host)?;
    Ok(Some((target, bytes.len() - rest.len())))
}

/// An answer. Nobody needs the address that it has room for.
fn answer(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// Hears what a client wants: where to connect, and what it has said behind that already.
///
/// # Errors
/// It wants nothing that we do. It has been told so, if it speaks SOCKS5.
pub(super) async fn hear<T>(tcp: &mut T) -> Result<(Target, Vec<u8>), SocksError>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let heard = timeout(WAIT, converse(tcp)).await;
    heard.unwrap_or(Err(SocksError::Late))
}

async fn converse<T>(tcp: &mut T) -> Result<(Target, Vec<u8>), SocksError>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut said = Vec::new();
    if let Some(wrong) = hear_all(tcp, &mut said, greeting).await? {
        say(tcp, &[VERSION, NO_METHOD]).await?;
        return Err(wrong);
    }
    say(tcp, &[VERSION, NO_AUTHENTICATION]).await?;
    match hear_all(tcp, &mut said, request).await {
        Ok(target) => Ok((target, said)),
        Err(error) => {
            say(tcp, &answer(error.code())).await?;
            Err(error)
        }
    }
}

/// Reads until something is complete, and takes it off the front.
async fn hear_all<T, V>(
    tcp: &mut T,
    said: &mut Vec<u8>,
    parse: fn(&[u8]) -> Parsed<V>,
) -> Result<V, SocksError>
where
    T: AsyncRead + Unpin,
{
    loop {
        if let Some((value, len)) = parse(said)? {
            said.drain(..len);
            return Ok(value);
        }
        // The longest request has 262 bytes.
        match tcp.read_buf(said).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return Err(SocksError::End),
        }
    }
}

async fn say<T: AsyncWrite + Unpin>(tcp: &mut T, bytes: &[u8]) -> Result<(), SocksError> {
    let said: io::Result<()> = tcp.write_all(bytes).await;
    said.map_err(|_| SocksError::End)
}

/// Tells a client what came of its request.
pub(super) async fn tell<T: AsyncWrite + Unpin>(tcp: &mut T, code: Code) -> Result<(), SocksError> {
    say(tcp, &answer(code as u8)).await
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::duplex;

    use super::*;

    fn connect(kind: u8, host: &[u8], port: u16) -> Vec<u8> {
        let mut bytes = vec![VERSION, CONNECT, 0, kind];
        bytes.extend(host);
        bytes.extend(port.to_be_bytes());
        bytes
    }

    #[test]
    fn requests_name_hosts_in_three_ways() {
        let named = [&[11][..], b"example.org"].concat();
        for (bytes, text) in [
            (connect(1, &[192, 0, 2, 1], 80), "192.0.2.1:80"),
            (connect(3, &named, 443), "example.org:443"),
            (connect(4, &Ipv6Addr::LOCALHOST.octets(), 22), "[::1]:22"),
        ] {
            let (target, len) = request(&bytes).unwrap().unwrap();
            assert_eq!((target.to_string().as_str(), len), (text, bytes.len()));
            for end in 0..bytes.len() {
                assert_eq!(request(&bytes[..end]), Ok(None), "{end}");
            }
        }
    }

    #[test]
    fn what_it_does_not_do_has_an_error_and_a_code() {
        let bind = [5, 2, 0, 1];
        assert_eq!(request(&bind), Err(SocksError::Command(2)));
        assert_eq!(request(&[5, 1, 0, 2]), Err(SocksError::Host));
        assert_eq!(request(&connect(3, b"\x02a\x1b", 1)), Err(SocksError::Host));
        assert_eq!(request(&connect(3, b"\0", 1)), Err(SocksError::Host));
        assert_eq!(greeting(b"GET / HTTP/1.1"), Err(SocksError::Version(b'G')));
        assert_eq!(greeting(&[4, 1]), Err(SocksError::Version(4)));
        assert_eq!(
            (SocksError::Command(2).code(), SocksError::Host.code()),
            (7, 8)
        );
    }

    #[test]
    fn what_speaks_something_else_reads_what_to_set() {
        let said = [4, b'C', 0x16].map(|first| SocksError::Version(first).to_string());
        insta::assert_snapshot!(said.join("\n"), @r"
        a program speaks SOCKS4: choose SOCKS5 in its settings
        a program speaks HTTP, it seems: choose this port as its SOCKS5 proxy
        a program doesn't speak SOCKS5, and this port is a SOCKS5 proxy (first byte: 0x16)
        ");
    }

    proptest! {
        /// However the bytes come, they mean the same; none makes it panic or wait for ever.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for parse in [
                |bytes: &[u8]| greeting(bytes).map(|done| done.map(|(_, len)| len)),
                |bytes: &[u8]| request(bytes).map(|done| done.map(|(_, len)| len)),
            ] {
                let whole = parse(&bytes);
                let first = (0..=bytes.len()).map(|end| parse(&bytes[..end]));
                let first = first.into_iter().find(|parsed| *parsed != Ok(None));
                match first {
                    Some(first) => {
                        prop_assert_eq!(&first, &whole);
                        prop_assert!(first.is_err() || first.unwrap().unwrap() <= bytes.len());
                    }
                    None => {
                        prop_assert_eq!(&whole, &Ok(None));
                        prop_assert!(bytes.len() < 262);
                    }
                }
            }
        }
    }

    #[tokio::test]
    async fn a_client_gets_its_method_and_keeps_what_it_said_too_early() {
        let (mut client, mut server) = duplex(1 << 10);
        let request = connect(1, &[192, 0, 2, 1], 80);
        let said = [&[5, 2, 2, 0][..], &request, b"early"].concat();
        client.write_all(&said).await.unwrap();
        let (target, early) = hear(&mut server).await.unwrap();
        assert_eq!(
            (target.to_string().as_str(), early.as_slice()),
            ("192.0.2.1:80", &b"early"[..])
        );
        tell(&mut server, Code::Refused).await.unwrap();
        let mut heard = [0; 12];
        client.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, [5, 0, 5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_too_little_is_not_waited_for() {
        let (mut client, mut server) = duplex(64);
        client.write_all(&[5, 1]).await.unwrap();
        assert_eq!(hear(&mut server).await, Err(SocksError::Late));
        let (mut client, mut server) = duplex(64);
        client.write_all(&[5, 1, 2]).await.unwrap();
        assert_eq!(hear(&mut server).await, Err(SocksError::Method));
        let mut heard = [0; 2];
        client.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, [5, NO_METHOD]);
        drop(client);
        let (mut client, mut server) = duplex(64);
        client.write_all(&[5, 0]).await.unwrap();
        assert_eq!(hear(&mut server).await, Err(SocksError::NoMethod));
        let (client, mut server) = duplex(64);
        drop(client);
        assert_eq!(hear(&mut server).await, Err(SocksError::End));
    }
}

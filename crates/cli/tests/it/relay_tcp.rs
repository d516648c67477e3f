//! `manyway relay --tcp` as its operators run it.

use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::common::relay::{Relay, invitation, run};
use manyway_relay::gate::name_of;
use manyway_relay::keys::sign;
use manyway_wire::relay::{
    ListenKey, Peer, RelayTicket, StreamAnswer, StreamConnect, StreamListen, StreamReply,
    StreamRequest, stream_reply_len,
};
use tempfile::TempDir;

const KEY: ListenKey = ListenKey([0xd7; 16]);

/// Where it listens over TCP, which it says in a line of its own.
fn over_tcp(relay: &mut Relay) -> SocketAddr {
    loop {
        let line = relay
            .said
            .lines()
            .find(|line| line.contains("Streams over TCP on "));
        if let Some((_, address)) = line.and_then(|line| line.rsplit_once(' ')) {
            return address.parse().unwrap();
        }
        let read = relay.stderr.read_line(&mut relay.said).unwrap();
        assert_ne!(read, 0, "{}", relay.said);
    }
}

fn open(address: SocketAddr, request: &StreamRequest) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(20));
    stream.set_read_timeout(patience).unwrap();
    stream.write_all(&request.to_bytes()).unwrap();
    stream
}

fn hear(stream: &mut TcpStream) -> StreamReply {
    let mut bytes = [0; 32];
    stream.read_exact(&mut bytes[..1]).unwrap();
    let len = stream_reply_len(bytes[0]).unwrap();
    stream.read_exact(&mut bytes[1..len]).unwrap();
    StreamReply::decode(&bytes[..len]).unwrap()
}

/// What was said to the relay that nobody else may know, and both ends of a stream.
struct Joined {
    secrets: Vec<Vec<u8>>,
    listener: TcpStream,
    ends: [TcpStream; 2],
}

fn join(address: SocketAddr, ticket: &RelayTicket) -> Joined {
    let (relay, key) = (ticket.relay, KEY);
    let listen = StreamListen { relay, key };
    let mut listener = open(address, &StreamRequest::Listen(listen));
    assert_eq!(hear(&mut listener), StreamReply::Ok);
    let mut caller = open(address, &StreamRequest::Hello(relay));
    let StreamReply::Welcome(challenge) = hear(&mut caller) else {
        panic!("no welcome")
    };
    let access = ticket.access.as_ref().unwrap();
    let connect = StreamConnect {
        peer: Peer::Name(name_of(&KEY)),
        voucher: access.voucher,
    };
    let connect = connect.seal(&challenge, |bytes| sign(&access.seed, bytes));
    caller.write_all(&connect).unwrap();
    let StreamReply::Call(token) = hear(&mut listener) else {
        panic!("no call")
    };
    let answer = StreamAnswer { relay, token };
    let mut answered = open(address, &StreamRequest::Answer(answer));
    for end in [&mut caller, &mut answered] {
        assert_eq!(hear(end), StreamReply::Ok);
    }
    let secrets = vec![
        KEY.0.to_vec(),
        name_of(&KEY).0.to_vec(),
        token.0.to_vec(),
        connect[connect.len() - 64..].to_vec(),
        access.seed.to_vec(),
    ];
    Joined {
        secrets,
        listener,
        ends: [caller, answered],
    }
}

fn pass([from, to]: &mut [TcpStream; 2]) {
    from.write_all(b"through the relay").unwrap();
    let mut bytes = [0; 17];
    to.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"through the relay");
}

#[test]
fn an_invitation_is_good_over_tcp_and_no_secret_gets_into_the_log() {
    let dir = TempDir::new().unwrap();
    let mut relay = Relay::start(dir.path(), &["--tcp", "-vvv"]);
    let address = over_tcp(&mut relay);
    assert_eq!(address, relay.address, "the same port");
    let ticket = invitation(dir.path(), relay.address);
    let mut joined = join(address, &ticket);
    pass(&mut joined.ends);
    // And one that is refused, which the log tells of.
    let mut refused = open(address, &StreamRequest::Hello(ticket.relay));
    hear(&mut refused);
    let access = ticket.access.as_ref().unwrap();
    let connect = StreamConnect {
        peer: Peer::Name(name_of(&KEY)),
        voucher: access.voucher,
    };
    refused
        .write_all(&connect.seal(&manyway_wire::relay::Challenge([0; 16]), |_| [0x5a; 64]))
        .unwrap();
    let reply = hear(&mut refused);
    assert!(matches!(reply, StreamReply::Refused(_)), "{reply:?}");
    drop(joined.ends);
    let said = relay.end();
    assert!(said.contains("refused"), "the log is on: {said}");
    assert!(said.contains("and 17 B in 1 streams"), "{said}");
    for secret in joined.secrets {
        let list = format!("{secret:?}");
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(
            !said.contains(list.trim_matches(['[', ']'])) && !said.contains(&hex[..16]),
            "{said}"
        );
    }
}

#[test]
fn on_sigterm_streams_go_on_and_listeners_are_told() {
    let dir = TempDir::new().unwrap();
    let mut relay = Relay::start(dir.path(), &["--tcp"]);
    let address = over_tcp(&mut relay);
    let ticket = invitation(dir.path(), relay.address);
    let mut joined = join(address, &ticket);
    pass(&mut joined.ends);
    relay.process.signal("TERM");
    assert_eq!(hear(&mut joined.listener), StreamReply::Leaving);
    pass(&mut joined.ends);
    joined.ends.reverse();
    pass(&mut joined.ends);
    // Nothing moves any more: it ends, and what was open is cut off.
    relay.stderr.read_to_string(&mut relay.said).unwrap();
    relay.process.finish().ok();
    assert!(joined.ends[0].read(&mut [0; 1]).is_err());
}

#[test]
fn without_the_option_nothing_is_accepted() {
    let dir = TempDir::new().unwrap();
    let relay = Relay::start(dir.path(), &[]);
    assert!(TcpStream::connect(relay.address).is_err());
    relay.end();
}

#[test]
fn metrics_tell_of_tcp() {
    let dir = TempDir::new().unwrap();
    let mut relay = Relay::start(dir.path(), &["--tcp", "--metrics", "127.0.0.1:0"]);
    over_tcp(&mut relay);
    let url = relay
        .said
        .split_whitespace()
        .find(|word| word.starts_with("http://"));
    let (address, _) = url.unwrap()["http://".len()..].split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("\nmanyway_relay_tcp_streams 0\n"), "{text}");
    relay.end();
}

#[test]
fn errors_say_what_to_do() {
    let dir = TempDir::new().unwrap();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let listen = ["--listen", "127.0.0.1:0", "--tcp", "--tcp-listen", &taken];
    let finished = run(dir.path(), &listen);
    assert_eq!(finished.code, 1, "{finished:?}");
    let words = format!("{taken} over TCP: another program uses the port");
    assert!(finished.stderr.contains(&words), "{}", finished.stderr);
    let finished = run(dir.path(), &["--tcp-listen", &taken]);
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(finished.stderr.contains("--tcp"), "{}", finished.stderr);
    let finished = run(dir.path(), &["--tcp", "--tcp-connections", "1"]);
    assert_eq!(finished.code, 2, "{finished:?}");
}

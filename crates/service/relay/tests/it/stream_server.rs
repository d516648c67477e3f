//! Streams through a relay on real sockets, on loopback.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use manyway_relay::gate::name_of;
use manyway_relay::invites::Invite;
use manyway_relay::keys::{public_key, sign};
use manyway_relay::server::{Handle, InvitesFile, Server, ServerConfig, StreamConfig, open_keys};
use manyway_relay::{AccountTag, Config, Ending, StreamCounters, StreamLimits};
use manyway_wire::relay::{
    Access, ListenKey, Peer, RateClass, RelayId, StreamAnswer, StreamConnect, StreamListen,
    StreamRefusal, StreamReply, StreamRequest, stream_reply_len,
};
use socket2::SockRef;

const KEY: ListenKey = ListenKey([4; 16]);

struct Running {
    id: RelayId,
    addresses: Vec<SocketAddr>,
    handle: Handle,
    access: Access,
    invites: InvitesFile,
    _runtime: tokio::runtime::Runtime,
    _keys: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

struct Setup {
    limits: StreamLimits,
    class: RateClass,
    limit: Option<u64>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            limits: StreamLimits::default(),
            class: RateClass::MAX,
            limit: None,
        }
    }
}

fn start(setup: Setup) -> Running {
    let keys = tempfile::tempdir().unwrap();
    let key_file = keys.path().join("relay.key");
    let config = ServerConfig {
        listen: ["127.0.0.1:0", "[::1]:0"]
            .map(|it| it.parse().unwrap())
            .to_vec(),
        key_file: key_file.clone(),
        rotate: Duration::from_secs(86_400),
        relay: Config {
            allow_private: true,
            limit: setup.limit,
            ..Config::default()
        },
        streams: Some(StreamConfig {
            listen: Vec::new(),
            limits: setup.limits,
        }),
    };
    let mut server = Server::bind(config).unwrap();
    let addresses = server.stream_addresses();
    assert_eq!(addresses, server.addresses());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.spawn(server.take_streams().unwrap().run());
    let seed = [5; 32];
    let keys_again = open_keys(&key_file).unwrap();
    let voucher = keys_again.vouch([1; 8], setup.class, u32::MAX, public_key(&seed));
    let (id, handle) = (server.id(), server.handle());
    thread::spawn(move || server.run());
    Running {
        id,
        addresses,
        handle,
        access: Access { voucher, seed },
        invites: InvitesFile::beside(&key_file),
        _runtime: runtime,
        _keys: keys,
    }
}

impl Running {
    fn open(&self) -> TcpStream {
        self.open_at(0)
    }

    fn open_at(&self, family: usize) -> TcpStream {
        let stream = TcpStream::connect(self.addresses[family]).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream
    }

    fn account(&self) -> AccountTag {
        AccountTag::in_voucher(&self.access.voucher.terms)
    }

    fn counters(&self) -> StreamCounters {
        self.handle.streams().unwrap()
    }

    /// A connection on which KEY's holder can be called.
    fn listener(&self) -> TcpStream {
        let mut stream = self.open();
        let listen = StreamListen {
            relay: self.id,
            key: KEY,
        };
        say(&mut stream, &StreamRequest::Listen(listen).to_bytes());
        assert_eq!(hear(&mut stream), Ok(StreamReply::Ok));
        stream
    }

    /// Asks for KEY's holder on `stream`.
    fn connect(&self, stream: &mut TcpStream) {
        say(stream, &StreamRequest::Hello(self.id).to_bytes());
        let Ok(StreamReply::Welcome(challenge)) = hear(stream) else {
            panic!("no welcome")
        };
        let connect = StreamConnect {
            peer: Peer::Name(name_of(&KEY)),
            voucher: self.access.voucher,
        };
        let message = connect.seal(&challenge, |bytes| sign(&self.access.seed, bytes));
        say(stream, &message);
    }

    fn answer(&self, listener: &mut TcpStream, stream: &mut TcpStream) {
        let Ok(StreamReply::Call(token)) = hear(listener) else {
            panic!("no call")
        };
        let answer = StreamAnswer {
            relay: self.id,
            token,
        };
        say(stream, &StreamRequest::Answer(answer).to_bytes());
    }

    /// A stream from a caller to the listener, over the connections given.
    fn join(&self, mut caller: TcpStream, mut answered: TcpStream) -> (TcpStream, TcpStream) {
        let mut listener = self.listener();
        self.connect(&mut caller);
        self.answer(&mut listener, &mut answered);
        assert_eq!(hear(&mut caller), Ok(StreamReply::Ok));
        assert_eq!(hear(&mut answered), Ok(StreamReply::Ok));
        (caller, answered)
    }

    fn stream(&self) -> (TcpStream, TcpStream) {
        self.join(self.open(), self.open())
    }

    fn eventually(&self, what: &str, mut holds: impl FnMut(StreamCounters) -> bool) {
        for _ in 0..3000 {
            if holds(self.counters()) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{what}: {:?}", self.counters());
    }
}

fn say(stream: &mut TcpStream, message: &[u8]) {
    stream.write_all(message).unwrap();
}

fn hear(stream: &mut TcpStream) -> Result<StreamReply, io::ErrorKind> {
    let mut bytes = [0; 32];
    stream.read_exact(&mut bytes[..1]).map_err(|e| e.kind())?;
    let len = stream_reply_len(bytes[0]).expect("a relay's message");
    stream.read_exact(&mut bytes[1..len]).unwrap();
    Ok(StreamReply::decode(&bytes[..len]).unwrap())
}

fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Both ways at once, then the end of one direction, then more on the other.
fn exchange((mut a, mut b): (TcpStream, TcpStream), len: usize) {
    let (there, back) = (noise(1, len), noise(2, len));
    thread::scope(|scope| {
        let (mut a2, mut b2) = (a.try_clone().unwrap(), b.try_clone().unwrap());
        scope.spawn(|| {
            a.write_all(&there).unwrap();
            a.shutdown(Shutdown::Write).unwrap();
        });
        scope.spawn(|| {
            b.write_all(&back).unwrap();
        });
        let got = scope.spawn(move || {
            let mut got = vec![0; len];
            a2.read_exact(&mut got).unwrap();
            got
        });
        let mut got_there = Vec::new();
        b2.read_to_end(&mut got_there).unwrap();
        assert!(got_there == there);
        assert!(got.join().unwrap() == back);
    });
    b.write_all(b"and more").unwrap();
    drop(b);
    let mut rest = Vec::new();
    a.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"and more");
}

#[test]
fn bytes_go_both_ways_and_each_end_with_them() {
    let relay = start(Setup::default());
    for (from, to) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let ends = relay.join(relay.open_at(from), relay.open_at(to));
        exchange(ends, 3_000_000);
    }
    // Each end is counted before its stream is gone.
    relay.eventually("all done", |it| {
        it.ended_by(Ending::Done) == 4 && it.streams == 0
    });
    let counters = relay.counters();
    assert_eq!(counters.forwarded_bytes, 4 * 6_000_008);
    assert_eq!(counters.received_bytes, counters.forwarded_bytes);
    assert_eq!(counters.copied, 0);
}

#[test]
fn the_same_where_bytes_have_to_be_copied() {
    let limits = StreamLimits {
        splice: false,
        ..StreamLimits::default()
    };
    let relay = start(Setup {
        limits,
        ..Setup::default()
    });
    exchange(relay.stream(), 3_000_000);
    relay.eventually("done", |it| it.ended_by(Ending::Done) == 1);
    assert_eq!(relay.counters().copied, 2, "both directions");
}

/// What a relay has taken and not got rid of is what a pipe and two sockets hold, however long the
/// far end doesn't read. Then nothing of it is lost.
#[test]
fn a_side_that_doesnt_read_stops_the_other() {
    const BUFFER: usize = 64 << 10;
    let limits = StreamLimits {
        buffer: Some(BUFFER),
        ..StreamLimits::default()
    };
    for splice in [true, false] {
        let limits = StreamLimits {
            splice,
            ..limits.clone()
        };
        let relay = start(Setup {
            limits,
            ..Setup::default()
        });
        let answered = relay.open();
        SockRef::from(&answered)
            .set_recv_buffer_size(BUFFER)
            .unwrap();
        let (mut caller, mut answered) = relay.join(relay.open(), answered);
        let sent = noise(3, 16 << 20);
        let sent_again = sent.clone();
        let writer = thread::spawn(move || {
            caller.write_all(&sent_again).unwrap();
            caller.shutdown(Shutdown::Write).unwrap();
            caller
        });
        let mut before = u64::MAX;
        relay.eventually("no more is taken", |it| {
            thread::sleep(Duration::from_millis(300));
            let stands = it.received_bytes == before;
            before = it.received_bytes;
            stands
        });
        // The kernel doubles the buffers that are asked for: what one pipe, the relay's socket and
        // the reader's hold.
        let most = (64 << 10) + 2 * 2 * BUFFER as u64;
        assert!(before > 0 && before <= most, "{before} of at most {most}");
        let mut got = Vec::new();
        answered.read_to_end(&mut got).unwrap();
        assert!(got == sent);
        writer.join().unwrap();
    }
}

#[test]
fn a_handshake_byte_by_byte_is_cut_off() {
    let limits = StreamLimits {
        handshake: Duration::from_millis(500),
        ..StreamLimits::default()
    };
    let relay = start(Setup {
        limits,
        ..Setup::default()
    });
    let mut slow = relay.open();
    let message = StreamRequest::Hello(relay.id).to_bytes();
    let cut = message.iter().any(|byte| {
        thread::sleep(Duration::from_millis(50));
        slow.write_all(&[*byte]).is_err()
    });
    assert!(cut || hear(&mut slow).is_err());
    relay.eventually("counted", |it| it.ended_by(Ending::Slow) == 1);
    // So is one that says HELLO and nothing more.
    let mut idle = relay.open();
    say(&mut idle, &message);
    assert!(matches!(hear(&mut idle), Ok(StreamReply::Welcome(_))));
    assert!(hear(&mut idle).is_err());
    relay.eventually("gone", |it| it.connections == 0);
}

#[test]
fn a_listener_that_doesnt_answer_is_told_from_one_that_isnt_there() {
    let limits = StreamLimits {
        call: Duration::from_millis(300),
        ..StreamLimits::default()
    };
    let relay = start(Setup {
        limits,
        ..Setup::default()
    });
    let refused = |reason| Ok(StreamReply::Refused(reason));
    let mut caller = relay.open();
    relay.connect(&mut caller);
    assert_eq!(hear(&mut caller), refused(StreamRefusal::UnknownName));
    assert!(hear(&mut caller).is_err(), "and closed");
    let mut listener = relay.listener();
    let mut caller = relay.open();
    relay.connect(&mut caller);
    assert_eq!(hear(&mut caller), refused(StreamRefusal::NoAnswer));
    let mut late = relay.open();
    relay.answer(&mut listener, &mut late);
    assert_eq!(hear(&mut late), refused(StreamRefusal::CallOver));
}

#[test]
fn silent_listeners_are_forgotten_and_others_are_not() {
    let limits = StreamLimits {
        silence: Duration::from_secs(2),
        ..StreamLimits::default()
    };
    let relay = start(Setup {
        limits,
        ..Setup::default()
    });
    let mut listener = relay.listener();
    for _ in 0..8 {
        thread::sleep(Duration::from_millis(300));
        say(&mut listener, &StreamRequest::Ping.to_bytes());
        assert_eq!(hear(&mut listener), Ok(StreamReply::Ping));
    }
    assert_eq!(relay.counters().listening, 1);
    relay.eventually("forgotten", |it| it.listening == 0);
    assert!(hear(&mut listener).is_err());
    // One that another has taken the place of is told.
    let mut first = relay.listener();
    let _second = relay.listener();
    let replaced = StreamReply::Refused(StreamRefusal::Replaced);
    assert_eq!(hear(&mut first), Ok(replaced));
}

/// Neither calls nor a message byte by byte keep it.
#[test]
fn a_listener_that_only_gets_calls_is_silent() {
    let limits = StreamLimits {
        silence: Duration::from_millis(600),
        call: Duration::from_millis(100),
        ..StreamLimits::default()
    };
    let relay = start(Setup {
        limits,
        ..Setup::default()
    });
    let mut listener = relay.listener();
    let ping = StreamRequest::Ping.to_bytes();
    say(&mut listener, &ping[..ping.len() - 1]);
    let forgotten = (0..300).any(|_| {
        let mut caller = relay.open();
        relay.connect(&mut caller);
        let refused = hear(&mut caller);
        thread::sleep(Duration::from_millis(50));
        refused == Ok(StreamReply::Refused(StreamRefusal::UnknownName))
    });
    assert!(forgotten);
    relay.eventually("forgotten", |it| it.ended_by(Ending::Idle) == 1);
}

/// One end is gone without a word, or never reads: the stream ends, and not as if it were complete.
#[test]
fn streams_that_stand_still_are_reset() {
    let limits = StreamLimits {
        idle: Duration::from_millis(300),
        buffer: Some(64 << 10),
        ..StreamLimits::default()
    };
    let relay = start(Setup {
        limits,
        ..Setup::default()
    });
    let (_silent, mut other) = relay.stream();
    let error = other.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    let (mut writes, _never_reads) = relay.stream();
    let bytes = noise(1, 1 << 20);
    let error = (0..100).find_map(|_| writes.write_all(&bytes).err());
    assert!(error.is_some());
    relay.eventually("both", |it| it.ended_by(Ending::Idle) == 2);
    relay.eventually("gone", |it| it.streams == 0);
}

#[test]
fn what_is_cut_off_doesnt_look_complete() {
    let relay = start(Setup::default());
    let (caller, mut answered) = relay.stream();
    (&caller).write_all(b"the beginning of").unwrap();
    let mut got = [0; 16];
    answered.read_exact(&mut got).unwrap();
    SockRef::from(&caller)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(caller);
    let error = answered.read(&mut got).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    relay.eventually("counted", |it| it.ended_by(Ending::Broken) == 1);
}

/// All streams of an account together, and all of the relay. Only the least time is checked.
#[test]
fn rates_are_kept_by_not_reading() {
    let megabyte = RateClass::new(3).unwrap();
    for setup in [
        Setup {
            class: megabyte,
            ..Setup::default()
        },
        Setup {
            limit: Some(1_000_000),
            ..Setup::default()
        },
    ] {
        let relay = start(setup);
        let ends = [relay.stream(), relay.stream()];
        let began = Instant::now();
        thread::scope(|scope| {
            for (mut caller, mut answered) in ends {
                scope.spawn(move || caller.write_all(&noise(1, 1_000_000)).unwrap());
                scope.spawn(move || answered.read_exact(&mut vec![0; 1_000_000]).unwrap());
            }
        });
        // Less the burst, a chunk of each direction, and what a limit leaves to the last.
        let least = 2.0 - 0.131_072 - 4.0 * 0.065_536;
        let took = began.elapsed().as_secs_f64();
        assert!(took >= least, "{took} s");
    }
}

#[test]
fn a_relay_that_leaves_tells_its_listeners_and_finishes_its_streams() {
    let relay = start(Setup::default());
    let ends = relay.stream();
    let mut listener = relay.listener();
    relay.handle.leave();
    assert_eq!(hear(&mut listener), Ok(StreamReply::Leaving));
    exchange(ends, 1_000_000);
    let (mut caller, mut other) = (relay.open(), relay.open());
    relay.connect(&mut caller);
    let leaving = StreamReply::Refused(StreamRefusal::Leaving);
    assert_eq!(hear(&mut caller), Ok(leaving));
    say(&mut other, &StreamRequest::Ping.to_bytes());
    assert!(hear(&mut other).is_err());
    relay.handle.stop();
    assert!(hear(&mut listener).is_err());
}

/// While it runs, by the file that `manyway relay --revoke` changes: a stream ends as one that is
/// cut off, a caller that waits is told, and so is one that comes later.
#[test]
fn a_revoked_account_loses_its_streams() {
    let limits = StreamLimits {
        call: Duration::from_secs(60),
        ..StreamLimits::default()
    };
    let relay = start(Setup {
        limits,
        ..Setup::default()
    });
    let mut kept = relay.listener();
    let mut calling = relay.open();
    relay.connect(&mut calling);
    assert!(matches!(hear(&mut kept), Ok(StreamReply::Call(_))));
    // This one takes the name, and the call stays.
    let (caller, mut answered) = relay.stream();
    relay
        .invites
        .change(Duration::ZERO, |list| {
            list.revoke(relay.account(), || Invite {
                account: relay.account(),
                name: None,
                class: RateClass::MAX,
                created: 0,
                expires: u32::MAX,
                revoked: true,
            })
        })
        .unwrap();
    let error = answered.read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    let refused = Ok(StreamReply::Refused(StreamRefusal::Revoked));
    assert_eq!(hear(&mut calling), refused);
    let mut later = relay.open();
    relay.connect(&mut later);
    assert_eq!(hear(&mut later), refused);
    relay.eventually("counted", |it| {
        it.ended_by(Ending::Revoked) == 1 && it.refused_for(StreamRefusal::Revoked) == 2
    });
    relay.eventually("gone", |it| it.streams == 0);
    drop(caller);
}

#[test]
fn metrics_tell_of_streams() {
    let relay = start(Setup::default());
    exchange(relay.stream(), 1000);
    relay.eventually("done", |it| it.ended_by(Ending::Done) == 1);
    let text = relay.handle.to_prometheus();
    let account = relay.account();
    let own = |name: &str, count: u64| {
        format!("manyway_relay_account_{name}_total{{account=\"{account}\",name=\"\"}} {count}")
    };
    for line in [
        "manyway_relay_tcp_forwarded_bytes_total 2008",
        "manyway_relay_tcp_spliced_total 1",
        "manyway_relay_received_packets_total 0",
        &own("calls", 1),
        &own("stream_bytes", 2008),
        &own("bytes", 0),
    ] {
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}

/// Beside a connection without a relay, in the same minute: two hops cost about half, and a
/// twentieth would be a mistake. The best of five, since others use the machine.
#[test]
fn two_hops_are_not_much_slower_than_one() {
    const LEN: usize = 32 << 20;
    fn time((mut from, mut to): (TcpStream, TcpStream)) -> f64 {
        let began = Instant::now();
        thread::scope(|scope| {
            scope.spawn(move || {
                let chunk = vec![7; 1 << 18];
                for _ in 0..LEN / chunk.len() {
                    from.write_all(&chunk).unwrap();
                }
            });
            let mut chunk = vec![0; 1 << 18];
            for _ in 0..LEN / chunk.len() {
                to.read_exact(&mut chunk).unwrap();
            }
        });
        began.elapsed().as_secs_f64()
    }
    let relay = start(Setup::default());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ratios = (0..5).map(|_| {
        let from = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let direct = time((from, listener.accept().unwrap().0));
        time(relay.stream()) / direct
    });
    let ratio = ratios.fold(f64::INFINITY, f64::min);
    assert!(ratio < 20.0, "{ratio}");
}

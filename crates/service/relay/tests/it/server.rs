//! A relay on real sockets, on loopback.

use std::fs::OpenOptions;
use std::io::{IoSliceMut, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use manyway_relay::keys::{public_key, sign};
use manyway_relay::server::{
    Handle, Server, ServerConfig, ServerError, StreamConfig, open_keys, serve_metrics,
};
use manyway_relay::{Config, Keys, StreamLimits};
use manyway_wire::relay::{
    Access, Consent, Hello, Mint, Minted, Nonce, Peer, Proof, RateClass, RelayId, RelayReply,
};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

struct Running {
    id: RelayId,
    addresses: Vec<SocketAddr>,
    handle: Handle,
    access: Access,
    thread: JoinHandle<Result<(), ServerError>>,
    _keys: tempfile::TempDir,
}

fn config(listen: &[&str], keys: &Path) -> ServerConfig {
    ServerConfig {
        listen: listen.iter().map(|text| text.parse().unwrap()).collect(),
        key_file: keys.join("relay.key"),
        rotate: Duration::from_secs(86_400),
        relay: Config {
            allow_private: true,
            ..Config::default()
        },
        streams: None,
    }
}

fn start(listen: &[&str]) -> Running {
    let keys = tempfile::tempdir().unwrap();
    let config = config(listen, keys.path());
    let server = Server::bind(config.clone()).unwrap();
    let seed = [5; 32];
    let voucher = open_keys(&config.key_file).unwrap().vouch(
        [1; 8],
        RateClass::MAX,
        u32::MAX,
        public_key(&seed),
    );
    Running {
        id: server.id(),
        addresses: server.addresses(),
        handle: server.handle(),
        access: Access { voucher, seed },
        thread: thread::spawn(move || server.run()),
        _keys: keys,
    }
}

impl Running {
    fn stop(self) {
        self.handle.stop();
        self.thread.join().unwrap().unwrap();
    }

    fn ask(&self, socket: &UdpSocket, datagram: &[u8]) -> RelayReply {
        let local = socket.local_addr().unwrap();
        let relay = self
            .addresses
            .iter()
            .find(|address| address.is_ipv4() == local.is_ipv4());
        socket.send_to(datagram, relay.unwrap()).unwrap();
        let mut buffer = [0; 2000];
        let (len, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!(Some(&from), relay);
        RelayReply::decode(&buffer[..len]).unwrap()
    }

    fn hello(&self, socket: &UdpSocket) -> (Consent, Proof) {
        let hello = Hello {
            nonce: Nonce([1; 8]),
            relay: self.id,
        };
        match self.ask(socket, &hello.to_bytes()) {
            RelayReply::Consent(reply) => (reply.consent, reply.proof),
            other => panic!("{other:?}"),
        }
    }

    fn grants(&self, from: &UdpSocket, to: &UdpSocket) -> Minted {
        let (consent, _) = self.hello(to);
        assert_eq!(consent.address, to.local_addr().unwrap());
        let (_, proof) = self.hello(from);
        let mint = Mint {
            nonce: Nonce([2; 8]),
            proof,
            peer: Peer::Consent(consent),
            voucher: self.access.voucher,
        };
        match self.ask(from, &mint.seal(|bytes| sign(&self.access.seed, bytes))) {
            RelayReply::Minted(minted) => minted,
            other => panic!("{other:?}"),
        }
    }
}

fn client(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    socket
}

#[test]
fn packets_go_there_and_back_between_families() {
    let relay = start(&["127.0.0.1:0", "[::1]:0"]);
    for (from, to) in [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("127.0.0.1:0", "[::1]:0"),
        ("[::1]:0", "127.0.0.1:0"),
        ("[::1]:0", "[::1]:0"),
    ] {
        let (a, b) = (client(from), client(to));
        let minted = relay.grants(&a, &b);
        for (sender, receiver, grant) in [(&a, &b, minted.there), (&b, &a, minted.back)] {
            let relay_for = |socket: &UdpSocket| {
                let v4 = socket.local_addr().unwrap().is_ipv4();
                *relay.addresses.iter().find(|a| a.is_ipv4() == v4).unwrap()
            };
            let packet = [grant.as_bytes(), b"\x10 what is inside"].concat();
            sender.send_to(&packet, relay_for(sender)).unwrap();
            let mut buffer = [0; 100];
            let (len, from) = receiver.recv_from(&mut buffer).unwrap();
            assert_eq!(&buffer[..len], b"\x10 what is inside");
            assert_eq!(
                from,
                relay_for(receiver),
                "from where the receiver said HELLO"
            );
        }
    }
    relay.stop();
}

/// In batches, with ECN marks, in order, nothing lost where nothing is full.
#[test]
fn a_batch_comes_out_as_it_went_in() {
    let relay = start(&["127.0.0.1:0"]);
    let (a, b) = (client("127.0.0.1:0"), client("127.0.0.1:0"));
    let grant = relay.grants(&a, &b).there;
    let (sends, receives) = (
        UdpSocketState::new((&a).into()).unwrap(),
        UdpSocketState::new((&b).into()).unwrap(),
    );
    manyway_os::udp::without_timestamps(&b);
    b.set_nonblocking(false).unwrap();
    let count = 40;
    let contents: Vec<u8> = (0..count)
        .flat_map(|i| [grant.as_bytes(), &[0x40 | i as u8; 1000]].concat())
        .collect();
    let segment = grant.as_bytes().len() + 1000;
    let one_by_one = sends.max_gso_segments() < count;
    for batch in contents.chunks(if one_by_one { segment } else { contents.len() }) {
        let transmit = Transmit {
            destination: relay.addresses[0],
            ecn: Some(EcnCodepoint::Ect0),
            contents: batch,
            segment_size: (batch.len() > segment).then_some(segment),
            src_ip: None,
        };
        sends.try_send((&a).into(), &transmit).unwrap();
    }
    let mut got = Vec::new();
    let mut buffer = vec![0; 65_536];
    while got.len() < count * 1000 {
        let mut meta = [RecvMeta::default()];
        let mut slices = [IoSliceMut::new(&mut buffer)];
        receives.recv((&b).into(), &mut slices, &mut meta).unwrap();
        assert_eq!(meta[0].ecn, Some(EcnCodepoint::Ect0));
        assert_eq!(meta[0].stride, 1000);
        got.extend_from_slice(&buffer[..meta[0].len]);
    }
    for (i, datagram) in got.chunks(1000).enumerate() {
        assert!(
            datagram.iter().all(|byte| *byte == 0x40 | i as u8),
            "datagram {i}"
        );
    }
    relay.stop();
}

/// Otherwise a stranger could have its traffic preferred in the relay's network.
#[test]
fn the_congestion_mark_is_copied_and_the_class_of_service_cleared() {
    let relay = start(&["127.0.0.1:0"]);
    let (a, b) = (client("127.0.0.1:0"), client("127.0.0.1:0"));
    let grant = relay.grants(&a, &b).there;
    let (expedited, ect1) = (0xb8, 0x01);
    SockRef::from(&a).set_tos_v4(expedited | ect1).unwrap();
    SockRef::from(&b).set_recv_tos_v4(true).unwrap();
    let packet = [grant.as_bytes(), b"\x10x"].concat();
    a.send_to(&packet, relay.addresses[0]).unwrap();
    let mut buffer = [0; 100];
    let mut slices = [IoSliceMut::new(&mut buffer)];
    let mut control = nix::cmsg_space!(u8, [std::os::fd::RawFd; 2]);
    let received = recvmsg::<SockaddrIn>(
        b.as_raw_fd(),
        &mut slices,
        Some(&mut control),
        MsgFlags::empty(),
    )
    .unwrap();
    let tos = received.cmsgs().unwrap().find_map(|message| match message {
        ControlMessageOwned::Ipv4Tos(tos) => Some(u32::from(tos)),
        _ => None,
    });
    assert_eq!(tos, Some(ect1));
    relay.stop();
}

#[test]
fn grants_survive_a_restart_of_the_program() {
    let relay = start(&["127.0.0.1:0"]);
    let (a, b) = (client("127.0.0.1:0"), client("127.0.0.1:0"));
    let grant = relay.grants(&a, &b).there;
    let address = relay.addresses[0];
    let keys = relay._keys.path().to_owned();
    relay.handle.stop();
    relay.thread.join().unwrap().unwrap();
    let again = Server::bind(config(&[&address.to_string()], &keys)).unwrap();
    assert_eq!(again.id(), relay.id);
    let handle = again.handle();
    let thread = thread::spawn(move || again.run());
    let packet = [grant.as_bytes(), b"\x10x"].concat();
    a.send_to(&packet, address).unwrap();
    let mut buffer = [0; 100];
    let (len, _) = b.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"\x10x");
    handle.stop();
    thread.join().unwrap().unwrap();
}

#[test]
fn a_leaving_relay_tells_senders() {
    let relay = start(&["127.0.0.1:0"]);
    let (a, b) = (client("127.0.0.1:0"), client("127.0.0.1:0"));
    let grant = relay.grants(&a, &b).there;
    relay.handle.leave();
    let packet = [grant.as_bytes(), b"\x10x"].concat();
    a.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut buffer = [0; 100];
    // It takes a moment until it knows.
    let told = (0..400).find_map(|_| {
        a.send_to(&packet, relay.addresses[0]).unwrap();
        a.recv_from(&mut buffer).ok()
    });
    let (len, _) = told.unwrap();
    let Ok(RelayReply::Stale(stale)) = RelayReply::decode(&buffer[..len]) else {
        panic!("no STALE")
    };
    assert!(stale.concerns(&grant));
    relay.stop();
}

#[test]
fn addresses_that_cant_be_had_are_named() {
    let keys = tempfile::tempdir().unwrap();
    let error = |listen: &[&str]| {
        Server::bind(config(listen, keys.path()))
            .unwrap_err()
            .to_string()
    };
    let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let text = error(&[&taken]);
    assert!(
        text.contains(&taken) && text.contains("another program uses the port"),
        "{text}"
    );
    assert!(error(&["192.0.2.1:1"]).contains("this host doesn't have the address"));
    assert!(error(&["127.0.0.1:0", "127.0.0.2:0"]).contains("same family"));
    assert!(error(&[]).contains("needs an address"));
    // Over TCP alone, too, and it doesn't look for another port than the one it was given.
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let streams = StreamConfig {
        listen: Vec::new(),
        limits: StreamLimits::default(),
    };
    let text = Server::bind(ServerConfig {
        streams: Some(streams),
        ..config(&[&taken], keys.path())
    })
    .unwrap_err()
    .to_string();
    assert!(text.contains(&taken) && text.contains("TCP"), "{text}");
}

#[test]
fn keys_are_renewed_once_they_are_as_old_as_was_asked() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    for (age, renewed) in [(86_000, false), (86_500, true)] {
        let dir = tempfile::tempdir().unwrap();
        let config = config(&["127.0.0.1:0"], dir.path());
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let old = Keys::generate(now - Duration::from_secs(age), &mut rng).to_text();
        let mut file = OpenOptions::new();
        let file = file.write(true).create_new(true).mode(0o600);
        let mut file = file.open(&config.key_file).unwrap();
        file.write_all(old.as_bytes()).unwrap();
        let server = Server::bind(config.clone()).unwrap();
        server.handle().stop();
        server.run().unwrap();
        let kept = std::fs::read_to_string(&config.key_file).unwrap() == *old;
        assert_eq!(kept, !renewed, "after {age} s");
    }
}

#[tokio::test]
async fn metrics_are_served() {
    let relay = start(&["127.0.0.1:0"]);
    let socket = client("127.0.0.1:0");
    socket.send_to(b"nonsense", relay.addresses[0]).unwrap();
    relay.hello(&socket);
    let handle = relay.handle.clone();
    let serving = serve_metrics("127.0.0.1:0".parse().unwrap(), move || {
        handle.to_prometheus()
    });
    let (address, serve) = serving.await.unwrap();
    tokio::spawn(serve);
    // The relay counts a packet some time after it has answered it.
    let counted = |text: &str| relay.handle.to_prometheus().contains(text);
    while !counted("\nmanyway_relay_consents_total 1\n") || !counted("{reason=\"malformed\"} 1\n") {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let get = async |path: &str| {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    };
    let text = get("/metrics").await;
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(
        text.contains("\nmanyway_relay_consents_total 1\n"),
        "{text}"
    );
    assert!(text.contains("{reason=\"malformed\"} 1\n"), "{text}");
    assert!(get("/health").await.ends_with("ok\n"));
    assert!(get("/").await.starts_with("HTTP/1.1 404"));
    // Who says nothing holds up others, but holds no more than a place.
    let connect = || tokio::net::TcpStream::connect(address);
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(connect().await.unwrap());
    }
    let waits = tokio::time::timeout(Duration::from_millis(300), get("/health"));
    assert!(waits.await.is_err());
    silent.pop();
    assert!(get("/health").await.ends_with("ok\n"));
    relay.stop();
}

//! What outlives what: endpoints, the runtimes that they are used from, and what they leave behind.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::{Pair, config, endpoint, pair};
use manyway_runtime::{BindError, Carriers, Config, Endpoint, EndpointOptions, Event, TcpOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

const LO: [&str; 1] = ["127.0.0.1"];
const LONG: Duration = Duration::from_secs(30);

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    // What takes one of these for good, takes them all.
    builder.worker_threads(1).max_blocking_threads(1);
    builder.enable_all().build().unwrap()
}

/// Runs it in a thread; it must end.
fn ends<R: Send + 'static>(what: &str, run: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(run()));
    told.recv_timeout(LONG).expect(what)
}

#[test]
fn a_runtime_ends_before_the_handles_of_an_endpoint_that_logs() {
    let dir = tempfile::tempdir().unwrap();
    let options = EndpointOptions {
        config: config(),
        paths: vec![LO[0].parse().unwrap()],
        qlog: Some(dir.path().to_owned()),
        ..EndpointOptions::default()
    };
    let handles = ends("no thread of the runtime's is taken for good", || {
        let runtime = runtime();
        let handles = runtime.block_on(async {
            let listener = endpoint(&LO, config()).await;
            let ticket = listener.listen().unwrap();
            let connector = Endpoint::bind(options).await.unwrap();
            let connected = connector.connect(&ticket).await.unwrap();
            let mut send = connected.open_uni().await.unwrap();
            send.write_all(b"x").await.unwrap();
            send.shutdown().await.unwrap();
            (listener, connector, connected)
        });
        drop(runtime);
        handles
    });
    // Whoever holds handles may well close it and read the log.
    let (_listener, connector, _connected) = handles;
    ends("closed", || runtime().block_on(connector.close()));
    let file = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap();
    let log = fs::read_to_string(file.path()).unwrap();
    let sent = log.lines().filter(|line| line.contains("packet_sent"));
    assert!(sent.count() > 1 && log.ends_with("}\n"), "{log}");
}

/// Whoever still holds something of the endpoint's.
#[tokio::test]
async fn a_closed_endpoint_listens_no_more() {
    let Pair {
        listener,
        accepted: _accepted,
        connected: _connected,
        ..
    } = pair(&LO, &LO).await;
    listener.listen_tcp().unwrap();
    let held = listener.clone();
    let (_, addr) = held.locals().remove(0);
    TcpStream::connect(addr).unwrap();
    listener.close().await;
    let refused = TcpStream::connect(addr).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
    assert!(matches!(held.listen_tcp(), Err(BindError::Closed)));
    assert!(matches!(held.listen(), Err(BindError::Closed)));
}

/// Nor do they need it to run: a program may poll its runtime now and then.
#[test]
fn tcp_and_the_watch_over_interfaces_outlive_the_runtime_they_began_in() {
    let short = Config {
        idle_timeout: Duration::from_secs(3),
        ..config()
    };
    let options = EndpointOptions {
        config: short.clone(),
        paths: vec!["127.0.0.2".parse().unwrap()],
        tcp: TcpOptions {
            carriers: Carriers::Tcp,
            ..TcpOptions::default()
        },
        ..EndpointOptions::default()
    };
    let first = runtime();
    let listener = first.block_on(endpoint(&LO, short));
    // Without a runtime around.
    listener.listen_tcp().unwrap();
    let ticket = listener.listen().unwrap();
    let (connector, connected, accepted) = first.block_on(async {
        let connector = Endpoint::bind(options).await.unwrap();
        let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
        (connector, connected.unwrap(), accepted.unwrap())
    });
    drop(first);
    thread::sleep(Duration::from_secs(5));
    runtime().block_on(async {
        let echo = async {
            let mut send = connected.open_uni().await.unwrap();
            send.write_all(b"still there").await.unwrap();
            send.finish().unwrap();
            let mut text = String::new();
            let mut receive = accepted.accept_uni().await.unwrap();
            receive.read_to_string(&mut text).await.unwrap();
            text
        };
        assert_eq!(timeout(LONG, echo).await.unwrap(), "still there");
        let second = timeout(LONG, connector.connect(&ticket)).await.unwrap();
        second.expect("the listener still accepts");
        let mut events = listener.events();
        listener.remove_path(&LO[0].parse().unwrap());
        let event = timeout(LONG, events.recv()).await.unwrap();
        assert!(
            matches!(event, Some(Event::LocalRemoved { .. })),
            "{event:?}"
        );
        let both = async { tokio::join!(listener.close(), connector.close()) };
        timeout(LONG, both).await.unwrap();
    });
}

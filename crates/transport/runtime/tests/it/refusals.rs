//! Tickets, addresses and datagrams that lead nowhere: each a clear error, none an end.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::common::{Data, Pair, config, endpoint, pair, read_all, write_all};
use manyway_runtime::{
    BindError, Config, ConnectError, Endpoint, EndpointOptions, PathSelector, ProblemKind,
};
use manyway_units::Rate;
use tokio::time::timeout;

const LO: [&str; 1] = ["127.0.0.1"];

fn impatient() -> Config {
    Config {
        connect_timeout: Duration::from_millis(700),
        ..config()
    }
}

#[tokio::test]
async fn a_ticket_of_before_is_answered_by_nobody() {
    let listener = endpoint(&LO, config()).await;
    let old = listener.listen().unwrap();
    let address = old.addresses[0];
    listener.close().await;
    let again = Endpoint::bind(EndpointOptions {
        config: config(),
        paths: vec!["127.0.0.1".parse().unwrap()],
        port: address.port(),
        ..EndpointOptions::default()
    });
    let again = again.await.unwrap();
    let new = again.listen().unwrap();
    assert_eq!(new.addresses, [address]);
    let connector = endpoint(&LO, impatient()).await;
    let error = connector.connect(&old).await.unwrap_err();
    assert!(matches!(&error, ConnectError::TimedOut(seen) if seen.addresses == [address]));
    let text = error.to_string();
    assert!(text.contains(&address.to_string()), "{text}");
    // The same with a secret that isn't its own.
    let mut forged = new.clone();
    forged.secret[0] ^= 1;
    assert!(matches!(
        connector.connect(&forged).await,
        Err(ConnectError::TimedOut(_))
    ));
    // And the right one still works.
    let connector = endpoint(&LO, config()).await;
    let (connected, accepted) = tokio::join!(connector.connect(&new), again.accept());
    connected.unwrap();
    accepted.unwrap();
}

#[tokio::test]
async fn without_a_listener_the_error_names_the_addresses_and_the_refusal() {
    let free: Vec<SocketAddr> = ["127.0.0.1:0", "127.0.0.2:0"]
        .iter()
        .map(|a| UdpSocket::bind(a).unwrap().local_addr().unwrap())
        .collect();
    let listener = endpoint(&LO, config()).await;
    let mut ticket = listener.listen().unwrap();
    listener.close().await;
    ticket.addresses.clone_from(&free);
    let connector = endpoint(&LO, impatient()).await;
    match connector.connect(&ticket).await.unwrap_err() {
        ConnectError::TimedOut(seen) => {
            let text = seen.to_string();
            assert!(free.iter().all(|a| text.contains(&a.to_string())), "{text}");
            #[cfg(target_os = "linux")]
            assert!(
                seen.problems.iter().any(|p| p.kind == ProblemKind::Refused),
                "{seen:?}"
            );
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_ticket_that_nothing_here_can_reach_is_refused_at_once() {
    let listener = endpoint(&LO, config()).await;
    let mut ticket = listener.listen().unwrap();
    ticket.addresses = vec!["203.0.113.7:9".parse().unwrap()];
    let error = endpoint(&LO, config())
        .await
        .connect(&ticket)
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Ticket(_)), "{error}");
    assert!(error.to_string().contains("203.0.113.7:9"), "{error}");
}

#[tokio::test]
async fn a_given_up_attempt_leaves_nothing_behind() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listener = endpoint(&LO, config()).await;
    let good = listener.listen().unwrap();
    let mut dead = good.clone();
    dead.addresses = vec![nobody.local_addr().unwrap()];
    let connector = endpoint(&LO, config()).await;
    let attempt = tokio::time::timeout(Duration::from_millis(50), connector.connect(&dead)).await;
    assert!(attempt.is_err());
    let (connected, accepted) = tokio::join!(connector.connect(&good), listener.accept());
    assert!(connected.is_ok() && accepted.is_some());
}

#[tokio::test]
async fn names_and_addresses_that_dont_exist() {
    let bind = |selector: &str| {
        let paths = vec![selector.parse::<PathSelector>().unwrap()];
        Endpoint::bind(EndpointOptions {
            paths,
            ..EndpointOptions::default()
        })
    };
    let error = bind("nosuchif0").await.unwrap_err();
    assert!(
        matches!(&error, BindError::NoInterface { name, .. } if name == "nosuchif0"),
        "{error}"
    );
    assert!(
        error.to_string().contains("lo (127.0.0.1"),
        "it says what there is: {error}"
    );
    // TEST-NET-2 is no address of this host.
    let error = bind("198.51.100.77").await.unwrap_err();
    assert!(
        matches!(&error, BindError::NoAddress { ip, .. } if ip.to_string() == "198.51.100.77"),
        "{error}"
    );
    let endpoint = endpoint(&LO, config()).await;
    assert!(
        endpoint
            .add_path("198.51.100.77".parse().unwrap())
            .await
            .is_err()
    );
    let config = Config {
        max_paths: 0,
        ..config()
    };
    let error = Endpoint::bind(EndpointOptions {
        config,
        ..EndpointOptions::default()
    })
    .await
    .unwrap_err();
    assert!(error.to_string().contains("max_paths"), "{error}");
}

#[tokio::test]
async fn loopback_as_an_interface_and_without_a_choice() {
    let listener = endpoint(&["lo"], config()).await;
    assert!(
        listener
            .locals()
            .iter()
            .all(|(name, addr)| name == "lo" && addr.ip().is_loopback())
    );
    let ticket = listener.listen().unwrap();
    // Bound to whatever there is; a ticket of loopback addresses asks for a loopback socket.
    let connector = Endpoint::bind(EndpointOptions {
        config: config(),
        ..EndpointOptions::default()
    })
    .await
    .unwrap();
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    connected.unwrap();
    accepted.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_changes_nothing() {
    let Pair {
        connected,
        accepted,
        listener,
        connector,
    } = pair(&["127.0.0.1", "127.0.0.2"], &LO).await;
    let targets: Vec<SocketAddr> = listener
        .locals()
        .into_iter()
        .chain(connector.locals())
        .map(|(_, addr)| addr)
        .collect();
    let hostile = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut data = Data::new(99, usize::MAX);
        for n in 0..3000 {
            let mut datagram = data.take([0, 1, 13, 14, 30, 100, 1200, 1500][n % 8]);
            // Every type that there is, and some that there aren't.
            if let Some(first) = datagram.first_mut() {
                *first = [0x01, 0x02, 0x10, *first][n % 4];
            }
            for target in &targets {
                // A full buffer is no concern of this test.
                let _ = socket.send_to(&datagram, target);
            }
        }
    });
    let len = 5_000_000;
    let (mut send, _back) = connected.open_bi().await.unwrap();
    let receiver = tokio::spawn(async move {
        let (_send, mut receive) = accepted.clone().accept_bi().await.unwrap();
        read_all(&mut receive, 3, len).await;
        accepted
    });
    write_all(&mut send, 3, len).await;
    let _accepted = receiver.await.unwrap();
    hostile.join().unwrap();
    assert_eq!(connected.close_reason(), None);
}

#[tokio::test]
async fn numbers_that_cant_work_are_refused() {
    let options = EndpointOptions {
        config: Config {
            connect_timeout: Duration::ZERO,
            ..config()
        },
        ..EndpointOptions::default()
    };
    let error = Endpoint::bind(options).await.unwrap_err().to_string();
    assert!(error.contains("connect_timeout"), "{error}");
    let pair = pair(&LO, &LO).await;
    for bits in [0.0, f64::NAN, -1.0, 7_999.0] {
        let error = pair
            .connected
            .set_limit(Some(Rate::from_bits_per_sec(bits)));
        assert!(error.is_err(), "{bits}");
    }
    // None of them holds.
    let (mut send, _) = pair.connected.open_bi().await.unwrap();
    let written = timeout(Duration::from_secs(20), write_all(&mut send, 1, 1_000_000));
    let reading = async {
        let (_, mut receive) = pair.accepted.accept_bi().await.unwrap();
        read_all(&mut receive, 1, 1_000_000).await;
    };
    let (written, ()) = tokio::join!(written, reading);
    written.unwrap();
    for limit in [Some(Rate::from_mbps(1.0)), None] {
        assert!(pair.connected.set_limit(limit).is_ok());
    }
}

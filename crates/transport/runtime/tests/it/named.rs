//! A listener that names addresses which aren't its own, by hand on a real socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use manyway_runtime::{Carriers, Config, Endpoint, EndpointOptions, TcpOptions, Ticket};
use manyway_session::{Event, Incoming, Local, LocalId, Secrets};
use manyway_units::Time;
use tokio::net::{TcpListener, UdpSocket};
use tokio::time::{Instant, sleep, timeout};

use crate::common::config;

fn local(id: u32, addr: SocketAddr) -> Local {
    Local {
        id: LocalId(id),
        name: format!("if{id}"),
        addr,
        mtu: None,
    }
}

/// Listens, and tells whoever connects of these addresses. It sends much, so that it may name much.
async fn name(named: Vec<SocketAddr>) -> Ticket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let addr = socket.local_addr().unwrap();
    let secrets = Secrets::from_bytes(&[7; Secrets::BYTES]).unwrap();
    let ticket = secrets.ticket(vec![addr]);
    let config = Arc::new(Config::default());
    let mut end = manyway_session::Endpoint::new(config, [1; 32]).unwrap();
    end.add_local(Time::ZERO, local(1, addr));
    end.listen(secrets);
    tokio::spawn(async move {
        let (begun, mut buf) = (Instant::now(), Vec::new());
        loop {
            let now = Time::ZERO + begun.elapsed();
            end.handle_timeout(now);
            while let Some((handle, event)) = end.poll_event() {
                if matches!(event, Event::Connected) {
                    for (id, addr) in (2..).zip(&named) {
                        end.add_local(now, local(id, *addr));
                    }
                    end.connection(handle).unwrap().fill(now, 1 << 20);
                }
            }
            while let Some(transmit) = end.poll_transmit(now, 1, &mut buf) {
                if transmit.local == LocalId(1) {
                    socket.send_to(&buf, transmit.remote).await.ok();
                }
            }
            let mut datagram = vec![0; 9000];
            let wait = Duration::from_millis(10);
            if let Ok(Ok((len, remote))) = timeout(wait, socket.recv_from(&mut datagram)).await {
                let incoming = Incoming {
                    local: LocalId(1),
                    remote,
                    ecn: None,
                    data: &mut datagram[..len],
                };
                end.handle_datagram(Time::ZERO + begun.elapsed(), incoming);
            }
        }
    });
    ticket
}

/// It has its clients dial sixteen of them at once, and then one a second.
#[tokio::test]
async fn named_addresses_are_dialled_at_a_pace() {
    let dialled = Arc::new(AtomicUsize::new(0));
    let mut named = Vec::new();
    for _ in 0..32 {
        let bystander = TcpListener::bind("127.0.0.2:0").await.unwrap();
        named.push(bystander.local_addr().unwrap());
        let dialled = dialled.clone();
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Ok(stream) = bystander.accept().await {
                dialled.fetch_add(1, Relaxed);
                kept.push(stream);
            }
        });
    }
    let ticket = name(named).await;
    let client = Endpoint::bind(EndpointOptions {
        config: config(),
        paths: vec!["127.0.0.1".parse().unwrap()],
        tcp: TcpOptions {
            carriers: Carriers::Auto,
            congestion: None,
        },
        ..EndpointOptions::default()
    });
    let client = client.await.unwrap();
    let _connection = client.connect(&ticket).await.unwrap();
    let begun = Instant::now();
    while dialled.load(Relaxed) < 16 {
        assert!(begun.elapsed().as_secs() < 60, "{dialled:?}");
        sleep(Duration::from_millis(20)).await;
    }
    sleep(Duration::from_secs(1)).await;
    let most = 17 + begun.elapsed().as_secs() as usize;
    let dialled = dialled.load(Relaxed);
    assert!(dialled <= most, "{dialled} of {most}");
}

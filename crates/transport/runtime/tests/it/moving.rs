//! A NAT on real sockets that binds anew in mid-transfer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::Notify;

use crate::common::{config, endpoint, read_all, write_all};

/// Forwards between whoever sends to it first and `outside`, from another port after each
/// notification.
async fn nat(inside: UdpSocket, outside: SocketAddr, rebind: Arc<Notify>) {
    let mut upstream = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut host = None;
    let (mut out, mut back) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            Ok((len, from)) = inside.recv_from(&mut out) => {
                host = Some(from);
                let _ = upstream.send_to(&out[..len], outside).await;
            }
            Ok((len, _)) = upstream.recv_from(&mut back) => {
                if let Some(host) = host {
                    let _ = inside.send_to(&back[..len], host).await;
                }
            }
            () = rebind.notified() => {
                upstream = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nat_that_binds_anew_keeps_the_connection() {
    let listener = endpoint(&["127.0.0.1"], config()).await;
    let connector = endpoint(&["127.0.0.1"], config()).await;
    let mut ticket = listener.listen().unwrap();
    let inside = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let outside = std::mem::replace(&mut ticket.addresses, vec![inside.local_addr().unwrap()])[0];
    let rebind = Arc::new(Notify::new());
    let nat = tokio::spawn(nat(inside, outside, rebind.clone()));
    let (connected, accepted) = tokio::join!(connector.connect(&ticket), listener.accept());
    let (connected, accepted) = (connected.unwrap(), accepted.unwrap());

    let len = 3_000_000;
    let remote = || accepted.stats().paths[0].remote;
    let mut ports = vec![remote().port()];
    for round in 0..3 {
        let there = tokio::spawn({
            let connected = connected.clone();
            async move {
                let (mut send, mut receive) = connected.open_bi().await.unwrap();
                tokio::join!(write_all(&mut send, 1, len), read_all(&mut receive, 2, len));
            }
        });
        let (mut send, mut receive) = accepted.accept_bi().await.unwrap();
        let moved = async {
            rebind.notify_one();
            while ports.contains(&remote().port()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let both =
            async { tokio::join!(write_all(&mut send, 2, len), read_all(&mut receive, 1, len)) };
        tokio::join!(both, moved);
        there.await.unwrap();
        ports.push(remote().port());
        assert_eq!(ports.len(), round + 2);
    }
    for connection in [&connected, &accepted] {
        assert_eq!(connection.stats().paths.len(), 1, "the path is the same");
    }
    nat.abort();
}

//! Callers and listeners through a relay over TCP: a real one, and such as don't do what they
//! should.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use manyway_relay::keys::public_key;
use manyway_runtime::tcp_relay::{
    ListenStatus, TcpRelayListener, TcpRelayProblem, connect_through,
};
use manyway_session::{Access, ListenKey, RelayAccess, RelayAddress, listener_name};
use manyway_wire::relay::{RateClass, StreamRefusal, StreamReply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::relay::start;

const KEY: ListenKey = ListenKey([4; 16]);

async fn listening(relay: RelayAddress) -> TcpRelayListener {
    let listener = TcpRelayListener::start(relay.id, vec![relay.address], KEY, TcpStream::connect);
    let mut status = listener.status();
    let listens = |status: &ListenStatus| matches!(status, ListenStatus::Listening);
    status.wait_for(listens).await.unwrap();
    listener
}

async fn call(access: &RelayAccess) -> Result<TcpStream, TcpRelayProblem> {
    let stream = TcpStream::connect(access.relay.address).await?;
    let called = connect_through(stream, access, listener_name(&KEY)).await;
    called.map_err(|error| error.problem)
}

#[tokio::test]
async fn callers_reach_the_listener_each_by_a_stream_of_its_own() {
    let keys = tempfile::tempdir().unwrap();
    let relay = start(keys.path(), "127.0.0.1:0");
    let mut listener = listening(relay.access.relay).await;
    for n in 0..3u8 {
        let mut caller = call(&relay.access).await.unwrap();
        let mut answered = listener.accept().await;
        caller.write_all(&[n; 100]).await.unwrap();
        caller.shutdown().await.unwrap();
        answered.write_all(&[n + 1; 50]).await.unwrap();
        drop(answered.shutdown().await);
        let (mut there, mut back) = (Vec::new(), Vec::new());
        answered.read_to_end(&mut there).await.unwrap();
        caller.read_to_end(&mut back).await.unwrap();
        assert_eq!((there, back), (vec![n; 100], vec![n + 1; 50]));
    }
    relay.stop().await;
}

#[tokio::test]
async fn refusals_reach_the_caller_in_words() {
    let keys = tempfile::tempdir().unwrap();
    let relay = start(keys.path(), "127.0.0.1:0");
    let nobody = call(&relay.access).await.unwrap_err();
    let text = nobody.to_string();
    assert!(text.contains("isn't at the relay"), "{text}");
    let mut stolen = relay.access.clone();
    stolen.access.seed = [6; 32];
    let _listener = listening(relay.access.relay).await;
    let refused = call(&stolen).await.unwrap_err();
    assert!(
        matches!(refused, TcpRelayProblem::Refused(StreamRefusal::Voucher)),
        "{refused}"
    );
    let mut other = relay.access.clone();
    other.relay.id.0[0] ^= 1;
    let closed = call(&other).await.unwrap_err();
    assert!(matches!(closed, TcpRelayProblem::Closed), "{closed}");
    relay.stop().await;
}

/// A listener comes back by itself when its relay does.
#[tokio::test]
async fn a_listener_outlives_its_relay() {
    let keys = tempfile::tempdir().unwrap();
    let relay = start(keys.path(), "127.0.0.1:0");
    let address = relay.access.relay.address;
    let mut listener = listening(relay.access.relay).await;
    relay.stop().await;
    let mut status = listener.status();
    let failed = |status: &ListenStatus| matches!(status, ListenStatus::Failed(_));
    status.wait_for(failed).await.unwrap();
    let again = start(keys.path(), &address.to_string());
    let listens = |status: &ListenStatus| matches!(status, ListenStatus::Listening);
    status.wait_for(listens).await.unwrap();
    let mut caller = call(&again.access).await.unwrap();
    caller.write_all(b"x").await.unwrap();
    assert_eq!(listener.accept().await.read_u8().await.unwrap(), b'x');
    again.stop().await;
}

/// Where somebody accepts and does `what`, nobody else listens.
async fn pretend<F>(what: impl FnOnce(TcpStream) -> F + Send + 'static) -> RelayAccess
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        what(stream).await;
    });
    elsewhere(address)
}

fn elsewhere(address: SocketAddr) -> RelayAccess {
    let keys = manyway_relay::Keys::generate(Duration::ZERO, &mut fixed());
    let seed = [5; 32];
    let voucher = keys.vouch([1; 8], RateClass::MAX, u32::MAX, public_key(&seed));
    let relay = RelayAddress {
        address,
        id: keys.id(),
    };
    let access = Access { voucher, seed };
    RelayAccess { relay, access }
}

fn fixed() -> impl rand::CryptoRng {
    use rand::SeedableRng;
    rand::rngs::ChaCha20Rng::seed_from_u64(1)
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_accepts_and_says_nothing_is_given_up() {
    let access = pretend(|stream| async move {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        drop(stream);
    })
    .await;
    let silent = call(&access).await.unwrap_err();
    let text = silent.to_string();
    assert!(
        text.contains("has sent nothing for 15 s: use another relay"),
        "{text}"
    );
}

#[tokio::test]
async fn what_is_no_relay_is_told_from_one() {
    let web = pretend(|mut stream| async move {
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .ok();
        tokio::time::sleep(Duration::from_secs(5)).await;
    })
    .await;
    let garbled = call(&web).await.unwrap_err();
    assert!(matches!(garbled, TcpRelayProblem::Garbled(_)), "{garbled}");
    // One that says OK before it was asked.
    let hasty = pretend(|mut stream| async move {
        stream.write_all(&StreamReply::Ok.to_bytes()).await.ok();
        tokio::time::sleep(Duration::from_secs(5)).await;
    })
    .await;
    let garbled = call(&hasty).await.unwrap_err();
    assert!(matches!(garbled, TcpRelayProblem::Garbled(_)), "{garbled}");
    // A relay without --tcp.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let refused = call(&elsewhere(address)).await.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("is it running with --tcp"), "{text}");
}

/// It calls for callers that don't exist: so many connections and no more.
#[tokio::test(start_paused = true)]
async fn a_relay_that_calls_without_end_gains_little() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counted = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&StreamReply::Ok.to_bytes()).await.unwrap();
        let call = StreamReply::Call(manyway_wire::relay::CallToken([1; 16])).to_bytes();
        stream.write_all(&call.repeat(1000)).await.unwrap();
        let mut held = Vec::new();
        // Until nothing comes any more; those that wait for an OK end before that.
        while let Ok(Ok((stream, _))) =
            tokio::time::timeout(Duration::from_secs(5), listener.accept()).await
        {
            held.push(stream);
        }
        held.len()
    });
    let relay = elsewhere(address).relay;
    let _listening =
        TcpRelayListener::start(relay.id, vec![relay.address], KEY, TcpStream::connect);
    let calls = counted.await.unwrap();
    assert!((1..=16).contains(&calls), "{calls}");
}

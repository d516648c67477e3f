//! Checks that a relay is at the addresses it claims, over UDP and, if it takes TCP, over TCP, too.
//! A relay answers only a HELLO that names its key.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use manyway_wire::relay::{
    CONSENT_LEN, Hello, Nonce, RelayId, RelayReply, StreamReply, StreamRequest, StreamType,
    canonical,
};
use rand::TryRng;
use rand::rngs::SysRng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::Problem;

/// How long to wait for the answer to each of the HELLOs to an address. At most 192 bytes go to
/// each address of an enrolment, if the budget of its host has room for all of them.
const TRIES: [Duration; 3] = [
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1200),
];

/// How long a relay may take to answer over TCP, and how long its turn may be in coming.
const OVER_TCP: Duration = Duration::from_millis(2400);

type Pending = Arc<Mutex<HashMap<Nonce, (SocketAddr, oneshot::Sender<()>)>>>;

pub(super) struct Prober {
    v4: UdpSocketTask,
    v6: Option<UdpSocketTask>,
    pending: Pending,
    /// Bounds the probes over TCP that run at a time.
    over_tcp: Semaphore,
}

struct UdpSocketTask {
    socket: Arc<UdpSocket>,
    task: AbortHandle,
}

impl Drop for UdpSocketTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Prober {
    /// At most `over_tcp` probes over TCP run at a time, since each takes a file.
    pub(super) async fn start(over_tcp: usize) -> io::Result<Self> {
        let pending = Pending::default();
        Ok(Self {
            v4: receive((Ipv4Addr::UNSPECIFIED, 0).into(), &pending).await?,
            v6: receive((Ipv6Addr::UNSPECIFIED, 0).into(), &pending)
                .await
                .ok(),
            pending,
            over_tcp: Semaphore::new(over_tcp),
        })
    }

    /// Whether `relay` answers at `address`. Repeats the HELLO only if `may_repeat` says so, which
    /// counts it.
    pub(super) async fn probe(
        &self,
        relay: RelayId,
        address: SocketAddr,
        may_repeat: impl Fn() -> bool,
    ) -> bool {
        let socket = match address.is_ipv4() {
            true => &self.v4.socket,
            false => match &self.v6 {
                Some(v6) => &v6.socket,
                None => return false,
            },
        };
        let mut nonce = Nonce([0; 8]);
        if SysRng.try_fill_bytes(&mut nonce.0).is_err() {
            return false;
        }
        let (answer, mut answered) = oneshot::channel();
        lock(&self.pending).insert(nonce, (address, answer));
        let _forget = Forget(&self.pending, nonce);
        let hello = Hello { nonce, relay }.to_bytes();
        for (n, wait) in TRIES.into_iter().enumerate() {
            if n == 0 || may_repeat() {
                socket.send_to(&hello, address).await.ok();
            }
            if let Ok(answer) = timeout(wait, &mut answered).await {
                return answer.is_ok();
            }
        }
        false
    }

    /// Whether `relay` answers at `address` over TCP. Call it only after the relay has answered
    /// over UDP, so that the registry connects to no other hosts.
    ///
    /// # Errors
    /// Too many others are asked now.
    pub(super) async fn probe_over_tcp(
        &self,
        relay: RelayId,
        address: SocketAddr,
    ) -> Result<bool, Problem> {
        let turn = timeout(OVER_TCP, self.over_tcp.acquire()).await;
        let _permit = turn.map_err(|_| Problem::Rate)?;
        let asked = async {
            let mut stream = TcpStream::connect(address).await?;
            stream
                .write_all(&StreamRequest::Hello(relay).to_bytes())
                .await?;
            let mut reply = [0; StreamType::Welcome.len()];
            stream.read_exact(&mut reply).await?;
            io::Result::Ok(reply)
        };
        Ok(match timeout(OVER_TCP, asked).await {
            Ok(Ok(reply)) => matches!(StreamReply::decode(&reply), Ok(StreamReply::Welcome(_))),
            _ => false,
        })
    }
}

/// Also if the request is dropped.
struct Forget<'a>(&'a Pending, Nonce);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        lock(self.0).remove(&self.1);
    }
}

async fn receive(bind: SocketAddr, pending: &Pending) -> io::Result<UdpSocketTask> {
    let socket = Arc::new(UdpSocket::bind(bind).await?);
    let (receiver, pending) = (Arc::clone(&socket), Arc::clone(pending));
    let task = tokio::spawn(async move {
        let mut buffer = [0; CONSENT_LEN + 1];
        loop {
            let Ok((len, from)) = receiver.recv_from(&mut buffer).await else {
                tokio::task::yield_now().await;
                continue;
            };
            let Ok(RelayReply::Consent(reply)) = RelayReply::decode(&buffer[..len]) else {
                continue;
            };
            let mut pending = lock(&pending);
            let right = pending
                .get(&reply.nonce)
                .is_some_and(|(address, _)| *address == canonical(from));
            if right && let Some((_, answer)) = pending.remove(&reply.nonce) {
                answer.send(()).ok();
            }
        }
    });
    let task = task.abort_handle();
    Ok(UdpSocketTask { socket, task })
}

fn lock(
    pending: &Pending,
) -> std::sync::MutexGuard<'_, HashMap<Nonce, (SocketAddr, oneshot::Sender<()>)>> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_turn_over_tcp_that_does_not_come_is_refused() {
        let prober = Prober::start(0).await.unwrap();
        let relay = RelayId([1; RelayId::LEN]);
        let asked = prober.probe_over_tcp(relay, (Ipv4Addr::LOCALHOST, 1).into());
        let asked = timeout(2 * OVER_TCP, asked).await.expect("an end");
        assert!(matches!(asked, Err(Problem::Rate)), "{asked:?}");
    }
}

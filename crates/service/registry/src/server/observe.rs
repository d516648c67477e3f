//! Answers a HELLO on UDP with the address it came from, as the sender's NAT has mapped it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use manyway_os::UnixClock;
use manyway_os::udp::udp_socket;
use manyway_wire::relay::{
    Consent, ConsentReply, HELLO_LEN, Hello, Mac, Proof, RelayId, canonical,
};
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

use crate::Core;

/// Answers HELLOs that name the registry's key. The codes are zero: a registry forwards nothing, so
/// nobody could use them.
pub(super) fn serve(
    address: SocketAddr,
    id: RelayId,
    core: Arc<Mutex<Core>>,
    clock: UnixClock,
) -> io::Result<AbortHandle> {
    let socket = UdpSocket::from_std(udp_socket(address, None)?.into())?;
    let task = tokio::spawn(async move {
        let mut buffer = [0; HELLO_LEN + 1];
        loop {
            // Errors concern earlier datagrams, to hosts that are gone.
            let Ok((len, from)) = socket.recv_from(&mut buffer).await else {
                tokio::task::yield_now().await;
                continue;
            };
            let now = clock.now();
            let admit = || {
                core.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .observe(now, from)
            };
            if let Some(reply) = answer(&buffer[..len], from, id, now.as_secs() as u32)
                && admit()
            {
                socket.try_send_to(&reply.to_bytes(), from).ok();
            }
        }
    });
    Ok(task.abort_handle())
}

fn answer(datagram: &[u8], from: SocketAddr, id: RelayId, now: u32) -> Option<ConsentReply> {
    let hello = Hello::decode(datagram)
        .ok()
        .filter(|hello| hello.relay == id)?;
    let mac = Mac([0; 8]);
    Some(ConsentReply {
        nonce: hello.nonce,
        consent: Consent {
            key: 0,
            issued: now,
            address: canonical(from),
            mac,
        },
        proof: Proof {
            key: 0,
            issued: now,
            mac,
        },
    })
}

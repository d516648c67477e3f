//! A bare loop: what the kernel alone costs per packet. It seals nothing and decides nothing.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use quinn_udp::{RecvMeta, UdpSocketState};

use crate::end::{Way, done, ready};

/// Bytes of a datagram, as everybody else's.
pub(crate) const PACKET: usize = 1452;
/// Of a session's acknowledgement, about.
const ACK: [u8; 80] = [0; 80];
/// The last datagram of each way, of which some may be lost.
const END: &[u8] = b"end";
const ENDS: usize = 3;
const ENDS_APART: Duration = Duration::from_millis(50);
const BUFFER: usize = 65_536;
const BUFFERS: usize = 16;

/// Reads sockets in a loop of epoll and recvmmsg, and sends a short datagram back for every
/// `ack_every`-th packet, as a session acknowledges.
pub(crate) fn receive(addresses: &[SocketAddr], ack_every: u32) -> anyhow::Result<()> {
    let ack_every = ack_every.max(1) as usize;
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    let mut sockets = Vec::new();
    for (n, address) in addresses.iter().enumerate() {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new((&socket).into())?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, n as u64);
        epoll.add(socket.as_fd(), event)?;
        sockets.push((socket, state, 0, true));
    }
    ready("");
    let mut storage = vec![0; BUFFERS * BUFFER];
    let mut metas = [RecvMeta::default(); BUFFERS];
    let mut events = [EpollEvent::empty(); 8];
    let mut sent = 0;
    while sockets.iter().any(|(.., open)| *open) {
        let ready = epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..ready] {
            let (socket, state, unacked, open) = &mut sockets[event.data() as usize];
            let mut chunks = storage.chunks_exact_mut(BUFFER);
            let mut slices: [IoSliceMut<'_>; BUFFERS] =
                std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
            let Ok(count) = state.recv((&*socket).into(), &mut slices, &mut metas) else {
                continue;
            };
            for meta in &metas[..count] {
                *open &= meta.len != END.len();
                *unacked += meta.len.div_ceil(meta.stride.max(1));
                if *unacked >= ack_every {
                    *unacked = 0;
                    socket.send_to(&ACK, meta.addr)?;
                    sent += 1;
                }
            }
        }
    }
    done(sent);
    Ok(())
}

/// Sends its part of `bytes` over each way, as fast as the interface takes them.
pub(crate) fn send(bytes: usize, ways: &[Way]) -> anyhow::Result<()> {
    let packets = bytes / ways.len() / PACKET;
    let send = |(from, to): Way| -> io::Result<()> {
        let socket = UdpSocket::bind(from)?;
        for _ in 0..packets {
            socket.send_to(&[0; PACKET], to)?;
        }
        for _ in 0..ENDS {
            thread::sleep(ENDS_APART);
            socket.send_to(END, to)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let sends = ways.iter().map(|way| scope.spawn(|| send(*way)));
        let sends: Vec<_> = sends.collect();
        let mut results = sends.into_iter().map(|send| send.join());
        results.try_for_each(|result| result.unwrap_or_else(|_| Err(io::Error::other("panic"))))
    })?;
    done((packets * ways.len()) as u64);
    Ok(())
}

//! A forwarder that moves datagrams in batches and does nothing else.

use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use manyway_os::udp::{udp_socket, without_timestamps};
use nix::poll::{PollFd, PollFlags, poll};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};

const BUFFER: usize = 65_536;
const BUFFERS: usize = 32;

pub(crate) struct Plain {
    io: socket2::Socket,
    state: UdpSocketState,
}

impl Plain {
    pub(crate) fn bind() -> Self {
        let io = udp_socket(SocketAddr::from(([127, 0, 0, 1], 0)), None).expect("a socket");
        let state = UdpSocketState::new((&io).into()).expect("a socket");
        without_timestamps(&io);
        Self { io, state }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let address = self.io.local_addr().expect("it is bound");
        address.as_socket().expect("an IP address")
    }

    /// Datagrams that were sent on until it was stopped.
    pub(crate) fn run(&self, stop: &AtomicBool) -> u64 {
        let mut storage = vec![0; BUFFERS * BUFFER];
        let mut metas = [RecvMeta::default(); BUFFERS];
        let mut sent = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut fds = [PollFd::new(self.io.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, 100u16).expect("poll");
            for _ in 0..4 {
                let mut chunks = storage.chunks_exact_mut(BUFFER);
                let mut slices: [IoSliceMut<'_>; BUFFERS] =
                    std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
                let Ok(count) = self.state.recv((&self.io).into(), &mut slices, &mut metas) else {
                    break;
                };
                for (meta, slice) in metas.iter().zip(&slices).take(count) {
                    sent += self.pass(meta, &slice[..meta.len]);
                }
                if count < BUFFERS {
                    break;
                }
            }
        }
        sent
    }

    /// Sends on what came in one buffer: datagrams in a row with one destination at once.
    fn pass(&self, meta: &RecvMeta, bytes: &[u8]) -> u64 {
        let mut sent = 0;
        let mut start = 0;
        let mut run: Option<SocketAddr> = None;
        for at in (0..bytes.len()).step_by(meta.stride) {
            let to = destination(&bytes[at..]);
            if run != Some(to) {
                sent += run.map_or(0, |to| self.flush(meta, to, &bytes[start..at]));
                (run, start) = (Some(to), at);
            }
        }
        sent + run.map_or(0, |to| self.flush(meta, to, &bytes[start..]))
    }

    fn flush(&self, meta: &RecvMeta, to: SocketAddr, contents: &[u8]) -> u64 {
        let transmit = Transmit {
            destination: to,
            ecn: meta.ecn,
            contents,
            segment_size: (contents.len() > meta.stride).then_some(meta.stride),
            src_ip: None,
        };
        match self.state.try_send((&self.io).into(), &transmit) {
            Ok(()) => contents.len().div_ceil(meta.stride) as u64,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Where a FORWARD towards an IPv4 address goes.
fn destination(datagram: &[u8]) -> SocketAddr {
    let [a, b, c, d, high, low] = datagram[15..21].try_into().expect("six bytes");
    SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low])))
}

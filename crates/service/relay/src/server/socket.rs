use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use manyway_os::udp::{udp_socket, without_timestamps};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};

/// How long a socket avoids batches after the kernel has refused one.
const RECOVERY: Duration = Duration::from_secs(10);

/// The most payload bytes of one send call: an IPv4 packet of 65,535 bytes less its IP and UDP
/// headers.
pub(super) const MAX_RUN_BYTES: usize = 65_507;
/// The most datagrams of one send call.
pub(super) const MAX_RUN: usize = 64;

/// Bytes of a receive buffer: the most that the kernel coalesces.
pub(super) const BUFFER: usize = 65_536;
/// The number of buffers that one call fills.
pub(super) const BUFFERS: usize = 32;

/// A UDP socket that never waits: it loses what the kernel doesn't take at once, as a full queue
/// does.
pub(super) struct Socket {
    io: socket2::Socket,
    state: UdpSocketState,
    address: SocketAddr,
    segments: usize,
    /// When the kernel last refused a batch.
    refused: Option<Instant>,
}

impl Socket {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let io = udp_socket(address, None)?;
        let state = UdpSocketState::new((&io).into())?;
        without_timestamps(&io);
        let address = io
            .local_addr()?
            .as_socket()
            .ok_or(io::ErrorKind::AddrNotAvailable)?;
        let segments = state.max_gso_segments();
        Ok(Self {
            io,
            state,
            address,
            segments,
            refused: None,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn receive(
        &self,
        slices: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        self.state.recv((&self.io).into(), slices, metas)
    }

    /// Sends datagrams of `segment` bytes, the last of which may be shorter, in one call if the
    /// kernel can. Their DSCP is zero. Returns how many bytes were lost.
    pub(super) fn send(
        &self,
        to: SocketAddr,
        ecn: Option<EcnCodepoint>,
        contents: &[u8],
        segment: usize,
    ) -> usize {
        let mut lost = 0;
        let mut rest = contents;
        while !rest.is_empty() {
            let most = segment * self.state.max_gso_segments().clamp(1, MAX_RUN);
            let (now, later) = rest.split_at(rest.len().min(most));
            let transmit = Transmit {
                destination: to,
                ecn,
                contents: now,
                segment_size: (now.len() > segment).then_some(segment),
                src_ip: None,
            };
            match self.state.try_send((&self.io).into(), &transmit) {
                Ok(()) => {}
                // The device can't segment, or not such large packets. quinn-udp has noted that, so
                // send the datagrams one by one.
                Err(_) if now.len() > segment && self.state.max_gso_segments() == 1 => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return lost + rest.len();
                }
                Err(_) => lost += now.len(),
            }
            rest = later;
        }
        lost
    }

    /// Tries batches again after a while: the kernel may have refused one only because its
    /// datagrams were too large for their route.
    pub(super) fn recover(&mut self) {
        if self.state.max_gso_segments() == self.segments {
            self.refused = None;
            return;
        }
        let since = *self.refused.get_or_insert_with(Instant::now);
        if since.elapsed() >= RECOVERY {
            self.refused = None;
            if let Ok(state) = UdpSocketState::new((&self.io).into()) {
                self.state = state;
                without_timestamps(&self.io);
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

//! A UDP socket: batched receive and send, ECN marks, and a short queue for datagrams that the
//! kernel doesn't take yet.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, ready};

use manyway_os::udp::{udp_socket, without_timestamps};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Most payload bytes of one send call: an IPv4 packet of 65,535 bytes less its IP and UDP headers.
pub(crate) const MAX_BATCH_BYTES: usize = 65_507;
/// Most datagrams of one send call (the kernel's UDP_MAX_SEGMENTS, older value).
pub(crate) const MAX_BATCH_SEGMENTS: usize = 64;
/// Batches that wait for a full send buffer; what comes on top is dropped, as a full network queue
/// would.
const MAX_WAITING: usize = 8;

/// Hosts remembered for having refused something.
const MAX_REFUSALS: usize = 64;

/// Datagrams of equal size (the last may be shorter) for one destination.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) remote: SocketAddr,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) contents: &'a [u8],
    /// Bytes of each datagram.
    pub(crate) segment: usize,
}

/// A send that failed for good.
#[derive(Debug)]
pub(crate) struct SendFailure {
    pub(crate) remote: SocketAddr,
    /// Bytes of the datagram that failed.
    pub(crate) bytes: usize,
    pub(crate) error: io::Error,
}

/// A UDP socket bound to one local address.
#[derive(Debug)]
pub(crate) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    addr: SocketAddr,
    waiting: VecDeque<Waiting>,
    dropped: u64,
    /// Most datagrams of one send call; less where the device can't segment.
    segments: usize,
    /// The kernel reports ICMP errors on the socket's error queue.
    reports_errors: bool,
    /// Hosts that refused a datagram (ICMP port unreachable) since the last
    /// [`Socket::take_refusals`].
    refusals: BTreeSet<IpAddr>,
}

#[derive(Debug)]
struct Waiting {
    remote: SocketAddr,
    ecn: Option<EcnCodepoint>,
    contents: Vec<u8>,
    segment: usize,
    /// Bytes that have left already.
    sent: usize,
}

impl Waiting {
    fn batch(&self) -> Batch<'_> {
        Batch {
            remote: self.remote,
            ecn: self.ecn,
            contents: &self.contents,
            segment: self.segment,
        }
    }
}

impl Socket {
    /// Binds to `addr`, and to `device` where one is named. Must be called within a tokio runtime.
    pub(crate) fn bind(addr: SocketAddr, device: Option<&str>) -> io::Result<Self> {
        let io = UdpSocket::from_std(udp_socket(addr, device)?.into())?;
        let state = UdpSocketState::new((&io).into())?;
        without_timestamps(&io);
        let reports_errors = state.enable_transport_errors((&io).into()).is_ok();
        let addr = io.local_addr()?;
        Ok(Self {
            io,
            state,
            addr,
            waiting: VecDeque::new(),
            dropped: 0,
            segments: MAX_BATCH_SEGMENTS,
            reports_errors,
            refusals: BTreeSet::new(),
        })
    }

    /// The bound address, with its port.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Datagrams thrown away since the last call because the kernel's send buffer and our queue
    /// were full.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Sends a batch, or queues what the kernel won't take now (then [`Socket::poll_flush`] sends
    /// it).
    ///
    /// # Errors
    /// What the kernel refused for good; the rest of the batch is given up with it.
    pub(crate) fn send(&mut self, batch: Batch<'_>) -> Result<(), SendFailure> {
        let mut sent = 0;
        if self.waiting.is_empty() {
            match self.send_from(batch, &mut sent) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(failure(batch, error)),
                Ok(()) => return Ok(()),
            }
        }
        if self.waiting.len() == MAX_WAITING {
            self.dropped += (batch.contents.len() - sent).div_ceil(batch.segment.max(1)) as u64;
            return Ok(());
        }
        let Batch {
            remote,
            ecn,
            contents,
            segment,
        } = batch;
        self.waiting.push_back(Waiting {
            remote,
            ecn,
            contents: contents[sent..].to_vec(),
            segment,
            sent: 0,
        });
        Ok(())
    }

    /// Sends what waits. Pending (and the task will be woken) while the kernel's buffer is full.
    ///
    /// # Errors
    /// As [`Socket::send`]; call again for the rest.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendFailure>> {
        while let Some(mut first) = self.waiting.pop_front() {
            let batch = first.batch();
            let mut sent = first.sent;
            match self.send_from(batch, &mut sent) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    first.sent = sent;
                    self.waiting.push_front(first);
                    // Readiness was cleared by the attempt. An error here means the runtime is
                    // shutting down.
                    if ready!(self.io.poll_send_ready(cx)).is_err() {
                        return Poll::Pending;
                    }
                }
                Err(error) => return Poll::Ready(Err(failure(batch, error))),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends `contents[*sent..]`, in one call where the kernel segments, else datagram by datagram.
    fn send_from(&mut self, batch: Batch<'_>, sent: &mut usize) -> io::Result<()> {
        let segment = batch.segment.clamp(1, batch.contents.len().max(1));
        while *sent < batch.contents.len() {
            let rest = &batch.contents[*sent..];
            let most = segment * self.segments.min(self.state.max_gso_segments());
            let now = &rest[..rest.len().min(most)];
            match self.send_once(&Transmit {
                destination: batch.remote,
                ecn: batch.ecn,
                contents: now,
                segment_size: (now.len() > segment).then_some(segment),
                src_ip: None,
            }) {
                Ok(()) => *sent += now.len(),
                // A device without segmentation offload: quinn-udp has just noted it, so go on
                // datagram by datagram.
                Err(_) if now.len() > segment && self.state.max_gso_segments() == 1 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send_once(&mut self, transmit: &Transmit<'_>) -> io::Result<()> {
        match self.attempt(transmit) {
            // An ICMP error about an earlier datagram fails the next call, whatever that call is
            // about.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock && self.clear_reports() => {
                self.attempt(transmit)
            }
            done => done,
        }
    }

    fn attempt(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.io.try_io(Interest::WRITABLE, || {
            self.state.try_send((&self.io).into(), transmit)
        })
    }

    /// Receives up to [`ReceiveBuffers::COUNT`] buffers full of datagrams; how many.
    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut ReceiveBuffers,
    ) -> Poll<io::Result<usize>> {
        let mut failures = 0;
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            match self
                .io
                .try_io(Interest::READABLE, || buffers.fill(&self.state, &self.io))
            {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Reports about what we sent; a few may be pending, but don't spin on a broken
                // socket.
                Err(error) if failures == 8 => return Poll::Ready(Err(error)),
                Err(_) => {
                    failures += 1;
                    self.clear_reports();
                }
            }
        }
    }

    /// As [`Socket::poll_receive`], without waiting for anything: 0 if nothing is there.
    pub(crate) fn receive(&mut self, buffers: &mut ReceiveBuffers) -> usize {
        match buffers.fill(&self.state, &self.io) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => {
                self.clear_reports();
                0
            }
        }
    }

    /// Whether batches wait for room in the kernel's buffers.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Empties the error queue; whether there was anything in it.
    fn clear_reports(&mut self) -> bool {
        if !self.reports_errors {
            return false;
        }
        let mut any = false;
        // Bounded, since others can fill the queue while we empty it.
        for _ in 0..64 {
            let Ok(Some(report)) = self.state.recv_transport_error((&self.io).into()) else {
                break;
            };
            any = true;
            let refused = io::Error::from_raw_os_error(report.raw_errno).kind()
                == io::ErrorKind::ConnectionRefused;
            if let Some(host) = report
                .addr
                .filter(|_| refused && self.refusals.len() < MAX_REFUSALS)
            {
                self.refusals.insert(host.ip());
            }
        }
        any
    }

    /// The hosts that said since the last call that nobody listens where we sent to. ICMP is easily
    /// forged: this is for error messages, not for decisions.
    pub(crate) fn take_refusals(&mut self) -> BTreeSet<IpAddr> {
        self.clear_reports();
        std::mem::take(&mut self.refusals)
    }
}

fn failure(batch: Batch<'_>, error: io::Error) -> SendFailure {
    SendFailure {
        remote: batch.remote,
        bytes: batch.segment.min(batch.contents.len()),
        error,
    }
}

/// Room for one receive call over all sockets of a driver.
pub(crate) struct ReceiveBuffers {
    storage: Box<[u8]>,
    metas: [RecvMeta; Self::COUNT],
}

impl ReceiveBuffers {
    /// Buffers filled by one call.
    pub(crate) const COUNT: usize = 16;
    /// Bytes of each: the most the kernel coalesces into one.
    const SIZE: usize = 65_536;

    pub(crate) fn new() -> Self {
        Self {
            storage: vec![0; Self::COUNT * Self::SIZE].into_boxed_slice(),
            metas: [RecvMeta::default(); Self::COUNT],
        }
    }

    fn fill(&mut self, state: &UdpSocketState, io: &UdpSocket) -> io::Result<usize> {
        let mut chunks = self.storage.chunks_exact_mut(Self::SIZE);
        let mut slices: [IoSliceMut<'_>; Self::COUNT] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        state.recv(io.into(), &mut slices, &mut self.metas)
    }

    /// The first `count` buffers: their sender, mark, and the datagrams in them.
    pub(crate) fn filled(&mut self, count: usize) -> impl Iterator<Item = Filled<'_>> {
        let buffers = self
            .metas
            .iter()
            .zip(self.storage.chunks_exact_mut(Self::SIZE))
            .take(count);
        buffers.map(|(meta, buffer)| Filled {
            remote: meta.addr,
            ecn: meta.ecn,
            // An empty datagram has a stride of zero, and nothing to say.
            datagrams: buffer[..meta.len.min(Self::SIZE)].chunks_mut(meta.stride.max(1)),
        })
    }
}

/// Datagrams that the kernel coalesced into one buffer.
pub(crate) struct Filled<'a> {
    pub(crate) remote: SocketAddr,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) datagrams: std::slice::ChunksMut<'a, u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    fn pair() -> (Socket, Socket) {
        let bind = |ip: &str| Socket::bind(format!("{ip}:0").parse().unwrap(), None).unwrap();
        (bind("127.0.0.1"), bind("127.0.0.2"))
    }

    async fn receive(
        socket: &mut Socket,
        buffers: &mut ReceiveBuffers,
    ) -> Vec<(SocketAddr, Option<EcnCodepoint>, Vec<u8>)> {
        let count = poll_fn(|cx| socket.poll_receive(cx, buffers))
            .await
            .unwrap();
        let mut all = Vec::new();
        for Filled {
            remote,
            ecn,
            datagrams,
        } in buffers.filled(count)
        {
            all.extend(datagrams.map(|data| (remote, ecn, data.to_vec())));
        }
        all
    }

    async fn send(socket: &mut Socket, batch: Batch<'_>) {
        socket.send(batch).unwrap();
        poll_fn(|cx| socket.poll_flush(cx)).await.unwrap();
    }

    #[tokio::test]
    async fn a_batch_arrives_as_its_datagrams_with_its_mark() {
        let (mut a, mut b) = pair();
        let contents: Vec<u8> = (0..54 * 1200 + 77).map(|i| (i / 1200) as u8).collect();
        let batch = Batch {
            remote: b.addr(),
            ecn: Some(EcnCodepoint::Ect0),
            contents: &contents,
            segment: 1200,
        };
        send(&mut a, batch).await;
        let mut buffers = ReceiveBuffers::new();
        let mut got = Vec::new();
        while got.len() < 55 {
            got.extend(receive(&mut b, &mut buffers).await);
        }
        for (index, (from, ecn, data)) in got.iter().enumerate() {
            assert_eq!((*from, *ecn), (a.addr(), Some(EcnCodepoint::Ect0)));
            assert!(data.iter().all(|&byte| byte == index as u8));
            assert_eq!(data.len(), if index == 54 { 77 } else { 1200 });
        }
    }

    #[tokio::test]
    async fn a_socket_without_segmentation_sends_one_by_one() {
        let (mut a, mut b) = pair();
        a.segments = 1;
        let contents = vec![5; 3000];
        let unsegmented = Batch {
            remote: b.addr(),
            ecn: None,
            contents: &contents[..1200],
            segment: 1200,
        };
        send(&mut a, unsegmented).await;
        send(
            &mut a,
            Batch {
                contents: &contents,
                segment: 1000,
                ..unsegmented
            },
        )
        .await;
        let mut buffers = ReceiveBuffers::new();
        let mut sizes = Vec::new();
        while sizes.len() < 4 {
            sizes.extend(
                receive(&mut b, &mut buffers)
                    .await
                    .into_iter()
                    .map(|(_, _, data)| data.len()),
            );
        }
        assert_eq!(sizes, [1200, 1000, 1000, 1000]);
    }

    #[tokio::test]
    async fn a_refused_datagram_doesnt_fail_the_next() {
        let (mut a, mut b) = pair();
        let (gone, _) = pair();
        let nobody = gone.addr();
        drop(gone);
        let contents = [1; 100];
        for _ in 0..20 {
            let to = |remote| Batch {
                remote,
                ecn: None,
                contents: &contents,
                segment: 100,
            };
            send(&mut a, to(nobody)).await;
            send(&mut a, to(b.addr())).await;
        }
        let mut buffers = ReceiveBuffers::new();
        let mut count = 0;
        while count < 20 {
            count += receive(&mut b, &mut buffers).await.len();
        }
        // Loopback answers at once, so the refusals are there.
        assert_eq!(a.take_refusals(), BTreeSet::from([nobody.ip()]));
    }

    #[tokio::test]
    async fn too_big_is_an_error_and_the_socket_lives() {
        let (mut a, mut b) = pair();
        let contents = vec![0; 66_000];
        let batch = Batch {
            remote: b.addr(),
            ecn: None,
            contents: &contents,
            segment: contents.len(),
        };
        // Until epoll has reported the new socket writable, sends are queued.
        let sent = match a.send(batch) {
            Ok(()) => poll_fn(|cx| a.poll_flush(cx)).await,
            failed => failed,
        };
        let failure = sent.unwrap_err();
        assert!(quinn_udp::is_msg_size_err(&failure.error), "{failure:?}");
        assert_eq!((failure.remote, failure.bytes), (b.addr(), 66_000));
        let remote = b.addr();
        send(
            &mut a,
            Batch {
                remote,
                ecn: None,
                contents: &contents[..10],
                segment: 10,
            },
        )
        .await;
        assert_eq!(
            receive(&mut b, &mut ReceiveBuffers::new()).await[0].2,
            [0; 10]
        );
    }

    #[tokio::test]
    async fn what_is_there_is_received_without_waiting() {
        let (mut a, mut b) = pair();
        let mut buffers = ReceiveBuffers::new();
        assert_eq!(b.receive(&mut buffers), 0);
        let (gone, _) = pair();
        let nobody = gone.addr();
        drop(gone);
        for remote in [b.addr(), nobody] {
            let batch = Batch {
                remote,
                ecn: None,
                contents: &[1; 100],
                segment: 100,
            };
            send(&mut a, batch).await;
        }
        // Only the kernel decides when it is there.
        while b.receive(&mut buffers) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(b.receive(&mut buffers), 0);
        assert_eq!(a.receive(&mut buffers), 0, "a refusal is no datagram");
        // The reactor still says so of what comes later.
        let remote = b.addr();
        let batch = Batch {
            remote,
            ecn: None,
            contents: &[2; 10],
            segment: 10,
        };
        send(&mut a, batch).await;
        assert_eq!(receive(&mut b, &mut buffers).await[0].2, [2; 10]);
    }

    #[tokio::test]
    async fn an_empty_datagram_is_no_datagram() {
        let (_, mut b) = pair();
        let plain = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        plain.send_to(&[], b.addr()).unwrap();
        plain.send_to(b"x", b.addr()).unwrap();
        let mut buffers = ReceiveBuffers::new();
        let mut got = Vec::new();
        while got.is_empty() {
            got = receive(&mut b, &mut buffers).await;
        }
        assert_eq!(got[0].2, b"x");
    }
}

//! Forwards bytes from one TCP connection to another without reading them.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use manyway_os::{SocketPipe, UnixClock, limit_unsent};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::gate::StreamTerms;
use crate::{Ending, Rates};

/// The most bytes to read at a time, and the most that a direction holds outside of sockets: the
/// capacity of a pipe.
const CHUNK: usize = 64 << 10;
/// The unsent bytes at which a socket counts as full, besides those in flight.
const UNSENT: u32 = 128 << 10;
/// The shortest wait for an account's rate: timers aren't finer.
const WAIT: Duration = Duration::from_millis(1);

/// Byte counts over all streams.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) received: AtomicU64,
    pub(super) forwarded: AtomicU64,
    pub(super) copied: AtomicU64,
}

/// The rules for splicing one stream.
pub(super) struct Splicer<'a> {
    pub(super) rates: &'a Rates,
    pub(super) terms: StreamTerms,
    pub(super) clock: UnixClock,
    pub(super) passed: &'a Passed,
    /// How long the stream may be idle.
    pub(super) idle: Duration,
    /// Splice if the system can.
    pub(super) zero_copy: bool,
}

impl Splicer<'_> {
    /// Forwards bytes, and the end of the stream, in both directions until both ends are done. If
    /// one end breaks off, the stream ends.
    pub(super) async fn run(&self, one: &TcpStream, other: &TcpStream) -> Ending {
        let ends = [SockRef::from(one), SockRef::from(other)];
        for end in &ends {
            limit_unsent(end, UNSENT);
            end.set_tcp_nodelay(true).ok();
            // If this ends early, it ends with a reset: a truncated stream must not look complete.
            end.set_linger(Some(Duration::ZERO)).ok();
        }
        let moved = AtomicU64::new(0);
        let both = async {
            tokio::try_join!(self.pass(one, other, &moved), self.pass(other, one, &moved))
        };
        let why = tokio::select! {
            result = both => match result {
                Ok(_) => Ending::Done,
                Err(_) => Ending::Broken,
            },
            () = self.stands_still(&moved) => Ending::Idle,
        };
        if why == Ending::Done {
            for end in &ends {
                end.set_linger(None).ok();
            }
        }
        why
    }

    async fn stands_still(&self, moved: &AtomicU64) {
        loop {
            let before = moved.load(Ordering::Relaxed);
            tokio::time::sleep(self.idle).await;
            if moved.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }

    /// Forwards in one direction. Reads more only after it has sent what it read, and if the
    /// account may send.
    async fn pass(&self, from: &TcpStream, to: &TcpStream, moved: &AtomicU64) -> io::Result<()> {
        let mut channel = Channel::new(self.zero_copy);
        if matches!(channel, Channel::Buffer { .. }) {
            self.passed.copied.fetch_add(1, Ordering::Relaxed);
        }
        loop {
            self.may_send().await;
            let mut held = match from
                .async_io(Interest::READABLE, || channel.fill(from))
                .await?
            {
                0 => break,
                held => held,
            };
            self.rates
                .charge(self.terms.account, self.terms.class, self.clock.now(), held);
            self.passed
                .received
                .fetch_add(held as u64, Ordering::Relaxed);
            moved.fetch_add(held as u64, Ordering::Relaxed);
            while held > 0 {
                let sent = to
                    .async_io(Interest::WRITABLE, || channel.empty(to, held))
                    .await?;
                if sent == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                held -= sent;
                self.passed
                    .forwarded
                    .fetch_add(sent as u64, Ordering::Relaxed);
                moved.fetch_add(sent as u64, Ordering::Relaxed);
            }
        }
        SockRef::from(to).shutdown(std::net::Shutdown::Write)
    }

    async fn may_send(&self) {
        loop {
            let now = self.clock.now();
            let delay = self.rates.delay(self.terms.account, self.terms.class, now);
            if delay.is_zero() {
                return;
            }
            tokio::time::sleep(delay.max(WAIT)).await;
        }
    }
}

/// Holds bytes from one socket until the other takes them.
enum Channel {
    /// Bytes stay in the kernel.
    Pipe(SocketPipe),
    /// If no pipe is available.
    Buffer { bytes: Box<[u8]>, start: usize },
}

impl Channel {
    fn new(zero_copy: bool) -> Self {
        let pipe = zero_copy.then(SocketPipe::new).flatten();
        pipe.map_or_else(Self::buffer, Self::Pipe)
    }

    fn buffer() -> Self {
        Self::Buffer {
            bytes: vec![0; CHUNK].into_boxed_slice(),
            start: 0,
        }
    }

    /// Reads what has arrived into the channel, which is empty.
    fn fill(&mut self, from: &TcpStream) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => match pipe.fill(from, CHUNK) {
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    *self = Self::buffer();
                    self.fill(from)
                }
                result => result,
            },
            Self::Buffer { bytes, start } => {
                *start = 0;
                (&*SockRef::from(from)).read(bytes)
            }
        }
    }

    /// Sends as many of the `held` bytes as it can.
    fn empty(&mut self, to: &TcpStream, held: usize) -> io::Result<usize> {
        match self {
            Self::Pipe(pipe) => pipe.empty(to, held),
            Self::Buffer { bytes, start } => {
                let sent = (&*SockRef::from(to)).write(&bytes[*start..*start + held])?;
                *start += sent;
                Ok(sent)
            }
        }
    }
}

//! One TCP connection: reads and writes records for as long as its path lives.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_session::{self as session, CarrierError, Facts, Incoming, Local, LocalId, Purpose};
use manyway_wire::RecordReader;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep, timeout};

use crate::driver::shared::{Shared, State};

use super::options::limit_unsent;
use super::outbox::{End, Load, Outbox};

/// How long an accepted connection may carry no path before it is closed.
const SILENCE: Duration = Duration::from_secs(10);
/// When a connection ends: how long we go on writing what is left, and then wait for the other side
/// to end it too.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often the kernel's share is set to what the path carries.
const ADJUST: Duration = Duration::from_millis(500);
/// Carriers' ids begin here, above those of sockets.
const FIRST_ID: u32 = 1 << 31;

/// A connection that is to carry a path.
pub(crate) struct NewCarrier {
    pub(crate) stream: TcpStream,
    /// What people call its way out of the host.
    pub(crate) name: String,
    pub(crate) purpose: Purpose,
    /// A relay passes it on.
    pub(crate) relay: bool,
}

/// Takes a connection into use, in a task of its own. Must be called within the runtime of
/// [`Shared::tcp_tasks`], to which its socket belongs.
///
/// # Errors
/// It is broken already, or nobody needs it.
pub(crate) fn start(shared: &Arc<Shared>, new: NewCarrier) -> io::Result<LocalId> {
    let (local, remote) = (new.stream.local_addr()?, new.stream.peer_addr()?);
    super::options::prepare(&new.stream, shared.tcp.congestion.as_ref())
        .map_err(io::Error::other)?;
    let now = shared.clock.now();
    let ends = (local, remote);
    let id = shared
        .act(|state| state.add_carrier(now, new.name, ends, (new.purpose, new.relay)))
        .map_err(io::Error::other)?;
    let carrier = Carrier {
        shared: shared.clone(),
        id,
        remote,
        accepted: new.purpose == Purpose::Accepted,
    };
    tokio::spawn(carrier.run(new.stream));
    Ok(id)
}

impl State {
    fn add_carrier(
        &mut self,
        now: manyway_units::Time,
        name: String,
        (addr, remote): (SocketAddr, SocketAddr),
        (purpose, relay): (Purpose, bool),
    ) -> Result<LocalId, CarrierError> {
        // The socket at this address may have gone while the connection was set up.
        let mut locals = self.locals.values();
        let is_used = locals.any(|(of, at)| *of == name && at.ip() == addr.ip());
        if self.stop || self.closing || !is_used {
            return Err(CarrierError::Unwanted);
        }
        let id = LocalId(FIRST_ID | self.next_carrier);
        self.next_carrier = (self.next_carrier + 1) % FIRST_ID;
        let local = Local {
            id,
            name,
            addr,
            mtu: None,
        };
        self.session.add_carrier(
            now,
            session::Carrier {
                local,
                remote,
                facts: Facts {
                    relay,
                    ..Facts::stream()
                },
                purpose,
            },
        )?;
        let caller = (purpose == Purpose::Accepted).then(|| remote.ip());
        self.carriers.insert(id, Outbox::new(caller));
        Ok(id)
    }

    /// Packets for a carrier. One that has ended meanwhile has no use for them.
    pub(crate) fn hand_over(&mut self, id: LocalId, packets: &[u8], segment: usize) {
        let used = self.session.carrier_in_use(id);
        if let Some(outbox) = self.carriers.get_mut(&id) {
            outbox.push(packets, segment, used);
        }
    }

    /// Ends the connections that no path needs any more.
    pub(crate) fn end_carriers(&mut self) {
        while let Some(id) = self.session.poll_carrier_over() {
            if let Some(outbox) = self.carriers.get_mut(&id) {
                outbox.finish(End::Flush);
            }
        }
    }
}

struct Carrier {
    shared: Arc<Shared>,
    id: LocalId,
    remote: SocketAddr,
    accepted: bool,
}

impl Carrier {
    async fn run(self, stream: TcpStream) {
        let (read, write) = stream.into_split();
        let (id, remote) = (self.id, self.remote);
        let ended = tokio::select! {
            ended = self.read(read) => ended,
            ended = self.write(write) => ended,
            () = self.be_spoken_to(), if self.accepted => Err(io::ErrorKind::TimedOut.into()),
        };
        if let Err(error) = ended {
            tracing::debug!(%remote, %error, "a TCP connection ended");
        }
        let now = self.shared.clock.now();
        self.shared.act(|state| {
            state.carriers.remove(&id);
            state.session.remove_carrier(now, id);
        });
        self.shared.idle.notify_waiters();
    }

    /// Reads whatever comes: nothing but the session's flow control holds a sender back.
    async fn read(&self, mut stream: OwnedReadHalf) -> io::Result<()> {
        let mut reader = RecordReader::new();
        loop {
            let len = stream.read(reader.space()).await?;
            if len == 0 {
                return match reader.is_between() {
                    true => Ok(()),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
            reader.filled(len);
            let now = self.shared.clock.now();
            let read = self.shared.act(|state| {
                while let Some(data) = reader.next()? {
                    let incoming = Incoming {
                        local: self.id,
                        remote: self.remote,
                        ecn: None,
                        data,
                    };
                    state.session.handle_datagram(now, incoming);
                }
                Ok(())
            });
            read.map_err(|error: manyway_wire::RecordError| {
                io::Error::new(io::ErrorKind::InvalidData, error)
            })?;
        }
    }

    /// Writes what the driver hands over, until the connection is to end.
    async fn write(&self, mut stream: OwnedWriteHalf) -> io::Result<()> {
        let mut spare = Vec::new();
        let mut adjusted = Instant::now();
        let ready = self.shared.look(|state| {
            let outbox = state.carriers.get(&self.id);
            outbox.map(|outbox| outbox.ready.clone())
        });
        let Some(ready) = ready else { return Ok(()) };
        loop {
            let (load, end, rate) = self.shared.look(|state| {
                let rate = state.session.carrier_rate(self.id);
                match state.carriers.get_mut(&self.id) {
                    Some(outbox) => (outbox.take(std::mem::take(&mut spare)), outbox.end, rate),
                    None => (None, End::Abort, rate),
                }
            });
            if adjusted.elapsed() >= ADJUST {
                adjusted = Instant::now();
                limit_unsent(stream.as_ref(), rate);
            }
            match (load, end) {
                (_, End::Abort) => return Err(io::ErrorKind::ConnectionAborted.into()),
                (Some(load), End::Open) => {
                    self.write_load(&mut stream, &load).await?;
                    spare = load.records;
                }
                (Some(load), End::Flush) => {
                    let written = timeout(FAREWELL, self.write_load(&mut stream, &load));
                    written.await??;
                    spare = load.records;
                }
                (None, End::Open) => ready.notified().await,
                (None, End::Flush) => break,
            }
        }
        // Unread data would make the kernel reset the connection before the other side has read our
        // last packets, so go on reading until the other side ends too.
        stream.shutdown().await?;
        sleep(FAREWELL).await;
        Ok(())
    }

    async fn write_load(&self, stream: &mut OwnedWriteHalf, load: &Load) -> io::Result<()> {
        let (mut written, mut told) = (0, 0);
        while written < load.records.len() {
            written += self.write_some(stream, &load.records[written..]).await?;
            let now = self.shared.clock.now();
            // Records are a little longer than their packets: at the end it comes out even.
            let so_far = match written == load.records.len() {
                true => load.packets,
                false => load.packets.min(written as u64),
            };
            let more = so_far - told;
            told = so_far;
            self.shared
                .act(|state| state.session.on_carrier_written(now, self.id, more));
        }
        Ok(())
    }

    /// An abort doesn't wait for a socket that takes nothing.
    async fn write_some(&self, stream: &mut OwnedWriteHalf, bytes: &[u8]) -> io::Result<usize> {
        let mut patience = Box::pin(sleep(FAREWELL));
        loop {
            tokio::select! {
                written = stream.write(bytes) => return match written? {
                    0 => Err(io::ErrorKind::WriteZero.into()),
                    len => Ok(len),
                },
                () = &mut patience => {}
            }
            let end = self.shared.look(|state| {
                let outbox = state.carriers.get(&self.id);
                outbox.map_or(End::Abort, |outbox| outbox.end)
            });
            if end != End::Open {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            patience.as_mut().reset(Instant::now() + FAREWELL);
        }
    }

    /// Ends if no path uses the connection in time.
    async fn be_spoken_to(&self) {
        sleep(SILENCE).await;
        if self
            .shared
            .look(|state| state.session.carrier_in_use(self.id))
        {
            std::future::pending().await
        }
    }
}

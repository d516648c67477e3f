//! TCP connections at the ends of a stream: accepted, dialled, and spliced to it.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use manyway_wire::forward::{Code, Target};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};

use super::error::Cut;
use super::stream::Stream;

/// TCP connections of one listener at a time; others wait in the kernel's queue. A peer allows us
/// no more streams than this (`Config::max_streams`).
const MOST: usize = 128;
/// How long all addresses of a target may take to answer.
const CONNECT_WAIT: Duration = Duration::from_secs(20);
/// An address that hasn't answered for this long holds up the next one no longer (RFC 8305 §8).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);
/// After a connection that couldn't be accepted, as when too many files are open.
const PAUSE: Duration = Duration::from_millis(200);
/// Names that are looked up at once. The system can't be asked to stop, so each keeps its place
/// until it is answered, whoever still waits for it.
static LOOKUPS: Semaphore = Semaphore::const_new(32);
/// After so long without a byte, the system asks whether the other end is still there.
const SILENCE: Duration = Duration::from_secs(60);
/// Most bytes taken from either side at once.
const PIECE: usize = 64 << 10;

/// Listens on an address. `localhost` is 127.0.0.1.
pub(super) async fn listen(at: &Target) -> io::Result<TcpListener> {
    match at.host() {
        "localhost" => TcpListener::bind((Ipv4Addr::LOCALHOST, at.port())).await,
        host => TcpListener::bind((host, at.port())).await,
    }
}

/// Accepts connections for as long as it is polled; each gets a task. `full` is called when there
/// is no room for another one.
pub(super) async fn accept_each<F>(
    listener: &TcpListener,
    full: impl Fn(&str),
    each: impl Fn(TcpStream, SocketAddr) -> F,
) -> Infallible
where
    F: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(MOST));
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        let place = match room.clone().try_acquire_owned() {
            Ok(place) => Ok(place),
            Err(_) => {
                full(&format!(
                    "{MOST} connections are open: others wait until one of them ends"
                ));
                room.clone().acquire_owned().await
            }
        };
        match listener.accept().await {
            Ok((tcp, from)) => {
                let work = each(tcp, from);
                tasks.spawn(async move {
                    let _place = place;
                    work.await;
                });
            }
            Err(error) => {
                tracing::warn!("can't accept a TCP connection: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Connects to a target. If that fails, says why to the peer who asked.
pub(super) async fn dial(target: &Target) -> Result<TcpStream, (Code, String)> {
    let dialled = timeout(CONNECT_WAIT, dial_in_turn(target)).await;
    dialled.unwrap_or_else(|_| {
        let seconds = CONNECT_WAIT.as_secs();
        let late = format!("{target} hasn't answered for {seconds} s");
        Err((Code::HostUnreachable, late))
    })
}

async fn dial_in_turn(target: &Target) -> Result<TcpStream, (Code, String)> {
    let host = target.host();
    let addresses = look_up(host, target.port())
        .await
        .map_err(|error| (Code::HostUnreachable, unknown(host, &error)))?;
    first_of(addresses).await.map_err(|error| match error {
        Some(error) => unreachable(target, &error),
        None => (Code::HostUnreachable, format!("{host} has no address")),
    })
}

/// Connects to whichever address answers first. One that doesn't answer holds up the next for
/// [`NEXT_ADDRESS`] only (RFC 8305). The error is the last one.
async fn first_of(addresses: Vec<SocketAddr>) -> Result<TcpStream, Option<io::Error>> {
    let mut rest = addresses.into_iter().peekable();
    let mut tries = JoinSet::new();
    let mut last = None;
    loop {
        if let Some(address) = rest.next() {
            tries.spawn(TcpStream::connect(address));
        }
        tokio::select! {
            tried = tries.join_next() => match tried {
                Some(Ok(Ok(tcp))) => return Ok(tcp),
                Some(Ok(Err(error))) => last = Some(error),
                Some(Err(error)) => last = Some(error.into()),
                None => return Err(last),
            },
            () = sleep(NEXT_ADDRESS), if rest.peek().is_some() => {}
        }
    }
}

async fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let place = LOOKUPS.acquire().await.map_err(io::Error::other)?;
    let host = host.to_owned();
    let asked = spawn_blocking(move || {
        let _place = place;
        (&*host, port).to_socket_addrs().map(Iterator::collect)
    });
    asked.await.map_err(io::Error::other)?
}

/// Why a name has no address; the system's words say whether it has none or nobody could be asked.
fn unknown(host: &str, error: &io::Error) -> String {
    format!(
        "can't look up the address of {host}: {error}. Check the name, and that host's name server"
    )
}

fn unreachable(target: &Target, error: &io::Error) -> (Code, String) {
    match error.kind() {
        ErrorKind::ConnectionRefused => (Code::Refused, format!("nobody listens on {target}")),
        ErrorKind::HostUnreachable | ErrorKind::TimedOut => (
            Code::HostUnreachable,
            format!("{target} can't be reached: {error}"),
        ),
        ErrorKind::NetworkUnreachable => (
            Code::NetworkUnreachable,
            format!("{target} can't be reached: {error}"),
        ),
        _ => (Code::Failed, format!("can't connect to {target}: {error}")),
    }
}

/// Waits until a connection is broken, as by a reset; reads nothing.
async fn broken(tcp: &TcpStream) -> io::Error {
    loop {
        if let Err(error) = tcp.ready(Interest::ERROR).await {
            return error;
        }
        if let Ok(Some(error)) | Err(error) = tcp.take_error() {
            return error;
        }
        // It may be a false alarm, which has to be taken back.
        let nothing = || Err::<(), _>(ErrorKind::WouldBlock.into());
        let _ = tcp.try_io(Interest::ERROR, nothing);
    }
}

/// Ends a TCP connection so that its peer sees a reset.
pub(super) fn reset(tcp: TcpStream) {
    // If it can't be, the peer sees an end.
    tcp.set_zero_linger().ok();
}

/// Carries bytes both ways until both directions have ended: an end as an end, a reset as a reset.
/// Each side waits for the other: at most a piece of each direction is here.
pub(super) async fn splice(mut tcp: TcpStream, mut stream: Stream) -> Result<(), Cut> {
    // What is typed leaves at once.
    tcp.set_nodelay(true).ok();
    // A host that has vanished doesn't keep a stream for ever.
    let keepalive = TcpKeepalive::new().with_time(SILENCE);
    SockRef::from(&tcp).set_tcp_keepalive(&keepalive).ok();
    // Unless both directions end, it ends by a reset: bytes that are missing don't look complete.
    tcp.set_zero_linger().ok();
    let (mut from, mut to) = tcp.split();
    let Stream { send, receive } = &mut stream;
    let upwards = async {
        let mut piece = vec![0; PIECE];
        loop {
            let read = tokio::select! {
                read = from.read(&mut piece) => read.map_err(Cut::Tcp)?,
                stopped = send.stopped() => return Err(Cut::stopped(stopped)),
            };
            if read == 0 {
                break;
            }
            tokio::select! {
                written = send.write_all(&piece[..read]) => written.map_err(Cut::of)?,
                // While the other side takes nothing, nothing is read here that would tell.
                error = broken(from.as_ref()) => return Err(Cut::Tcp(error)),
            }
        }
        send.finish().map_err(|error| Cut::of(error.into()))?;
        // Until everything has arrived, the other side can still reset it.
        match send.stopped().await {
            Ok(Some(_)) => Err(Cut::Peer),
            // At the connection's end, the other direction knows whether it is complete.
            Ok(None) | Err(_) => Ok(()),
        }
    };
    let downwards = async {
        while let Some(piece) = receive.read_chunk(PIECE).await.map_err(Cut::read)? {
            to.write_all(&piece).await.map_err(Cut::Tcp)?;
        }
        // Who has gone meanwhile needs no end.
        to.shutdown().await.ok();
        Ok(())
    };
    let result = tokio::try_join!(upwards, downwards);
    match result {
        Ok(_) => SockRef::from(&tcp).set_linger(None).map_err(Cut::Tcp),
        Err(cut) => {
            stream.cut();
            Err(cut)
        }
    }
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Socket, Type};

    use super::*;

    /// A listener that answers nobody any more, since its queue is full.
    async fn silent() -> (Socket, Vec<TcpStream>) {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        listener.bind(&any.into()).unwrap();
        listener.listen(0).unwrap();
        let at = address(&listener);
        let mut queue = Vec::new();
        let soon = Duration::from_secs(1);
        while let Ok(tcp) = timeout(soon, TcpStream::connect(at)).await {
            queue.push(tcp.unwrap());
        }
        (listener, queue)
    }

    fn address(socket: &Socket) -> SocketAddr {
        socket.local_addr().unwrap().as_socket().unwrap()
    }

    #[tokio::test]
    async fn the_first_address_that_answers_is_taken() {
        let (silent, _queue) = silent().await;
        let silent = address(&silent);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let good = listener.local_addr().unwrap();
        let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let refuses = gone.local_addr().unwrap();
        drop(gone);
        for addresses in [
            vec![silent, good],
            vec![refuses, good],
            vec![silent, refuses, good],
        ] {
            let tcp = timeout(CONNECT_WAIT / 2, first_of(addresses))
                .await
                .unwrap();
            assert_eq!(tcp.unwrap().peer_addr().unwrap(), good);
        }
        let error = first_of(vec![refuses]).await.unwrap_err().unwrap();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(first_of(vec![]).await.unwrap_err().is_none());
        // It may still answer.
        let waits = timeout(Duration::from_secs(1), first_of(vec![silent, refuses]));
        assert!(waits.await.is_err());
    }
}

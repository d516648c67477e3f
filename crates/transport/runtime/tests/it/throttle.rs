//! A link of a fixed rate on the level of TCP: what comes on one connection leaves on another, no
//! faster than that. Between them are 8 KiB and two socket buffers of 64 KiB; a link that can't
//! send on stops reading.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

const BUFFER: usize = 64 << 10;
const PIECE: usize = 8 << 10;
/// How far behind its timetable it may be and catch up: the timer and the scheduler are no finer.
const SLACK: Duration = Duration::from_millis(20);

/// Where a link to `target` begins that carries `rate` bytes per second each way.
pub(crate) async fn throttle(target: SocketAddr, rate: f64) -> io::Result<SocketAddr> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_recv_buffer_size(BUFFER)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
    socket.listen(16)?;
    let listener = TcpListener::from_std(socket.into())?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            tokio::spawn(async move {
                let Ok(far) = TcpStream::connect(target).await else {
                    return;
                };
                for socket in [&near, &far] {
                    SockRef::from(socket).set_send_buffer_size(BUFFER).ok();
                    socket.set_nodelay(true).ok();
                }
                let ((near_in, near_out), (far_in, far_out)) =
                    (near.into_split(), far.into_split());
                tokio::try_join!(carry(near_in, far_out, rate), carry(far_in, near_out, rate)).ok();
            });
        }
    });
    Ok(address)
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, rate: f64) -> io::Result<()> {
    let mut buffer = [0; PIECE];
    let mut next = Instant::now();
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        next = next.max(Instant::now() - SLACK) + Duration::from_secs_f64(read as f64 / rate);
        sleep_until(next).await;
        to.write_all(&buffer[..read]).await?;
    }
}

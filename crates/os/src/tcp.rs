use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;

/// A non-blocking TCP socket that accepts connections at `address`. An IPv6 socket is for IPv6
/// alone. `buffer` fixes the sizes in bytes of the kernel's buffers of each connection.
///
/// # Errors
/// What the system says against the address.
pub fn tcp_listener(address: SocketAddr, buffer: Option<usize>) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Old connections that the kernel still remembers don't block the port.
    socket.set_reuse_address(true)?;
    if let Some(bytes) = buffer {
        socket.set_recv_buffer_size(bytes)?;
        socket.set_send_buffer_size(bytes)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Counts the connection as full while it has this many bytes that were never sent, besides those
/// in flight. Where the system can't, more bytes wait in its buffer.
pub fn limit_unsent(connection: &SockRef<'_>, bytes: u32) {
    #[cfg(target_os = "linux")]
    if let Err(error) = connection.set_tcp_notsent_lowat(bytes) {
        tracing::debug!(%error, "TCP_NOTSENT_LOWAT can't be set");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (connection, bytes);
}

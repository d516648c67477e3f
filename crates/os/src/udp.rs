//! Creates UDP sockets with the options that endpoints and relays need.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, Socket, Type};

/// Room for a burst of some hundred milliseconds at a gigabit; the kernel's accounting takes about
/// half of it.
pub const RECEIVE_BUFFER: usize = 8 << 20;
/// Enough for a few 64 KiB batches per path; more would only hide the queue from the congestion
/// controller.
pub const SEND_BUFFER: usize = 2 << 20;

/// A non-blocking UDP socket bound to `addr` and, where one is named, to a device. An IPv6 socket
/// is for IPv6 alone.
///
/// # Errors
/// What the system says against the address or the device.
pub fn udp_socket(addr: SocketAddr, device: Option<&str>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if let Some(device) = device {
        bind_to_device(&socket, device)?;
    }
    enlarge_buffers(&socket);
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    Ok(socket)
}

/// Makes every packet leave by `device`, whatever the routing table prefers.
///
/// # Errors
/// There is no such device.
#[cfg(target_os = "linux")]
pub fn bind_to_device(socket: &Socket, device: &str) -> io::Result<()> {
    match socket.bind_device(Some(device.as_bytes())) {
        // Kernels before 5.7 ask for CAP_NET_RAW; the source address alone then picks the interface
        // where the routing rules follow it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!(
                device,
                "not permitted to bind to the device; bound to its address only"
            );
            Ok(())
        }
        done => done,
    }
}

/// Elsewhere the source address is all there is to steer by.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn bind_to_device(_socket: &Socket, _device: &str) -> io::Result<()> {
    Ok(())
}

/// Best effort: a privileged process may pass the system's maximum, others get that maximum.
fn enlarge_buffers(socket: &Socket) {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::socket::{setsockopt, sockopt};
        let forced = setsockopt(socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_ok()
            && setsockopt(socket, sockopt::SndBufForce, &SEND_BUFFER).is_ok();
        if forced {
            return;
        }
    }
    let receive = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    let send = socket.set_send_buffer_size(SEND_BUFFER);
    if let Err(error) = receive.and(send) {
        tracing::debug!(%error, "socket buffers keep their default sizes");
    }
}

/// Whether the kernel parameters `net.core.rmem_max` and `net.core.wmem_max` limit the sizes of
/// buffers, as Linux's do.
pub fn has_buffer_limits() -> bool {
    std::fs::exists("/proc/sys/net/core").unwrap_or(false)
}

/// Switches the kernel's receive timestamps off, which nobody reads.
///
/// quinn-udp 0.6.3 switches them on, and its control buffer of 96 bytes doesn't hold them together
/// with a coalesced datagram's segment size, destination and ECN mark: the mark comes last and
/// would be lost.
pub fn without_timestamps(socket: &impl AsFd) {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::socket::{setsockopt, sockopt};
        if let Err(error) = setsockopt(&socket.as_fd(), sockopt::ReceiveTimestampns, &false) {
            tracing::debug!(%error, "receive timestamps stay on: ECN marks of coalesced datagrams \
                may be lost");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
}

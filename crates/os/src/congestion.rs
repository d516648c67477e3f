//! The kernel's congestion controls for TCP, chosen per socket (Linux: `TCP_CONGESTION`).

use std::fs;
use std::io;

use socket2::SockRef;

/// Has a socket's connection use the one with this name, and reads back which it uses then.
///
/// # Errors
/// The kernel doesn't have it or doesn't permit it, or the system lets nobody choose.
#[cfg(target_os = "linux")]
pub fn set(socket: &SockRef<'_>, name: &str) -> io::Result<String> {
    socket.set_tcp_congestion(name.as_bytes())?;
    let found = socket.tcp_congestion()?;
    let end = found.iter().position(|b| *b == 0).unwrap_or(found.len());
    Ok(String::from_utf8_lossy(&found[..end]).into_owned())
}

/// Elsewhere the system chooses.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn set(_socket: &SockRef<'_>, _name: &str) -> io::Result<String> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "it can be chosen on Linux only",
    ))
}

/// The names that the kernel offers; `None` if the system doesn't say.
pub fn available() -> Option<Vec<String>> {
    let listed = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").ok()?;
    Some(listed.split_whitespace().map(str::to_owned).collect())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use socket2::{Domain, Socket, Type};

    use super::*;

    #[test]
    fn what_was_set_is_read_back() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let socket = SockRef::from(&socket);
        // Reno is built into every kernel.
        assert_eq!(set(&socket, "reno").unwrap(), "reno");
        assert!(socket.tcp_congestion().unwrap().starts_with(b"reno"));
        assert!(set(&socket, "nosuchcc").is_err());
        assert!(available().is_none_or(|names| names.contains(&"reno".to_owned())));
    }
}

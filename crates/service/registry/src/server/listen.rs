use std::io;
use std::net::SocketAddr;

use manyway_os::tcp_listener;
use tokio::net::TcpListener;

use super::ServerError;

/// How often to try if the system chooses a port that isn't free at all addresses.
const ATTEMPTS: usize = 16;

/// Binds sockets at all addresses, with one port. Returns them with their addresses.
pub(super) fn bind(
    listen: &[SocketAddr],
) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), ServerError> {
    let first = *listen.first().ok_or(ServerError::NoAddress)?;
    if let Some(other) = listen.iter().find(|other| other.port() != first.port()) {
        return Err(ServerError::Ports(first, *other));
    }
    let mut attempts = if first.port() == 0 { ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        match bind_all(listen) {
            Err(ServerError::Bind { error, .. })
                if attempts > 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
}

fn bind_all(listen: &[SocketAddr]) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), ServerError> {
    let (mut sockets, mut addresses) = (Vec::new(), Vec::<SocketAddr>::new());
    for &address in listen {
        let mut wanted = address;
        if let Some(first) = addresses.first() {
            wanted.set_port(first.port());
        }
        let bound = || {
            let socket = TcpListener::from_std(tcp_listener(wanted, None)?.into())?;
            let address = socket.local_addr()?;
            io::Result::Ok((socket, address))
        };
        let (socket, address) = bound().map_err(|error| ServerError::Bind {
            address: wanted,
            error,
        })?;
        sockets.push(socket);
        addresses.push(address);
    }
    Ok((sockets, addresses))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn all_addresses_have_one_port() {
        let (sockets, addresses) = bind(&list(&["0.0.0.0:0", "[::]:0"])).unwrap();
        assert_eq!(sockets.len(), 2);
        assert_ne!(addresses[0].port(), 0);
        assert_eq!(addresses[0].port(), addresses[1].port());
        // One that another has is named.
        let taken = addresses[1];
        let error = bind(&[taken]).unwrap_err().to_string();
        assert!(error.contains(&taken.to_string()), "{error}");
        let error = bind(&list(&["127.0.0.1:1", "[::1]:2"])).unwrap_err();
        assert!(matches!(error, ServerError::Ports(..)), "{error}");
        assert!(matches!(bind(&[]), Err(ServerError::NoAddress)));
    }
}

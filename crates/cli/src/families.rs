//! Relays and registries listen on IPv4 and IPv6 by default, and on IPv4 alone where the system has
//! no IPv6.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use manyway_os::udp::udp_socket;

use crate::screen::Screen;

/// The addresses to listen on. If they are the default ones and this host has no IPv6, those of
/// IPv4 alone, and the user is told.
pub(crate) fn available(screen: &Screen, listen: &[SocketAddr]) -> Vec<SocketAddr> {
    let (available, why) = without_ipv6(listen, ipv6);
    if let Some(why) = why {
        screen.say(&format!(
            "This host has no IPv6 ({why}), so only IPv4 is served"
        ));
    }
    available
}

fn without_ipv6(
    listen: &[SocketAddr],
    ipv6: impl FnOnce() -> io::Result<()>,
) -> (Vec<SocketAddr>, Option<io::Error>) {
    let v4: Vec<SocketAddr> = listen.iter().copied().filter(SocketAddr::is_ipv4).collect();
    // Whoever names an address of IPv6, or no other, wants to know that it isn't there.
    let by_default = listen.iter().all(|address| address.ip().is_unspecified());
    let optional = by_default && !v4.is_empty() && v4.len() < listen.len();
    match optional.then(ipv6) {
        Some(Err(why)) => (v4, Some(why)),
        _ => (listen.to_vec(), None),
    }
}

/// Whether the kernel has IPv6, and some interface has an address of it: loopback has one unless
/// IPv6 is off.
fn ipv6() -> io::Result<()> {
    udp_socket(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0), None)?;
    // A service may not be allowed to ask.
    let Ok(interfaces) = if_addrs::get_if_addrs() else {
        return Ok(());
    };
    let mut addresses = interfaces.iter().map(if_addrs::Interface::ip);
    match addresses.any(|address: IpAddr| address.is_ipv6()) {
        true => Ok(()),
        false => Err(io::Error::other("no interface has an address of it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn ipv6_is_left_out_only_where_it_is_off_and_nobody_asked_for_it() {
        let off = || Err(io::Error::other("off"));
        let both = list(&["0.0.0.0:7", "[::]:7"]);
        let (left, why) = without_ipv6(&both, off);
        assert_eq!((left, why.is_some()), (list(&["0.0.0.0:7"]), true));
        let (left, why) = without_ipv6(&both, || Ok(()));
        assert_eq!((left, why.is_some()), (both, false));
        for asked in [
            &["[::]:7"][..],
            &["0.0.0.0:7"],
            &["0.0.0.0:7", "[::1]:7"],
            &["192.0.2.1:7", "[::]:7"],
        ] {
            let asked = list(asked);
            let (left, why) = without_ipv6(&asked, || unreachable!());
            assert_eq!((left, why.is_some()), (asked, false));
        }
    }
}

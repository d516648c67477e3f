//! The addresses that a relay forwards to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The kind of place that an address names, as far as a relay cares.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somewhere on the Internet.
    Public,
    /// This host, or a network with restricted access: forwarding there could open it to outsiders.
    Private,
    /// No single host, or none that the address alone finds.
    Never,
}

/// The kind of `address`, which must be canonical (no mapped IPv4 addresses). An IPv6 address that
/// stands for an IPv4 address (NAT64, 6to4, Teredo, compatible ones) is of that address's kind at
/// best.
pub fn kind(address: SocketAddr) -> Kind {
    if address.port() == 0 {
        return Kind::Never;
    }
    match address.ip() {
        IpAddr::V4(ip) => kind_v4(ip),
        IpAddr::V6(ip) => kind_v6(ip),
    }
}

fn kind_v4(ip: Ipv4Addr) -> Kind {
    let [a, b, c, _] = ip.octets();
    match (a, b, c) {
        // This network, multicast, reserved, broadcast.
        (0 | 224..=255, _, _) => Kind::Never,
        // Carrier-grade NAT, protocol assignments, benchmarks (RFC 6598, 6890, 2544).
        (100, 64..=127, _) | (192, 0, 0) | (198, 18 | 19, _) => Kind::Private,
        _ if ip.is_private() || ip.is_loopback() || ip.is_link_local() => Kind::Private,
        _ => Kind::Public,
    }
}

fn kind_v6(ip: Ipv6Addr) -> Kind {
    let s = ip.segments();
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        kind_v4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // A link-local address means nothing without its interface.
        [first, ..] if first & 0xffc0 == 0xfe80 || first >> 8 == 0xff => Kind::Never,
        [0, 0, 0, 0, 0, 0, 0, 1] => Kind::Private,
        // IPv4-compatible and mapped addresses, NAT64 (RFC 6052), 6to4 (RFC 3056).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        // Local NAT64 prefixes (RFC 8215), Teredo, unique and site local addresses.
        [0x64, 0xff9b, 1, ..] | [0x2001, 0, ..] => Kind::Private,
        [first, ..] if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfec0 => Kind::Private,
        _ => Kind::Public,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let table = [
            (
                Kind::Public,
                "8.8.8.8 203.0.113.1 100.128.0.1 2a00::1 2001:db8::1 64:ff9b::808:808 \
                 2002:808:808::1",
            ),
            (
                Kind::Private,
                "127.0.0.1 10.0.0.1 172.16.5.5 192.168.1.1 169.254.1.1 100.64.0.1 198.18.0.1 \
                 192.0.0.8 ::1 fd00::1 fec0::1 64:ff9b::a00:1 64:ff9b:1::1 2002:a00:1::1 2001::1 \
                 ::7f00:1 ::ffff:10.0.0.1",
            ),
            (
                Kind::Never,
                "0.0.0.0 0.1.2.3 224.0.0.1 255.255.255.255 240.0.0.1 :: ff02::1 fe80::1 \
                 64:ff9b::e000:1",
            ),
        ];
        for (expected, addresses) in table {
            for ip in addresses.split_whitespace() {
                let ip: IpAddr = ip.parse().unwrap();
                assert_eq!(kind(SocketAddr::new(ip, 1)), expected, "{ip}");
                assert_eq!(kind(SocketAddr::new(ip, 0)), Kind::Never, "{ip}");
            }
        }
    }
}

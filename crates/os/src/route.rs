//! Asks the kernel's routing table by which device a packet would leave.

use std::net::IpAddr;

/// A question to the routing table: by which device would a packet leave?
#[derive(Copy, Clone, Debug)]
pub struct Query {
    /// Where the packet goes.
    pub destination: IpAddr,
    /// Its source address.
    pub source: Option<IpAddr>,
    /// Only routes over this device count.
    pub device: Option<u32>,
}

/// The routing table's answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A route exists and leaves by this device.
    Device(u32),
    /// There is no such route.
    None,
    /// The system can't say.
    Unknown,
}

/// Asks the kernel, policy rules included (Linux: RTM_GETROUTE, rtnetlink(7)); some microseconds.
pub fn look_up(query: Query) -> Answer {
    #[cfg(target_os = "linux")]
    return netlink::look_up(query).unwrap_or(Answer::Unknown);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = query;
        Answer::Unknown
    }
}

#[cfg(target_os = "linux")]
mod netlink {
    use std::io;

    use crate::netlink::{HEADER, Message, NLMSG_ERROR};
    use nix::errno::Errno;

    use super::*;

    // include/uapi/linux/rtnetlink.h
    const RTM_NEWROUTE: u16 = 24;
    const RTM_GETROUTE: u16 = 26;
    /// Answer with the table's entry: without it, IPv4 takes any destination on a named device for
    /// a neighbour.
    const RTM_F_FIB_MATCH: u32 = 0x2000;
    const RTA_DST: u16 = 1;
    const RTA_SRC: u16 = 2;
    const RTA_OIF: u16 = 4;
    const RTA_MULTIPATH: u16 = 9;
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    const ROUTE_HEADER: usize = 12;

    pub(super) fn look_up(query: Query) -> io::Result<Answer> {
        let family = if query.destination.is_ipv4() {
            AF_INET
        } else {
            AF_INET6
        };
        let bits = |ip: IpAddr| if ip.is_ipv4() { 32 } else { 128 };
        let (to, from) = (bits(query.destination), query.source.map_or(0, bits));
        let mut body = vec![family, to, from, 0, 0, 0, 0, 0];
        body.extend(RTM_F_FIB_MATCH.to_ne_bytes());
        let mut message =
            Message::new(RTM_GETROUTE, &body).with_address(RTA_DST, query.destination);
        if let Some(source) = query.source {
            message = message.with_address(RTA_SRC, source);
        }
        if let Some(device) = query.device {
            message = message.with(RTA_OIF, &device.to_ne_bytes());
        }
        Ok(parse(&message.ask()?))
    }

    fn parse(message: &[u8]) -> Answer {
        match u16_at(message, 4) {
            Some(NLMSG_ERROR) => {
                match u32_at(message, HEADER).map(|errno| (errno as i32).wrapping_neg()) {
                    Some(errno)
                        if [Errno::ENETUNREACH, Errno::EHOSTUNREACH]
                            .contains(&Errno::from_raw(errno)) =>
                    {
                        Answer::None
                    }
                    _ => Answer::Unknown,
                }
            }
            Some(RTM_NEWROUTE) => {
                let attributes = message.get(HEADER + ROUTE_HEADER..).unwrap_or_default();
                device(attributes).map_or(Answer::Unknown, Answer::Device)
            }
            _ => Answer::Unknown,
        }
    }

    /// The outgoing device; of an equal-cost route, the first hop's.
    fn device(mut attributes: &[u8]) -> Option<u32> {
        while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
            let length = usize::from(length);
            match kind {
                RTA_OIF => return u32_at(attributes, 4),
                // struct rtnexthop: length u16, flags u8, hops u8, device i32
                RTA_MULTIPATH => return u32_at(attributes, 8),
                _ => attributes = attributes.get(length.next_multiple_of(4).max(4)..)?,
            }
        }
        None
    }

    fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
        Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
    }

    fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn any_answer_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
                let _ = parse(&bytes);
                let _ = device(&bytes);
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::Ipv6Addr;

    use nix::net::if_::if_nametoindex;

    use super::*;

    #[test]
    fn loopback_is_reached_by_its_own_device_and_by_no_other() {
        let lo = if_nametoindex("lo").unwrap();
        let destination: IpAddr = "127.0.0.7".parse().unwrap();
        let query = Query {
            destination,
            source: None,
            device: None,
        };
        assert_eq!(look_up(query), Answer::Device(lo));
        let query = Query {
            device: Some(lo),
            source: Some("127.0.0.1".parse().unwrap()),
            ..query
        };
        assert_eq!(look_up(query), Answer::Device(lo));
        // TEST-NET-3 is not a neighbour of lo.
        let elsewhere = Query {
            destination: "203.0.113.9".parse().unwrap(),
            source: None,
            device: Some(lo),
        };
        assert_eq!(look_up(elsewhere), Answer::None);
    }

    #[test]
    fn ipv6_is_asked_too() {
        let loopback = Ipv6Addr::LOCALHOST;
        if !crate::interface::ipv6_states().contains_key(&loopback) {
            return; // a host without IPv6
        }
        let query = Query {
            destination: loopback.into(),
            source: None,
            device: None,
        };
        let lo = if_nametoindex("lo").unwrap();
        assert_eq!(look_up(query), Answer::Device(lo));
    }
}

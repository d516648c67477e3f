//! Asks the kernel's routing table by which device a packet would leave.
//!
//! The netlink request is written by hand: `rtnetlink` would add 9 crates to the build (4 for
//! `netlink-packet-route` and `netlink-sys` alone) and a background task, for this one question.

use std::net::IpAddr;

/// A question to the routing table: by which device would a packet leave?
#[derive(Copy, Clone, Debug)]
pub(crate) struct Query {
    /// Where the packet goes.
    pub(crate) destination: IpAddr,
    /// Its source address.
    pub(crate) source: Option<IpAddr>,
    /// Only routes over this device count.
    pub(crate) device: Option<u32>,
}

/// The routing table's answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A route exists and leaves by this device.
    Device(u32),
    /// There is no such route.
    None,
    /// The system can't say.
    Unknown,
}

/// Asks the kernel, policy rules included (Linux: RTM_GETROUTE, rtnetlink(7)); some microseconds.
pub(crate) fn look_up(query: Query) -> Answer {
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
    use super::*;
    use nix::errno::Errno;
    use nix::sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto,
        socket,
    };
    use std::os::fd::AsRawFd;

    // include/uapi/linux/netlink.h and rtnetlink.h
    const NLMSG_ERROR: u16 = 2;
    const RTM_NEWROUTE: u16 = 24;
    const RTM_GETROUTE: u16 = 26;
    const NLM_F_REQUEST: u16 = 1;
    /// Answer with the table's entry: without it, IPv4 takes any destination on a named device for
    /// a neighbour.
    const RTM_F_FIB_MATCH: u32 = 0x2000;
    const RTA_DST: u16 = 1;
    const RTA_SRC: u16 = 2;
    const RTA_OIF: u16 = 4;
    const RTA_MULTIPATH: u16 = 9;
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    const MESSAGE_HEADER: usize = 16;
    const ROUTE_HEADER: usize = 12;

    pub(super) fn look_up(query: Query) -> Result<Answer, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            flags,
            SockProtocol::NetlinkRoute,
        )?;
        let fd = socket.as_raw_fd();
        sendto(
            fd,
            &request(query),
            &NetlinkAddr::new(0, 0),
            MsgFlags::empty(),
        )?;
        // The kernel answers while it handles the request, so the answer is already here.
        let mut answer = [0; 4096];
        let length = recv(fd, &mut answer, MsgFlags::empty())?;
        Ok(parse(&answer[..length]))
    }

    fn request(query: Query) -> Vec<u8> {
        let family = if query.destination.is_ipv4() {
            AF_INET
        } else {
            AF_INET6
        };
        let bits = |ip: IpAddr| if ip.is_ipv4() { 32 } else { 128 };
        let mut message = Vec::with_capacity(128);
        message.extend(0u32.to_ne_bytes());
        message.extend(RTM_GETROUTE.to_ne_bytes());
        message.extend(NLM_F_REQUEST.to_ne_bytes());
        message.extend([0; 8]);
        message.extend([
            family,
            bits(query.destination),
            query.source.map_or(0, bits),
            0,
            0,
            0,
            0,
            0,
        ]);
        message.extend(RTM_F_FIB_MATCH.to_ne_bytes());
        attribute(&mut message, RTA_DST, &octets(query.destination));
        if let Some(source) = query.source {
            attribute(&mut message, RTA_SRC, &octets(source));
        }
        if let Some(device) = query.device {
            attribute(&mut message, RTA_OIF, &device.to_ne_bytes());
        }
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message
    }

    fn octets(ip: IpAddr) -> Vec<u8> {
        match ip {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        }
    }

    /// Lengths of 4 and 16 need no padding.
    fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
        message.extend((4 + value.len() as u16).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(value);
    }

    fn parse(message: &[u8]) -> Answer {
        match u16_at(message, 4) {
            Some(NLMSG_ERROR) => {
                match u32_at(message, MESSAGE_HEADER).map(|errno| (errno as i32).wrapping_neg()) {
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
                let attributes = message
                    .get(MESSAGE_HEADER + ROUTE_HEADER..)
                    .unwrap_or_default();
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
    use super::*;
    use crate::os::addresses::interface_addresses;

    #[test]
    fn loopback_is_reached_by_its_own_device_and_by_no_other() {
        let lo = interface_addresses()
            .unwrap()
            .into_iter()
            .find(|a| a.ip.is_loopback())
            .unwrap()
            .index;
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
        let Some(lo) = interface_addresses()
            .unwrap()
            .into_iter()
            .find(|a| a.ip.is_loopback() && a.ip.is_ipv6())
        else {
            return; // a host without IPv6
        };
        let query = Query {
            destination: lo.ip,
            source: None,
            device: None,
        };
        assert_eq!(look_up(query), Answer::Device(lo.index));
    }
}

//! Explains why a path doesn't come up, with the command that mends it.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use manyway_os::interface::reverse_path_filter;
use manyway_os::route::{Answer, Query, look_up};

use crate::addresses::interface_name;
use crate::interfaces::Place;

/// A pair of local and remote address that doesn't work, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathProblem {
    /// The local socket's name: an interface or an address.
    pub name: String,
    /// The local address.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// What is wrong.
    pub kind: ProblemKind,
    /// The interface looks like a tunnel, which often leads to its own network only.
    pub tunnel: bool,
}

impl PathProblem {
    pub(crate) fn new(place: &Place, remote: SocketAddr, kind: ProblemKind) -> Self {
        Self {
            name: place.name(),
            local: place.ip,
            remote,
            kind,
            tunnel: place.is_tunnel(),
        }
    }

    /// The command that gives the interface a default route. Other programs keep to theirs, since
    /// network managers give uplinks that work lower metrics. With `append`, several interfaces can
    /// have one with this metric.
    pub fn route_command(&self) -> String {
        let six = self.ip_option();
        let device = match self.name == self.local.to_string() {
            true => "INTERFACE",
            false => &self.name,
        };
        format!("ip{six} route append default via GATEWAY dev {device} metric 9000")
    }

    /// What `ip` needs for this family.
    fn ip_option(&self) -> &'static str {
        if self.remote.is_ipv6() { " -6" } else { "" }
    }
}

/// A local address, and one of a peer's that it may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPair {
    /// The local socket's name: an interface or an address.
    pub name: String,
    /// The local address.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: SocketAddr,
}

/// What is wrong with a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProblemKind {
    /// No route leads to the peer from there.
    NoRoute,
    /// The kernel drops the peer's answers: the reverse-path filter (RFC 3704) is strict and the
    /// route to the peer leaves by another interface.
    ReversePathFilter {
        /// The interface that the route to the peer leaves by.
        route: String,
    },
    /// The socket is bound to an address of which packets leave by an interface that doesn't have
    /// it.
    OtherInterface {
        /// The interface that they leave by.
        route: String,
    },
    /// The interface, or the path, doesn't take datagrams of this size.
    TooBig {
        /// UDP payload in bytes.
        bytes: usize,
    },
    /// The local firewall forbids it.
    Forbidden,
    /// There is a route, but a router or a firewall on it rejects what is sent.
    Rejected,
    /// Nobody listens at the peer's port.
    Refused,
    /// Nothing comes back, though another interface has an answer.
    Silent,
    /// Something else, in the system's words.
    Other(String),
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            local,
            remote,
            kind,
            tunnel: _,
        } = self;
        let to = remote.ip();
        match kind {
            ProblemKind::NoRoute if *name == local.to_string() => {
                let command = self.route_command();
                write!(
                    f,
                    "{name} has no route to {to}: give its interface one, `{command}`"
                )
            }
            ProblemKind::NoRoute => {
                write!(f, "{name} has no route to {to}: `{}`", self.route_command())
            }
            ProblemKind::ReversePathFilter { route } => write!(
                f,
                "{name} drops the answers of {to}, because the route there leaves by {route} and \
                 the reverse-path filter is strict: `sysctl net.ipv4.conf.{name}.rp_filter=2`"
            ),
            ProblemKind::OtherInterface { route } => write!(
                f,
                "packets from {local} to {to} leave by {route}, which doesn't have that address: \
                 name the interface instead of the address, or `ip{} rule add from {local} \
                 table N` with a default route in table N",
                self.ip_option()
            ),
            ProblemKind::TooBig { bytes } => write!(
                f,
                "{name} doesn't take datagrams of {bytes} bytes to {to}: choose a smaller datagram \
                 size, or raise the interface's MTU"
            ),
            ProblemKind::Forbidden => {
                write!(
                    f,
                    "{name} may not send to {remote}: the local firewall forbids it; allow \
                     outgoing UDP to that port"
                )
            }
            ProblemKind::Rejected => {
                write!(
                    f,
                    "{name} gets nothing through to {to}, because a firewall or router on the way \
                     rejects it: open UDP port {} there",
                    remote.port()
                )
            }
            ProblemKind::Refused => {
                write!(
                    f,
                    "{remote} refuses, because nothing listens there: start the listener and use \
                     its newest ticket"
                )
            }
            ProblemKind::Silent => {
                write!(
                    f,
                    "{name} is unused, because nothing comes back from {remote} over it: check \
                     that its network has access to the Internet and lets UDP or TCP through"
                )
            }
            ProblemKind::Other(error) => write!(f, "{name} can't send to {remote}: {error}"),
        }
    }
}

/// What the routing table and the reverse-path filter say about a pair before anything was sent;
/// `None` when nothing speaks against it.
pub(crate) fn foresee(place: &Place, remote: IpAddr) -> Option<ProblemKind> {
    let query = Query {
        destination: remote,
        source: Some(place.ip),
        device: None,
    };
    match &place.device {
        Some(device) => {
            if look_up(Query {
                device: Some(device.index),
                ..query
            }) == Answer::None
            {
                return Some(ProblemKind::NoRoute);
            }
            // The filter looks the other way round: would a packet to the peer leave by the
            // interface it came in by?
            let Answer::Device(index) = look_up(query) else {
                return None;
            };
            let strict = remote.is_ipv4() && reverse_path_filter(&device.name) == 1;
            (strict && index != device.index && !is_local_route(index)).then(|| {
                ProblemKind::ReversePathFilter {
                    route: named(index),
                }
            })
        }
        None => match look_up(query) {
            Answer::None => Some(ProblemKind::NoRoute),
            Answer::Device(index) => {
                let own = crate::addresses::interface_addresses().ok()?;
                let elsewhere = !place.ip.is_loopback()
                    && !own.iter().any(|a| a.index == index && a.ip == place.ip);
                (elsewhere && !is_local_route(index)).then(|| ProblemKind::OtherInterface {
                    route: named(index),
                })
            }
            Answer::Unknown => None,
        },
    }
}

/// Whether packets stay on this host.
fn is_local_route(index: u32) -> bool {
    interface_name(index).is_some_and(|name| name == "lo")
}

fn named(index: u32) -> String {
    interface_name(index).unwrap_or_else(|| format!("interface {index}"))
}

/// What a failed send says about its pair.
pub(crate) fn from_error(error: &io::Error, bytes: usize) -> ProblemKind {
    use io::ErrorKind as Kind;
    if quinn_udp::is_msg_size_err(error) {
        return ProblemKind::TooBig { bytes };
    }
    match error.kind() {
        // A router's or a firewall's word, unless our own table has no route either.
        Kind::HostUnreachable => ProblemKind::Rejected,
        Kind::NetworkUnreachable | Kind::NetworkDown | Kind::AddrNotAvailable => {
            ProblemKind::NoRoute
        }
        Kind::PermissionDenied => ProblemKind::Forbidden,
        Kind::ConnectionRefused => ProblemKind::Refused,
        _ if is_device_gone(error) => ProblemKind::NoRoute,
        _ => ProblemKind::Other(error.to_string()),
    }
}

/// The device that the socket is bound to is no more (ENODEV, ENXIO), or was never able (ENONET).
fn is_device_gone(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use nix::errno::Errno;
        let gone = [Errno::ENODEV as i32, Errno::ENXIO as i32];
        error
            .raw_os_error()
            .is_some_and(|code| gone.contains(&code))
    }
    #[cfg(not(unix))]
    {
        let _ = error;
        false
    }
}

/// Errors that pass by themselves and say nothing about the path.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    let out_of_buffers = {
        #[cfg(unix)]
        {
            error.raw_os_error() == Some(nix::errno::Errno::ENOBUFS as i32)
        }
        #[cfg(not(unix))]
        {
            false
        }
    };
    out_of_buffers
        || matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::OutOfMemory
                | io::ErrorKind::Interrupted
        )
}

/// Whether the kernel would reject the pair outright: families that differ, loopback with the
/// outside, an address that is no host's. Asking it all the same would make quinn-udp take the
/// refusal for missing offloads.
pub(crate) fn is_impossible(local: IpAddr, remote: SocketAddr) -> bool {
    let ip = remote.ip();
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    local.is_ipv4() != ip.is_ipv4()
        || local.is_loopback() != ip.is_loopback()
        || ip.is_unspecified()
        || ip.is_multicast()
        || broadcast
        || remote.port() == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addresses::interface_addresses;
    use crate::interfaces::Device;

    fn problem(kind: ProblemKind) -> PathProblem {
        PathProblem {
            name: "wlan0".into(),
            local: "192.0.2.7".parse().unwrap(),
            remote: "203.0.113.5:4000".parse().unwrap(),
            kind,
            tunnel: false,
        }
    }

    #[test]
    fn every_problem_names_the_place_and_the_remedy() {
        let no_route = problem(ProblemKind::NoRoute);
        assert_eq!(
            no_route.to_string(),
            "wlan0 has no route to 203.0.113.5: `ip route append default via GATEWAY dev wlan0 \
             metric 9000`"
        );
        let six = PathProblem {
            remote: "[2001:db8::1]:1".parse().unwrap(),
            ..no_route
        };
        assert!(six.to_string().contains("`ip -6 route append"), "{six}");
        let filtered = problem(ProblemKind::ReversePathFilter {
            route: "eth0".into(),
        })
        .to_string();
        assert!(
            filtered.contains("`sysctl net.ipv4.conf.wlan0.rp_filter=2`")
                && filtered.contains("eth0"),
            "{filtered}"
        );
        let other = problem(ProblemKind::OtherInterface {
            route: "eth0".into(),
        })
        .to_string();
        assert!(
            other.contains("`ip rule add from 192.0.2.7 table N`"),
            "{other}"
        );
        assert!(
            problem(ProblemKind::TooBig { bytes: 1400 })
                .to_string()
                .contains("1400")
        );
    }

    #[test]
    fn errors_are_told_apart() {
        let kind = |kind: io::ErrorKind| from_error(&kind.into(), 1200);
        assert_eq!(
            kind(io::ErrorKind::NetworkUnreachable),
            ProblemKind::NoRoute
        );
        assert_eq!(
            kind(io::ErrorKind::PermissionDenied),
            ProblemKind::Forbidden
        );
        assert_eq!(kind(io::ErrorKind::HostUnreachable), ProblemKind::Rejected);
        assert!(matches!(
            kind(io::ErrorKind::BrokenPipe),
            ProblemKind::Other(_)
        ));
        let os = io::Error::from_raw_os_error;
        assert_eq!(
            from_error(&os(nix::errno::Errno::ENODEV as i32), 1),
            ProblemKind::NoRoute
        );
        assert_eq!(
            from_error(&os(nix::errno::Errno::EMSGSIZE as i32), 9000),
            ProblemKind::TooBig { bytes: 9000 }
        );
        assert!(is_passing(&os(nix::errno::Errno::ENOBUFS as i32)));
        assert!(!is_passing(&os(nix::errno::Errno::ENETUNREACH as i32)));
    }

    #[test]
    fn impossible_pairs_are_known_without_asking() {
        let impossible = |local: &str, remote: &str| {
            is_impossible(local.parse().unwrap(), remote.parse().unwrap())
        };
        assert!(impossible("127.0.0.1", "192.0.2.1:1"));
        assert!(impossible("192.0.2.1", "127.0.0.1:1"));
        assert!(impossible("192.0.2.1", "[2001:db8::1]:1"));
        assert!(impossible("192.0.2.1", "0.0.0.0:1") && impossible("192.0.2.1", "224.0.0.1:1"));
        assert!(
            impossible("192.0.2.1", "192.0.2.2:0") && impossible("192.0.2.1", "255.255.255.255:9")
        );
        assert!(!impossible("127.0.0.1", "127.0.0.9:1") && !impossible("::1", "[::1]:1"));
        assert!(!impossible("192.0.2.1", "203.0.113.1:1"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_without_a_route_is_foreseen() {
        let lo = interface_addresses()
            .unwrap()
            .into_iter()
            .find(|a| a.ip.is_loopback() && a.ip.is_ipv4())
            .unwrap();
        let device = Device {
            name: lo.interface,
            index: lo.index,
        };
        let bound = Place {
            ip: lo.ip,
            device: Some(device),
        };
        assert_eq!(
            foresee(&bound, "203.0.113.5".parse().unwrap()),
            Some(ProblemKind::NoRoute)
        );
        assert_eq!(foresee(&bound, "127.0.0.2".parse().unwrap()), None);
        assert_eq!(
            foresee(
                &Place {
                    device: None,
                    ..bound
                },
                "127.0.0.2".parse().unwrap()
            ),
            None
        );
    }
}

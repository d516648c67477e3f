//! Chooses the local addresses that get a socket: matches path selectors with the interfaces.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use manyway_os::interface::{is_tunnel, mtu};

use crate::addresses::{InterfaceAddress, interface_addresses};

/// What a user calls a way out of the host: an interface or one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathSelector {
    /// Every usable address of this interface: packets leave by it whatever the routing table
    /// prefers.
    Interface(String),
    /// This address: packets carry it as their source, and leave by the interface that the routing
    /// rules give it.
    Address(IpAddr),
}

/// A path selector that is neither an address nor a possible interface name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is neither an IP address nor an interface name: write for example `192.0.2.7`, \
     `2001:db8::7` or `eth0`"
)]
pub struct PathSelectorError(String);

impl FromStr for PathSelector {
    type Err = PathSelectorError;

    fn from_str(text: &str) -> Result<Self, PathSelectorError> {
        let text = text.trim();
        if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse() {
            return Ok(Self::Address(ip));
        }
        // Linux's rules for a device name (dev_valid_name): 1 to 15 bytes, no slash, colon or white
        // space.
        let forbidden = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        if text.is_empty()
            || text.len() > 15
            || text == "."
            || text == ".."
            || text.contains(forbidden)
        {
            return Err(PathSelectorError(text.into()));
        }
        Ok(Self::Interface(text.into()))
    }
}

impl fmt::Display for PathSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => name.fmt(f),
            Self::Address(ip) => ip.fmt(f),
        }
    }
}

/// A local address that shall have a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) ip: IpAddr,
    /// The device to bind to; `None` where the routing rules decide.
    pub(crate) device: Option<Device>,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) index: u32,
}

impl Place {
    /// The largest IP packet that leaves from here in one piece, in bytes; `None` if that isn't
    /// known.
    pub(crate) fn mtu(&self) -> Option<u32> {
        if let Some(device) = &self.device {
            return mtu(&device.name);
        }
        // Any address of 127.0.0.0/8 may be bound, only one of them is listed.
        if self.ip.is_loopback() {
            return mtu("lo");
        }
        let owner = interface_addresses()
            .ok()?
            .into_iter()
            .find(|a| a.ip == self.ip)?;
        mtu(&owner.interface)
    }

    /// Whether the device is a point-to-point one that isn't hardware, such as a VPN's.
    pub(crate) fn is_tunnel(&self) -> bool {
        let device = self.device.as_ref();
        device.is_some_and(|device| is_tunnel(&device.name))
    }

    /// The place of this name ([`Place::name`]) and address.
    pub(crate) fn named(name: &str, ip: IpAddr) -> Self {
        let own = interface_addresses().unwrap_or_default();
        let device = own.into_iter().find(|a| a.interface == name);
        Self {
            ip,
            device: device.map(|a| Device {
                name: a.interface,
                index: a.index,
            }),
        }
    }

    /// What people call it: the interface's name, else the address.
    pub(crate) fn name(&self) -> String {
        match &self.device {
            Some(device) => device.name.clone(),
            None => self.ip.to_string(),
        }
    }
}

/// What an endpoint wants sockets on; it changes while the endpoint lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct InterfaceSelection {
    /// Every interface that leads outside this host.
    pub(crate) everything: bool,
    /// These, in addition.
    pub(crate) selectors: BTreeSet<PathSelector>,
    /// But not these.
    pub(crate) excluded: BTreeSet<PathSelector>,
}

impl InterfaceSelection {
    /// The places that the selection means on a host with these addresses.
    pub(crate) fn places(&self, present: &[InterfaceAddress]) -> BTreeSet<Place> {
        let mut places: BTreeSet<Place> = self
            .selectors
            .iter()
            .flat_map(|s| selected(s, present))
            .collect();
        if self.everything {
            places.extend(usable(
                present
                    .iter()
                    .filter(|a| !a.ip.is_loopback() && !a.no_uplink),
            ));
        }
        // An address can be bound once. An interface's wish is the stronger one: it says by where
        // packets leave.
        let bound: BTreeSet<IpAddr> = places
            .iter()
            .filter(|p| p.device.is_some())
            .map(|p| p.ip)
            .collect();
        places.retain(|place| {
            (place.device.is_some() || !bound.contains(&place.ip)) && !self.excludes(place)
        });
        places
    }

    fn excludes(&self, place: &Place) -> bool {
        let device = place
            .device
            .as_ref()
            .map(|d| PathSelector::Interface(d.name.clone()));
        self.excluded.contains(&PathSelector::Address(place.ip))
            || device.is_some_and(|d| self.excluded.contains(&d))
    }
}

fn selected(selector: &PathSelector, present: &[InterfaceAddress]) -> Vec<Place> {
    match selector {
        PathSelector::Interface(name) => {
            usable(present.iter().filter(|a| a.interface == *name)).collect()
        }
        PathSelector::Address(ip) => {
            let there = present.iter().any(|a| a.ip == *ip && a.up);
            // All of 127.0.0.0/8 is local, though only 127.0.0.1 is listed.
            let there = there || matches!(ip, IpAddr::V4(ip) if ip.is_loopback());
            there
                .then_some(Place {
                    ip: *ip,
                    device: None,
                })
                .into_iter()
                .collect()
        }
    }
}

/// The usable ones among `addresses`, one per IPv6 prefix and device: others lead the same way.
fn usable<'a>(
    addresses: impl Iterator<Item = &'a InterfaceAddress>,
) -> impl Iterator<Item = Place> {
    let mut addresses: Vec<_> = addresses.filter(|a| is_usable(a)).collect();
    // Stable addresses come first: tickets outlive temporary ones.
    addresses.sort_by_key(|a| (a.temporary, a.ip));
    let mut seen = BTreeSet::new();
    addresses.retain(|a| match a.ip {
        IpAddr::V6(ip) => seen.insert((a.index, ip.to_bits() >> 64)),
        IpAddr::V4(_) => true,
    });
    addresses.into_iter().map(|a| Place {
        ip: a.ip,
        device: Some(Device {
            name: a.interface.clone(),
            index: a.index,
        }),
    })
}

/// Up, and an address that a peer elsewhere (or here, for loopback) can answer.
fn is_usable(address: &InterfaceAddress) -> bool {
    let link_local = match address.ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    address.up
        && address.preferred
        && !link_local
        && !address.ip.is_unspecified()
        && !address.ip.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(interface: &str, index: u32, ip: &str) -> InterfaceAddress {
        InterfaceAddress {
            interface: interface.into(),
            index,
            ip: ip.parse().unwrap(),
            up: true,
            preferred: true,
            temporary: false,
            no_uplink: false,
        }
    }

    fn host() -> Vec<InterfaceAddress> {
        vec![
            address("lo", 1, "127.0.0.1"),
            address("lo", 1, "::1"),
            address("eth0", 2, "192.0.2.7"),
            address("eth0", 2, "fe80::1"),
            InterfaceAddress {
                temporary: true,
                ..address("eth0", 2, "2001:db8::aaaa")
            },
            address("eth0", 2, "2001:db8::ffff"),
            InterfaceAddress {
                preferred: false,
                ..address("eth0", 2, "2001:db8:1::1")
            },
            address("wlan0", 3, "198.51.100.3"),
            address("wlan0", 3, "169.254.3.3"),
            InterfaceAddress {
                up: false,
                ..address("wwan0", 4, "203.0.113.1")
            },
            InterfaceAddress {
                no_uplink: true,
                ..address("docker0", 5, "172.17.0.1")
            },
        ]
    }

    fn found(selectors: &[&str], present: &[InterfaceAddress]) -> Vec<String> {
        let selectors: BTreeSet<PathSelector> =
            selectors.iter().map(|s| s.parse().unwrap()).collect();
        show(
            &InterfaceSelection {
                everything: selectors.is_empty(),
                selectors,
                ..InterfaceSelection::default()
            },
            present,
        )
    }

    fn show(selection: &InterfaceSelection, present: &[InterfaceAddress]) -> Vec<String> {
        let show = |place: Place| format!("{} {}", place.name(), place.ip);
        selection.places(present).into_iter().map(show).collect()
    }

    #[test]
    fn without_selectors_everything_that_leads_outside() {
        assert_eq!(
            found(&[], &host()),
            [
                "eth0 192.0.2.7",
                "wlan0 198.51.100.3",
                "eth0 2001:db8::ffff"
            ]
        );
    }

    #[test]
    fn loopback_only_when_asked_for() {
        assert!(found(&[], &host()[..2]).is_empty());
        assert_eq!(found(&["lo"], &host()), ["lo 127.0.0.1", "lo ::1"]);
        assert_eq!(found(&["127.0.0.9"], &host()), ["127.0.0.9 127.0.0.9"]);
    }

    #[test]
    fn what_is_excluded_stays_out() {
        let exclude = |excluded: &[&str]| InterfaceSelection {
            everything: true,
            selectors: BTreeSet::from(["127.0.0.5".parse().unwrap()]),
            excluded: excluded.iter().map(|s| s.parse().unwrap()).collect(),
        };
        assert_eq!(
            show(&exclude(&["eth0"]), &host()),
            ["127.0.0.5 127.0.0.5", "wlan0 198.51.100.3"]
        );
        assert_eq!(
            show(&exclude(&["wlan0", "192.0.2.7", "127.0.0.5"]), &host()),
            ["eth0 2001:db8::ffff"]
        );
    }

    #[test]
    fn selectors_name_interfaces_and_addresses() {
        assert_eq!(
            found(&["wlan0", "docker0"], &host()),
            ["docker0 172.17.0.1", "wlan0 198.51.100.3"]
        );
        assert_eq!(
            found(&["2001:db8::aaaa"], &host()),
            ["2001:db8::aaaa 2001:db8::aaaa"]
        );
        assert!(found(&["wwan0", "203.0.113.1", "192.0.2.99", "eth9"], &host()).is_empty());
    }

    #[test]
    fn an_address_and_its_interface_are_one_socket() {
        assert_eq!(
            found(&["eth0", "192.0.2.7"], &host()),
            ["eth0 192.0.2.7", "eth0 2001:db8::ffff"]
        );
    }

    #[test]
    fn selectors_parse_and_print() {
        for text in ["eth0", "192.0.2.7", "2001:db8::7", "wg-home.1"] {
            assert_eq!(text.parse::<PathSelector>().unwrap().to_string(), text);
        }
        assert_eq!(
            "[::1]".parse(),
            Ok(PathSelector::Address("::1".parse().unwrap()))
        );
        for text in [
            "",
            "a/b",
            "a b",
            "192.0.2.7:80",
            "sixteen-bytes-xx",
            "..",
            "a\0",
        ] {
            let error = text.parse::<PathSelector>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}

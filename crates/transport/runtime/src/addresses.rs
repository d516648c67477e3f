//! This host's interfaces and their addresses.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use manyway_os::interface::{ipv6_states, is_host_only_bridge, is_manyways_tunnel};

/// One address of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    /// The device's name, without an alias label.
    pub(crate) interface: String,
    /// The device's index; 0 when unknown.
    pub(crate) index: u32,
    /// The address.
    pub(crate) ip: IpAddr,
    /// The device is up and has a carrier.
    pub(crate) up: bool,
    /// An IPv6 address that is usable for new conversations: not deprecated, tentative or a
    /// duplicate. True for IPv4.
    pub(crate) preferred: bool,
    /// An IPv6 privacy address (RFC 8981), which will go away some day.
    pub(crate) temporary: bool,
    /// The device is a bridge that leads only to containers or guests of this host, or the tunnel
    /// of a `manyway tun`, whose packets take the other interfaces.
    pub(crate) no_uplink: bool,
}

/// Every address of this host; one scan costs some tens of microseconds.
pub(crate) fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let states = ipv6_states();
    let mut no_uplink = BTreeMap::new();
    let found = if_addrs::get_if_addrs()?.into_iter().map(|interface| {
        let ip = interface.ip();
        // IPv4 alias addresses carry a label, "eth0:1", which is no device.
        let name = interface
            .name
            .split(':')
            .next()
            .unwrap_or(&interface.name)
            .to_owned();
        let state = match ip {
            IpAddr::V6(ip) => states.get(&ip),
            IpAddr::V4(_) => None,
        };
        let no_uplink = *no_uplink
            .entry(name.clone())
            .or_insert_with(|| is_host_only_bridge(&name) || is_manyways_tunnel(&name));
        InterfaceAddress {
            interface: name,
            index: interface.index.unwrap_or(0),
            ip,
            up: interface.is_oper_up(),
            preferred: state.is_none_or(|state| state.preferred),
            temporary: state.is_some_and(|state| state.temporary),
            no_uplink,
        }
    });
    Ok(found.collect())
}

/// The name of the device with this index.
pub(crate) fn interface_name(index: u32) -> Option<String> {
    let found = if_addrs::get_if_addrs().ok()?;
    let named = found
        .into_iter()
        .find(|interface| interface.index == Some(index))?;
    Some(named.name.split(':').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there_and_up() {
        let found = interface_addresses().unwrap();
        let lo = found
            .iter()
            .find(|a| a.ip.is_loopback())
            .expect("a loopback address");
        assert!(lo.up && lo.preferred && !lo.no_uplink, "{lo:?}");
        assert_eq!(
            interface_name(lo.index).as_deref(),
            Some(lo.interface.as_str())
        );
    }
}

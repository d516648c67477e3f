use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

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
    /// The device is a bridge that leads only to containers or guests of this host.
    pub(crate) host_only: bool,
}

/// Every address of this host; one scan costs some tens of microseconds.
pub(crate) fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let flags = ipv6_flags();
    let mut host_only = BTreeMap::new();
    let found = if_addrs::get_if_addrs()?.into_iter().map(|interface| {
        let ip = interface.ip();
        // IPv4 alias addresses carry a label, "eth0:1", which is no device.
        let name = interface
            .name
            .split(':')
            .next()
            .unwrap_or(&interface.name)
            .to_owned();
        let flags = match ip {
            IpAddr::V6(ip) => flags.get(&ip).copied().unwrap_or_default(),
            IpAddr::V4(_) => 0,
        };
        let host_only = *host_only
            .entry(name.clone())
            .or_insert_with(|| is_host_only_bridge(Path::new("/sys/class/net"), &name));
        InterfaceAddress {
            interface: name,
            index: interface.index.unwrap_or(0),
            ip,
            up: interface.is_oper_up(),
            preferred: flags & (DEPRECATED | TENTATIVE | DUPLICATE) == 0,
            temporary: flags & TEMPORARY != 0,
            host_only,
        }
    });
    Ok(found.collect())
}

// include/uapi/linux/if_addr.h
const TEMPORARY: u32 = 0x01;
const DUPLICATE: u32 = 0x08;
const DEPRECATED: u32 = 0x20;
const TENTATIVE: u32 = 0x40;

/// Linux's flags of every IPv6 address; empty elsewhere.
fn ipv6_flags() -> BTreeMap<Ipv6Addr, u32> {
    parse_if_inet6(&fs::read_to_string("/proc/net/if_inet6").unwrap_or_default())
}

/// Lines of "address index prefix scope flags name", numbers in hexadecimal.
fn parse_if_inet6(text: &str) -> BTreeMap<Ipv6Addr, u32> {
    let parse = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let address = u128::from_str_radix(fields.next()?, 16).ok()?;
        let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
        Some((Ipv6Addr::from_bits(address), flags))
    };
    text.lines().filter_map(parse).collect()
}

/// Whether `name` is a bridge none of whose ports leads outside this host (docker0, virbr0, …).
///
/// A port leads outside when it is hardware, lies on another device (VLAN, bond) or is a tunnel of
/// a declared type.
fn is_host_only_bridge(sysfs: &Path, name: &str) -> bool {
    if !sysfs.join(name).join("bridge").exists() {
        return false;
    }
    let ports = fs::read_dir(sysfs.join(name).join("brif"))
        .into_iter()
        .flatten()
        .flatten();
    let mut ports = ports.map(|port| sysfs.join(port.file_name()));
    !ports.any(|port| leads_outside(&port))
}

fn leads_outside(port: &Path) -> bool {
    let lies_on_another = || {
        let mut entries = fs::read_dir(port).into_iter().flatten().flatten();
        entries.any(|entry| entry.file_name().to_string_lossy().starts_with("lower_"))
    };
    let has_type = || {
        let uevent = fs::read_to_string(port.join("uevent")).unwrap_or_default();
        uevent.lines().any(|line| line.starts_with("DEVTYPE="))
    };
    port.join("device").exists() || lies_on_another() || has_type()
}

/// The largest IP packet that an interface takes, in bytes; `None` where nobody says.
pub(crate) fn interface_mtu(interface: &str) -> Option<u32> {
    let text = fs::read_to_string(Path::new("/sys/class/net").join(interface).join("mtu")).ok()?;
    text.trim().parse().ok()
}

/// Whether an interface is point-to-point and no hardware.
pub(crate) fn is_tunnel(interface: &str) -> bool {
    // include/uapi/linux/if.h
    const POINT_TO_POINT: u32 = 0x10;
    let sysfs = Path::new("/sys/class/net").join(interface);
    let flags = fs::read_to_string(sysfs.join("flags")).unwrap_or_default();
    let flags = flags.trim().trim_start_matches("0x");
    let flags = u32::from_str_radix(flags, 16).unwrap_or(0);
    flags & POINT_TO_POINT != 0 && !sysfs.join("device").exists()
}

/// The reverse-path filter in force on an interface (the larger of its own and `all`); 0 where
/// there is none.
pub(crate) fn reverse_path_filter(interface: &str) -> u8 {
    let read = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
        fs::read_to_string(path).ok()?.trim().parse::<u8>().ok()
    };
    read("all").unwrap_or(0).max(read(interface).unwrap_or(0))
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
        assert!(lo.up && lo.preferred && !lo.host_only, "{lo:?}");
        assert_eq!(
            interface_name(lo.index).as_deref(),
            Some(lo.interface.as_str())
        );
    }

    #[test]
    fn reads_the_kernels_flags() {
        let text = "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n\
                    fd000000000000000000000000000002 04 40 00 21     eth0\n\
                    garbage\n\
                    00 zz\n";
        let flags = parse_if_inet6(text);
        assert_eq!(flags.len(), 2);
        assert_eq!(
            flags[&"fd00::2".parse::<Ipv6Addr>().unwrap()],
            DEPRECATED | TEMPORARY
        );
    }

    #[test]
    fn a_bridge_of_containers_is_host_only_and_a_bridge_with_hardware_is_not() {
        let sysfs = tempfile::tempdir().unwrap();
        let make = |path: &str| fs::create_dir_all(sysfs.path().join(path)).unwrap();
        for bridge in ["docker0", "br0", "br1", "empty"] {
            make(&format!("{bridge}/bridge"));
            make(&format!("{bridge}/brif"));
        }
        make("docker0/brif/veth1");
        make("veth1");
        make("br0/brif/veth2");
        make("br0/brif/eth0");
        make("veth2");
        make("eth0/device");
        make("br1/brif/eth0.7");
        make("eth0.7/lower_eth0");
        let host_only = |name| is_host_only_bridge(sysfs.path(), name);
        assert!(host_only("docker0") && host_only("empty"));
        assert!(
            !host_only("br0") && !host_only("br1") && !host_only("eth0") && !host_only("absent")
        );
    }
}

//! What Linux tells of network interfaces in `/proc` and `/sys`. Elsewhere nobody says.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv6Addr;
use std::path::Path;

/// The alias of the devices of `manyway tun`, by which other processes know them.
pub(crate) const TUNNEL_ALIAS: &str = "manyway: tun";
const SYSFS: &str = "/sys/class/net";

// include/uapi/linux/if_addr.h
const TEMPORARY: u32 = 0x01;
const DUPLICATE: u32 = 0x08;
const DEPRECATED: u32 = 0x20;
const TENTATIVE: u32 = 0x40;

/// The state of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6State {
    /// It is usable for new conversations: not deprecated, tentative or a duplicate.
    pub preferred: bool,
    /// A privacy address (RFC 8981), which will go away some day.
    pub temporary: bool,
}

/// Of every IPv6 address of this host; empty where nobody says.
pub fn ipv6_states() -> BTreeMap<Ipv6Addr, Ipv6State> {
    parse_if_inet6(&fs::read_to_string("/proc/net/if_inet6").unwrap_or_default())
}

/// Lines of "address index prefix scope flags name", numbers in hexadecimal.
fn parse_if_inet6(text: &str) -> BTreeMap<Ipv6Addr, Ipv6State> {
    let parse = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let address = u128::from_str_radix(fields.next()?, 16).ok()?;
        let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
        let state = Ipv6State {
            preferred: flags & (DEPRECATED | TENTATIVE | DUPLICATE) == 0,
            temporary: flags & TEMPORARY != 0,
        };
        Some((Ipv6Addr::from_bits(address), state))
    };
    text.lines().filter_map(parse).collect()
}

/// Whether an interface is a bridge none of whose ports leads outside this host (docker0, virbr0,
/// …).
///
/// A port leads outside when it is hardware, lies on another device (VLAN, bond) or is a tunnel of
/// a declared type.
pub fn is_host_only_bridge(interface: &str) -> bool {
    is_host_only_bridge_of(Path::new(SYSFS), interface)
}

fn is_host_only_bridge_of(sysfs: &Path, name: &str) -> bool {
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

/// Whether an interface is the device of a `manyway tun` on this host.
pub fn is_manyways_tunnel(interface: &str) -> bool {
    let alias = fs::read_to_string(Path::new(SYSFS).join(interface).join("ifalias"));
    alias.is_ok_and(|alias| alias.trim_end() == TUNNEL_ALIAS)
}

/// The largest IP packet that an interface takes, in bytes; `None` where nobody says.
pub fn mtu(interface: &str) -> Option<u32> {
    let text = fs::read_to_string(Path::new(SYSFS).join(interface).join("mtu")).ok()?;
    text.trim().parse().ok()
}

/// Whether an interface is point-to-point and no hardware, as a VPN's is.
pub fn is_tunnel(interface: &str) -> bool {
    // include/uapi/linux/if.h
    const POINT_TO_POINT: u32 = 0x10;
    let sysfs = Path::new(SYSFS).join(interface);
    let flags = fs::read_to_string(sysfs.join("flags")).unwrap_or_default();
    let flags = flags.trim().trim_start_matches("0x");
    let flags = u32::from_str_radix(flags, 16).unwrap_or(0);
    flags & POINT_TO_POINT != 0 && !sysfs.join("device").exists()
}

/// The reverse-path filter (RFC 3704) in force on an interface (the larger of its own and `all`): 1
/// is strict, 2 loose; 0 where there is none.
pub fn reverse_path_filter(interface: &str) -> u8 {
    let read = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
        fs::read_to_string(path).ok()?.trim().parse::<u8>().ok()
    };
    read("all").unwrap_or(0).max(read(interface).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_flags() {
        let text = "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n\
                    fd000000000000000000000000000002 04 40 00 21     eth0\n\
                    garbage\n\
                    00 zz\n";
        let states = parse_if_inet6(text);
        assert_eq!(states.len(), 2);
        let of = |address: &str| states[&address.parse::<Ipv6Addr>().unwrap()];
        let (preferred, other) = (of("fe80::fc:ff:fe00:1"), of("fd00::2"));
        assert!(preferred.preferred && !preferred.temporary);
        assert!(!other.preferred && other.temporary);
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
        let host_only = |name| is_host_only_bridge_of(sysfs.path(), name);
        assert!(host_only("docker0") && host_only("empty"));
        assert!(
            !host_only("br0") && !host_only("br1") && !host_only("eth0") && !host_only("absent")
        );
    }
}

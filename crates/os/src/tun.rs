//! TUN devices: packets that are routed into one are read from a file, and those written to the
//! file arrive on it.
//!
//! One call is unsafe, as neither std nor nix has it: the one that makes the device.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::libc;
use nix::net::if_::if_nametoindex;

use crate::interface::TUNNEL_ALIAS;
use crate::netlink::Message;

// include/uapi/linux/if_link.h, if_addr.h, rtnetlink.h
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const IFLA_MTU: u16 = 4;
const IFLA_IFALIAS: u16 = 20;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// No search for others with the address: nobody else is on the device.
const IFA_F_NODAD: u8 = 2;
const IFF_UP: u32 = 1;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_LINK: u8 = 253;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RTN_UNICAST: u8 = 1;

/// Makes a TUN device in the calling thread's network namespace. It is there as long as the file is
/// open; reads and writes are packets, and never wait.
///
/// # Errors
/// There is such a device, or none can be made: without the right to, or in a kernel without them.
pub fn open(device: &str) -> io::Result<File> {
    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    attach(&tun, device)?;
    Ok(tun)
}

fn attach(tun: &File, device: &str) -> io::Result<()> {
    // SAFETY: zeros are a valid value of this structure of integers and addresses.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte of the name stays 0.
    if device.is_empty() || device.len() >= request.ifr_name.len() {
        let message = format!("{device:?} can't be the name of a device: 1 to 15 bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the descriptor is open, and TUNSETIFF reads and writes a `struct ifreq`, which lives
    // until the call returns.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &mut request) };
    Errno::result(result)?;
    Ok(())
}

/// A device of the calling thread's network namespace, to be configured.
#[derive(Copy, Clone, Debug)]
pub struct Device(u32);

impl Device {
    /// The one with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> io::Result<Self> {
        Ok(Self(if_nametoindex(name)?))
    }

    /// Marks it as a tunnel of manyway's, which is no way out of this host.
    ///
    /// # Errors
    /// The kernel's.
    pub fn mark(self) -> io::Result<()> {
        Message::new(RTM_NEWLINK, &self.link(0))
            .with(IFLA_IFALIAS, TUNNEL_ALIAS.as_bytes())
            .change()
    }

    /// Takes it into use, with packets of at most `mtu` bytes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_up(self, mtu: u32) -> io::Result<()> {
        Message::new(RTM_NEWLINK, &self.link(IFF_UP))
            .with(IFLA_MTU, &mtu.to_ne_bytes())
            .change()
    }

    /// A struct ifinfomsg: family, padding, type, index, flags to set, flags to change.
    fn link(self, flags: u32) -> Vec<u8> {
        let mut body = vec![0; 4];
        body.extend(self.0.to_ne_bytes());
        body.extend(flags.to_ne_bytes());
        body.extend(flags.to_ne_bytes());
        body
    }

    /// Gives it an address in a network whose prefix has so many bits.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add_address(self, address: IpAddr, prefix: u8) -> io::Result<()> {
        let flags = if address.is_ipv6() { IFA_F_NODAD } else { 0 };
        // struct ifaddrmsg: family, bits of the prefix, flags, scope, index
        let mut body = vec![family(address), prefix, flags, RT_SCOPE_UNIVERSE];
        body.extend(self.0.to_ne_bytes());
        Message::new(RTM_NEWADDR, &body)
            .with_address(IFA_LOCAL, address)
            .with_address(IFA_ADDRESS, address)
            .create()
    }

    /// Routes a network into it.
    ///
    /// # Errors
    /// There is such a route, or what else the kernel says.
    pub fn add_route(self, network: IpAddr, prefix: u8) -> io::Result<()> {
        let scope = if network.is_ipv4() {
            RT_SCOPE_LINK
        } else {
            RT_SCOPE_UNIVERSE
        };
        // struct rtmsg: family, bits of destination and source, service, table, who made it, scope,
        // type, flags
        let mut body = vec![family(network), prefix, 0, 0];
        body.extend([RT_TABLE_MAIN, RTPROT_STATIC, scope, RTN_UNICAST, 0, 0, 0, 0]);
        Message::new(RTM_NEWROUTE, &body)
            .with_address(RTA_DST, network)
            .with(RTA_OIF, &self.0.to_ne_bytes())
            .create()
    }
}

fn family(address: IpAddr) -> u8 {
    let family = match address {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    family as u8
}

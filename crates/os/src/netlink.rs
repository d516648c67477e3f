//! Questions and orders to the kernel's network configuration (rtnetlink(7)), one message each.
//!
//! Written by hand: `rtnetlink` would add 9 crates to the build (4 for `netlink-packet-route` and
//! `netlink-sys` alone) and a background task, for the five messages that manyway needs.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};

/// `struct nlmsghdr`: length, type, flags, sequence number, port.
pub const HEADER: usize = 16;
/// The type of a message that carries an error, or 0 as its acknowledgement.
pub const NLMSG_ERROR: u16 = 2;

// include/uapi/linux/netlink.h
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;

/// A message to the kernel.
#[derive(Clone, Debug)]
pub struct Message(Vec<u8>);

impl Message {
    /// One of this type, with the structure that its type asks for.
    pub fn new(kind: u16, body: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(NLM_F_REQUEST.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        Self(bytes)
    }

    /// Adds an attribute, whose length is a multiple of four.
    #[must_use]
    pub fn with(mut self, kind: u16, value: &[u8]) -> Self {
        debug_assert_eq!(value.len() % 4, 0, "padding isn't needed anywhere");
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self
    }

    /// Adds an address as an attribute.
    #[must_use]
    pub fn with_address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.with(kind, &address.octets()),
            IpAddr::V6(address) => self.with(kind, &address.octets()),
        }
    }

    /// Asks the kernel; its answer, header included.
    ///
    /// # Errors
    /// The system takes no such messages.
    pub fn ask(mut self) -> io::Result<Vec<u8>> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            flags,
            SockProtocol::NetlinkRoute,
        )?;
        let fd = socket.as_raw_fd();
        sendto(fd, &self.0, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        // The kernel answers while it handles the message, so the answer is already here.
        let mut answer = vec![0; 4096];
        let length = recv(fd, &mut answer, MsgFlags::empty())?;
        answer.truncate(length);
        Ok(answer)
    }

    /// Has the kernel create something.
    ///
    /// # Errors
    /// It exists already, or what else the kernel says.
    pub fn create(self) -> io::Result<()> {
        self.order(NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Has the kernel change something.
    ///
    /// # Errors
    /// The kernel's.
    pub fn change(self) -> io::Result<()> {
        self.order(0)
    }

    fn order(mut self, flags: u16) -> io::Result<()> {
        let flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        self.0[6..8].copy_from_slice(&flags.to_ne_bytes());
        let answer = self.ask()?;
        let errno = answer.get(HEADER..HEADER + 4);
        let errno = errno
            .and_then(|bytes| bytes.try_into().ok())
            .map(i32::from_ne_bytes);
        match (answer.get(4..6), errno) {
            (Some(kind), Some(0)) if kind == NLMSG_ERROR.to_ne_bytes() => Ok(()),
            (Some(kind), Some(errno)) if kind == NLMSG_ERROR.to_ne_bytes() => {
                Err(io::Error::from_raw_os_error(errno.wrapping_neg()))
            }
            _ => Err(io::Error::other("the kernel answered something else")),
        }
    }
}

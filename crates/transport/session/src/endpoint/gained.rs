//! Addresses that a listener has gained since its ticket was written.
//!
//! Those who come later have the ticket, too, so every connection is told of them.

use std::net::SocketAddr;

use manyway_wire::{Frame, MAX_ADDRESSES};

/// A list that is told as a whole; a peer takes 32 addresses at most.
#[derive(Debug, Default)]
pub(crate) struct Gained {
    addresses: Vec<SocketAddr>,
    seq: u64,
}

impl Gained {
    /// There is one more. The newest are the likeliest to work.
    pub(super) fn add(&mut self, address: SocketAddr) {
        self.addresses.retain(|known| *known != address);
        self.addresses.push(address);
        let first = self.addresses.len().saturating_sub(MAX_ADDRESSES);
        self.addresses.drain(..first);
        self.seq += 1;
    }

    /// It is gone; that isn't told, since the others are tried anyway.
    pub(super) fn remove(&mut self, address: SocketAddr) {
        self.addresses.retain(|known| *known != address);
    }

    /// What a peer is to hear instead of older lists, if there is anything.
    pub(crate) fn frame(&self) -> Option<Frame<'static>> {
        (!self.addresses.is_empty()).then(|| Frame::Addresses {
            seq: self.seq,
            addresses: self.addresses.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn the_newest_addresses_are_told_and_each_once() {
        let mut gained = Gained::default();
        assert_eq!(gained.frame(), None);
        for port in (1..=40).chain([20]) {
            gained.add(address(port));
        }
        let Some(Frame::Addresses { seq, addresses }) = gained.frame() else {
            panic!("another frame");
        };
        assert_eq!((seq, addresses.len()), (41, MAX_ADDRESSES));
        assert_eq!(addresses.last(), Some(&address(20)));
        assert_eq!(addresses.iter().filter(|a| **a == address(20)).count(), 1);
        assert_eq!(addresses[0], address(9));
    }

    #[test]
    fn what_is_gone_is_told_to_nobody() {
        let mut gained = Gained::default();
        gained.add(address(1));
        gained.remove(address(1));
        assert_eq!(gained.frame(), None);
    }
}

//! Addresses that the two ends tell each other of.
//!
//! It owns the list of those that a listener has gained, and the one that the peer told last, and
//! bounds both. It opens no path: pairs are the path set's.

use std::net::SocketAddr;

use manyway_wire::{Frame, MAX_ADDRESSES};

/// The addresses of both ends, as far as they were told.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// Gained since the ticket was written (listener only).
    gained: Vec<SocketAddr>,
    announced: u64,
    heard: Option<u64>,
    /// Those that the listener has told of last (initiator only).
    peer: Vec<SocketAddr>,
}

impl Addresses {
    /// A listener has one more address; what the peer is to hear instead of older lists. The peer
    /// takes 32 at most, and the newest are the likeliest to work.
    pub(super) fn gain(&mut self, address: SocketAddr) -> Frame<'static> {
        self.gained.retain(|known| *known != address);
        self.gained.push(address);
        let first = self.gained.len().saturating_sub(MAX_ADDRESSES);
        self.gained.drain(..first);
        self.announced += 1;
        Frame::Addresses {
            seq: self.announced,
            addresses: self.gained.clone(),
        }
    }

    /// The peer's list. Whether it is newer than all before.
    pub(super) fn on_announced(&mut self, seq: u64) -> bool {
        let news = self.heard.is_none_or(|known| seq > known);
        if news {
            self.heard = Some(seq);
        }
        news
    }

    /// The listener is at these addresses.
    pub(super) fn set_peer(&mut self, addresses: &[SocketAddr]) {
        self.peer = addresses.to_vec();
    }

    /// Those that the listener has told of last.
    pub(super) fn peer(&self) -> &[SocketAddr] {
        &self.peer
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
        let mut addresses = Addresses::default();
        for port in 1..=40 {
            addresses.gain(address(port));
        }
        let Frame::Addresses { seq, addresses } = addresses.gain(address(20)) else {
            panic!("another frame");
        };
        assert_eq!((seq, addresses.len()), (41, MAX_ADDRESSES));
        assert_eq!(addresses.last(), Some(&address(20)));
        assert_eq!(addresses.iter().filter(|a| **a == address(20)).count(), 1);
        assert_eq!(addresses[0], address(9));
    }

    #[test]
    fn an_old_list_is_no_news() {
        let mut addresses = Addresses::default();
        assert!(addresses.on_announced(3));
        assert!(!addresses.on_announced(3) && !addresses.on_announced(2));
        assert!(addresses.on_announced(4));
    }
}

//! Addresses that the listener tells of.
//!
//! It owns the list that the peer told last, which a frame bounds. It opens no path: pairs are the
//! path set's.

use std::net::SocketAddr;

/// The peer's addresses, as far as they were told.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    heard: Option<u64>,
    /// Those that the listener has told of last (initiator only).
    peer: Vec<SocketAddr>,
}

impl Addresses {
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

    #[test]
    fn an_old_list_is_no_news() {
        let mut addresses = Addresses::default();
        assert!(addresses.on_announced(3));
        assert!(!addresses.on_announced(3) && !addresses.on_announced(2));
        assert!(addresses.on_announced(4));
    }
}

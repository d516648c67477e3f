//! An endpoint's UDP sockets, bound to the chosen local addresses, on one common port if possible.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;

use manyway_session::LocalId;

use crate::error::BindError;
use crate::interfaces::Place;
use crate::socket::Socket;
use crate::tcp::options::listening;

/// Ports tried to find one that is free on every address.
const COMMON_PORT_TRIES: usize = 16;

#[derive(Debug)]
pub(crate) struct Sockets {
    bound: BTreeMap<LocalId, Bound>,
    next: u32,
    /// The port that every address should have; 0 until there is one.
    port: u16,
    /// Places that can't be bound, so that each is logged once.
    failing: BTreeSet<Place>,
}

#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) place: Place,
    pub(crate) socket: Socket,
}

impl Sockets {
    /// Binds every place to `port`, or to a common free one if it is 0.
    ///
    /// # Errors
    /// None could be bound, or one of them not for another reason than that its address isn't
    /// ready.
    pub(crate) fn bind(places: &BTreeSet<Place>, port: u16) -> Result<Self, BindError> {
        let mut sockets = Self {
            bound: BTreeMap::new(),
            next: 0,
            port,
            failing: BTreeSet::new(),
        };
        let tries = if port == 0 { COMMON_PORT_TRIES } else { 1 };
        for last in (0..tries).map(|n| n + 1 == tries) {
            match sockets.bind_all(places, port) {
                // The port of the first address isn't free on another one: another port may be.
                Err(BindError::Socket { error, .. })
                    if error.kind() == io::ErrorKind::AddrInUse && port == 0 && !last =>
                {
                    sockets.bound.clear();
                    sockets.port = 0;
                }
                Err(BindError::Socket { error, .. })
                    if error.kind() == io::ErrorKind::AddrInUse && port == 0 =>
                {
                    sockets.bind_apart(places)?;
                }
                done => done?,
            }
            if !sockets.bound.is_empty() {
                break;
            }
        }
        Ok(sockets)
    }

    fn bind_all(&mut self, places: &BTreeSet<Place>, port: u16) -> Result<(), BindError> {
        let mut not_ready = None;
        for place in places {
            match self.bind_one(place, if port == 0 { self.port } else { port }) {
                Ok(socket) => {
                    self.port = socket.addr().port();
                    self.insert(place.clone(), socket);
                }
                // An address that just appeared or is about to go: the watch over the interfaces
                // will tell.
                Err(BindError::Socket {
                    error,
                    addr,
                    device,
                }) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                    not_ready = Some(BindError::Socket {
                        error,
                        addr,
                        device,
                    });
                }
                Err(error) => return Err(error),
            }
        }
        match not_ready {
            Some(error) if self.bound.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    /// No port is free everywhere: each address gets one of its own.
    fn bind_apart(&mut self, places: &BTreeSet<Place>) -> Result<(), BindError> {
        for place in places {
            let socket = self.bind_one(place, 0)?;
            self.insert(place.clone(), socket);
        }
        Ok(())
    }

    fn bind_one(&self, place: &Place, port: u16) -> Result<Socket, BindError> {
        let addr = SocketAddr::new(place.ip, port);
        let device = place.device.as_ref().map(|device| device.name.clone());
        Socket::bind(addr, device.as_deref()).map_err(|error| BindError::Socket {
            addr,
            device,
            error,
        })
    }

    /// Whether TCP connections could be accepted at every address and port.
    pub(crate) fn are_free_for_tcp(&self) -> bool {
        self.bound.values().all(|bound| {
            let device = bound.place.device.as_ref();
            let name = device.map(|device| device.name.as_str());
            listening(bound.socket.addr(), name).is_ok()
        })
    }

    fn insert(&mut self, place: Place, socket: Socket) -> LocalId {
        let id = LocalId(self.next);
        self.next += 1;
        self.bound.insert(id, Bound { place, socket });
        id
    }

    /// Follows the interfaces: removes the sockets of places that are not wanted any more, binds
    /// those that are new.
    pub(crate) fn follow(&mut self, places: &BTreeSet<Place>) -> Change {
        let gone: Vec<_> = self
            .bound
            .iter()
            .filter(|(_, b)| !places.contains(&b.place))
            .map(|(&id, _)| id)
            .collect();
        let removed = gone
            .into_iter()
            .filter_map(|id| Some((id, self.bound.remove(&id)?)))
            .collect();
        let have: BTreeSet<_> = self
            .bound
            .values()
            .map(|bound| bound.place.clone())
            .collect();
        self.failing.retain(|place| places.contains(place));
        let mut added = Vec::new();
        for place in places.difference(&have) {
            match self
                .bind_one(place, self.port)
                .or_else(|_| self.bind_one(place, 0))
            {
                Ok(socket) => {
                    self.failing.remove(place);
                    added.push(self.insert(place.clone(), socket));
                }
                Err(error) if self.failing.insert(place.clone()) => {
                    tracing::warn!(%error, "can't bind; trying again at the next scan")
                }
                Err(_) => {}
            }
        }
        Change { added, removed }
    }

    /// Closes them all.
    pub(crate) fn clear(&mut self) {
        self.bound.clear();
    }

    pub(crate) fn get(&self, id: LocalId) -> Option<&Bound> {
        self.bound.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: LocalId) -> Option<&mut Bound> {
        self.bound.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LocalId, &Bound)> {
        self.bound.iter().map(|(&id, bound)| (id, bound))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (LocalId, &mut Bound)> {
        self.bound.iter_mut().map(|(&id, bound)| (id, bound))
    }

    pub(crate) fn places(&self) -> BTreeMap<LocalId, &Place> {
        self.iter().map(|(id, bound)| (id, &bound.place)).collect()
    }
}

/// What [`Sockets::follow`] did.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) added: Vec<LocalId>,
    pub(crate) removed: Vec<(LocalId, Bound)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(ips: &[&str]) -> BTreeSet<Place> {
        ips.iter()
            .map(|ip| Place {
                ip: ip.parse().unwrap(),
                device: None,
            })
            .collect()
    }

    fn addrs(sockets: &Sockets) -> Vec<SocketAddr> {
        sockets
            .iter()
            .map(|(_, bound)| bound.socket.addr())
            .collect()
    }

    #[tokio::test]
    async fn all_addresses_share_a_port() {
        let sockets = Sockets::bind(&places(&["127.0.0.1", "127.0.0.2", "127.0.0.3"]), 0).unwrap();
        let addrs = addrs(&sockets);
        assert_eq!(addrs.len(), 3);
        assert!(
            addrs
                .iter()
                .all(|a| a.port() == addrs[0].port() && a.port() != 0),
            "{addrs:?}"
        );
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error_that_says_so() {
        let taken = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
        let error = Sockets::bind(
            &places(&["127.0.0.1", "127.0.0.2"]),
            taken.local_addr().unwrap().port(),
        )
        .unwrap_err();
        assert!(
            error.to_string().contains("127.0.0.2:")
                && error.to_string().contains("choose another"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn an_address_of_nobodys_is_an_error_only_if_it_is_the_only_one() {
        // TEST-NET-1 is no address of this host.
        assert!(matches!(
            Sockets::bind(&places(&["192.0.2.199"]), 0),
            Err(BindError::Socket { .. })
        ));
        assert_eq!(
            addrs(&Sockets::bind(&places(&["127.0.0.1", "192.0.2.199"]), 0).unwrap()).len(),
            1
        );
    }

    #[tokio::test]
    async fn sockets_follow_the_places() {
        let mut sockets = Sockets::bind(&places(&["127.0.0.1", "127.0.0.2"]), 0).unwrap();
        let port = addrs(&sockets)[0].port();
        let change = sockets.follow(&places(&["127.0.0.2", "127.0.0.3", "192.0.2.199"]));
        assert_eq!(change.added, [LocalId(2)]);
        assert_eq!(
            change.removed.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
            [LocalId(0)]
        );
        assert_eq!(
            addrs(&sockets),
            [([127, 0, 0, 2], port).into(), ([127, 0, 0, 3], port).into()]
        );
        drop(change);
        // Back again, on the same port: ids are never reused.
        let change = sockets.follow(&places(&["127.0.0.1", "127.0.0.2", "127.0.0.3"]));
        assert_eq!(change.added, [LocalId(3)]);
        assert_eq!(
            sockets.get(LocalId(3)).unwrap().socket.addr(),
            ([127, 0, 0, 1], port).into()
        );
    }
}

//! A handshake from two sockets at once, both of which the listener answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_session::{
    Config, ConnectionHandle, Endpoint, Event, Incoming, Local, LocalId, PathId, Secrets,
};
use manyway_units::Time;
use manyway_wire::DatagramType;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

/// The initiator's sockets are 1 and 2; the listener's is 9.
const LISTENER: LocalId = LocalId(9);
const DELAY: Duration = Duration::from_millis(10);

fn local(id: LocalId) -> Local {
    Local {
        id,
        name: format!("if{}", id.0),
        addr: SocketAddr::from(([10, 0, id.0 as u8, 1], 4433)),
        mtu: None,
    }
}

/// A datagram under way: when it arrives, at which socket, and where it comes from.
type Flying = (Time, LocalId, SocketAddr, Vec<u8>);

/// The initiator and the listener.
struct Race {
    now: Time,
    ends: [Endpoint; 2],
    flying: Vec<Flying>,
    events: [Vec<(ConnectionHandle, Event)>; 2],
}

impl Race {
    fn new() -> Self {
        let config = Arc::new(Config::default());
        let secrets = Secrets::generate(&mut ChaCha20Rng::from_seed([9; 32]));
        let ticket = secrets.ticket(vec![local(LISTENER).addr]);
        let mut ends =
            [1, 2].map(|seed| Endpoint::new(config.clone(), [seed; 32]).expect("a valid one"));
        for id in [1, 2] {
            ends[0].add_local(Time::ZERO, local(LocalId(id)));
        }
        ends[1].add_local(Time::ZERO, local(LISTENER));
        ends[1].listen(secrets);
        ends[0].connect(Time::ZERO, &ticket).expect("pairs exist");
        Self {
            now: Time::ZERO,
            ends,
            flying: Vec::new(),
            events: Default::default(),
        }
    }

    /// Lets time pass. The network drops what the listener sends to a socket if `drops` says so.
    fn run(&mut self, until: Time, mut drops: impl FnMut(LocalId, &[u8]) -> bool) {
        while self.now < until {
            let mut buf = Vec::new();
            for side in 0..2 {
                while let Some(transmit) = self.ends[side].poll_transmit(self.now, 1, &mut buf) {
                    let sockets = [1, 2, LISTENER.0].map(LocalId);
                    let mut sockets = sockets.into_iter();
                    let Some(to) = sockets.find(|id| local(*id).addr == transmit.remote) else {
                        continue;
                    };
                    if side == 0 || !drops(to, &buf) {
                        let from = local(transmit.local).addr;
                        self.flying.push((self.now + DELAY, to, from, buf.clone()));
                    }
                }
                while let Some(event) = self.ends[side].poll_event() {
                    self.events[side].push(event);
                }
            }
            let arrival = self.flying.iter().map(|(at, ..)| *at).min();
            let timers = self.ends.iter().filter_map(Endpoint::timeout);
            let next = timers.chain(arrival).chain([until]).min();
            self.now = next.unwrap_or(until);
            let (now, flying) = (self.now, std::mem::take(&mut self.flying));
            for (at, to, remote, mut data) in flying {
                if at > now {
                    self.flying.push((at, to, remote, data));
                    continue;
                }
                let incoming = Incoming {
                    local: to,
                    remote,
                    ecn: None,
                    data: &mut data,
                };
                self.ends[usize::from(to == LISTENER)].handle_datagram(now, incoming);
            }
            self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
        }
    }

    /// Where a side's path 0 leads from and to.
    fn first_path(&mut self, side: usize) -> (SocketAddr, SocketAddr) {
        let connected = |(_, event): &&(ConnectionHandle, Event)| *event == Event::Connected;
        let handle = self.events[side]
            .iter()
            .find(connected)
            .expect("connected")
            .0;
        let stats = self.ends[side].connection(handle).expect("alive").stats();
        let mut paths = stats.paths.iter();
        let path = paths.find(|path| path.id == PathId(0)).expect("open");
        (path.local, path.remote)
    }
}

/// The listener has answered both sockets, and the initiator goes on with the second. What the
/// listener then asks the second is lost, and what it asks the first arrives: if that were
/// answered, the path would lead back over the other network for good.
#[test]
fn path_0_stays_with_the_socket_whose_reply_came_first() {
    let mut race = Race::new();
    let mut lost = 0;
    race.run(Time::from_millis(5000), |to, datagram| {
        if DatagramType::of(datagram) == Some(DatagramType::Reply) {
            return to == LocalId(1);
        }
        lost += u32::from(to == LocalId(2));
        to == LocalId(2) && lost <= 2
    });
    assert!(lost >= 2, "{lost}");
    let (second, listener) = (local(LocalId(2)).addr, local(LISTENER).addr);
    assert_eq!(race.first_path(0), (second, listener));
    assert_eq!(race.first_path(1), (listener, second));
}

//! So many of the relays at a time, over TCP: which ones are to be dialled, and what becomes of
//! those that aren't any more.

use std::collections::BTreeSet;
use std::time::Duration;

use manyway_control::rate_control::{LiveConfig, Reselection, SelectConfig};
use manyway_relay::Keys;
use manyway_relay::keys::public_key;
use manyway_session::{
    Access, Config, ConnectionHandle, Event, LocalId, PathEvent, RelayAccess, RelayAddress,
    RelayState, SelectionStats,
};
use manyway_units::{Rate, Time};
use manyway_wire::relay::RateClass;
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use crate::net::{Flow, Net, address, only_tcp};

/// Relays of so many Mbps, of which two are used at a time.
struct Fleet {
    net: Net,
    flow: Flow,
    mbps: Vec<f64>,
    access: Vec<RelayAccess>,
}

fn access(number: u32) -> RelayAccess {
    let keys = Keys::generate(
        Duration::ZERO,
        &mut ChaCha20Rng::seed_from_u64(number.into()),
    );
    let seed = [7; 32];
    RelayAccess {
        relay: RelayAddress {
            address: address(1, LocalId(1000 + number)),
            id: keys.id(),
        },
        access: Access {
            voucher: keys.vouch([1; 8], RateClass::MAX, u32::MAX, public_key(&seed)),
            seed,
        },
    }
}

impl Fleet {
    /// Connected through the first relay.
    fn new(mbps: &[f64], reselection: Reselection, demand: Option<f64>, bytes: usize) -> Self {
        let select = SelectConfig::new(2).with_reselection(reselection);
        let config = Config {
            limit: demand.map(Rate::from_mbps),
            selection: Some(LiveConfig::new(select, demand.map(|mbps| mbps * 1e6 / 8.0))),
            ..only_tcp()
        };
        let mut net = Net::new(config, &[]);
        net.dial_by(0, mbps[0], true);
        let flow = Flow::open(&mut net, bytes);
        let access = (0..mbps.len() as u32).map(access).collect();
        Self {
            net,
            flow,
            mbps: mbps.to_vec(),
            access,
        }
    }

    fn selection(&mut self) -> SelectionStats {
        self.net.stats(0).selection.expect("a selection")
    }

    /// What a driver does every quarter of a second; the relays that it shall dial.
    fn turn(&mut self) -> BTreeSet<u32> {
        let client = self.net.client;
        let connection = self.net.ends[0].connection(client).expect("alive");
        connection.relays_over_tcp(&self.access);
        let wanted = connection.relays_to_dial().expect("a selection");
        let number = |id| self.access.iter().position(|a| a.relay.id == id);
        let wanted: BTreeSet<u32> = wanted
            .into_iter()
            .filter_map(number)
            .map(|n| n as u32)
            .collect();
        assert!(wanted.len() <= 2);
        for &number in &wanted {
            if !self.net.pipes.contains_key(&LocalId(1000 + number)) {
                self.net.dial_by(number, self.mbps[number as usize], true);
            }
        }
        wanted
    }

    fn run(&mut self, seconds: u64, mut go_on: impl FnMut(&mut Self) -> bool) {
        let until = self.net.now + Duration::from_secs(seconds);
        while self.net.now < until && !self.flow.over && go_on(self) {
            self.turn();
            let next = self.net.now + Duration::from_millis(250);
            self.flow.run(&mut self.net, next.min(until));
        }
    }

    fn used(&self) -> BTreeSet<u32> {
        self.net.pipes.keys().map(|id| id.0 - 1000).collect()
    }
}

/// One of ten pairs satisfies: that 120 iterations of k-reselection don't find it has a probability
/// of 3e-6.
#[test]
fn the_relays_that_satisfy_are_found() {
    for reselection in [Reselection::All, Reselection::Slowest] {
        for fast in [[1, 3], [0, 4], [2, 3]] {
            let rate = |n| if fast.contains(&n) { 20.0 } else { 2.0 };
            let mbps: Vec<f64> = (0..5).map(rate).collect();
            let mut fleet = Fleet::new(&mbps, reselection, Some(30.0), usize::MAX);
            fleet.run(1500, |fleet| fleet.selection().satisfied != Some(true));
            let found = fleet.selection();
            assert_eq!(found.satisfied, Some(true), "{fast:?} {found:?}");
            assert_eq!(fleet.turn(), BTreeSet::from(fast));
            assert_eq!(fleet.used(), BTreeSet::from(fast), "the others are closed");
            let relays = fleet.net.stats(0).relays;
            let in_use = relays.iter().filter(|r| r.state == RelayState::InUse);
            assert_eq!((relays.len(), in_use.count()), (5, 2));
            assert!(fleet.net.stats(0).paths.iter().all(|path| path.relay));
            fleet.run(60, |_| true);
            assert_eq!(fleet.selection().reselections, found.reselections);
            assert_eq!(fleet.net.datagrams, 0);
        }
    }
}

#[test]
fn a_carrier_that_breaks_is_replaced_and_nothing_is_lost() {
    let mut fleet = Fleet::new(&[8.0; 4], Reselection::All, None, 20_000_000);
    fleet.run(3, |_| true);
    let first = fleet.used();
    assert!(
        first.len() == 2 && first.contains(&0),
        "the one that led there, and another"
    );
    fleet.net.kill(LocalId(1000));
    fleet.run(1, |_| true);
    let second = fleet.used();
    assert!(second.len() == 2 && !second.contains(&0), "{second:?}");
    assert_eq!(second.intersection(&first).count(), 1);
    fleet.run(60, |_| true);
    assert!(fleet.flow.over && fleet.flow.read == 20_000_000);
    assert_eq!(fleet.selection().iterations, 0, "nothing to judge by");
}

/// Relays that can't be dialled are tried one after the other, and rest; with none that works the
/// connection goes on over what it has.
#[test]
fn relays_that_cant_be_dialled_rest() {
    let mut fleet = Fleet::new(&[8.0; 3], Reselection::Slowest, Some(100.0), usize::MAX);
    let client = fleet.net.client;
    let (mut tried, mut few) = (0, 0);
    for step in 0..240_u64 {
        let until = Time::from_millis(1000 + 250 * step);
        fleet.flow.run(&mut fleet.net, until);
        let connection = fleet.net.ends[0].connection(client).expect("alive");
        connection.relays_over_tcp(&fleet.access);
        let wanted = connection.relays_to_dial().expect("a selection");
        for access in &fleet.access[1..] {
            if wanted.contains(&access.relay.id) {
                tried += 1;
                let now = fleet.net.now;
                let connection = fleet.net.ends[0].connection(client).expect("alive");
                connection.on_dial_failed(now, access.relay.id);
            }
        }
        few = fleet.net.events[0]
            .iter()
            .filter(|(_, event): &&(ConnectionHandle, Event)| {
                matches!(event, Event::Path(PathEvent::FewRelays { .. }))
            })
            .count();
    }
    assert_eq!(few, 1, "told once");
    // Twice at once, then after 5, 10, 20 and 40 s; in a minute.
    assert!((4..=12).contains(&tried), "{tried}");
    assert_eq!(fleet.used(), BTreeSet::from([0]), "the only one that works");
    assert!(fleet.flow.read > 40_000_000);
}

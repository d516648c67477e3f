//! A path's life, and who hears of it, without a peer.

use manyway_wire::relay::{Consent, ForwardHeader, Grant, Mac, RelayType};
use manyway_wire::{AckInfo, Frames, TransportParameters, encode_ack};

use super::super::core::tests::{address, frames};
use super::*;
use crate::carrier::Facts;
use crate::crypto::{KeyLimits, SplitInput, Suite, split};
use crate::event::PathEvent;
use crate::handshake::{Established, Places};
use crate::stats::PathState;

const T0: Time = Time::ZERO;
const RTT: Duration = Duration::from_millis(40);
const CID: ConnectionId = ConnectionId([9; 8]);

fn local() -> Local {
    Local {
        id: LocalId(1),
        name: "if".into(),
        addr: address(100),
        mtu: None,
    }
}

fn traffic(initiator: bool, config: Config) -> Traffic {
    let (sealer, opener) = split(SplitInput {
        initiator_key: &[1; 32],
        responder_key: &[2; 32],
        handshake_hash: &[3; 32],
        is_initiator: initiator,
        suite: Suite::Aes256Gcm,
        limits: KeyLimits::default(),
    });
    let start = Start {
        initiator,
        established: Established {
            sealer,
            opener,
            peer: TransportParameters::new(CID),
            identity: None,
            local_cid: ConnectionId([7; 8]),
            remote_cid: CID,
        },
        local: local(),
        remote: address(0),
        validated: initiator,
        places: Places::default(),
        facts: Facts::datagrams(1200),
        rtt: Some(RTT),
        relay: None,
        locals: vec![local()],
        remotes: vec![address(0)],
        secrets: [5; 32],
        choices: [5; 16],
        named_in_all: Default::default(),
        memory: Default::default(),
        relays: None,
    };
    let idle = Duration::from_secs(30);
    Traffic::new(T0, &Arc::new(config), idle, start).0
}

fn initiator() -> Traffic {
    traffic(true, Config::default())
}

fn listener() -> Traffic {
    traffic(false, Config::default())
}

impl Traffic {
    fn state(&self, path: u32) -> Option<PathState> {
        Some(self.path(PathId(path))?.state())
    }

    fn accept(&mut self, path: u32, transport: PathTransport) -> Option<usize> {
        let remote = address(path as u8);
        self.accept_path(T0, PathId(path), &local(), remote, transport)
    }

    /// The initiator opens another path, which is answered.
    fn open(&mut self, path: u32) -> usize {
        self.on_cid_announced(T0, PathId(path), CID)
            .expect("in range");
        self.add_remotes(T0, &[address(path as u8)]);
        let index = self.index_of(PathId(path)).expect("it was opened");
        self.validated(T0, index, Some(RTT));
        index
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.poll_event(true)).collect()
    }

    fn send_all(&mut self, now: Time) {
        while self.poll(now, 1, &mut Vec::new()).is_some() {}
    }

    /// The peer acknowledges what was sent on a path last.
    fn acknowledge(&mut self, now: Time, path: u32) {
        let sender = self.path(PathId(path)).expect("it is open").sender();
        let last = sender.next_packet_number() - 1;
        let info = AckInfo {
            path: PathId(path),
            delay_us: 0,
            receive_time_us: 0,
            ecn: None,
        };
        let mut frame = Vec::new();
        encode_ack(&mut frame, &info, [last..=last].into_iter(), 1200);
        let Some(Ok(Frame::Ack(ack))) = Frames::new(&frame).next() else {
            panic!("no ACK");
        };
        let on = self
            .core
            .paths()
            .index_of(PathId(path))
            .expect("it is open");
        self.on_ack(now, on, &ack).expect("true");
    }
}

fn grant(tag: u8) -> Grant {
    let mut bytes = [0; ForwardHeader::LEN_V4];
    (bytes[0], bytes[7]) = (RelayType::Forward4 as u8, tag);
    Grant::decode(&bytes).expect("a grant")
}

fn is_down(event: &Event, reason: PathDownReason) -> bool {
    matches!(event, Event::Path(PathEvent::Down { reason: r, .. }) if *r == reason)
}

#[test]
fn the_initiators_first_path_carries_data_and_the_listeners_waits() {
    let mut traffic = initiator();
    assert_eq!(traffic.state(0), Some(PathState::Active));
    let events = traffic.events();
    let up = matches!(
        events[..],
        [Event::Connected, Event::Path(PathEvent::Up { .. })]
    );
    assert!(up, "{events:?}");
    let changes = traffic.take_changes();
    let first = Change::CidIssued(ConnectionId([7; 8]), PathId(0));
    assert_eq!((changes[0], changes.len()), (first, 17));
    let mut traffic = listener();
    assert_eq!(traffic.state(0), Some(PathState::Validating));
    assert_eq!(traffic.events(), [Event::Connected]);
    assert_eq!(
        traffic.poll(T0, 1, &mut Vec::new()),
        None,
        "nothing came from there"
    );
}

#[test]
fn only_a_listener_takes_paths_and_not_too_many() {
    let mut traffic = initiator();
    assert_eq!(traffic.accept(1, PathTransport::Coupled), None);
    let config = Config {
        max_paths: 3,
        ..Config::default()
    };
    let mut traffic = self::traffic(false, config);
    for (path, taken) in [(1, true), (2, true), (3, false)] {
        let index = traffic.accept(path, PathTransport::Coupled);
        assert_eq!(index.is_some(), taken);
    }
    assert_eq!(traffic.state(2), Some(PathState::Validating));
}

#[test]
fn a_grant_that_came_early_is_its_paths() {
    let mut traffic = listener();
    for path in [1, 2, 3] {
        let told = traffic.on_grant(T0, PathId(path), 5, grant(path as u8));
        assert!(told.is_ok());
    }
    let relay = |traffic: &Traffic, path| Some(traffic.path(PathId(path))?.relay()?.grant);
    traffic.accept(1, PathTransport::Coupled);
    assert_eq!(relay(&traffic, 1), Some(grant(1)));
    traffic.accept(2, PathTransport::Carrier(Facts::stream()));
    assert_eq!(relay(&traffic, 2), None, "no relay for datagrams");
    traffic.on_abandon(T0, PathId(3)).expect("it was issued");
    traffic.accept(3, PathTransport::Coupled);
    assert_eq!(relay(&traffic, 3), None, "it was given up before");
    assert!(traffic.on_grant(T0, PathId(1), 6, grant(6)).is_ok());
    assert_eq!(relay(&traffic, 1), Some(grant(6)));
}

#[test]
fn each_side_says_what_is_its_to_say() {
    let consent = Consent {
        key: 0,
        issued: 0,
        address: address(1),
        mac: Mac([0; 8]),
    };
    for (mut traffic, initiator) in [(initiator(), true), (listener(), false)] {
        assert_eq!(traffic.on_relay(T0, 0, 0, None).is_err(), initiator);
        assert_eq!(
            traffic.on_grant(T0, PathId(0), 0, grant(1)).is_err(),
            initiator
        );
        assert_eq!(traffic.on_consent(T0, 0, 0, consent).is_err(), !initiator);
    }
}

#[test]
fn a_path_that_is_abandoned_is_closed_without_a_word() {
    let mut traffic = listener();
    traffic.accept(1, PathTransport::Coupled);
    frames(&mut traffic.core);
    assert!(traffic.on_abandon(T0, PathId(99)).is_err(), "it never was");
    assert!(traffic.on_abandon(T0, PathId(1)).is_ok());
    assert_eq!(traffic.state(1), None);
    assert!(traffic.on_abandon(T0, PathId(18)).is_err(), "not issued");
    assert!(
        traffic.on_abandon(T0, PathId(17)).is_ok(),
        "late or never used"
    );
    let said = frames(&mut traffic.core);
    let ids = said.iter().all(|f| matches!(f, Frame::PathId { .. }));
    assert!(ids && said.len() == 16, "as many as were used up: {said:?}");
}

#[test]
fn a_silent_path_gives_way_to_others_and_comes_back() {
    let mut traffic = initiator();
    traffic.open(1);
    traffic.send_all(T0);
    traffic.events();
    let mut now = T0;
    while traffic.state(0) == Some(PathState::Active) {
        now = traffic.timeout(now).expect("it is probed").max(now);
        assert!(now < Time::from_millis(2000), "it notices");
        traffic.on_timeout(now);
    }
    assert_eq!(traffic.state(0), Some(PathState::Stalled));
    assert_eq!(traffic.state(1), Some(PathState::Active));
    let events = traffic.events();
    let stalled = PathDownReason::Stalled;
    assert!(
        events.iter().any(|event| is_down(event, stalled)),
        "{events:?}"
    );
    traffic.send_all(now);
    traffic.acknowledge(now + RTT, 0);
    assert_eq!(traffic.state(0), Some(PathState::Active));
    let events = traffic.events();
    assert!(matches!(events[..], [Event::Path(PathEvent::Up { .. })]));
}

#[test]
fn a_path_that_never_answers_is_closed_unless_it_is_the_last() {
    for others in [false, true] {
        let mut traffic = listener();
        if others {
            let index = traffic.accept(1, PathTransport::Coupled);
            traffic.core.refresh(T0, index.expect("there is room"));
        }
        let late = Time::from_millis(16_000);
        traffic.on_timeout(late);
        // The second one to fail is the last one.
        assert_eq!(traffic.path_count(), 1);
        let challenged = traffic.core.paths().oldest().map(Path::id);
        assert_eq!(challenged, Some(PathId(u32::from(others))));
        let next = traffic.timeout(late).expect("it is asked again");
        assert!(next > late);
    }
}

#[test]
fn of_an_initiators_paths_one_waits_for_a_socket_and_all_of_a_listeners() {
    let gone = |traffic: &mut Traffic| traffic.remove_local(T0, LocalId(1), &BTreeMap::new());
    let mut traffic = initiator();
    traffic.open(1);
    traffic.events();
    gone(&mut traffic);
    let kept = traffic.core.paths().oldest().map(Path::id);
    assert_eq!((traffic.path_count(), kept), (1, Some(PathId(0))));
    let events = traffic.events();
    let all = events.iter().all(|e| is_down(e, PathDownReason::LocalGone));
    assert!(all && events.len() == 2);
    let mut traffic = listener();
    gone(&mut traffic);
    assert_eq!(
        traffic.path_count(),
        1,
        "the peer could never be reached again"
    );
}

#[test]
fn a_path_without_a_route_is_closed_unless_it_is_the_last() {
    let mut traffic = initiator();
    traffic.open(1);
    let mut fail = |path: u8| {
        traffic.on_send_error(T0, LocalId(1), address(path), SendErrorKind::NoRoute);
        traffic.path_count()
    };
    assert_eq!((fail(9), fail(1), fail(0)), (2, 1, 1));
}

/// The other path may lead to where the listener was: its packets come on the one that works, and
/// that goes on when there is a socket for it.
#[test]
fn the_only_path_that_works_stays_without_a_socket_and_without_a_route() {
    let other = Local {
        id: LocalId(2),
        addr: address(101),
        ..local()
    };
    let locals = BTreeMap::from([(other.id, other.clone())]);
    let mut traffic = initiator();
    traffic
        .on_cid_announced(T0, PathId(1), CID)
        .expect("in range");
    traffic.add_local(T0, &other);
    assert_eq!(traffic.state(1), Some(PathState::Validating));
    traffic.on_send_error(T0, LocalId(1), address(0), SendErrorKind::NoRoute);
    assert_eq!(traffic.state(0), Some(PathState::Active));
    traffic.remove_local(T0, LocalId(1), &locals);
    assert_eq!(traffic.state(0), Some(PathState::Stalled));
    let at = |traffic: &Traffic| traffic.path(PathId(0)).expect("it is kept").local().id;
    assert_eq!(
        at(&traffic),
        LocalId(1),
        "the other socket has a path there"
    );
    let back = Local {
        id: LocalId(3),
        ..local()
    };
    traffic.add_local(T0, &back);
    assert_eq!(at(&traffic), LocalId(3));
    // Once the other one works, this one can be done without.
    let index = traffic.index_of(PathId(1)).expect("it is open");
    traffic.validated(T0, index, Some(RTT));
    traffic.remove_local(T0, LocalId(3), &locals);
    assert_eq!(traffic.state(0), None);
}

//! Paths without a peer: what may leave, who carries data, what is kept.

use std::ops::RangeInclusive;

use manyway_control::LawSpec;
use manyway_control::Scheduler;
use manyway_control::scheduler::{Backlog, Waiting};
use manyway_wire::relay::{ForwardHeader, Grant, RelayType};
use manyway_wire::{AckInfo, Frame, Frames, encode_ack};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use super::super::packet::Packet;
use super::*;
use crate::carrier::Facts;
use crate::driver::{Ecn, LocalId};

mod model;
mod moving;

const T0: Time = Time::ZERO;
const LOCAL: LocalId = LocalId(1);
const RTT: Duration = Duration::from_millis(40);

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 9))
}

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(5)
}

fn set(initiator: bool) -> PathSet {
    let config = Arc::new(Config::default());
    let limits = PeerLimits {
        max_datagram: 8952,
        ack_delay: Duration::from_millis(10),
        max_paths: 8,
    };
    let law = Box::new(LawSpec::reno().controller(&Default::default()));
    let idle = Duration::from_secs(30);
    PathSet::new(
        T0,
        &config,
        (initiator, limits),
        idle,
        law,
        PathMemory::default(),
    )
}

/// A socket of ours, by its number and the last byte of its address.
fn local(id: LocalId, last: u8) -> Local {
    Local {
        id,
        name: "if".into(),
        addr: address(last),
        mtu: None,
    }
}

/// Where the paths start.
fn home() -> Local {
    local(LOCAL, 100)
}

fn add(set: &mut PathSet, id: u32, transport: PathTransport) -> usize {
    let new = NewPath {
        id: PathId(id),
        local: home(),
        remote: address(id as u8),
        remote_cid: Some(ConnectionId([1; 8])),
        transport,
        relay: None,
        initial_rtt: None,
    };
    set.add(T0, new, None)
}

/// A path that carries data.
fn active(set: &mut PathSet, id: u32, rtt: Duration) -> usize {
    let index = add(set, id, PathTransport::Coupled);
    assert!(set.on_validated(index, Some(rtt)));
    set.refresh(T0, index);
    index
}

/// A packet with `number` and `bytes` comes from an address.
fn arrive(path: &mut Path, number: u64, remote: SocketAddr, bytes: usize) -> Origin {
    path.on_packet(
        T0,
        number,
        (&home(), remote),
        (bytes, None),
        false,
        &mut rng(),
    )
}

fn send(path: &mut Path, bytes: usize) {
    let packet = Packet {
        ack_eliciting: true,
        ..Packet::default()
    };
    path.on_sent(T0, bytes, false, packet);
}

/// These packets of a path have arrived; whether that tells anything.
fn ack(set: &mut PathSet, now: Time, index: usize, packets: RangeInclusive<u64>) -> bool {
    let info = AckInfo {
        path: set[index].id(),
        delay_us: 0,
        receive_time_us: 0,
        ecn: None,
    };
    let mut buf = Vec::new();
    encode_ack(&mut buf, &info, [packets].into_iter(), 100);
    let Some(Ok(Frame::Ack(ack))) = Frames::new(&buf).next() else {
        panic!("no ACK");
    };
    let told = set.on_ack(now, index, (&ack, false)).expect("true");
    told.is_some()
}

#[test]
fn a_listener_sends_three_times_what_came_until_the_address_answers() {
    let mut set = set(false);
    let index = add(&mut set, 1, PathTransport::Coupled);
    let path = &mut set[index];
    assert_eq!(path.room(false), None);
    assert_eq!(arrive(path, 0, address(1), 1000), Origin::Home);
    assert_eq!(path.room(false), Some(1200));
    send(path, 1200);
    send(path, 1200);
    assert_eq!(path.room(false), Some(600));
    assert!(path.close_room(false) < 600);
    send(path, 600);
    assert_eq!((path.room(false), path.close_room(false)), (None, 0));
    assert_eq!(arrive(path, 1, address(9), 5000), Origin::Candidate(0));
    assert_eq!(path.room(false), None, "that came from elsewhere");
    set.on_validated(index, None);
    assert_eq!(set[index].room(false), Some(1200));
}

#[test]
fn an_initiator_and_a_carrier_send_at_once() {
    let mut set = set(true);
    let index = add(&mut set, 1, PathTransport::Coupled);
    assert_eq!(set[index].room(true), Some(1200));
    let index = add(&mut set, 2, PathTransport::Carrier(Facts::stream()));
    assert!(set[index].room(false).is_some());
}

#[test]
fn a_listener_believes_an_answer_from_the_paths_own_address_only() {
    let mut set = set(false);
    let index = add(&mut set, 1, PathTransport::Coupled);
    set.challenge(T0, index, &mut rng());
    let path = &mut set[index];
    let data = path.validation.due(T0).expect("it is asked");
    path.validation.on_challenge_sent(T0);
    let answer = |path: &mut Path, origin, initiator| {
        matches!(
            path.on_response(T0, origin, data, initiator),
            Response::Validated(_)
        )
    };
    assert!(!answer(path, Origin::Stray, false) && !answer(path, Origin::Candidate(0), false));
    assert!(answer(path, Origin::Home, false));
    let index = add(&mut set, 2, PathTransport::Coupled);
    set.challenge(T0, index, &mut rng());
    set[index].validation.on_challenge_sent(T0);
    assert!(
        answer(&mut set[index], Origin::Stray, true),
        "the initiator was told it"
    );
}

#[test]
fn an_address_under_challenge_gets_three_times_what_it_sent() {
    for initiator in [false, true] {
        let mut set = set(initiator);
        let index = active(&mut set, 1, RTT);
        let path = &mut set[index];
        arrive(path, 5, address(1), 1200);
        assert_eq!(arrive(path, 6, address(9), 100), Origin::Candidate(0));
        assert_eq!(path.candidate_room(T0, 0), Some(300));
        path.on_sent_to_candidate(0, 0, 250);
        assert_eq!(path.candidate_room(T0, 0), None, "50 bytes are too few");
        arrive(path, 7, address(9), 1000);
        assert_eq!(
            path.candidate_room(T0, 0),
            Some(1200),
            "the size that passes"
        );
    }
}

#[test]
fn only_newer_packets_from_new_addresses_make_a_candidate() {
    let mut set = set(false);
    let index = active(&mut set, 1, RTT);
    let path = &mut set[index];
    let policy = path.ack_policy(10, Duration::from_millis(10));
    path.record(T0, 5, true, policy, false);
    assert_eq!(arrive(path, 4, address(9), 100), Origin::Stray, "older");
    let other = local(LocalId(2), 101);
    let elsewhere = (&other, path.remote());
    let origin = path.on_packet(T0, 6, elsewhere, (100, None), false, &mut rng());
    assert_eq!(origin, Origin::Stray, "the peer is where it was");
    let moved = (&other, address(9));
    let origin = path.on_packet(T0, 6, moved, (100, None), false, &mut rng());
    assert_eq!(origin, Origin::Candidate(0), "it leads us elsewhere");
    assert_eq!(arrive(path, 7, address(9), 100), Origin::Candidate(0));
    let carrier = add(&mut set, 2, PathTransport::Carrier(Facts::stream()));
    let origin = arrive(&mut set[carrier], 6, address(9), 100);
    assert_eq!(origin, Origin::Stray, "a carrier has one end");
}

#[test]
fn a_relays_path_has_no_candidates() {
    let mut set = set(false);
    let index = active(&mut set, 1, RTT);
    let mut bytes = [0; ForwardHeader::LEN_V4];
    bytes[0] = RelayType::Forward4 as u8;
    let grant = Grant::decode(&bytes).expect("a grant");
    set[index].set_relay(RelayHeader::back(grant, 1));
    assert_eq!(arrive(&mut set[index], 0, address(9), 100), Origin::Stray);
}

#[test]
fn other_addresses_are_left_alone_once_the_home_has_spoken() {
    let mut set = set(false);
    let index = active(&mut set, 1, RTT);
    let path = &mut set[index];
    assert_eq!(arrive(path, 0, address(9), 100), Origin::Candidate(0));
    assert_eq!(arrive(path, 1, address(1), 100), Origin::Home);
    assert_eq!(path.candidates(), 0);
    assert_eq!(arrive(path, 2, address(9), 100), Origin::Stray, "so soon");
    let (later, elsewhere) = (T0 + Duration::from_secs(1), (&home(), address(9)));
    let origin = path.on_packet(later, 3, elsewhere, (100, None), false, &mut rng());
    assert_eq!(origin, Origin::Candidate(0));
}

/// Nor a round-trip time, nor that the path's own address is alive.
#[test]
fn what_went_to_a_candidate_says_nothing_of_the_path() {
    let mut set = set(false);
    let index = active(&mut set, 1, RTT);
    let path = &mut set[index];
    send(path, 1200);
    arrive(path, 0, address(9), 1200);
    let number = path.sender().next_packet_number();
    path.on_sent(T0, 100, false, Packet::aside());
    path.on_sent_to_candidate(0, number, 100)
        .expect("it is there");
    let acked = |set: &mut PathSet, packets| {
        let acked = ack(set, T0 + RTT, index, packets);
        acked.then_some(set.outcome.acked.len())
    };
    assert_eq!(acked(&mut set, number..=number), None);
    assert_eq!(acked(&mut set, 0..=number), Some(1));
}

/// Its challenges are probes enough, and they are counted.
#[test]
fn a_path_that_is_not_validated_is_probed_by_challenges_alone() {
    let mut set = set(false);
    let asked = add(&mut set, 1, PathTransport::Coupled);
    set.probe_silent(asked);
    assert_eq!(set[asked].probes, 0);
    let used = active(&mut set, 2, RTT);
    set.probe_silent(used);
    assert_eq!(set[used].probes, 1);
}

/// The listener's path would lead to that socket, and the initiator's away from it. But a socket of
/// the same address is where the path's own was.
#[test]
fn an_initiator_answers_no_challenge_at_another_address_than_the_paths() {
    for (initiator, last, answers) in [(true, 101, false), (true, 100, true), (false, 101, true)] {
        let mut set = set(initiator);
        let index = active(&mut set, 1, RTT);
        let path = &mut set[index];
        let (other, remote) = (local(LocalId(2), last), path.remote());
        let seen = (100, None);
        let origin = path.on_packet(T0, 0, (&other, remote), seen, initiator, &mut rng());
        path.on_challenge(origin, *b"question");
        assert_eq!(path.respond, answers.then_some(*b"question"), "{last}");
        path.on_challenge(Origin::Home, *b"question");
        assert_eq!(path.respond, Some(*b"question"));
    }
}

/// Who passes the listener's packets on from elsewhere doesn't lead an initiator away from where it
/// was told to go.
#[test]
fn an_initiator_goes_nowhere_else_until_its_address_has_answered() {
    let mut set = set(true);
    let index = add(&mut set, 1, PathTransport::Coupled);
    let come = |set: &mut PathSet, number, from| {
        let (source, seen) = ((&home(), address(from)), (100, None));
        set[index].on_packet(T0, number, source, seen, true, &mut rng())
    };
    assert_eq!(come(&mut set, 0, 9), Origin::Stray);
    set[index].on_challenge(Origin::Stray, *b"question");
    assert_eq!(
        set[index].respond,
        Some(*b"question"),
        "answered where it was told"
    );
    set.on_validated(index, None);
    assert_eq!(come(&mut set, 1, 9), Origin::Candidate(0));
}

#[test]
fn an_ack_waits_for_an_eighth_of_a_round_trip_at_most() {
    let mut set = set(true);
    let most = Duration::from_millis(10);
    let index = add(&mut set, 1, PathTransport::Coupled);
    let delay = |set: &PathSet, index: usize| set[index].ack_policy(10, most).delay;
    assert_eq!(delay(&set, index), most, "before anything is known");
    for (id, rtt, expected) in [(2, 40, 5), (3, 400, 10), (4, 2, 1)] {
        let index = active(&mut set, id, Duration::from_millis(rtt));
        assert_eq!(delay(&set, index), Duration::from_millis(expected));
    }
}

#[test]
fn a_mark_or_a_ping_is_acknowledged_at_once() {
    let mut set = set(false);
    let index = active(&mut set, 1, RTT);
    let path = &mut set[index];
    let policy = path.ack_policy(10, Duration::from_millis(10));
    path.record(T0, 0, true, policy, false);
    assert!(!path.owes(T0, false), "the policy lets it wait");
    path.record(T0, 1, true, policy, true);
    assert!(path.owes(T0, false));
    let (source, marked) = ((&home(), address(1)), (100, Some(Ecn::Ce)));
    path.on_packet(T0, 2, source, marked, false, &mut rng());
    assert_eq!(path.marks.received().map(|counts| counts.ce), Some(1));
}

#[test]
fn the_fastest_path_carries_data_and_backups_only_for_want_of_another() {
    let mut set = set(true);
    let slow = active(&mut set, 1, 3 * RTT);
    let fast = active(&mut set, 2, RTT);
    let backlog = || Backlog {
        unsent: 1 << 30,
        unacked: 0,
        credit: 1 << 30,
    };
    let choose = |set: &mut PathSet| set.choose(T0, backlog);
    assert_eq!(choose(&mut set), Some(fast));
    set.set_backup(T0, fast, true);
    assert_eq!((choose(&mut set), set.active_len()), (Some(slow), 1));
    assert!(set.has_other(slow), "the backup could carry it");
    set.stall(T0, slow);
    set.refresh(T0, slow);
    assert_eq!(choose(&mut set), Some(fast));
    assert_eq!(set.revive(slow), (true, true));
    assert_eq!(set.revive(slow), (false, false));
    set.refresh(T0, slow);
    assert_eq!((choose(&mut set), set.active_len()), (Some(slow), 1));
    set.set_backup(T0, fast, false);
    assert_eq!(choose(&mut set), Some(fast));
}

#[test]
fn a_path_on_standby_carries_data_if_no_other_works_and_before_backups() {
    let mut set = set(true);
    let direct = active(&mut set, 1, 3 * RTT);
    let (spare, last) = (active(&mut set, 2, 2 * RTT), active(&mut set, 3, RTT));
    let backlog = || Backlog {
        unsent: 1 << 30,
        unacked: 0,
        credit: 1 << 30,
    };
    let choose = |set: &mut PathSet| set.choose(T0, backlog);
    set.set_standby(T0, spare, true);
    set.set_backup(T0, last, true);
    assert_eq!((choose(&mut set), set.active_len()), (Some(direct), 1));
    let state = |set: &PathSet, index: usize| set.stats_of(&set[index]).state;
    assert_eq!(state(&set, spare), PathState::Standby);
    set.stall(T0, direct);
    set.refresh(T0, direct);
    assert_eq!((choose(&mut set), set.active_len()), (Some(spare), 1));
    set.stall(T0, spare);
    set.refresh(T0, spare);
    assert_eq!(choose(&mut set), Some(last));
    assert_eq!(state(&set, spare), PathState::Stalled);
    set.revive(spare);
    set.revive(direct);
    set.refresh(T0, direct);
    set.set_standby(T0, spare, false);
    assert_eq!((choose(&mut set), set.active_len()), (Some(spare), 2));
}

/// A path with the round-trip time RTT, one that takes three times as long, and a packet in flight
/// on the latter.
fn one_on_the_slow_path(scheduler: Scheduler) -> (PathSet, usize) {
    let mut set = set(true);
    set.waiting = Waiting::new(scheduler);
    active(&mut set, 1, RTT);
    let slow = active(&mut set, 2, 3 * RTT);
    send(&mut set[slow], 1200);
    set.refresh(T0, slow);
    (set, slow)
}

#[test]
fn a_packet_on_a_slow_path_is_overtaken_once_while_that_is_sooner() {
    let soon = T0 + 2 * RTT - Duration::from_nanos(1);
    let (mut set, _) = one_on_the_slow_path(Scheduler::default());
    assert!(set.take_overtaken(soon).is_some());
    assert!(set.take_overtaken(soon).is_none(), "once");
    let (mut set, slow) = one_on_the_slow_path(Scheduler::default());
    assert!(set.take_overtaken(T0 + 2 * RTT).is_none(), "as late");
    assert_eq!(set[slow].take_outstanding(9).len(), 1, "if the path stalls");
    // It is to be expected to be lost, and to be missed after a probe timeout.
    let (mut set, slow) = one_on_the_slow_path(Scheduler::default());
    set[slow].note_fates(0, 1);
    let pto = set[slow].sender().pto();
    assert!(set.take_overtaken(T0 + 2 * RTT + pto).is_none());
    assert!(set.take_overtaken(soon + pto).is_some());
    let (mut set, slow) = one_on_the_slow_path(Scheduler::default());
    set[slow].note_fates(0, 1);
    set[slow].note_fates(100, 0);
    assert!(set.take_overtaken(T0 + 2 * RTT).is_none(), "trusted again");
}

/// As while a shaper's bucket empties.
#[test]
fn a_queue_that_grows_is_known_by_its_last_round_trip() {
    let (mut set, slow) = one_on_the_slow_path(Scheduler::default());
    assert!(ack(&mut set, T0 + 9 * RTT, slow, 0..=0));
    send(&mut set[slow], 1200);
    assert!(set[slow].sender().rtt().smoothed() < 4 * RTT);
    assert!(set.take_overtaken(T0 + 7 * RTT).is_some());
    // Between paths that are alike, copies would take the place of new data.
    let mut alike = self::set(true);
    active(&mut alike, 1, RTT);
    let other = active(&mut alike, 2, RTT);
    send(&mut alike[other], 1200);
    assert!(ack(&mut alike, T0 + 3 * RTT / 2, other, 0..=0));
    send(&mut alike[other], 1200);
    alike.refresh(T0, other);
    assert!(alike.take_overtaken(T0 + RTT / 4).is_none());
}

/// A carrier's loss detection isn't ours: the packet may come at any time.
#[test]
fn what_is_overdue_on_a_carrier_is_overtaken() {
    for (transport, overtaken) in [
        (PathTransport::Carrier(Facts::stream()), true),
        (PathTransport::Coupled, false),
    ] {
        let mut set = set(true);
        active(&mut set, 1, RTT);
        let slow = add(&mut set, 2, transport);
        assert!(set.on_validated(slow, Some(3 * RTT)));
        send(&mut set[slow], 1200);
        set.refresh(T0, slow);
        let late = T0 + 4 * RTT;
        let before = late - Duration::from_nanos(1);
        assert!(set.take_overtaken(before).is_none(), "it is about to come");
        assert_eq!(set.take_overtaken(late).is_some(), overtaken);
        assert!(set.take_overtaken(late).is_none(), "once");
    }
}

#[test]
fn only_earliest_delivery_overtakes() {
    for scheduler in Scheduler::ALL {
        let (mut set, _) = one_on_the_slow_path(scheduler);
        let overtakes = scheduler == Scheduler::EarliestDelivery;
        assert_eq!(set.take_overtaken(T0).is_some(), overtakes, "{scheduler}");
    }
}

#[test]
fn a_path_on_trial_never_carries_data() {
    let mut set = set(true);
    let index = add(&mut set, 1, PathTransport::Trial);
    assert!(!set.on_validated(index, Some(RTT)));
    set.refresh(T0, index);
    assert_eq!((set.active_len(), set.oldest_coupled()), (0, None));
    assert!(set[index].is_validated());
}

#[test]
fn an_idle_path_keeps_itself_alive() {
    let mut set = set(true);
    let index = active(&mut set, 1, RTT);
    let third = T0 + Duration::from_secs(10);
    assert_eq!(set.timeout(), Some(third));
    assert_eq!(set.due(third), [index]);
    assert!(!set.on_timer(third, index));
    assert!(set.on_sender_timer(third, index).is_none());
    set.refresh(third, index);
    assert_eq!(set.next_owing(), Some(index));
    assert_eq!(set.timeout(), Some(third + Duration::from_secs(10)));
}

#[test]
fn a_silent_path_is_lost_only_while_others_are_alive() {
    let mut set = set(true);
    let index = active(&mut set, 1, RTT);
    set.stall(T0, index);
    set.refresh(T0, index);
    let late = T0 + Duration::from_secs(30);
    assert!(!set.is_lost(late, index), "the only one");
    active(&mut set, 2, RTT);
    assert!(set.is_lost(late, index));
    assert!(!set.is_lost(T0 + Duration::from_secs(29), index));
    let source = (&home(), address(1));
    set[index].on_packet(late, 0, source, (100, None), true, &mut rng());
    assert!(
        set[index].owes(late, false),
        "it is probed when it is heard"
    );
    assert!(!set.is_lost(late, index));
}

#[test]
fn packets_in_flight_come_back_from_a_closed_path() {
    let mut set = set(true);
    let index = active(&mut set, 1, RTT);
    send(&mut set[index], 1200);
    send(&mut set[index], 1200);
    assert_eq!(set[index].take_outstanding(1).len(), 1);
    assert_eq!(set[index].take_outstanding(9).len(), 1, "each once");
    let closed = set.close(T0, index);
    assert!(closed.was_up && closed.in_flight.len() == 2);
    assert_eq!(
        (set.len(), set.active_len(), set.index_of(PathId(1))),
        (0, 0, None)
    );
    assert!(set.timeout().is_none() && set.next_owing().is_none());
    let stats = set.stats();
    assert_eq!((stats.len(), stats[0].state), (1, PathState::Closed));
}

#[test]
fn statistics_of_closed_paths_are_bounded() {
    let mut set = set(true);
    for id in 0..400 {
        let index = active(&mut set, id, RTT);
        set.close(T0, index);
    }
    let stats = set.stats();
    assert_eq!(stats.len(), MAX_CLOSED_PATHS);
    assert_eq!(stats[0].id, PathId(400 - MAX_CLOSED_PATHS as u32));
}

#[test]
fn sizes_are_what_both_ends_and_the_interface_take() {
    let mut set = set(true);
    let index = add(&mut set, 1, PathTransport::Coupled);
    assert_eq!(set[index].full_size(), 1200);
    let mut local = set[index].local().clone();
    assert_eq!(
        set.datagram_limit(&local, address(1)),
        1472,
        "an interface of 1500 bytes"
    );
    local.mtu = Some(9000);
    assert_eq!(set.datagram_limit(&local, address(1)), 8952);
    local.mtu = Some(576);
    assert_eq!(
        set.datagram_limit(&local, address(1)),
        1200,
        "never below the base"
    );
    let index = add(&mut set, 2, PathTransport::Carrier(Facts::stream()));
    assert_eq!(set[index].full_size(), Facts::stream().max_packet);
}

#[test]
fn a_size_is_probed_only_in_the_midst_of_data() {
    let mut set = set(true);
    let index = active(&mut set, 1, RTT);
    assert!(set[index].mtu_probe(T0).is_none(), "idle");
    send(&mut set[index], 1200);
    assert!(set[index].mtu_probe(T0).is_none());
    send(&mut set[index], 1200);
    let probe = set[index].mtu_probe(T0).expect("two packets are in flight");
    assert_eq!(probe.size, 1472);
    set[index].on_mtu_probe_sent(T0, &probe);
    assert!(set[index].mtu_probe(T0).is_none(), "one at a time");
}

/// Hundreds of them would be gone through with every packet.
#[test]
fn a_path_owes_nothing_that_it_may_not_send() {
    let mut set = set(false);
    let index = add(&mut set, 1, PathTransport::Coupled);
    set.challenge(T0, index, &mut rng());
    set.refresh(T0, index);
    assert_eq!(set.next_owing(), None, "nothing has come from there");
    let arrives = |set: &mut PathSet, number| {
        let source = (&home(), address(1));
        set[index].on_packet(T0, number, source, (400, None), false, &mut rng());
        set.refresh(T0, index);
    };
    arrives(&mut set, 0);
    assert_eq!(set.next_owing(), Some(index));
    set[index].remote_cid = None;
    arrives(&mut set, 1);
    assert_eq!(
        set.next_owing(),
        None,
        "nobody would know it for the path's"
    );
    set.set_remote_cid(T0, index, ConnectionId([7; 8]));
    assert_eq!(set.next_owing(), Some(index));
    // The same for another address that the path may lead to.
    let allowance = set[index].validation.allowance(false);
    set[index].on_sent(T0, allowance, false, Packet::default());
    let elsewhere = (&home(), address(2));
    set[index].on_packet(T0, 2, elsewhere, (20, None), false, &mut rng());
    set.refresh(T0, index);
    assert_eq!(set.next_owing(), None, "60 bytes are too few");
    set[index].on_packet(T0, 3, elsewhere, (20, None), false, &mut rng());
    set.refresh(T0, index);
    assert_eq!(set.next_owing(), Some(index));
}

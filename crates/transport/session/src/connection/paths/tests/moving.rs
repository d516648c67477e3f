//! What becomes of a path whose ends move, or whose socket goes.

use super::*;

/// Long after any probe timeout.
const LATE: Time = Time::from_millis(5000);

fn smoothed(set: &PathSet, index: usize) -> Duration {
    set[index].sender().rtt().smoothed()
}

#[test]
fn what_is_in_flight_comes_back_when_the_peer_has_moved() {
    let same_host = SocketAddr::new(address(1).ip(), 99);
    for (remote, fresh) in [(address(9), true), (same_host, false)] {
        let mut set = set(false);
        let index = active(&mut set, 1, RTT);
        send(&mut set[index], 1200);
        send(&mut set[index], 1200);
        let path = &mut set[index];
        assert_eq!(arrive(path, 5, remote, 1200), Origin::Candidate(0));
        let candidate = path.migration.candidate(0).expect("it is asked");
        let data = candidate.validation.due(T0).expect("now");
        candidate.validation.on_challenge_sent(T0);
        assert!(set.migrate(LATE, index).is_none(), "nobody has answered");
        let answered = Time::from_millis(15);
        set[index].on_response(answered, Origin::Candidate(0), data, false);
        let moved = set.migrate(LATE, index).expect("the home is silent");
        assert_eq!(moved.previous, address(1));
        assert_eq!(moved.rtt, Some(Duration::from_millis(15)));
        assert_eq!(moved.in_flight.len(), 2);
        assert_eq!(set[index].remote(), remote);
        assert_eq!(set[index].sender().bytes_in_flight(), 0);
        // Another host is another network path; another port is a NAT that has bound anew.
        let rtt = if fresh {
            Duration::from_millis(15)
        } else {
            RTT
        };
        assert_eq!(smoothed(&set, index), rtt);
    }
}

#[test]
fn a_path_without_its_socket_waits_for_one_that_fits() {
    let mut set = set(true);
    let (data, asked) = (
        active(&mut set, 1, RTT),
        add(&mut set, 2, PathTransport::Coupled),
    );
    let carrier = add(&mut set, 3, PathTransport::Carrier(Facts::stream()));
    let mut other = Local {
        id: LocalId(2),
        ..set[data].local().clone()
    };
    assert!(set.unbound(&other).is_empty());
    assert!(set.unbind(T0, data), "it carried data");
    assert_eq!(set[data].state(), PathState::Stalled);
    assert!(!set.unbind(T0, asked) && !set.are_unbound());
    assert!(!set.unbind(T0, carrier) && set.are_unbound());
    assert_eq!(set.unbound(&other), [data, asked]);
    send(&mut set[data], 1200);
    let there = set[data].remote();
    assert_eq!(
        set.rebind(T0, data, &other, there).len(),
        1,
        "it is sent again"
    );
    assert_eq!(set[data].local().id, LocalId(2));
    assert!(!set.are_unbound());
    assert_eq!(set.unbound(&other), [asked]);
    // One path from there to an address is enough.
    set[asked].remote = address(1);
    assert!(set.unbound(&other).is_empty());
    other.id = LocalId(3);
    assert_eq!(set.unbound(&other), [asked]);
    other.addr = "[2001:db8::1]:9".parse().expect("an address");
    assert!(set.unbound(&other).is_empty(), "another family");
}

#[test]
fn a_flight_that_is_given_up_is_no_loss() {
    let mut set = set(true);
    let index = active(&mut set, 1, RTT);
    send(&mut set[index], 1200);
    let window = set[index]
        .sender()
        .window(set.controllers.of(PathTransport::Coupled));
    set.abandon_flight(T0, index);
    let path = &set[index];
    assert_eq!(path.sender().bytes_in_flight(), 0);
    let after = path
        .sender()
        .window(set.controllers.of(PathTransport::Coupled));
    assert_eq!(after, window);
}

#[test]
fn a_backup_is_another_path_only_for_others_and_while_it_works() {
    let mut set = set(true);
    let only = active(&mut set, 1, RTT);
    set.set_backup(T0, only, true);
    assert!(!set.has_other(only));
    let other = active(&mut set, 2, RTT);
    assert!(set.has_other(only) && set.has_other(other));
    set.stall(T0, only);
    set.refresh(T0, only);
    assert!(!set.has_other(other), "the backup is silent");
}

#[test]
fn a_paths_rate_is_a_window_each_round_trip() {
    let mut set = set(true);
    let (near, far) = (active(&mut set, 1, RTT), active(&mut set, 2, 2 * RTT));
    let law = set.controllers.of(PathTransport::Coupled);
    let rate = |index: usize| set[index].rate(law);
    let window = set[near].sender().window(law) * set[near].full_size() as f64;
    assert_eq!(rate(near), window / RTT.as_secs_f64());
    assert_eq!(rate(near), 2.0 * rate(far));
}

/// The last path that works isn't stalled, however silent. Once another one comes back, its data
/// must not wait for it.
#[test]
fn a_path_that_comes_back_finds_the_silent_ones() {
    let mut set = set(true);
    let (silent, heard) = (active(&mut set, 1, RTT), active(&mut set, 2, RTT));
    assert!(set.silent_beside(heard).is_empty());
    send(&mut set[silent], 1200);
    set.on_sender_timer(LATE, silent).expect("a probe timeout");
    assert_eq!(set.silent_beside(heard), [silent]);
    assert!(set.silent_beside(silent).is_empty());
}

/// Its probe timeouts are up to a minute apart.
#[test]
fn the_only_path_is_probed_when_it_is_heard_after_a_silence() {
    let mut set = set(true);
    let index = active(&mut set, 1, RTT);
    send(&mut set[index], 1200);
    let mut number = 0;
    // Whether it owes a packet before the peer is heard, and then.
    let mut heard = |set: &mut PathSet, now| {
        let before = set[index].owes(now, false);
        let source = (&home(), address(1));
        set[index].on_packet(now, number, source, (100, None), true, &mut rng());
        number += 1;
        [before, set[index].owes(now, false)]
    };
    let mut now = LATE;
    set.on_sender_timer(now, index).expect("a probe timeout");
    assert!(!set.note_silence(index), "losses");
    assert_eq!(heard(&mut set, now), [false, false]);
    now += LATE.since(T0);
    set.on_sender_timer(now, index).expect("another one");
    assert!(set.note_silence(index));
    // Its own probes are sent and lost.
    set[index].probes = 0;
    assert_eq!(heard(&mut set, now), [false, true]);
}

#[test]
fn nothing_is_closed_at_an_address_that_said_nothing() {
    let mut set = set(false);
    let index = add(&mut set, 1, PathTransport::Coupled);
    assert!(!set[index].takes_close(false));
    arrive(&mut set[index], 0, address(1), 100);
    assert!(set[index].takes_close(false));
}

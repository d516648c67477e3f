//! Which relays are chosen, dialled and left, without a peer.

use manyway_control::rate_control::SelectConfig;
use manyway_wire::{MAX_RELAYS, PathId};

use super::super::super::core::tests::{address, new_path, paths};
use super::super::super::paths::{NewPath, PathTransport};
use super::super::fixtures::{T0, begin, granted, local, relay, seconds};
use super::*;
use crate::carrier::Facts;

fn selection(wanted: usize) -> RelaySelection {
    let config = LiveConfig::new(SelectConfig::new(wanted), None);
    RelaySelection::new(config, 1).expect("it works")
}

fn relays(of: impl Iterator<Item = u8>) -> Vec<RelayAccess> {
    of.map(relay).collect()
}

/// A path on a carrier through a relay, in use.
fn carrier(paths: &mut PathSet, last: u8) -> usize {
    let facts = Facts {
        relay: true,
        ..Facts::stream()
    };
    let new = NewPath {
        remote: address(last),
        transport: PathTransport::Carrier(facts),
        ..new_path(last.into())
    };
    let index = paths.add(T0, new, None);
    paths.on_validated(index, None);
    index
}

#[test]
fn as_many_relays_are_dialled_as_paths_are_wanted() {
    let mut selection = selection(2);
    assert_eq!(selection.timeout(), Some(Time::ZERO), "it looks at once");
    selection.set_over_tcp(&relays(1..6));
    assert!(selection.to_dial().is_empty(), "before it has chosen");
    selection.run(T0, &paths(true), None, 0);
    assert_eq!(selection.to_dial().len(), 2);
    assert_eq!(selection.timeout(), None, "it keeps its choice");
    let events = selection.events(T0);
    let [PathEvent::RelaysPicked { relays, reason }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!((relays.len(), reason), (2, &PickReason::First));
    for last in 1..6 {
        let chosen = relays.contains(&address(last));
        assert_eq!(selection.takes_carrier_at(address(last)), chosen);
    }
    selection.set_over_tcp(&relays_of(&selection));
    assert_eq!(selection.timeout(), Some(Time::ZERO), "some have gone");
}

fn relays_of(selection: &RelaySelection) -> Vec<RelayAccess> {
    let chosen = selection.chosen();
    chosen.into_iter().map(|id| relay(id.0[0])).collect()
}

#[test]
fn no_more_relays_are_known_than_there_may_be() {
    let mut selection = selection(2);
    let many = (0..=MAX_RELAYS as u16).map(|n| {
        let mut access = relay(0);
        access.relay.id.0[..2].copy_from_slice(&n.to_be_bytes());
        access
    });
    selection.set_over_tcp(&many.collect::<Vec<_>>());
    assert_eq!(selection.over_tcp.len(), MAX_RELAYS);
}

#[test]
fn a_relay_that_can_not_be_reached_rests_ever_longer() {
    let mut selection = selection(1);
    let paths = paths(true);
    selection.set_over_tcp(&relays(1..2));
    selection.run(T0, &paths, None, 0);
    let id = relay(1).relay.id;
    let mut now = T0;
    for pause in [5, 10] {
        assert_eq!(selection.to_dial(), [id]);
        selection.on_dial_failed(now, id);
        selection.set_over_tcp(&relays(1..2));
        selection.run(now, &paths, None, 0);
        assert!(selection.to_dial().is_empty());
        now += Duration::from_secs(pause);
        assert_eq!(
            selection.timeout(),
            Some(now),
            "offering it again is no news"
        );
        selection.run(now, &paths, None, 0);
    }
    let mut used = super::super::super::core::tests::paths(true);
    let index = carrier(&mut used, 1);
    selection.on_working(&used[index], None);
    let reselected = PathDownReason::Reselected;
    selection.on_closing(now, &used[index], None, reselected);
    assert_eq!(selection.to_dial(), [id], "it wasn't its fault");
    selection.on_closing(now, &used[index], None, PathDownReason::TimedOut);
    selection.run(now, &used, None, 0);
    assert!(selection.to_dial().is_empty());
    let rest = selection.over_tcp[&id].rest_until;
    assert_eq!(
        rest.since(now),
        Duration::from_secs(5),
        "working made up for it"
    );
}

#[test]
fn a_relay_whose_path_is_dead_gives_its_place_to_another() {
    let mut selection = selection(1);
    let mut paths = paths(true);
    selection.set_over_tcp(&relays(1..2));
    selection.run(T0, &paths, None, 0);
    let index = carrier(&mut paths, 1);
    selection.set_over_tcp(&relays(1..3));
    paths.stall(T0, index);
    selection.run(T0, &paths, None, 0);
    assert_eq!(selection.chosen(), [relay(1).relay.id]);
    let dead = paths[index].dead_at();
    assert!(
        dead.is_some() && selection.timeout() == dead,
        "it is looked at then"
    );
    selection.run(seconds(1), &paths, None, 0);
    assert_eq!(selection.chosen(), [relay(2).relay.id]);
}

#[test]
fn a_path_is_left_for_others_that_carry_data() {
    let mut selection = selection(1);
    let mut paths = paths(true);
    selection.set_over_tcp(&relays(1..2));
    let direct = paths.add(T0, new_path(0), None);
    let (used, unused) = (carrier(&mut paths, 1), carrier(&mut paths, 2));
    assert_eq!(
        selection.unchosen(&paths, None).0,
        [],
        "nothing is chosen yet"
    );
    selection.run(T0, &paths, None, 0);
    selection.set_over_tcp(&relays(1..3));
    let unchosen = |paths: &PathSet| selection.unchosen(paths, None);
    assert_eq!(unchosen(&paths), (vec![PathId(2)], true));
    paths.stall(T0, used);
    assert_eq!(unchosen(&paths), (vec![PathId(2)], false));
    let leave =
        |paths: &PathSet, index: usize, others| selection.leave(&paths[index], paths, others);
    assert_eq!(leave(&paths, unused, true), Leave::Released);
    assert_eq!(leave(&paths, unused, false), Leave::Backup);
    assert_eq!(
        leave(&paths, direct, false),
        Leave::Released,
        "it carries nothing"
    );
    paths.stall(T0, unused);
    assert_eq!(leave(&paths, unused, true), Leave::Failed);
}

#[test]
fn a_chosen_relays_path_is_no_backup_unless_the_relay_leaves() {
    let mut selection = selection(1);
    let (mut routes, all) = granted(&[local(1, "if")], &[relay(1)]);
    let mut paths = paths(true);
    let index = begin(&mut paths, &mut routes, (all[0], 1), PathTransport::Coupled);
    paths.set_backup(T0, index, true);
    assert!(selection.wanted_back(&paths, Some(&routes)).is_empty());
    selection.run(T0, &paths, Some(&routes), 0);
    assert_eq!(selection.wanted_back(&paths, Some(&routes)), [index]);
    routes.on_leaving(all[0]);
    assert!(selection.wanted_back(&paths, Some(&routes)).is_empty());
}

#[test]
fn the_user_is_asked_for_relays_while_there_are_too_few() {
    let mut selection = selection(2);
    selection.set_over_tcp(&relays(1..2));
    selection.run(T0, &paths(true), None, 0);
    selection.events(T0);
    let ask = selection.timeout().expect("it waits for others");
    selection.run(ask, &paths(true), None, 0);
    let events = selection.events(ask);
    let few = PathEvent::FewRelays {
        alive: 1,
        known: 1,
        wanted: 2,
    };
    assert_eq!(events, [few, PathEvent::MoreRelays]);
    let again = ask + ASK_AGAIN;
    assert_eq!(selection.timeout(), Some(again));
    assert!(selection.events(ask).is_empty());
    assert_eq!(selection.events(again), [PathEvent::MoreRelays]);
    selection.set_over_tcp(&relays(1..3));
    selection.run(again, &paths(true), None, 0);
    let events = selection.events(again + ASK_AGAIN);
    assert!(matches!(events[..], [PathEvent::RelaysPicked { .. }]));
}

#[test]
fn time_without_anything_to_send_adds_up() {
    let mut selection = selection(1);
    selection.note_starved(seconds(1), true);
    selection.note_starved(seconds(2), true);
    assert_eq!(selection.starved(seconds(4)), Duration::from_secs(3));
    selection.note_starved(seconds(5), false);
    selection.note_starved(seconds(9), true);
    assert_eq!(selection.starved(seconds(10)), Duration::from_secs(5));
}

#[test]
fn what_arrived_through_a_relay_outlives_its_path() {
    let mut selection = selection(1);
    let mut paths = paths(true);
    selection.set_over_tcp(&relays(1..2));
    selection.run(T0, &paths, None, 0);
    let index = carrier(&mut paths, 1);
    assert_eq!(selection.carried(&paths, None), [(RelayKey(0), 0)]);
    selection.closed.insert(relay(1).relay.id, 700);
    selection.on_closing(T0, &paths[index], None, PathDownReason::Reselected);
    paths.close(T0, index);
    assert_eq!(selection.carried(&paths, None), [(RelayKey(0), 700)]);
}

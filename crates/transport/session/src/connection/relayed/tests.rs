//! What is to be done for the sake of relays, in which order, and what is not.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use super::super::core::tests::{new_path, paths};
use super::fixtures::{T0, grant_all, local, relay};
use super::*;

/// Relays and the paths that are opened and closed for them.
struct Owner {
    relayed: RelayedPaths,
    paths: PathSet,
    next: u32,
    /// Whether another path may be opened.
    room: bool,
}

/// What was done.
#[derive(Debug, PartialEq, Eq)]
enum Done {
    Opened(u32),
    NotOpened,
    Closed(u32),
    Backup(u32, bool),
    Renewed(u32),
    Asked,
}

impl Owner {
    /// The direct path, and these relays, all of which grant one.
    fn new(law: &str, relays: &[RelayAccess]) -> Self {
        let config = Config {
            cc: law.parse().expect("a law"),
            ..Config::default()
        };
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut relayed = RelayedPaths::new(&Arc::new(config), true, &mut rng);
        let mut paths = paths(true);
        let direct = paths.add(T0, new_path(0), None);
        paths.on_validated(direct, Some(Duration::from_millis(40)));
        let added = relayed.add(T0, relays, &[local(1, "a"), local(2, "b")], &mut rng);
        assert_eq!(added, relays.len());
        Self {
            relayed,
            paths,
            next: 1,
            room: true,
        }
    }

    fn client(&mut self) -> &mut RelayClient {
        &mut self
            .relayed
            .routes
            .as_mut()
            .expect("there are relays")
            .client
    }

    fn grant(&mut self, now: Time) {
        grant_all(self.client(), now);
        self.relayed.drive();
    }

    /// Does what is to be done.
    fn carry_out(&mut self, now: Time) -> Vec<Done> {
        let mut done = Vec::new();
        loop {
            let view = View {
                paths: &self.paths,
                unsatisfied: true,
                acked: 0,
            };
            let Some(action) = self.relayed.next_action(now, view) else {
                return done;
            };
            let id = |paths: &PathSet, index: usize| paths[index].id().0;
            done.push(match action {
                Action::Open(route, transport) => self.open(now, route, transport),
                Action::Close(index, reason) => {
                    let id = id(&self.paths, index);
                    self.relayed.on_closing(now, &self.paths[index], reason);
                    let closed = self.paths.close(now, index);
                    if let Some(route) = closed.path.route() {
                        self.relayed.on_closed(now, PathId(id), route);
                    }
                    Done::Closed(id)
                }
                Action::Backup(index, backup) => Done::Backup(id(&self.paths, index), backup),
                Action::Renew(index, header, back) => {
                    assert!(back.is_some(), "the peer needs one, too");
                    self.paths[index].set_relay(header);
                    Done::Renewed(id(&self.paths, index))
                }
                Action::Say(Frame::Relay { .. }) | Action::Tell(_) => Done::Asked,
                Action::Say(frame) => panic!("{frame:?}"),
            });
        }
    }

    fn open(&mut self, now: Time, route: RelayRoute, transport: PathTransport) -> Done {
        let ids = (PathId(self.next), ConnectionId([1; 8]));
        let begun = self.room.then(|| {
            let what = (route, transport);
            self.relayed.begin(now, what, ids, None)
        });
        let Some((new, _)) = begun.flatten() else {
            self.relayed.on_not_begun(now, route, transport);
            return Done::NotOpened;
        };
        self.next += 1;
        self.paths.add(now, new, None);
        Done::Opened(self.next - 1)
    }
}

#[test]
fn every_route_with_grants_gets_a_path() {
    let mut owner = Owner::new("lia", &[relay(1), relay(2)]);
    assert_eq!(owner.carry_out(T0), [Done::Asked, Done::Asked]);
    owner.grant(T0);
    let opened = [1, 2, 3, 4].map(Done::Opened);
    assert_eq!(owner.carry_out(T0), opened, "from each socket");
    owner.relayed.drive();
    assert_eq!(owner.carry_out(T0), []);
}

#[test]
fn want_of_room_puts_a_path_off() {
    let mut owner = Owner::new("lia", &[relay(1)]);
    owner.carry_out(T0);
    owner.room = false;
    owner.grant(T0);
    assert_eq!(owner.carry_out(T0), [Done::NotOpened, Done::NotOpened]);
    owner.room = true;
    let later = T0 + Duration::from_millis(500);
    assert_eq!(owner.relayed.timeout(T0), Some(later));
    owner.relayed.on_timeout(later);
    assert_eq!(owner.carry_out(later), [Done::Opened(1), Done::Opened(2)]);
}

#[test]
fn the_last_path_stays_when_all_sockets_are_gone() {
    let mut owner = Owner::new("lia", &[relay(1)]);
    owner.carry_out(T0);
    owner.grant(T0);
    owner.carry_out(T0);
    let direct = owner.paths.index_of(PathId(0)).expect("it is open");
    owner.paths.close(T0, direct);
    owner.relayed.remove_local(LocalId(1));
    owner.client().remove_local(LocalId(2));
    let done = owner.carry_out(T0);
    assert!(done.contains(&Done::Closed(1)) && !done.contains(&Done::Closed(2)));
    owner.relayed.drive();
    let done = owner.carry_out(T0);
    assert!(
        !done.contains(&Done::Closed(2)),
        "each looks at what is left"
    );
    assert_eq!(owner.paths.len(), 1);
}

#[test]
fn newer_grants_go_in_front_of_the_paths_datagrams() {
    let mut owner = Owner::new("lia", &[relay(1)]);
    owner.carry_out(T0);
    owner.grant(T0);
    owner.carry_out(T0);
    let before = owner.paths[1].relay().map(|relay| relay.seq);
    let later = Time::from_millis(60_000);
    owner.grant(later);
    assert_eq!(owner.carry_out(later), [Done::Renewed(1), Done::Renewed(2)]);
    assert!(owner.paths[1].relay().map(|relay| relay.seq) > before);
}

#[test]
fn a_closed_path_is_opened_again_after_a_pause() {
    let mut owner = Owner::new("lia", &[relay(1)]);
    owner.carry_out(T0);
    owner.grant(T0);
    owner.carry_out(T0);
    let index = owner.paths.index_of(PathId(1)).expect("it is open");
    let route = owner.paths[index].route().expect("through a relay");
    owner.paths.close(T0, index);
    owner.relayed.on_closed(T0, PathId(1), route);
    owner.relayed.drive();
    let done = owner.carry_out(T0);
    assert_eq!(done, [Done::Asked], "a consent, but no path");
    let later = Time::from_millis(5000);
    owner.grant(later);
    owner.relayed.on_timeout(later);
    assert!(owner.carry_out(later).contains(&Done::Opened(3)));
}

#[test]
fn the_manager_tries_relays_before_it_uses_them() {
    let mut owner = Owner::new("mpath", &[relay(1)]);
    owner.carry_out(T0);
    owner.grant(T0);
    assert_eq!(
        owner.carry_out(T0),
        [Done::Opened(1)],
        "one trial at a time"
    );
    let index = owner.paths.index_of(PathId(1)).expect("it is open");
    assert_eq!(owner.paths[index].transport(), PathTransport::Trial);
    owner.relayed.on_answered(&owner.paths[index]);
    owner.relayed.drive();
    assert_eq!(
        owner.carry_out(T0),
        [Done::Closed(1)],
        "it has done its work"
    );
}

#[test]
fn a_trial_that_is_not_answered_in_time_is_given_up() {
    let mut owner = Owner::new("mpath", &[relay(1)]);
    owner.carry_out(T0);
    owner.grant(T0);
    owner.carry_out(T0);
    let mut closed = 0;
    let mut now = T0;
    for _ in 0..20 {
        now = owner.relayed.timeout(now).map_or(now, |at| at.max(now));
        grant_all(owner.client(), now);
        owner.relayed.on_timeout(now);
        let done = owner.carry_out(now);
        closed += done.iter().filter(|d| matches!(d, Done::Closed(_))).count();
    }
    assert_eq!(closed, 4, "two in a row on each route");
}

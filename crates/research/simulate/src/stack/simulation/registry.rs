//! Where a flow's client learns of relays.

use manyway_scenario::Flow;
use manyway_session::{Connection, Event, PathEvent, RelayAccess};
use manyway_units::Time;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// The relays of a flow's paths. A law with a path manager gets some of them, drawn at random, each
/// time that it asks; any other one gets each when its path joins.
#[derive(Debug)]
pub(super) struct Registry {
    /// With the times at which their paths join.
    relays: Vec<(Time, RelayAccess)>,
    giving: Giving,
}

#[derive(Debug)]
enum Giving {
    /// So many at a time; answered so many events of the client's log.
    Draw {
        subset: usize,
        rng: Pcg64Mcg,
        heard: usize,
        asked: bool,
    },
    /// In turn; so many are given.
    Joined { given: usize },
}

impl Registry {
    pub(super) fn new(flow: &Flow, seed: u64) -> Self {
        let subset = flow.relays.as_ref().and_then(|relays| relays.subset);
        let giving = match flow.law.path_manager() {
            Some(_) => Giving::Draw {
                subset: subset.unwrap_or(usize::MAX),
                rng: Pcg64Mcg::seed_from_u64(seed),
                heard: 0,
                asked: true,
            },
            None => Giving::Joined { given: 0 },
        };
        Self {
            relays: Vec::new(),
            giving,
        }
    }

    /// A relay whose path joins at that time.
    pub(super) fn add(&mut self, joins: Time, relay: RelayAccess) {
        self.relays.push((joins, relay));
        self.relays.sort_by_key(|(joins, _)| *joins);
    }

    /// Whether there may be something for [`Registry::give`] to do, now that the client has logged
    /// this.
    pub(super) fn is_asked(&mut self, now: Time, log: &[(Time, Event)]) -> bool {
        match &mut self.giving {
            Giving::Draw { heard, asked, .. } => {
                let news = &log[(*heard).min(log.len())..];
                let more =
                    |(_, event): &(Time, Event)| *event == Event::Path(PathEvent::MoreRelays);
                *asked |= news.iter().any(more);
                *heard = log.len();
                *asked && !self.relays.is_empty()
            }
            Giving::Joined { given } => {
                let next = self.relays.get(*given);
                next.is_some_and(|(joins, _)| *joins <= now)
            }
        }
    }

    /// Tells the client's connection of relays.
    pub(super) fn give(&mut self, now: Time, connection: &mut Connection) {
        match &mut self.giving {
            Giving::Draw {
                subset, rng, asked, ..
            } => {
                *asked = false;
                let amount = (*subset).min(self.relays.len());
                let drawn = rand::seq::index::sample(rng, self.relays.len(), amount);
                let drawn = drawn.iter().map(|n| self.relays[n].1.clone());
                connection.add_relays(now, &drawn.collect::<Vec<_>>());
            }
            Giving::Joined { given } => {
                let due = self.relays[*given..].iter();
                let due = due.take_while(|(joins, _)| *joins <= now);
                let due: Vec<RelayAccess> = due.map(|(_, relay)| relay.clone()).collect();
                *given += due.len();
                connection.add_relays(now, &due);
            }
        }
    }
}

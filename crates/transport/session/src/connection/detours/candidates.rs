//! What a selection has to know of the lanes, and which of them it wants paths on.

use manyway_control::rate_control::Liveness;
use manyway_units::Time;

use crate::relays::{Lane, RelayAddress, RelayId};

use super::super::Connection;
use super::super::selection::best;
use super::{Detours, Usable};

impl Connection {
    /// How each relay does over UDP, and what access to it allows, in bytes/s.
    pub(in super::super) fn lane_standings(&self, now: Time) -> Vec<(RelayAddress, Liveness, f64)> {
        let Some(detours) = &self.detours else {
            return Vec::new();
        };
        let standing = |lanes: &[Lane]| {
            let each = lanes
                .iter()
                .map(|&lane| self.lane_standing(now, detours, lane));
            each.reduce(best)
        };
        let relays = detours.client.bounds().into_iter();
        // One that no socket of ours can reach is no candidate.
        relays
            .filter_map(|(relay, bound, lanes)| Some((relay, standing(&lanes)?, bound)))
            .collect()
    }

    fn lane_standing(&self, now: Time, detours: &Detours, lane: Lane) -> Liveness {
        let Some(usable) = detours.lanes.get(&lane) else {
            return Liveness::Unanswered;
        };
        let path = usable.path.and_then(|id| self.by_id.get(&id));
        let fine = match path {
            Some(&index) => !self.is_dead(now, index) && !usable.left,
            None => detours.client.grants(now, lane).is_some() && usable.is_fit(now),
        };
        match fine {
            true => Liveness::Alive,
            false => Liveness::Dead,
        }
    }

    pub(in super::super) fn lane_relay(&self, lane: Lane) -> Option<RelayId> {
        let relay = self.detours.as_ref()?.client.relay_of(lane)?;
        Some(relay.id)
    }

    /// The relay leaves, or is said to.
    pub(in super::super) fn is_leaving(&self, lane: Lane) -> bool {
        let lanes = self.detours.as_ref().map(|detours| &detours.lanes);
        lanes
            .and_then(|lanes| lanes.get(&lane))
            .is_some_and(|usable| usable.leaving)
    }

    /// The lanes through a relay that lack a path: one from each interface, whatever addresses both
    /// have.
    pub(in super::super) fn lanes_to_open(&self, now: Time, id: RelayId) -> Vec<Lane> {
        let Some(detours) = &self.detours else {
            return Vec::new();
        };
        let name = |lane: &Lane| {
            let (local, _) = detours.client.ends(*lane)?;
            Some(local.name.clone())
        };
        let lanes = detours.client.bounds().into_iter();
        let lanes = lanes.filter(|(relay, ..)| relay.id == id);
        let lanes: Vec<Lane> = lanes.flat_map(|(_, _, lanes)| lanes).collect();
        let open = |lane: &&Lane| detours.lanes.get(lane).is_some_and(|l| l.path.is_some());
        let mut used: Vec<_> = lanes.iter().filter(open).map(name).collect();
        let mut wanted = Vec::new();
        for &lane in &lanes {
            let fit = |usable: &Usable| {
                usable.path.is_none() && usable.is_fit(now) && usable.retry_at <= now
            };
            let fit = detours.lanes.get(&lane).is_some_and(fit);
            if fit && detours.client.grants(now, lane).is_some() && !used.contains(&name(&lane)) {
                used.push(name(&lane));
                wanted.push(lane);
            }
        }
        wanted
    }
}

impl Usable {
    /// Whether a path there may be begun: after a failure, only when it is over and the relay has
    /// been heard since.
    fn is_fit(&self, now: Time) -> bool {
        !self.leaving && !self.failed && (self.failures == 0 || self.retry_at <= now)
    }
}

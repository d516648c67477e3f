//! The rules of a flow's path manager.

use manyway_control::paths::ManagerConfig;
use manyway_control::registry;

use super::flows::Context;
use crate::experiment::Relays;
use crate::file::Law;

impl Context<'_> {
    /// The paths through relays, as indices of the flow's.
    pub(super) fn relayed(&mut self) -> Vec<usize> {
        let flow = self.flow;
        let uses = flow.paths.as_deref().unwrap_or_default();
        let managed = flow.law.as_ref().is_some_and(Law::is_managed);
        let key = self.key.join("paths");
        if uses.first().is_some_and(|first| first.relay == Some(true)) {
            let message = "the first path is the direct one, over which the flow connects: put one \
                           without a relay in front";
            self.checks.report(&key.at(0).join("relay"), message);
        }
        let is_relayed = |(n, used): (usize, &crate::file::PathUse)| {
            (n > 0 && used.relay.unwrap_or(managed)).then_some(n)
        };
        let relayed: Vec<usize> = uses.iter().enumerate().filter_map(is_relayed).collect();
        if managed && relayed.len() + 1 < uses.len() {
            let message = "all paths but the first lead through relays with this law: leave relay \
                           out";
            self.checks.report(&key, message);
        }
        relayed
    }

    /// What the path manager of the flow is told; `None` for its defaults, or if it has none.
    pub(super) fn relays(&mut self) -> Option<Relays> {
        let flow = self.flow;
        let (law, paths) = (flow.law.as_ref()?, flow.paths.as_ref()?);
        let (name, managed) = (law.name(), law.is_managed());
        if managed && paths.len() > 1 {
            let timed = |used: &crate::file::PathUse| used.start.is_some() || used.stop.is_some();
            if let Some(n) = paths.iter().position(timed) {
                let message = format!(
                    "with law {name} the path manager decides when a subflow joins and leaves: \
                     write the path's name only"
                );
                self.checks.report(&self.key.join("paths").at(n), message);
            }
        }
        let chosen = flow.relays.as_ref()?;
        let key = self.key.join("relays");
        if !managed {
            let message = format!(
                "only law {} has a path manager, and the flow's is {name}: leave this out",
                managing_laws()
            );
            self.checks.report(&key, message);
        }
        if paths.len() == 1 {
            let message =
                "the flow has one path, the direct one: give it more paths, one through each relay";
            self.checks.report(&key, message);
        }
        let mut number = |name: &str, value: Option<u32>| {
            if value == Some(0) {
                let message = "0 is too few: choose 1 or more, or leave it out";
                self.checks.report(&key.join(name), message);
            }
            value.map(|value| value as usize)
        };
        let subset = number("subset", chosen.subset);
        let (known, open) = (
            number("max_known", chosen.max_known),
            number("max_open", chosen.max_open),
        );
        let mut manager = ManagerConfig::default();
        manager.max_relays = known.unwrap_or(manager.max_relays);
        manager.max_open = open.unwrap_or(manager.max_open);
        manager.reuse = chosen.reuse.map_or(manager.reuse, Into::into);
        manager.rest = chosen.rest.map_or(manager.rest, |rest| rest.0);
        manager.max_rest = manager.max_rest.max(manager.rest);
        Some(Relays { subset, manager })
    }
}

/// The laws that come with a path manager, for messages.
fn managing_laws() -> String {
    let managing = registry::laws().filter(|law| law.path_manager().is_some());
    let names: Vec<_> = managing.map(|law| law.name()).collect();
    names.join(" or ")
}

//! What is asked of a cell, by how much it is missed, and where that is known.

use std::fmt;
use std::fmt::Write as _;

use indexmap::IndexMap;
use manyway_simulate::measure::Summary;
use serde::Deserialize;

use crate::failure::Failure;
use crate::gate::Gate;
use crate::study::Size;

/// A share is fair if its mean is within this distance of a half, or of what one CUBIC flow takes.
const NEAR: f64 = 0.1;
/// The part that the other flow has to keep of what it has beside a CUBIC flow.
const KEEPS: f64 = 0.8;

/// What several subflows of `auto` take beside one other flow.
pub(super) struct Cell {
    /// Link, queue, number of subflows, order and other flow.
    pub(super) name: String,
    /// The share of `auto`, and that of one CUBIC flow in its place.
    pub(super) share: Summary,
    pub(super) one: Summary,
    /// With random losses: what the other flow has, over what it has beside that CUBIC flow.
    pub(super) kept: f64,
}

/// By how much a cell misses each of its gates; 0 where it holds. Of [`Known`], at most.
#[derive(Debug, Copy, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Bounds {
    /// How far the mean share is from the nearest one that is fair.
    share: f64,
    /// How much more uneven the most uneven run is than CUBIC's most uneven one.
    worst: f64,
    /// What the other flow lacks with random losses.
    kept: f64,
}

impl Cell {
    pub(super) fn missed(&self) -> Bounds {
        let off = |from: f64| (self.share.mean - from).abs() - NEAR;
        let uneven = |runs: &Summary| (0.5 - runs.min).max(runs.max - 0.5);
        Bounds {
            share: off(0.5).min(off(self.one.mean)).max(0.0),
            worst: (uneven(&self.share) - uneven(&self.one)).max(0.0),
            kept: (KEEPS - self.kept).max(0.0),
        }
    }

    /// Whether all holds, or is missed by no more than what is known.
    pub(super) fn gate(&self, known: &IndexMap<String, Bounds>) -> Gate {
        let missed = self.missed();
        let known = known.get(&self.name).copied().unwrap_or_default();
        let found = format!(
            "share {:.2}, one CUBIC flow {:.2}; kept {:.2}; missed: {missed}",
            self.share.mean, self.one.mean, self.kept
        );
        Gate {
            explained: missed
                .within(known)
                .then_some("no worse than known, see docs/laws.md"),
            ..Gate::new(self.name.as_str(), found, missed.none())
        }
    }
}

impl Bounds {
    pub(super) fn none(self) -> bool {
        self.within(Bounds::default())
    }

    fn within(self, most: Bounds) -> bool {
        self.named()
            .iter()
            .zip(most.named())
            .all(|(own, most)| own.1 <= most.1)
    }

    fn named(self) -> [(&'static str, f64); 3] {
        [
            ("share", self.share),
            ("worst", self.worst),
            ("kept", self.kept),
        ]
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missed = self.named().into_iter().filter(|(_, by)| *by > 0.0);
        let missed: Vec<String> = missed
            .map(|(name, by)| format!("{name} by {by:.3}"))
            .collect();
        f.write_str(&missed.join(", "))
    }
}

/// The gates that are missed, by no more than so much.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    short: IndexMap<String, Bounds>,
    full: IndexMap<String, Bounds>,
}

impl Known {
    pub(super) fn load() -> Result<Self, Failure> {
        Ok(toml::from_str(include_str!("known.toml"))?)
    }

    pub(super) fn of(&self, size: Size) -> &IndexMap<String, Bounds> {
        match size {
            Size::Short => &self.short,
            Size::Full => &self.full,
        }
    }

    /// What the file would say of these.
    pub(super) fn written(size: Size, missed: &[(&String, Bounds)]) -> String {
        let mut text = match size {
            Size::Short => "[short]\n".to_owned(),
            Size::Full => "[full]\n".to_owned(),
        };
        for (name, missed) in missed {
            let missed = missed.named().into_iter().filter(|(_, by)| *by > 0.0);
            let up = |by: f64| (by * 1000.0).ceil() / 1000.0;
            let missed = missed.map(|(name, by)| format!("{name} = {}", up(by)));
            let missed: Vec<String> = missed.collect();
            writeln!(text, "\"{name}\" = {{ {} }}", missed.join(", ")).expect("a string");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::summary;

    fn cell(share: [f64; 2], one: [f64; 2], kept: f64) -> Cell {
        let [share, one] = [share, one].map(|runs| summary(runs.into_iter()));
        let name = "a cell".to_owned();
        Cell {
            name,
            share,
            one,
            kept,
        }
    }

    #[test]
    fn a_share_is_fair_near_a_half_or_near_cubics() {
        for (mean, one, missed) in [
            (0.41, 0.9, 0.0),
            (0.59, 0.3, 0.0),
            (0.81, 0.9, 0.0),
            (0.65, 0.9, 0.05),
            (0.3, 0.5, 0.1),
            (0.95, 0.8, 0.05),
        ] {
            let found = cell([mean; 2], [one; 2], 1.0).missed().share;
            assert!((found - missed).abs() < 1e-9, "{mean}, {one}: {found}");
        }
    }

    #[test]
    fn the_most_uneven_run_counts_on_either_side() {
        for (share, one, missed) in [
            ([0.4, 0.6], [0.4, 0.5], 0.0),
            ([0.2, 0.6], [0.4, 0.6], 0.2),
            ([0.5, 0.9], [0.2, 0.5], 0.1),
        ] {
            let found = cell(share, one, 1.0).missed().worst;
            assert!((found - missed).abs() < 1e-9, "{share:?}, {one:?}: {found}");
        }
    }

    #[test]
    fn what_is_known_passes_until_it_gets_worse() {
        let good = cell([0.5; 2], [0.5; 2], 0.8);
        let bad = |kept: f64| cell([0.75; 2], [0.5; 2], kept);
        let known = Known::written(Size::Full, &[(&bad(0.7).name, bad(0.7).missed())]);
        let known: Known = toml::from_str(&format!("[short]\n{known}")).unwrap();
        let gate = |cell: Cell| cell.gate(known.of(Size::Full));
        assert!(gate(good).holds);
        assert!(gate(bad(0.7)).passes() && !gate(bad(0.7)).holds);
        assert!(!gate(bad(0.69)).passes());
        assert!(!bad(0.7).gate(known.of(Size::Short)).passes());
    }

    #[test]
    fn the_file_can_be_read() {
        Known::load().unwrap();
    }
}

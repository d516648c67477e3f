//! What is asked of a cell: the values of the gates.

use manyway_simulate::measure::Summary;

use crate::claims::terms;
use crate::gate::{Gate, gate};

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

/// Shares of one CUBIC flow: with the cells' seeds, and with others.
pub(super) struct Control {
    pub(super) one: Summary,
    pub(super) again: Summary,
}

impl Control {
    /// Whether chance alone makes a run more uneven than all of the other seeds'.
    pub(super) fn is_more_uneven(&self) -> bool {
        unevenness(&self.again) > unevenness(&self.one)
    }
}

/// How far the most uneven run is from a half.
fn unevenness(runs: &Summary) -> f64 {
    (0.5 - runs.min).max(runs.max - 0.5)
}

/// The gates that each cell is asked for.
const GATES: [&str; 3] = ["fair-share", "fair-worst", "fair-kept"];

impl Cell {
    /// How far the mean share is from the nearer of a half and of what CUBIC takes.
    fn off(&self) -> f64 {
        let off = |from: f64| (self.share.mean - from).abs();
        off(0.5).min(off(self.one.mean))
    }

    /// How much more uneven the most uneven run is than CUBIC's most uneven one.
    fn more_uneven(&self) -> f64 {
        unevenness(&self.share) - unevenness(&self.one)
    }

    /// The gates that it misses, by their names.
    pub(super) fn missed(&self) -> Vec<&'static str> {
        let values = [self.off(), self.more_uneven(), self.kept];
        let missed = GATES.into_iter().zip(values).filter(|(name, value)| {
            let (_, _, terms) = terms(&format!("manyway/{name}"));
            !terms.limits().hold(*value)
        });
        missed.map(|(name, _)| name).collect()
    }
}

/// How many cells meet each gate, in words.
pub(super) fn by_gate(cells: &[Cell]) -> String {
    let met = GATES.map(|gate| {
        let met = cells.iter().filter(|cell| !cell.missed().contains(&gate));
        format!("{} meet `{gate}`", met.count())
    });
    met.join(", ")
}

/// A value of each cell for each gate.
pub(super) fn gates(cells: &[Cell]) -> Vec<Gate> {
    let each = |of: fn(&Cell) -> f64| {
        let cells = cells.iter();
        cells.map(move |cell| (cell.name.clone(), of(cell)))
    };
    let missing = |name: &str| {
        let missing = cells.iter().filter(|cell| cell.missed().contains(&name));
        format!("{} of {} rows miss it", missing.count(), cells.len())
    };
    vec![
        gate("manyway/fair-share").cases(each(Cell::off), missing(GATES[0])),
        gate("manyway/fair-worst").cases(each(Cell::more_uneven), missing(GATES[1])),
        gate("manyway/fair-kept").cases(each(|cell| cell.kept), missing(GATES[2])),
    ]
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
        for (mean, one, off) in [
            (0.41, 0.9, 0.09),
            (0.59, 0.3, 0.09),
            (0.81, 0.9, 0.09),
            (0.65, 0.9, 0.15),
            (0.3, 0.5, 0.2),
            (0.95, 0.8, 0.15),
        ] {
            let found = cell([mean; 2], [one; 2], 1.0).off();
            assert!((found - off).abs() < 1e-9, "{mean}, {one}: {found}");
        }
    }

    #[test]
    fn the_most_uneven_run_counts_on_either_side() {
        for (share, one, more) in [
            ([0.4, 0.6], [0.4, 0.5], 0.0),
            ([0.2, 0.6], [0.4, 0.6], 0.2),
            ([0.5, 0.9], [0.2, 0.5], 0.1),
        ] {
            let found = cell(share, one, 1.0).more_uneven();
            assert!((found - more).abs() < 1e-9, "{share:?}, {one:?}: {found}");
        }
    }

    #[test]
    fn chance_is_seen_where_other_seeds_are_more_uneven() {
        for (again, more) in [
            ([0.4, 0.6], false),
            ([0.5, 0.61], true),
            ([0.39, 0.5], true),
        ] {
            let [one, again] = [[0.4, 0.6], again].map(|runs| summary(runs.into_iter()));
            assert_eq!(Control { one, again }.is_more_uneven(), more);
        }
    }

    #[test]
    fn a_cell_says_which_gates_it_misses() {
        let cells = [
            cell([0.5; 2], [0.5; 2], 0.8),
            cell([0.75; 2], [0.5; 2], 0.79),
        ];
        assert_eq!(cells[0].missed(), [""; 0]);
        assert_eq!(cells[1].missed(), GATES);
        let gates = gates(&cells);
        assert!(gates.iter().all(|gate| !gate.holds()));
        assert_eq!(gates[2].found, "1 of 2 rows miss it");
    }
}

//! Which paths share a bottleneck, from what is recorded of each. It records nothing itself.

use std::time::Duration;

use super::losses::{LossLog, chance_of_overlaps};
use super::{BottleneckConfig, ENOUGH_INTERVALS};

/// One path, as [`groups`] looks at it.
#[derive(Copy, Clone, Debug)]
pub(super) struct Observed<'a> {
    /// Interval means as `(number, seconds)` in the order of their numbers, which mean the same
    /// times for all paths.
    pub(super) means: &'a [(u64, f64)],
    /// Its losses.
    pub(super) losses: &'a LossLog,
}

/// Sorts paths into groups that share a bottleneck: each path's group, numbered from 0 in the order
/// of the paths. A path that shares with nobody has a group of its own. `span` is how long was
/// looked.
///
/// That A shares with B and B with C puts all three together.
pub(super) fn groups(
    config: &BottleneckConfig,
    span: Duration,
    paths: &[Observed<'_>],
) -> Vec<usize> {
    let pairs = paths.len() * paths.len().saturating_sub(1) / 2;
    // The more pairs are looked at, the more often chance brings some of them together
    // (Bonferroni).
    let chance = config.chance / pairs.max(1) as f64;
    let group = joined(paths, |first, second| {
        chance_of_overlaps(first.losses, second.losses, span) < chance
            || same_queue(config, first, second)
    });
    renumber(group)
}

/// The group of each of these paths if those that are `together` in pairs share one, and so do all
/// that others join: the index of the group's first path.
pub(crate) fn joined<P>(paths: &[P], together: impl Fn(&P, &P) -> bool) -> Vec<usize> {
    let mut group: Vec<usize> = (0..paths.len()).collect();
    for (b, second) in paths.iter().enumerate() {
        for (a, first) in paths[..b].iter().enumerate() {
            if together(first, second) && group[a] != group[b] {
                let (from, to) = (group[a].max(group[b]), group[a].min(group[b]));
                let moved = group.iter_mut().filter(|g| **g == from);
                moved.for_each(|g| *g = to);
            }
        }
    }
    group
}

fn renumber(group: Vec<usize>) -> Vec<usize> {
    let mut seen: Vec<usize> = Vec::new();
    let number = |old: usize| match seen.iter().position(|known| *known == old) {
        Some(number) => number,
        None => {
            seen.push(old);
            seen.len() - 1
        }
    };
    group.into_iter().map(number).collect()
}

/// Their delays rise and fall together.
fn same_queue(config: &BottleneckConfig, one: &Observed<'_>, other: &Observed<'_>) -> bool {
    let [one, other] = [one, other].map(|path| changes(path.means.iter().copied()));
    correlation(one, other).is_some_and(|r| r >= config.similarity)
}

/// From each interval to the next one, as `(the later one's number, seconds)`. What windows that
/// grow at the same time, or clocks that drift, do to the delays of all paths is nearly the same in
/// every interval; a queue's own ups and downs are not.
pub(crate) fn changes(
    means: impl Iterator<Item = (u64, f64)> + Clone,
) -> impl Iterator<Item = (u64, f64)> {
    let pairs = means.clone().zip(means.skip(1));
    let neighbours = pairs.filter(|(earlier, later)| earlier.0 + 1 == later.0);
    neighbours.map(|(earlier, later)| (later.0, later.1 - earlier.1))
}

/// What two series have for the intervals that both have.
pub(crate) fn in_common(
    one: impl Iterator<Item = (u64, f64)>,
    other: impl Iterator<Item = (u64, f64)>,
) -> impl Iterator<Item = (f64, f64)> {
    let mut others = other.peekable();
    one.filter_map(move |(number, x)| {
        while others.next_if(|(at, _)| *at < number).is_some() {}
        others.next_if(|(at, _)| *at == number).map(|(_, y)| (x, y))
    })
}

/// Pearson's correlation of two series of interval means over the intervals that both have; `None`
/// if these are fewer than [`ENOUGH_INTERVALS`], or one of the series doesn't vary.
pub(super) fn correlation(
    one: impl Iterator<Item = (u64, f64)>,
    other: impl Iterator<Item = (u64, f64)>,
) -> Option<f64> {
    let common: Vec<(f64, f64)> = in_common(one, other).collect();
    if common.len() < ENOUGH_INTERVALS {
        return None;
    }
    let count = common.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| common.iter().map(pick).sum::<f64>() / count;
    let (mx, my) = (mean(|p| p.0), mean(|p| p.1));
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        common.iter().map(|(x, y)| f(x - mx, y - my)).sum()
    };
    let (xx, yy, xy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    let scale = (xx * yy).sqrt();
    (scale > 0.0).then(|| (xy / scale).clamp(-1.0, 1.0))
}

//! Whether two paths share a queue, by how their delays change. It knows no windows.

use std::collections::VecDeque;

use manyway_units::Time;

use crate::bottleneck::{ENOUGH_INTERVALS, INTERVAL, changes, in_common};

/// Intervals that are remembered.
const KEPT: usize = 32;
/// If the changes of two paths are smaller than this on the average, in seconds, they say nothing.
const MATERIAL: f64 = 0.000_1;

/// Means of a path's delays, plus an unknown constant, over intervals that are the same for all
/// paths.
#[derive(Clone, Debug, Default)]
pub(super) struct Delays {
    number: u64,
    sum: f64,
    count: f64,
    /// Numbers and means of those that are over, in seconds, oldest first.
    means: VecDeque<(u64, f64)>,
}

impl Delays {
    pub(super) fn on_sample(&mut self, now: Time, delay: f64) {
        let number = now.as_nanos() / INTERVAL.as_nanos() as u64;
        if number > self.number {
            if self.count > 0.0 {
                if self.means.len() == KEPT {
                    self.means.pop_front();
                }
                self.means.push_back((self.number, self.sum / self.count));
            }
            (self.number, self.sum, self.count) = (number, 0.0, 0.0);
        }
        self.sum += delay;
        self.count += 1.0;
    }

    /// How alike the changes of two paths' delays are from one interval to the next: 1 if both see
    /// the same queue, 0 if what the one sees has nothing to do with the other (Lin's concordance,
    /// with changes of 0 in the mean). Unlike Pearson's correlation it is low if only one of them
    /// changes. `None` if there is too little to tell.
    pub(super) fn likeness(&self, other: &Delays) -> Option<f64> {
        let [one, other] = [self, other].map(|path| changes(path.means.iter().copied()));
        let (mut same, mut all, mut count) = (0.0, 0.0, 0usize);
        for (x, y) in in_common(one, other) {
            same += 2.0 * x * y;
            all += x * x + y * y;
            count += 1;
        }
        let enough = count >= ENOUGH_INTERVALS && all > MATERIAL * MATERIAL * count as f64;
        enough.then(|| same / all)
    }
}

//! Whether two paths share a queue, by how their delays change. It knows no windows.

use std::collections::VecDeque;

use manyway_units::Time;

/// Delays are averaged over intervals of this length, ns (RFC 8382 §3 has 350 ms).
const INTERVAL: u64 = 350_000_000;
/// Intervals that are remembered, …
const KEPT: usize = 32;
/// … and below which nothing is said.
const ENOUGH: usize = 10;
/// Changes below this standard deviation, in seconds, say nothing.
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
        let number = now.as_nanos() / INTERVAL;
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
    /// the same queue, 0 if what the one sees has nothing to do with the other (Lin's concordance
    /// about no mean). `None` if there is too little to tell.
    pub(super) fn likeness(&self, other: &Delays) -> Option<f64> {
        let (mut same, mut all, mut count) = (0.0, 0.0, 0usize);
        let mut others = other.changes().peekable();
        for (number, x) in self.changes() {
            while others.next_if(|(at, _)| *at < number).is_some() {}
            if let Some((at, y)) = others.peek()
                && *at == number
            {
                same += 2.0 * x * y;
                all += x * x + y * y;
                count += 1;
            }
        }
        let enough = count >= ENOUGH && all > MATERIAL * MATERIAL * count as f64;
        enough.then(|| same / all)
    }

    fn changes(&self) -> impl Iterator<Item = (u64, f64)> {
        let later = self.means.iter().skip(1);
        let pairs = self.means.iter().zip(later);
        pairs
            .filter(|(a, b)| a.0 + 1 == b.0)
            .map(|(a, b)| (b.0, b.1 - a.1))
    }
}

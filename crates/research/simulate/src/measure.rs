//! What is measured in a run, and how samples are summed up.

use std::time::Duration;

use manyway_units::{Rate, Time};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes that arrived, by intervals of equal length from the clock's origin on.
#[derive(Debug, Clone)]
pub struct Goodput {
    interval: Duration,
    bytes: Vec<u64>,
    total: u64,
}

impl Goodput {
    /// An empty record with intervals of this length (at least a nanosecond).
    pub fn new(interval: Duration) -> Self {
        Self {
            interval: interval.max(Duration::from_nanos(1)),
            bytes: Vec::new(),
            total: 0,
        }
    }

    /// Counts `bytes` that arrived at `now`.
    pub fn record(&mut self, now: Time, bytes: u64) {
        let index = self.index(now);
        if index >= self.bytes.len() {
            self.bytes.resize(index + 1, 0);
        }
        self.bytes[index] += bytes;
        self.total += bytes;
    }

    /// All bytes so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes per interval, up to the last one in which something arrived.
    pub fn intervals(&self) -> &[u64] {
        &self.bytes
    }

    /// Bytes that arrived from `from` on and before `until`, both rounded down to a whole interval.
    pub fn bytes_between(&self, from: Time, until: Time) -> u64 {
        let until = self.index(until).min(self.bytes.len());
        let from = self.index(from).min(until);
        self.bytes[from..until].iter().sum()
    }

    /// Mean rate between two times, both rounded down to a whole interval.
    pub fn mean(&self, from: Time, until: Time) -> Rate {
        let intervals = self.index(until).saturating_sub(self.index(from));
        let time = self
            .interval
            .saturating_mul(u32::try_from(intervals).unwrap_or(u32::MAX));
        Rate::of(self.bytes_between(from, until), time)
    }

    /// The end of the first span of `span` (a whole number of intervals) whose mean rate is at
    /// least `rate`.
    pub fn first_reaching(&self, rate: Rate, span: Duration) -> Option<Time> {
        let width = (span.as_nanos() / self.interval.as_nanos()).max(1) as usize;
        let needed = rate.bytes_per_sec() * (self.interval * width as u32).as_secs_f64();
        let window = self
            .bytes
            .windows(width)
            .position(|bytes| bytes.iter().sum::<u64>() as f64 >= needed)?;
        Some(Time::ZERO + self.interval * (window + width) as u32)
    }

    fn index(&self, at: Time) -> usize {
        (u128::from(at.as_nanos()) / self.interval.as_nanos()) as usize
    }
}

/// The mean of independent runs and how well they determine it.
#[derive(Debug, Copy, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half the width of the mean's 95 % confidence interval by Student's t; null for a single
    /// value.
    pub ci95: Option<f64>,
    /// Number of values.
    pub n: u32,
}

/// A sample of independent runs, summed up.
#[derive(Debug, Copy, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of runs.
    pub runs: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median; the mean of the middle two for an even number.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Half the width of the 95 % confidence interval of the mean, by Student's t; `None` for a
    /// single run.
    pub ci95: Option<f64>,
}

impl Summary {
    /// Sums up `samples`; `None` when there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let runs = sorted.len();
        let mean = sorted.iter().sum::<f64>() / runs as f64;
        let squares: f64 = sorted.iter().map(|x| (x - mean).powi(2)).sum();
        let ci95 = (runs > 1)
            .then(|| student_t975(runs - 1) * (squares / (runs - 1) as f64 / runs as f64).sqrt());
        Some(Self {
            runs,
            mean,
            median: (sorted[(runs - 1) / 2] + sorted[runs / 2]) / 2.0,
            min,
            max,
            ci95,
        })
    }

    /// The mean alone, with its confidence interval.
    pub fn estimate(&self) -> Estimate {
        Estimate {
            mean: self.mean,
            ci95: self.ci95,
            n: u32::try_from(self.runs).unwrap_or(u32::MAX),
        }
    }
}

/// The 97.5 % quantile of Student's t distribution; beyond 30 degrees of freedom by its expansion
/// around the normal quantile (Abramowitz and Stegun 26.7.5, first two terms; the error is below
/// 1e-4 there).
fn student_t975(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    let z = 1.959_964_f64;
    let n = degrees as f64;
    match TABLE.get(degrees.saturating_sub(1)) {
        Some(t) => *t,
        None => {
            z + (z.powi(3) + z) / (4.0 * n)
                + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
        }
    }
}

/// Mean and spread of a sample that arrives one value at a time, without keeping the values
/// (Welford, "Note on a method for calculating corrected sums of squares and products",
/// Technometrics 4, 1962).
#[derive(Debug, Copy, Clone, Default, PartialEq)]
pub struct Moments {
    count: u32,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

impl Moments {
    /// Takes in a value; NaN and infinities, which stand for "nothing to say", are left out.
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.count += 1;
        let before = value - self.mean;
        self.mean += before / f64::from(self.count);
        self.squares += before * (value - self.mean);
    }

    /// Number of values.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Arithmetic mean, if there is a value.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Mean and confidence interval, if there is a value.
    pub fn estimate(&self) -> Option<Estimate> {
        Some(Estimate {
            mean: self.mean()?,
            ci95: self.ci95(),
            n: self.count,
        })
    }

    fn ci95(&self) -> Option<f64> {
        let degrees = self.count.checked_sub(2)? + 1;
        let variance = self.squares / f64::from(degrees) / f64::from(self.count);
        Some(student_t975(degrees as usize) * variance.sqrt())
    }
}

/// The value below which a `share` of 0 to 1 of the values lie, in proportion between two of them
/// (Hyndman and Fan, "Sample quantiles in statistical packages", 1996, definition 7). `sorted`
/// rises; `None` if it is empty.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = share.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (
        sorted.get(rank as usize)?,
        sorted.get(rank.ceil() as usize)?,
    );
    Some(below + (above - below) * rank.fract())
}

/// Jain's index of fairness, (Σx)² / (n Σx²): 1 when all have the same, 1/n when one has
/// everything. `None` when nobody has anything (Jain, Chiu, Hawe, DEC TR-301, 1984).
pub fn jain(shares: impl IntoIterator<Item = f64>) -> Option<f64> {
    jain_of_groups(shares.into_iter().map(|x| (x, 1.0)))
}

/// [`jain`] of what each has, and of how many there are that have as much.
pub(crate) fn jain_of_groups(shares: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for (x, count) in shares {
        n += count;
        sum += x * count;
        squares += x * x * count;
    }
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

/// Runs `job` for each of `inputs` on up to `threads` threads; the results are in the order of the
/// inputs, whatever the number of threads.
///
/// # Panics
///
/// If the operating system has no more threads, or `job` panics.
pub fn in_parallel<I: Sync, R: Send>(
    inputs: &[I],
    threads: usize,
    job: impl Fn(&I) -> R + Send + Sync,
) -> Vec<R> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.max(1))
        .build()
        .expect("threads can be started");
    pool.install(|| inputs.par_iter().map(job).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_by_interval() {
        let mut goodput = Goodput::new(Duration::from_millis(100));
        // 1 Mbps from 0.5 s on: 12,500 B per interval.
        for n in 50..200 {
            goodput.record(Time::from_millis(n * 10), 1250);
        }
        assert_eq!(goodput.total(), 150 * 1250);
        assert_eq!(goodput.intervals().len(), 20);
        let (from, until) = (Time::from_millis(1000), Time::from_millis(2000));
        assert_eq!(goodput.bytes_between(from, until), 125_000);
        assert_eq!(goodput.mean(from, until), Rate::from_mbps(1.0));
        assert_eq!(goodput.mean(until, from), Rate::ZERO);
        // Nothing arrives after the end, which counts.
        assert_eq!(
            goodput.mean(from, Time::from_millis(3000)),
            Rate::from_mbps(0.5)
        );
        let span = Duration::from_millis(500);
        assert_eq!(
            goodput.first_reaching(Rate::from_mbps(1.0), span),
            Some(Time::from_millis(1000))
        );
        assert_eq!(
            goodput.first_reaching(Rate::from_mbps(0.6), span),
            Some(Time::from_millis(800))
        );
        assert_eq!(goodput.first_reaching(Rate::from_mbps(1.1), span), None);
    }

    #[test]
    fn summaries() {
        assert_eq!(Summary::of(&[]), None);
        let one = Summary::of(&[3.0]).unwrap();
        assert_eq!((one.mean, one.median, one.ci95), (3.0, 3.0, None));
        let alone = Estimate {
            mean: 3.0,
            ci95: None,
            n: 1,
        };
        assert_eq!(one.estimate(), alone);
        let four = Summary::of(&[4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(
            (four.mean, four.median, four.min, four.max),
            (2.5, 2.5, 1.0, 4.0)
        );
        // Sample deviation sqrt(5/3), three degrees of freedom.
        assert!((four.ci95.unwrap() - 3.182 * (5.0_f64 / 3.0).sqrt() / 2.0).abs() < 1e-12);
        // The expansion continues the table.
        assert!((student_t975(31) - 2.0395).abs() < 5e-4);
        assert!((student_t975(120) - 1.9799).abs() < 5e-4);
    }

    #[test]
    fn moments_are_those_of_the_whole_sample() {
        let samples = [4.0, 1.0, f64::NAN, 2.0, f64::INFINITY, 3.0];
        let mut moments = Moments::default();
        assert_eq!(moments.estimate(), None);
        for (n, sample) in samples.into_iter().enumerate() {
            moments.add(sample);
            assert_eq!(moments.estimate().unwrap().ci95.is_none(), n == 0);
        }
        let finite: Vec<f64> = samples.into_iter().filter(|x| x.is_finite()).collect();
        let of_sample = Summary::of(&finite).unwrap().estimate();
        let estimate = moments.estimate().unwrap();
        assert_eq!((estimate.n, of_sample.n), (4, 4));
        assert!((estimate.mean - of_sample.mean).abs() < 1e-12);
        assert!((estimate.ci95.unwrap() - of_sample.ci95.unwrap()).abs() < 1e-12);
    }

    #[test]
    fn quantiles() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
        let four = [1.0, 2.0, 4.0, 8.0];
        let values = [0.0, 0.5, 0.75, 1.0].map(|share| quantile(&four, share).unwrap());
        assert_eq!(values, [1.0, 3.0, 5.0, 8.0]);
    }

    #[test]
    fn fairness() {
        assert_eq!(jain([5.0; 4]), Some(1.0));
        assert_eq!(jain([8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain([1.0, 3.0]), Some(0.8));
        assert_eq!(jain([0.0, 0.0]), None);
        assert_eq!(jain([]), None);
        let groups = [(1.0, 2.0), (3.0, 1.0)];
        assert_eq!(jain_of_groups(groups), jain([1.0, 1.0, 3.0]));
    }

    #[test]
    fn parallel_results_do_not_depend_on_the_number_of_threads() {
        let inputs: Vec<u64> = (0..37).collect();
        for threads in [0, 1, 2, 5, 100] {
            let squares = in_parallel(&inputs, threads, |x| x * x);
            assert!(squares.into_iter().eq((0..37).map(|x| x * x)));
        }
        assert!(in_parallel(&[], 2, |x: &u64| *x).is_empty());
    }
}

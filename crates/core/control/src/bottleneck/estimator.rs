//! RFC 8382's summary statistics of one path. It knows no other path.

use std::collections::VecDeque;
use std::time::Duration;

use manyway_units::Time;

use super::{BottleneckConfig, ENOUGH_INTERVALS};

/// RFC 8382's statistics of one path, from its one-way delays and losses.
#[derive(Clone, Debug)]
pub(super) struct Estimator {
    config: BottleneckConfig,
    /// Number of the interval that is being filled, counted from the clock's zero: the same for all
    /// paths.
    number: Option<u64>,
    open: Interval,
    /// Closed ones, the newest last, with their numbers.
    closed: VecDeque<(u64, Interval)>,
}

/// One interval `T`.
#[derive(Copy, Clone, Debug, Default)]
struct Interval {
    samples: f64,
    sum: f64,
    /// Samples below the long-term mean less those above it.
    skew: f64,
    /// Sum of the distances from the mean of the interval before.
    deviation: f64,
    acked: f64,
    lost: f64,
}

impl Interval {
    fn mean(&self) -> Option<f64> {
        (self.samples > 0.0).then(|| self.sum / self.samples)
    }
}

/// What is known of a path's queue.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Estimate {
    /// `skew_est`, from -1 (the queue is nearly always fuller than on the average) to 1.
    pub skewness: f64,
    /// `var_est`: mean absolute deviation of the one-way delay, in seconds.
    pub variability: f64,
    /// `freq_est`: significant crossings of the mean per interval; `None` with too few intervals.
    pub frequency: Option<f64>,
    /// Share of packets lost.
    pub loss: f64,
    /// RFC 8382's test for a bottleneck, without hysteresis.
    pub congested: bool,
}

impl Estimator {
    /// Nothing is known yet.
    pub(super) fn new(config: BottleneckConfig) -> Self {
        Self {
            config,
            number: None,
            open: Interval::default(),
            closed: VecDeque::new(),
        }
    }

    /// Packets arrived; `one_way` is the delay of one of them in seconds, plus any constant.
    pub(super) fn on_acked(&mut self, now: Time, packets: f64, one_way: Option<f64>) {
        self.advance(now);
        self.open.acked += packets;
        let Some(delay) = one_way.filter(|delay| delay.is_finite()) else {
            return;
        };
        if let Some(mean) = self.mean_delay() {
            self.open.skew += f64::from(u8::from(delay < mean)) - f64::from(u8::from(delay > mean));
        }
        let before = self.closed.iter().rev().find_map(|(_, i)| i.mean());
        self.open.deviation += before.map_or(0.0, |mean| (delay - mean).abs());
        self.open.samples += 1.0;
        self.open.sum += delay;
    }

    /// Packets were lost.
    pub(super) fn on_lost(&mut self, now: Time, packets: f64) {
        self.advance(now);
        self.open.lost += packets;
    }

    /// The statistics as of now; `None` before there are delays in two intervals.
    pub(super) fn estimate(&mut self, now: Time) -> Option<Estimate> {
        self.advance(now);
        let recent = |count: usize| self.closed.iter().rev().take(count).map(|(_, i)| i);
        if recent(usize::MAX)
            .filter_map(Interval::mean)
            .take(2)
            .count()
            < 2
        {
            return None;
        }
        let long = || recent(self.config.skew_intervals);
        let samples: f64 = long().map(|i| i.samples).sum();
        let per_sample = |sum: f64| if samples > 0.0 { sum / samples } else { 0.0 };
        let skewness = per_sample(long().map(|i| i.skew).sum());
        let variability = per_sample(long().map(|i| i.deviation).sum());
        let lost: f64 = recent(self.config.intervals).map(|i| i.lost).sum();
        let acked: f64 = recent(self.config.intervals).map(|i| i.acked).sum();
        let loss = if lost > 0.0 {
            lost / (lost + acked)
        } else {
            0.0
        };
        Some(Estimate {
            skewness,
            variability,
            frequency: self.frequency(variability),
            loss,
            congested: skewness < self.config.congested || loss > self.config.lossy,
        })
    }

    /// The means of the closed intervals, with the intervals' numbers: `(number, seconds)`, oldest
    /// first. Intervals without a delay are left out.
    pub(super) fn means(&self) -> impl Iterator<Item = (u64, f64)> {
        self.closed
            .iter()
            .filter_map(|(number, interval)| Some((*number, interval.mean()?)))
    }

    /// `E_M(E_T(OWD))`, in seconds.
    fn mean_delay(&self) -> Option<f64> {
        let recent = self.closed.iter().rev().take(self.config.skew_intervals);
        let (sum, count) = recent
            .filter_map(|(_, interval)| interval.mean())
            .fold((0.0, 0u32), |(sum, count), mean| (sum + mean, count + 1));
        (count > 0).then(|| sum / f64::from(count))
    }

    /// `freq_est`: how often the interval means have gone from well above the long-term mean to
    /// well below it, or back.
    fn frequency(&self, variability: f64) -> Option<f64> {
        let recent = self.closed.iter().rev().take(self.config.intervals);
        let means: Vec<f64> = recent.filter_map(|(_, interval)| interval.mean()).collect();
        if means.len() < ENOUGH_INTERVALS {
            return None;
        }
        let middle = self.mean_delay()?;
        let margin = self.config.significant * variability;
        let sides = means
            .iter()
            .map(|mean| mean - middle)
            .filter(|away| away.abs() > margin)
            .map(|away| away > 0.0);
        let (mut crossings, mut last) = (0u32, None);
        for side in sides {
            crossings += u32::from(last.is_some_and(|last| last != side));
            last = Some(side);
        }
        Some(f64::from(crossings) / means.len() as f64)
    }

    fn advance(&mut self, now: Time) {
        let interval = self.config.interval.max(Duration::from_millis(1));
        let number = (now.since(Time::ZERO).as_nanos() / interval.as_nanos()) as u64;
        let Some(current) = self.number.replace(number) else {
            return;
        };
        if number <= current {
            // A clock doesn't go back; were it to, what comes counts for the newest interval.
            self.number = Some(current);
            return;
        }
        self.closed.push_back((current, self.open));
        self.open = Interval::default();
        let keep = self.config.intervals.max(self.config.skew_intervals);
        while self.closed.len() > keep {
            self.closed.pop_front();
        }
    }
}

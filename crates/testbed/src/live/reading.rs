//! What a network at work looks like from outside, and how well it kept time.

use std::time::Duration;

use manyway_network::LinkStats;
use manyway_units::Time;

use super::delays::Delays;

/// What the network looked like at a time, counted from the start.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// When.
    pub at: Time,
    /// The topology's links.
    pub links: Vec<LinkReading>,
    /// The subflows, in the experiment's order.
    pub subflows: Vec<SubflowReading>,
}

/// A link's.
#[derive(Debug, Clone, Default)]
pub struct LinkReading {
    /// Its counters.
    pub stats: LinkStats,
    /// Bytes that have left it.
    pub carried: u64,
    /// Packets in its queue.
    pub backlog: usize,
}

/// A subflow's.
#[derive(Debug, Copy, Clone, Default, PartialEq)]
pub struct SubflowReading {
    /// Packets that its sender sent.
    pub sent: u64,
    /// Of them, those that the network dropped.
    pub lost: u64,
    /// Bytes above TCP's or UDP's header that came out at its receiver.
    pub payload: u64,
    /// How long packets took from the sender, and back: sums in seconds, and their number.
    pub transit: [(f64, u64); 2],
}

/// How a part of the network was that shares no link with the others.
#[derive(Debug, Clone)]
pub struct PartReport {
    /// How long after their time packets left.
    pub late: Delays,
    /// Packets that a device would not take: it is down, or has no buffers.
    pub refused: u64,
    /// Whether its thread had real time.
    pub real_time: bool,
}

/// How well the emulator kept time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Punctuality {
    /// How late packets left: the median of the part that did worst.
    pub median: Duration,
    /// The 99th percentile of the part that did worst.
    pub p99: Duration,
    /// The most.
    pub most: Duration,
    /// Whether all threads had real time.
    pub real_time: bool,
}

impl Punctuality {
    /// Of all parts.
    pub fn of(parts: &[PartReport]) -> Self {
        let start = Self {
            real_time: true,
            ..Self::default()
        };
        parts.iter().fold(start, |all, part| {
            all.worse(Self {
                median: part.late.percentile(0.5),
                p99: part.late.percentile(0.99),
                most: part.late.most(),
                real_time: part.real_time,
            })
        })
    }

    /// The worse of two, in each respect.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        Self {
            median: self.median.max(other.median),
            p99: self.p99.max(other.p99),
            most: self.most.max(other.most),
            real_time: self.real_time && other.real_time,
        }
    }
}

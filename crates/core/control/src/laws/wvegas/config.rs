//! What can be chosen of wVegas, and its parameters in the registry.

use crate::parameter::{Parameter, Range};

/// The parameters that wVegas takes with either drain rule.
pub(crate) const PARAMETERS: [Parameter; 5] = [
    Parameter::new(
        "total_alpha",
        10.0,
        Range::above(0.0, 1e6),
        "packets that the connection keeps queued",
    ),
    Parameter::new(
        "min_alpha",
        2.0,
        Range::above(0.0, 1e6),
        "packets that a path keeps queued at least",
    ),
    Parameter::new(
        "gamma",
        1.0,
        Range::above(0.0, 1e6),
        "queued packets that end slow start",
    ),
    Parameter::new(
        "base",
        0.0,
        Range::between(0.0, 3600.0),
        "the paths' round-trip time without queues, in seconds; 0 to measure it",
    ),
    Parameter::new(
        "forward",
        0.0,
        Range::switch(),
        "1: count only the delay towards the receiver, from the receiver's timestamps",
    ),
];

/// What may be chosen of [`Wvegas`](super::Wvegas).
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct WvegasConfig {
    /// `total_alpha` or `α_s`: packets that the connection keeps queued (line 2).
    pub total_alpha: f64,
    /// The least `α_r`, in packets (line 14).
    pub min_alpha: f64,
    /// γ: `diff` that ends slow start, in packets.
    pub gamma: f64,
    /// The round-trip time without queues of every path, in seconds, where it is known; 0 to
    /// measure it.
    pub base: f64,
    /// Queueing delay is that of the way there (from [`Ack::one_way`](crate::Ack::one_way)) instead
    /// of that of the round trip, where the peer says when packets arrived. So queues on the way
    /// back don't count. Clocks that drift apart by 20 ppm add or hide 2 ms of queue in 100 s; more
    /// than on the round trip is never seen.
    pub forward: bool,
    /// A round's delay is the least of its samples, as in Linux' Vegas, instead of their mean (line
    /// 8). What hosts add to single packets doesn't look like a queue then; but bursts, of senders
    /// that don't pace, hide a queue that is there.
    pub least: bool,
    /// When the window backs off to empty the queue.
    pub drain: Drain,
    /// A loss event leaves `α_r` as it is, as printed, although the path's rate counts no more: the
    /// other paths' α grow to `total_alpha` without it, so that the connection keeps up to twice as
    /// much queued as it should, and if the queue is too short for that, losses keep it so.
    /// Repaired, the path begins again with the initial `α_r`.
    pub loss_keeps_alpha: bool,
}

/// When wVegas backs off to empty the queue (lines 19 to 25).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Drain {
    /// Never.
    Never,
    /// As printed: when the queueing delay is more than twice the least since the last time. That
    /// least one is next to nothing while the link isn't full, so that fractions of a packet in the
    /// queue halve the window, and a lone flow never fills its link.
    AsPrinted,
    /// Repaired: the same, of rounds at equilibrium only (`diff ≥ α_r`). So it happens when others
    /// have doubled the queue that this path keeps, say because they joined without having seen it
    /// empty, and it shows it to them.
    AtEquilibrium,
}

impl Default for WvegasConfig {
    fn default() -> Self {
        WvegasConfig {
            total_alpha: 10.0,
            min_alpha: 2.0,
            gamma: 1.0,
            base: 0.0,
            forward: false,
            least: false,
            drain: Drain::AtEquilibrium,
            loss_keeps_alpha: false,
        }
    }
}

//! BMC's proportion managers: what is measured of each subflow in an interval, and how weight moves
//! at its end. They never touch windows.

use crate::controller::Ack;
use crate::parameter::{Parameter, Range};

/// `epochs` of the managers that move weight.
pub(crate) const EPOCHS: Parameter = Parameter::new(
    "epochs",
    1.0,
    Range::between(1.0, 1000.0),
    "J, the time between two changes of the weights, in congestion epochs of the path that has the \
     longest",
);

/// `min` of the managers that move weight.
pub(crate) const LEAST: Parameter = Parameter::new(
    "min",
    0.05,
    Range::within(0.0, 1.0),
    "no path's part of p falls below this",
);

/// Who moves weight between BMC's subflows, if anyone does.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Manager {
    /// Nobody: weights are the policy's.
    Fixed,
    /// The paper's proportion manager (eq. 3.7 to 3.9), with weights for P flow shares taken as
    /// parts of P.
    ///
    /// After every interval J the subflow with the smallest `T_wr = (R/D)·T_J` gives `(D − D²)·K`
    /// to the one with the largest. It does so even if they differ by a hair, so it never rests;
    /// and a subflow with a small weight has long congestion epochs, in which J can hardly see what
    /// it would get.
    Proportion {
        /// K, between 0 and 4. From 1/(1−D) on the rule would take all of a weight and more: `min`
        /// stops it.
        k: f64,
        /// J is this many times the longest congestion epoch of a subflow (`bW/a + 1` round trips);
        /// at least 1, says the paper.
        epochs: f64,
        /// J is at least this long, in seconds.
        at_least: f64,
        /// No subflow's part of P falls below this.
        min: f64,
    },
    /// A proportion manager that comes to rest.
    ///
    /// After every interval J each subflow's `ln T_wr` is compared with the mean over all, which
    /// takes away what they have in common. A single interval says little: a subflow meets about
    /// one loss in it.
    /// * Step: all weights at once go to `D·e^(γ·deviation)`. With γ = 1 that is in proportion to
    ///   `D·T_wr = R·T`, the mean amount in flight, which doesn't depend on D where a subflow is
    ///   held back by a link of its own: one step finds the weight at which it is held back no
    ///   more. On disjoint bottlenecks `T_wr` falls with D but by `D/(B + D)`, B being the flows
    ///   beside it, so that it takes several.
    /// * γ of the k-th interval is `gain/k`, at most 1: stochastic approximation (Robbins and
    ///   Monro, 1951), which averages the scatter of intervals out. It stays at an eighth, so that
    ///   changes of the network are followed.
    /// * Dead band: nothing moves while all deviations, smoothed with the same γ, are within
    ///   `band`.
    ///
    /// At rest all `T_wr` are equal within the band: by eq. (3.4) all subflows see the same loss
    /// rate, which on disjoint bottlenecks is resource pooling (section 4.1).
    Balance {
        /// γ of the k-th interval is this over k. With 2 the error falls as that of a mean does,
        /// with the root of k, if a quarter of a step or more shows in `T_wr`.
        gain: f64,
        /// Deviations of `ln T_wr` within this band are left alone.
        band: f64,
        /// As in [`Manager::Proportion`].
        epochs: f64,
        /// As in [`Manager::Proportion`].
        min: f64,
    },
}

/// The smallest γ.
const LEAST_GAIN: f64 = 1.0 / 8.0;

impl Manager {
    /// What [`Manager::Proportion`] leaves of a weight that is to give: `D − (D − D²)·K` (eq. 3.8).
    ///
    /// What it takes is largest at D = 1/2, and in proportion to K. From K = 1/(1−D) on it is all
    /// of the weight and more: the manager stops at its `min`.
    #[inline]
    pub fn reduced(weight: f64, k: f64) -> f64 {
        weight - (weight - weight * weight) * k
    }

    /// Whether weights move at all.
    #[inline]
    pub(super) fn moves(&self) -> bool {
        *self != Manager::Fixed
    }

    /// J in seconds where the longest congestion epoch is `longest`.
    pub(super) fn interval(&self, longest: f64) -> f64 {
        match *self {
            Manager::Fixed => f64::INFINITY,
            Manager::Proportion {
                epochs, at_least, ..
            } => (epochs * longest).max(at_least),
            Manager::Balance { epochs, .. } => epochs * longest,
        }
    }

    /// Changes the members' shares at the end of an interval; false if all stays as it is.
    pub(super) fn decide(&self, members: &mut [Measure]) -> bool {
        let parties = members.iter().filter(|member| member.counts).count();
        if parties < 2 {
            return false;
        }
        match *self {
            Manager::Fixed => false,
            Manager::Proportion { k, min, .. } => propose(members, k, min),
            Manager::Balance {
                gain, band, min, ..
            } => balance(members, gain, band, min),
        }
    }
}

/// Eq. (3.7) to (3.9).
fn propose(members: &mut [Measure], k: f64, min: f64) -> bool {
    let floor = min.min(1.0 / members.len() as f64);
    let counted = |members: &[Measure]| -> Vec<usize> {
        (0..members.len()).filter(|&i| members[i].counts).collect()
    };
    let indices = counted(members);
    let by_t_wr = |&a: &usize, &b: &usize| members[a].t_wr.total_cmp(&members[b].t_wr);
    let giver = indices.iter().copied().min_by(by_t_wr);
    let taker = indices.iter().copied().max_by(by_t_wr);
    let (Some(giver), Some(taker)) = (giver, taker) else {
        return false;
    };
    if giver == taker || members[giver].t_wr == members[taker].t_wr {
        return false;
    }
    let before = members[giver].share;
    let after = Manager::reduced(before, k).max(floor).min(before);
    members[giver].share = after;
    members[taker].share += before - after;
    before != after
}

/// The step of [`Manager::Balance`].
fn balance(members: &mut [Measure], gain: f64, band: f64, min: f64) -> bool {
    // A subflow that got nothing through is as far below the others as numbers reasonably go.
    let log = |member: &Measure| member.t_wr.max(1e-3).ln();
    let counting = members.iter().filter(|member| member.counts);
    let (sum, count) = counting.fold((0.0, 0.0), |(sum, count), m| (sum + log(m), count + 1.0));
    let mut sure = false;
    let before: Vec<f64> = members.iter().map(|member| member.share).collect();
    for member in members.iter_mut().filter(|member| member.counts) {
        let deviation = log(member) - sum / count;
        let gamma = member.memory.add(deviation, gain);
        sure |= member.memory.smoothed.abs() > band;
        // No step is larger than e-fold, however strange the measurement.
        member.share *= (gamma * deviation).clamp(-1.0, 1.0).exp();
    }
    if !sure {
        for (member, share) in members.iter_mut().zip(before) {
            member.share = share;
        }
        return false;
    }
    settle(members, min.min(1.0 / members.len() as f64));
    true
}

/// Scales the shares so that they sum to 1 and none is below `least`.
fn settle(members: &mut [Measure], least: f64) {
    let mut held = vec![false; members.len()];
    loop {
        let (mut bound, mut free) = (0.0, 0.0);
        for (member, &held) in members.iter().zip(&held) {
            if held {
                bound += least;
            } else {
                free += member.share;
            }
        }
        let scale = if free > 0.0 {
            (1.0 - bound) / free
        } else {
            0.0
        };
        let mut more = false;
        for (member, held) in members.iter().zip(&mut held) {
            if !*held && member.share * scale < least {
                (*held, more) = (true, true);
            }
        }
        if more {
            continue;
        }
        for (member, &held) in members.iter_mut().zip(&held) {
            member.share = if held { least } else { member.share * scale };
        }
        return;
    }
}

/// What [`Manager::Balance`] knows of a subflow.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// Intervals.
    count: f64,
    /// The deviation of `ln T_wr`, smoothed.
    smoothed: f64,
}

impl Memory {
    /// Adds an interval; returns its γ.
    fn add(&mut self, deviation: f64, gain: f64) -> f64 {
        self.count += 1.0;
        let gamma = (gain / self.count).clamp(LEAST_GAIN, 1.0);
        self.smoothed += gamma * (deviation - self.smoothed);
        gamma
    }
}

/// A subflow at the end of an interval.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Measure {
    /// Its part of P.
    pub(super) share: f64,
    /// `T_wr = (R/D)·T_J` (eq. 3.7), in bytes; D as a part of P.
    pub(super) t_wr: f64,
    /// Whether what it sent says anything: it was not in its first slow start, and its window was
    /// in use.
    pub(super) counts: bool,
    pub(super) memory: Memory,
}

/// What losses have shown.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Peak {
    /// The window at the last one, in packets.
    pub(super) window: f64,
    /// The first slow start is over.
    pub(super) settled: bool,
}

/// What is measured of a subflow.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    /// Packets acknowledged in this interval, and those of them by which the window could not grow
    /// for want of data.
    packets: f64,
    limited: f64,
    /// Σ RTT · packets, s.
    rtts: f64,
    /// The smoothed round-trip time, in seconds.
    pub(super) rtt: f64,
    pub(super) peak: Peak,
    /// The first slow start was over when the interval began.
    whole: bool,
    memory: Memory,
}

impl Measurement {
    pub(super) fn new(rtt: f64) -> Self {
        Measurement {
            packets: 0.0,
            limited: 0.0,
            rtts: 0.0,
            rtt: rtt.clamp(1e-6, 1e6),
            peak: Peak::default(),
            whole: false,
            memory: Memory::default(),
        }
    }

    #[inline]
    pub(super) fn on_ack(&mut self, ack: &Ack) {
        self.rtt = ack.smoothed_rtt.as_secs_f64().clamp(1e-6, 1e6);
        self.packets += ack.packets;
        self.rtts += self.rtt * ack.packets;
        if ack.app_limited {
            self.limited += ack.packets;
        }
    }

    /// Packets are of another size from now on: one of before is `factor` of those.
    pub(super) fn rescale(&mut self, factor: f64) {
        self.packets *= factor;
        self.limited *= factor;
        self.rtts *= factor;
        self.peak.window *= factor;
    }

    /// A loss at this window; returns what was known of losses before.
    pub(super) fn on_loss(&mut self, window: f64) -> Peak {
        let now = Peak {
            window,
            settled: true,
        };
        std::mem::replace(&mut self.peak, now)
    }

    /// The interval ends; it was `elapsed` seconds long, and the subflow's part of P is `share`.
    pub(super) fn finish(&self, share: f64, elapsed: f64, size: f64) -> Measure {
        let rtt = if self.packets > 0.0 {
            self.rtts / self.packets
        } else {
            self.rtt
        };
        Measure {
            share,
            t_wr: rtt / share * (self.packets * size / elapsed),
            counts: self.whole && 2.0 * self.limited <= self.packets,
            memory: self.memory,
        }
    }

    /// The next interval begins.
    pub(super) fn next(&mut self, member: &Measure) {
        self.packets = 0.0;
        self.limited = 0.0;
        self.rtts = 0.0;
        self.whole = self.peak.settled;
        self.memory = member.memory;
    }

    /// The measurement begins anew.
    pub(super) fn forget(&mut self) {
        self.packets = 0.0;
        self.limited = 0.0;
        self.rtts = 0.0;
        self.whole = self.peak.settled;
        self.memory = Memory::default();
    }
}

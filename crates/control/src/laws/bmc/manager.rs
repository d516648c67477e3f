use crate::controller::Ack;

/// Who moves weight between BMC's subflows, if anyone does.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Manager {
    /// Nobody: weights are the policy's.
    Fixed,
    /// The paper's proportion manager (eq. 3.7 to 3.9), with weights for P flow shares taken as parts of P.
    ///
    /// After every interval J the subflow with the smallest `T_wr = (R/D)·T_J` gives `(D − D²)·K` to the one with the largest. It
    /// does so even if they differ by a hair, so it never rests; and a subflow with a small weight has long congestion epochs, in which
    /// J can hardly see what it would get.
    Proportion {
        /// K, between 0 and 4. From 1/(1−D) on the rule would take all of a weight and more: `min` stops it.
        k: f64,
        /// J is this many times the longest congestion epoch of a subflow (`bW/a + 1` round trips); at least 1, says the paper.
        epochs: f64,
        /// J is at least this long, in seconds.
        at_least: f64,
        /// No subflow's part of P falls below this.
        min: f64,
    },
    /// A proportion manager that comes to rest.
    ///
    /// * Estimator: in each interval J every subflow's `ln T_wr` is compared with the mean over all, which takes away what they have
    ///   in common; of the deviations of several intervals the mean and its standard error are known. The paper has one interval only,
    ///   in which a single loss more or less decides.
    /// * Dead band: weights change only if some subflow's mean deviation exceeds `band` by `z` standard errors (of three intervals at
    ///   least).
    /// * Step: then all weights at once go to `D·e^deviation`, that is, in proportion to `D·T_wr = R·T`, the mean amount in flight. For a
    ///   subflow that is held back by a link of its own that amount doesn't depend on D, so one step finds the weight at which it is
    ///   held back no more; and the closer the `T_wr` are together, the smaller is the step.
    ///
    /// At rest all `T_wr` are equal within the band: by eq. (3.4) all subflows see the same loss rate, which on disjoint bottlenecks
    /// is resource pooling (section 4.1).
    Balance {
        /// The part of the deviation that a step corrects, above 0 and at most 1.
        gain: f64,
        /// Deviations of `ln T_wr` within this band are left alone.
        band: f64,
        /// Standard errors by which a deviation must exceed the band.
        z: f64,
        /// As in [`Manager::Proportion`].
        epochs: f64,
        /// As in [`Manager::Proportion`].
        min: f64,
    },
}

/// Intervals that a deviation must have been seen in.
const FEWEST: f64 = 3.0;
/// Intervals after which old ones are forgotten by halves, so that changes of the network are seen.
const MEMORY: f64 = 64.0;

impl Manager {
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
                gain, band, z, min, ..
            } => {
                note_deviations(members);
                balance(members, gain, (band, z), min)
            }
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
    let after = (before - (before - before * before) * k)
        .max(floor)
        .min(before);
    members[giver].share = after;
    members[taker].share += before - after;
    before != after
}

/// Adds the interval's deviation from the mean of `ln T_wr` to each counting member's memory.
fn note_deviations(members: &mut [Measure]) {
    // A subflow that got nothing through is as far below the others as numbers reasonably go.
    let log = |member: &Measure| member.t_wr.max(1e-3).ln();
    let counting = members.iter().filter(|member| member.counts);
    let (sum, count) = counting.fold((0.0, 0.0), |(sum, count), m| (sum + log(m), count + 1.0));
    let mean = sum / count;
    for member in members.iter_mut().filter(|member| member.counts) {
        let deviation = log(member) - mean;
        member.memory.add(deviation);
    }
}

/// The step of [`Manager::Balance`].
fn balance(members: &mut [Measure], gain: f64, (band, z): (f64, f64), min: f64) -> bool {
    let significant = |member: &Measure| {
        let memory = &member.memory;
        memory.count >= FEWEST && memory.mean.abs() > band + z * memory.standard_error()
    };
    if !members.iter().any(|m| m.counts && significant(m)) {
        return false;
    }
    let floor = min.min(1.0 / members.len() as f64);
    let counting = |members: &[Measure]| -> f64 {
        let shares = members.iter().filter(|m| m.counts).map(|m| m.share);
        shares.sum()
    };
    let before = counting(members);
    // No step is larger than e-fold, however strange the measurement.
    for member in members.iter_mut().filter(|m| m.counts) {
        member.share *= (gain * member.memory.mean).clamp(-1.0, 1.0).exp();
    }
    let scale = before / counting(members);
    for member in members.iter_mut() {
        if member.counts {
            member.share = (member.share * scale).max(floor);
        }
        member.memory = Memory::default();
    }
    true
}

/// Mean and scatter of a subflow's deviations.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(super) struct Memory {
    count: f64,
    mean: f64,
    /// Sum of squared differences from the mean (Welford).
    squares: f64,
}

impl Memory {
    fn add(&mut self, value: f64) {
        if self.count >= MEMORY {
            self.count /= 2.0;
            self.squares /= 2.0;
        }
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    fn standard_error(&self) -> f64 {
        if self.count < 2.0 {
            return f64::INFINITY;
        }
        (self.squares.max(0.0) / (self.count - 1.0) / self.count).sqrt()
    }
}

/// A subflow at the end of an interval.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Measure {
    /// Its part of P.
    pub(super) share: f64,
    /// `T_wr = (R/D)·T_J` (eq. 3.7), in bytes; D as a part of P.
    pub(super) t_wr: f64,
    /// Whether what it sent says anything: it was not in its first slow start, and its window was in use.
    pub(super) counts: bool,
    pub(super) memory: Memory,
}

/// What is measured of a subflow.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    /// Packets acknowledged in this interval, and those of them by which the window could not grow for want of data.
    packets: f64,
    limited: f64,
    /// Σ RTT · packets, s.
    rtts: f64,
    /// The smoothed round-trip time, in seconds.
    pub(super) rtt: f64,
    /// The window at the last loss, in packets.
    pub(super) peak: f64,
    /// The first slow start is over.
    pub(super) settled: bool,
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
            peak: 0.0,
            settled: false,
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

    pub(super) fn on_loss(&mut self, window: f64) {
        self.peak = window;
        self.settled = true;
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
        self.whole = self.settled;
        self.memory = member.memory;
    }

    /// The measurement begins anew.
    pub(super) fn forget(&mut self) {
        self.packets = 0.0;
        self.limited = 0.0;
        self.rtts = 0.0;
        self.whole = self.settled;
        self.memory = Memory::default();
    }
}

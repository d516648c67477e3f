//! RED's decisions, packet by packet.

use rand::RngExt;

use super::Red;
use crate::Limit;
use crate::link::Fine;
use crate::queue::arrival::{Admission, Arrival};
use crate::random::{Generator, Purpose, generator};

/// RED at work: decides about each arriving packet. Names and order of the steps are those of
/// ns-2's `queue/red.cc`, `REDQueue::enque`.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    red: Red,
    /// `v_ave`: the moving average of the queue, packets.
    average: f64,
    /// `count`: packets that arrived since the last early drop or mark, while the average was above
    /// the lower threshold.
    count: u32,
    /// `old`: whether the packet before found the average above the lower threshold.
    above: bool,
    /// When the latest packet arrived, in ns.
    latest: u64,
    generator: Generator,
}

impl Gate {
    /// The configuration is valid.
    pub(crate) fn new(red: Red, seed: u64) -> Self {
        Self {
            red,
            average: 0.0,
            count: 0,
            above: false,
            latest: 0,
            generator: generator(seed, Purpose::Queue),
        }
    }

    /// A packet arrives.
    pub(crate) fn admit(&mut self, arrival: Arrival) -> Admission {
        let (length, several) = self.length(&arrival);
        self.average = self.next_average(length, self.idle_packets(&arrival));
        self.latest = arrival.now;
        self.count = self.count.saturating_add(1);
        let admission = match self.early(several, arrival.ecn) {
            // A full queue drops whatever was decided before.
            _ if !arrival.room => Admission::Full,
            admission => admission,
        };
        if let Admission::Full | Admission::Forced = admission {
            self.count = 0;
        }
        admission
    }

    /// The moving average of the queue, packets.
    #[cfg(test)]
    pub(crate) fn average(&self) -> f64 {
        self.average
    }

    /// The queue's length in packets, and whether more than one unit (packet or byte) waits:
    /// without, nothing is dropped early.
    fn length(&self, arrival: &Arrival) -> (f64, bool) {
        match self.red.limit {
            Limit::Packets(_) => (arrival.waiting_packets as f64, arrival.waiting_packets > 1),
            Limit::Bytes(_) => {
                let length = arrival.waiting_bytes as f64 / f64::from(self.red.mean_packet);
                (length, arrival.waiting_bytes > 1)
            }
        }
    }

    /// How many typical packets could have passed while the queue was idle.
    fn idle_packets(&self, arrival: &Arrival) -> u64 {
        if !arrival.idle {
            return 0;
        }
        let since = arrival.free_at.max(self.latest);
        let idle = Fine::from_nanos(arrival.now.saturating_sub(since));
        let packet = u128::from(arrival.per_byte) * u128::from(self.red.mean_packet);
        match idle.bits() < packet {
            true => 0,
            false => u64::try_from(idle.bits() / packet).unwrap_or(u64::MAX),
        }
    }

    /// avg ← (1 − w)^m avg, then avg ← (1 − w) avg + w q (Floyd and Jacobson, section 4; ns-2's
    /// `estimator`): m packets that found an idle queue, as it were, then this one.
    fn next_average(&self, length: f64, idle_packets: u64) -> f64 {
        let keep = 1.0 - self.red.weight;
        let aged = match idle_packets {
            0 => self.average,
            several => power(keep, several) * self.average,
        };
        aged * keep + self.red.weight * length
    }

    fn early(&mut self, several: bool, ecn: bool) -> Admission {
        let (red, accepted) = (self.red, Admission::Accepted { marked: false });
        if self.average < red.min || !several {
            self.above = false;
            return accepted;
        }
        let probability = red.probability(self.average);
        if probability >= 1.0 {
            return Admission::Forced;
        }
        if !self.above {
            self.above = true;
            self.count = 1;
            return accepted;
        }
        let spaced = red.spaced(probability, self.count);
        if spaced == 0.0 || self.generator.random::<f64>() >= spaced {
            return accepted;
        }
        self.count = 0;
        match red.ecn && ecn && self.average < red.max {
            true => Admission::Accepted { marked: true },
            false => Admission::Early,
        }
    }
}

impl Red {
    /// p_b, the probability of an early drop at this average queue (in packets) before it is spaced
    /// out: from 0 to `max_p` between the thresholds (Floyd and Jacobson, section 4), then 1, or,
    /// in gentle mode, from `max_p` to 1 at twice the upper threshold (S. Floyd, "Recommendations
    /// on using the gentle variant of RED", 2000; ns-2's `calculate_p_new`).
    pub fn probability(&self, average: f64) -> f64 {
        let (min, max) = (self.min, self.max);
        if average < min {
            0.0
        } else if average < max {
            self.max_p * (average - min) / (max - min)
        } else if self.gentle && average < 2.0 * max {
            self.max_p + (1.0 - self.max_p) * (average - max) / max
        } else {
            1.0
        }
    }

    /// p_a, the probability with which packet number `count` since the last early drop is dropped,
    /// so that the distances of drops are uniform rather than geometric (Floyd and Jacobson,
    /// section 7; ns-2's `modify_p`). With p = `probability`: p/(1 − count·p), so that they are
    /// uniform on 1 … 1/p − 1, with mean 1/(2p); with `wait`, 0 as long as count < 1/p and then
    /// p/(2 − count·p), so that they are uniform on 1/p … 2/p − 1, with mean 3/(2p) − 1/2.
    fn spaced(&self, probability: f64, count: u32) -> f64 {
        let done = f64::from(count) * probability;
        let left = match self.wait {
            true if done < 1.0 => return 0.0,
            true => 2.0 - done,
            false => 1.0 - done,
        };
        match left > 0.0 {
            true => (probability / left).min(1.0),
            false => 1.0,
        }
    }
}

/// By squaring: the same bits on every machine, which a library's `pow` doesn't promise.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 && result > 0.0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests;

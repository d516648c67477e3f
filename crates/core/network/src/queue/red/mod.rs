//! The configuration of RED.

use manyway_units::Rate;

use super::Limit;
use crate::InvalidLink;

mod gate;

pub(crate) use gate::Gate;

/// Random early detection as in ns-2's `REDQueue` (S. Floyd and V. Jacobson, "Random Early
/// Detection Gateways for Congestion Avoidance", IEEE/ACM ToN 1(4), 1993).
///
/// The thresholds apply to a moving average of the queue *without* the packet in service, as in
/// ns-2, so that published parameters mean the same here. They are in packets; with a limit in
/// bytes, the queue's length is its bytes over [`Red::mean_packet`]. Time that the queue was idle
/// counts as so many packets of that size at the rate that the link has when the next one arrives.
/// Packets are dropped by number, whatever their size (ns-2's `bytes_` off).
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct Red {
    /// How much the queue holds at most, the packet in service included (ns-2's `queue-limit`
    /// leaves it out).
    pub limit: Limit,
    /// Average below which nothing is dropped, `min_th`, in packets.
    pub min: f64,
    /// Average at which the drop probability reaches `max_p`, `max_th`, in packets.
    pub max: f64,
    /// The drop probability at `max` before it is spaced out (ns-2: 1/`linterm_`).
    pub max_p: f64,
    /// Weight `w_q` of each arriving packet in the moving average.
    pub weight: f64,
    /// Above `max` the probability rises from `max_p` to 1 at twice that threshold,
    /// rather than at once.
    pub gentle: bool,
    /// ns-2's `wait_`: the distances of early drops are uniform between 1/p and 2/p packets;
    /// without, between 1 and 1/p.
    pub wait: bool,
    /// Marks ECN-capable packets instead of dropping them early, as long as the average is below
    /// `max`; above it they are dropped like all others (RFC 3168, section 7; ns-2's
    /// `setbit_` with `mark_p_` = `max_p`).
    pub ecn: bool,
    /// Bytes of a typical packet: what would have passed while the queue was idle is counted in
    /// such packets.
    pub mean_packet: u32,
}

impl Red {
    /// RED with these limits and the customary rest: `max_p` 0.1, weight 0.002, gentle, waiting, no
    /// marks, packets of 1500 bytes.
    pub fn new(limit: Limit, min: f64, max: f64) -> Self {
        Self {
            limit,
            min,
            max,
            max_p: 0.1,
            weight: 0.002,
            gentle: true,
            wait: true,
            ecn: false,
            mean_packet: 1500,
        }
    }

    /// The weight that ns-2 chooses for a link of this rate when told to (`q_weight_` = 0): 1 −
    /// exp(−1/C) at C packets/s, which averages over one second (S. Floyd, R. Gummadi and S.
    /// Shenker, "Adaptive RED", 2001, section 3.3).
    pub fn automatic_weight(rate: Rate, mean_packet: u32) -> f64 {
        -(-f64::from(mean_packet) / rate.bytes_per_sec()).exp_m1()
    }

    pub(super) fn validate(&self) -> Result<(), InvalidLink> {
        let probability = "choose a number greater than 0 and at most 1";
        let refuse = |field: &str, value: f64, allowed| {
            Err(InvalidLink::new(
                format!("queue.red.{field}"),
                value,
                allowed,
            ))
        };
        if !(self.min >= 0.0 && self.min.is_finite()) {
            let allowed = "choose at least 0 packets";
            return refuse("min", self.min, allowed);
        }
        if !(self.max > self.min && self.max.is_finite()) {
            let allowed = "choose more packets than `min`";
            return refuse("max", self.max, allowed);
        }
        if !(self.max_p > 0.0 && self.max_p <= 1.0) {
            return refuse("max_p", self.max_p, probability);
        }
        if !(self.weight > 0.0 && self.weight <= 1.0) {
            return refuse("weight", self.weight, probability);
        }
        if self.mean_packet == 0 {
            return refuse("mean_packet", 0.0, "choose at least 1 byte");
        }
        Ok(())
    }
}

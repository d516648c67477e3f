//! Queues of links.

use std::time::Duration;

use manyway_network::{CoDel, Drr, DualPi2, FqCoDel, Limit, Pie, Priority, Queue, Red};
use manyway_units::Rate;

use super::Checks;
use crate::file;
use crate::quantity::{Bytes, QueueLength, QueueLimit, Threshold, TimeSpan};
use crate::tree::Key;

impl Checks {
    /// The queue of a link with this rate.
    pub(super) fn queue(&mut self, key: &Key, queue: &file::Queue, rate: Rate) -> Option<Queue> {
        match queue {
            file::Queue::DropTail(limit) => Some(Queue::DropTail(limit.0)),
            file::Queue::Red(red) => self.red(&key.join("red"), red, rate).map(Queue::Red),
            file::Queue::Pie(pie) => self.pie(&key.join("pie"), pie).map(Queue::Pie),
            file::Queue::CoDel(codel) => {
                let limit = self.limit(&key.join("codel"), &codel.limit)?;
                let usual = CoDel::new(limit);
                Some(Queue::CoDel(CoDel {
                    target: or(codel.target, usual.target),
                    interval: or(codel.interval, usual.interval),
                    ecn: codel.ecn.unwrap_or(usual.ecn),
                    ..usual
                }))
            }
            file::Queue::Drr(drr) => {
                let key = key.join("drr");
                let usual = Drr::new(self.limit(&key, &drr.limit)?);
                let quantum = self.quantum(&key, drr.quantum, usual.quantum)?;
                Some(Queue::Drr(Drr { quantum, ..usual }))
            }
            file::Queue::FqCoDel(fq) => {
                self.fq_codel(&key.join("fq_codel"), fq).map(Queue::FqCoDel)
            }
            file::Queue::Priority(priority) => {
                let limit = self.limit(&key.join("priority"), &priority.limit)?;
                Some(Queue::Priority(Priority { limit }))
            }
            file::Queue::DualPi2(dual) => {
                let limit = self.limit(&key.join("dualpi2"), &dual.limit)?;
                let usual = DualPi2::new(limit);
                Some(Queue::DualPi2(DualPi2 {
                    target: or(dual.target, usual.target),
                    update: or(dual.update, usual.update),
                    coupling: dual.coupling.map_or(usual.coupling, |factor| factor.0),
                    step: or(dual.step, usual.step),
                    shift: or(dual.shift, usual.shift),
                    ..usual
                }))
            }
        }
    }

    fn limit(&mut self, key: &Key, limit: &Option<QueueLimit>) -> Option<Limit> {
        let limit = self.required(limit, &key.join("limit"), "limit = \"1000 packets\"")?;
        Some(limit.0)
    }

    fn quantum(&mut self, key: &Key, quantum: Option<Bytes>, usual: u32) -> Option<u32> {
        let Some(size) = quantum else {
            return Some(usual);
        };
        let quantum = u32::try_from(size.0.bytes()).ok();
        if quantum.is_none() {
            let message = format!("{:#} is out of range: choose at most 4 GB", size.0);
            self.report(&key.join("quantum"), message);
        }
        quantum
    }

    fn pie(&mut self, key: &Key, pie: &file::Pie) -> Option<Pie> {
        let usual = Pie::new(self.limit(key, &pie.limit)?);
        Some(Pie {
            target: or(pie.target, usual.target),
            update: or(pie.update, usual.update),
            burst: or(pie.burst, usual.burst),
            ecn: pie.ecn.unwrap_or(usual.ecn),
            ..usual
        })
    }

    fn fq_codel(&mut self, key: &Key, fq: &file::FqCoDel) -> Option<FqCoDel> {
        let usual = FqCoDel::new(self.limit(key, &fq.limit)?);
        Some(FqCoDel {
            codel: CoDel {
                target: or(fq.target, usual.codel.target),
                interval: or(fq.interval, usual.codel.interval),
                ecn: fq.ecn.unwrap_or(usual.codel.ecn),
                ..usual.codel
            },
            queues: fq.queues.unwrap_or(usual.queues),
            quantum: self.quantum(key, fq.quantum, usual.quantum)?,
        })
    }

    fn red(&mut self, key: &Key, red: &file::Red, rate: Rate) -> Option<Red> {
        let limit = self.required(&red.limit, &key.join("limit"), "limit = \"200 packets\"");
        let min = self.required(&red.min, &key.join("min"), "min = \"50 packets\"");
        let max = self.required(&red.max, &key.join("max"), "max = \"150 packets\"");
        let mean_packet = red.mean_packet.map_or(1500, |size| size.0.bytes());
        let Some(mean_packet) = u32::try_from(mean_packet)
            .ok()
            .filter(|bytes| (1..=65_535).contains(bytes))
        else {
            self.report(&key.join("mean_packet"), "a packet has 1 B to 65535 B");
            return None;
        };
        let packets = |length: &Threshold| match length.0 {
            QueueLength::Packets(packets) => packets,
            QueueLength::Bytes(size) => size.bytes() as f64 / f64::from(mean_packet),
        };
        let usual = Red::new(limit?.0, packets(min?), packets(max?));
        Some(Red {
            max_p: red.max_p.map_or(usual.max_p, |p| p.0),
            weight: match red.weight {
                None => usual.weight,
                Some(file::Weight::Fixed(weight)) => weight.0,
                Some(file::Weight::Auto) => Red::automatic_weight(rate, mean_packet),
            },
            gentle: red.gentle.unwrap_or(usual.gentle),
            wait: red.wait.unwrap_or(usual.wait),
            ecn: red.ecn.unwrap_or(usual.ecn),
            mean_packet,
            ..usual
        })
    }
}

fn or(time: Option<TimeSpan>, usual: Duration) -> Duration {
    time.map_or(usual, |time| time.0)
}

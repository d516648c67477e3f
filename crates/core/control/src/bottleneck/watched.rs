//! A controller that passes every call on to another and records what it says of each path. It
//! changes no window.

use std::time::Duration;

use manyway_units::Time;

use crate::controller::{
    Ack, Controller, Loss, LostPacket, NewPath, PathVerdict, Round, Slot, Target,
};

use super::BottleneckConfig;
use super::estimator::{Estimate, Estimator};
use super::grouping::{Observed, groups};
use super::losses::{LossInterval, LossLog};

/// A controller that does what the one inside does, and keeps a record of each path.
#[derive(Debug)]
pub struct Watched<C> {
    inside: C,
    config: BottleneckConfig,
    since: Option<Time>,
    /// By slot.
    records: Vec<Option<PathRecord>>,
}

/// What was seen of a path.
#[derive(Clone, Debug)]
pub struct PathRecord {
    estimator: Estimator,
    losses: LossLog,
    /// Bytes of a packet.
    size: f64,
    acked: f64,
    lost: f64,
}

impl PathRecord {
    /// Bytes that arrived.
    pub fn bytes_acked(&self) -> f64 {
        self.acked
    }

    /// Bytes that were lost.
    pub fn bytes_lost(&self) -> f64 {
        self.lost
    }

    /// Loss events.
    pub fn loss_events(&self) -> usize {
        self.losses.len()
    }

    /// The statistics of its delays.
    pub fn estimate(&mut self, now: Time) -> Option<Estimate> {
        self.estimator.estimate(now)
    }
}

impl<C: Controller> Watched<C> {
    /// Watches from the first acknowledgement on.
    pub fn new(inside: C, config: BottleneckConfig) -> Self {
        Self {
            inside,
            config,
            since: None,
            records: Vec::new(),
        }
    }

    /// Forgets what it has seen: from now on.
    pub fn restart(&mut self, now: Time) {
        self.since = Some(now);
        for record in self.records.iter_mut().flatten() {
            *record = Self::record(&self.config, record.size);
        }
    }

    /// What was seen of a path.
    pub fn path(&mut self, slot: Slot) -> Option<&mut PathRecord> {
        self.records.get_mut(slot.0)?.as_mut()
    }

    /// The group of each of these paths, as of now, numbered from 0: paths that share a bottleneck
    /// share a number.
    pub fn groups(&mut self, now: Time, slots: &[Slot]) -> Vec<usize> {
        let span = self.since.map_or(Duration::ZERO, |since| now.since(since));
        let records: Vec<PathRecord> = slots
            .iter()
            .map(|slot| match self.path(*slot) {
                Some(record) => record.clone(),
                None => Self::record(&self.config, 0.0),
            })
            .collect();
        let mut records = records;
        for record in &mut records {
            record.estimator.estimate(now);
        }
        let means: Vec<Vec<(u64, f64)>> = records
            .iter()
            .map(|record| record.estimator.means().collect())
            .collect();
        let observed: Vec<Observed<'_>> = records
            .iter()
            .zip(&means)
            .map(|(record, means)| Observed {
                means,
                losses: &record.losses,
            })
            .collect();
        groups(&self.config, span, &observed)
    }

    fn record(config: &BottleneckConfig, size: f64) -> PathRecord {
        PathRecord {
            estimator: Estimator::new(*config),
            losses: LossLog::default(),
            size,
            acked: 0.0,
            lost: 0.0,
        }
    }

    fn note_lost(&mut self, loss: &Loss) -> Option<(&mut LossLog, LossInterval)> {
        let interval = LossInterval::new(loss.sent, loss.now);
        let record = self.path(loss.slot)?;
        record.estimator.on_lost(loss.now, loss.packets);
        record.lost += loss.packets * record.size;
        Some((&mut record.losses, interval))
    }
}

impl<C: Controller> Controller for Watched<C> {
    fn name(&self) -> &'static str {
        self.inside.name()
    }

    fn check_paths(&self, count: usize) -> Result<(), String> {
        self.inside.check_paths(count)
    }

    fn rate_based(&self) -> bool {
        self.inside.rate_based()
    }

    fn add_path(&mut self, path: NewPath) -> Slot {
        let slot = self.inside.add_path(path);
        if self.records.len() <= slot.0 {
            self.records.resize_with(slot.0 + 1, || None);
        }
        self.records[slot.0] = Some(Self::record(&self.config, path.packet_size.into()));
        slot
    }

    fn remove_path(&mut self, slot: Slot) {
        self.inside.remove_path(slot);
        if let Some(record) = self.records.get_mut(slot.0) {
            *record = None;
        }
    }

    fn set_packet_size(&mut self, slot: Slot, bytes: u32) {
        self.inside.set_packet_size(slot, bytes);
        if let Some(record) = self.path(slot) {
            record.size = bytes.into();
        }
    }

    fn set_window(&mut self, slot: Slot, window: f64, target: Target) -> bool {
        self.inside.set_window(slot, window, target)
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.inside.on_ack(ack);
        self.since.get_or_insert(ack.now);
        if let Some(record) = self.path(ack.slot) {
            record
                .estimator
                .on_acked(ack.now, ack.packets, ack.one_way());
            record.acked += ack.packets * record.size;
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        self.inside.on_loss(loss);
        if let Some((log, interval)) = self.note_lost(loss) {
            log.on_loss(interval);
        }
    }

    fn on_further_loss(&mut self, loss: &Loss) {
        self.inside.on_further_loss(loss);
        if let Some((log, interval)) = self.note_lost(loss) {
            log.on_further_loss(interval);
        }
    }

    fn on_packet_lost(&mut self, packet: &LostPacket) {
        self.inside.on_packet_lost(packet);
    }

    fn on_marked(&mut self, slot: Slot, packets: f64) {
        self.inside.on_marked(slot, packets);
    }

    fn on_ecn(&mut self, loss: &Loss) {
        self.inside.on_ecn(loss);
        if let Some((log, interval)) = self.note_lost(loss) {
            log.on_loss(interval);
        }
    }

    fn on_timeout(&mut self, slot: Slot, now: Time) {
        self.inside.on_timeout(slot, now);
    }

    fn on_spurious_loss(&mut self, slot: Slot, now: Time) {
        self.inside.on_spurious_loss(slot, now);
    }

    fn on_round_end(&mut self, round: &Round) {
        self.inside.on_round_end(round);
    }

    fn window(&self, slot: Slot) -> f64 {
        self.inside.window(slot)
    }

    fn in_slow_start(&self, slot: Slot) -> bool {
        self.inside.in_slow_start(slot)
    }

    fn pacing_rate(&self, slot: Slot) -> Option<f64> {
        self.inside.pacing_rate(slot)
    }

    fn verdict(&self, slot: Slot) -> PathVerdict {
        self.inside.verdict(slot)
    }

    fn group(&self, slot: Slot) -> Option<usize> {
        self.inside.group(slot)
    }
}

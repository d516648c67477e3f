//! The packet level: every packet of every flow over links with queues, on an integer clock.
//!
//! Flows are the transport's own subflow senders and controllers (`manyway-control`), with the
//! payload left out. The same seed gives the same result, bit for bit.

pub(crate) mod build;
mod event_queue;
mod fluid;
mod lifetimes;
mod managed;
pub(crate) mod meter;
mod network;
mod receiver;
pub(crate) mod recorder;
mod result;
mod ring;
mod sending;
mod socket;
mod source;
mod timer;
mod transit;
mod view;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use manyway_control::laws::Visitor;
use manyway_control::{AckInfo, Controller, Outcome, Sender};
use manyway_network::Link;
use manyway_scenario::Flow;
use manyway_units::Time;

use crate::trace::{Observer, Tap};
use event_queue::{Timers, key_after, time_of};
use fluid::Fluids;
use network::Network;
use receiver::Reaction;
use recorder::Recorder;
use sending::{One, Sending};
use source::{FlowState, Source, Subflow};
use transit::{Stage, Transit};
use view::Parts;

pub use build::SimulationError;
pub use result::{FlowResult, LinkResult, RunResult, Series, SubflowResult, TransferResult};

/// So many events are handled between two looks at the stop flag.
const BATCH: u64 = 1 << 16;

/// An acknowledgement on its way to the sender and its controller.
struct Acknowledged<'a> {
    sender: &'a mut Sender<bool>,
    now: Time,
    ack: AckInfo<'a>,
    outcome: &'a mut Outcome<bool>,
}

impl Visitor for Acknowledged<'_> {
    /// The window after it, packets.
    type Output = f64;

    fn visit<C: Controller>(self, controller: &mut C) -> f64 {
        let taken = self
            .sender
            .on_ack(self.now, self.ack, controller, self.outcome);
        debug_assert_eq!(taken, Ok(()));
        controller.window(self.sender.slot())
    }
}

/// One run of an experiment.
#[derive(Debug)]
pub struct Simulation<'a> {
    now: Time,
    end: Time,
    seed: u64,
    network: Network,
    timers: Timers,
    sources: Vec<Source>,
    subflows: Vec<Subflow>,
    flows: Cow<'a, [Flow]>,
    /// Flows that nobody follows packet by packet.
    fluids: Option<Box<Fluids>>,
    outcome: Outcome<bool>,
    recorder: Recorder,
    events: u64,
}

impl Simulation<'_> {
    /// Runs to the end, or until `stop` is set, and says what was measured.
    pub fn run(&mut self, stop: &AtomicBool) -> RunResult {
        self.run_with(stop, |_| {})
    }

    /// [`Simulation::run`], telling the share of the time that is done every now and then.
    pub fn run_with(&mut self, stop: &AtomicBool, mut progress: impl FnMut(f64)) -> RunResult {
        let mut complete = true;
        while self.step(self.end) {
            progress(self.now.as_secs_f64() / self.end.as_secs_f64().max(1e-9));
            let failed = self
                .network
                .tap
                .as_ref()
                .is_some_and(|tap| tap.has_failed());
            if failed || stop.load(Ordering::Relaxed) {
                complete = false;
                break;
            }
        }
        self.result(complete)
    }

    /// [`Simulation::run_with`], telling `observer` what happens to each packet.
    ///
    /// # Errors
    /// What keeps the observer from writing.
    pub fn run_observed(
        &mut self,
        stop: &AtomicBool,
        progress: impl FnMut(f64),
        observer: Box<dyn Observer>,
    ) -> io::Result<RunResult> {
        let tap = self.network.tap.take().map(|tap| *tap);
        let links = self.network.links.len();
        self.network.tap = Some(Box::new(Tap::observed(tap, links, observer)));
        let result = self.run_with(stop, progress);
        let now = self.now;
        self.network
            .tap
            .as_mut()
            .map_or(Ok(()), |tap| tap.end(now))?;
        Ok(result)
    }

    /// The clock.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The links of the topology.
    pub fn links(&self) -> &[Link] {
        &self.network.links
    }

    /// Handles a batch of events, those at `until` included; false if there are no more.
    fn step(&mut self, until: Time) -> bool {
        // At the end of all time there is nothing.
        let end = key_after(until.min(Time::from_nanos(u64::MAX - 1)));
        self.timers.end_at(end);
        for done in 0..BATCH {
            let timer = self.timers.next();
            if let Some((at, item)) = self.network.under_way.pop_before(timer) {
                self.now = at;
                self.on_packet(item);
            } else if timer < end {
                self.now = time_of(timer);
                let id = self.timers.pop();
                self.on_timer(self.now, id);
            } else {
                self.now = self.now.max(until);
                self.events += done;
                return false;
            }
        }
        self.events += BATCH;
        true
    }

    #[inline(always)]
    fn on_packet(&mut self, item: Transit) {
        match item.stage() {
            Stage::Forward => self.network.forward(self.now, item),
            Stage::Acknowledged => self.on_acknowledged(item),
            Stage::Receive => self.on_received(item),
            Stage::Backward => self.network.backward(self.now, item),
            Stage::Returned => self.on_returned(item),
            Stage::Decide => self.network.decide(self.now, item.subflow()),
        }
    }

    /// The acknowledgement of one packet arrives.
    #[inline(always)]
    fn on_acknowledged(&mut self, item: Transit) {
        let one = One {
            number: item.number,
            received: self.network.received_at(item.subflow(), self.now),
        };
        let mut sending = self.sending(item.subflow());
        let unmarked = !item.is_marked() && sending.subflow.marks == 0;
        if !(unmarked && sending.acknowledge_oldest(one)) {
            self.on_acknowledged_any(item);
        }
    }

    /// [`Simulation::on_acknowledged`], whatever it acknowledges.
    #[inline(never)]
    fn on_acknowledged_any(&mut self, item: Transit) {
        let subflow = &mut self.subflows[item.subflow() as usize];
        subflow.marks += u64::from(item.is_marked());
        let ranges = [item.number..=item.number];
        let ack = AckInfo {
            largest: item.number,
            ranges: &ranges,
            delay: Duration::ZERO,
            ce_count: (subflow.marks > 0).then_some(subflow.marks),
            receive_time: Some(self.network.received_at(item.subflow(), self.now)),
            elsewhere: false,
        };
        self.outcome.clear();
        let source = &mut self.sources[subflow.source as usize];
        let Some(sender) = &mut subflow.sender else {
            return self.on_probe_answer(item.subflow(), &ranges);
        };
        let window = source.controller.show(Acknowledged {
            sender,
            now: self.now,
            ack,
            outcome: &mut self.outcome,
        });
        self.after_ack(item.subflow(), window);
    }

    /// A recorded acknowledgement arrives.
    #[inline(always)]
    fn on_returned(&mut self, item: Transit) {
        let record = self.network.record(item.number);
        let plain = record.marks == 0 && record.delay.is_zero();
        let one = record.received.filter(|_| plain).map(|received| One {
            number: record.largest().unwrap_or(0),
            received,
        });
        let mut sending = self.sending(item.subflow());
        match one.is_some_and(|one| !sending.learns() && sending.acknowledge_oldest(one)) {
            true => self.network.release(item.number),
            false => self.on_returned_any(item),
        }
    }

    /// [`Simulation::on_returned`], whatever it says.
    #[inline(never)]
    fn on_returned_any(&mut self, item: Transit) {
        let subflow = &mut self.subflows[item.subflow() as usize];
        let record = self.network.record(item.number);
        let largest = record.largest().unwrap_or(0);
        let ack = AckInfo {
            largest,
            ranges: &record.ranges,
            delay: record.delay,
            ce_count: (record.marks > 0).then_some(record.marks),
            receive_time: record.received,
            elsewhere: false,
        };
        self.outcome.clear();
        let source = &mut self.sources[subflow.source as usize];
        let Some(sender) = &mut subflow.sender else {
            let ranges = record.ranges.clone();
            self.network.release(item.number);
            return self.on_probe_answer(item.subflow(), &ranges);
        };
        let window = source.controller.show(Acknowledged {
            sender,
            now: self.now,
            ack,
            outcome: &mut self.outcome,
        });
        self.network.release(item.number);
        self.after_ack(item.subflow(), window);
    }

    /// A data packet arrives at a receiver that keeps state.
    fn on_received(&mut self, item: Transit) {
        let Some(receiver) = &mut self.subflows[item.subflow() as usize].receiver else {
            return;
        };
        match receiver.on_packet(self.now, item.number, item.is_marked()) {
            Reaction::Acknowledge => {
                let now = self.now;
                let write = |record: &mut _| receiver.acknowledge(now, record);
                self.network.acknowledge(now, item.subflow(), write);
            }
            Reaction::Hold(at) => self.sending(item.subflow()).schedule(at),
            Reaction::Wait => {}
        }
    }

    /// The sender has taken an acknowledgement, and the window is this now: counts, and sends what
    /// may be sent.
    #[inline(always)]
    fn after_ack(&mut self, index: u32, window: f64) {
        let subflow = &mut self.subflows[index as usize];
        if !self.outcome.acked.is_empty() {
            subflow.note_rtt(self.now);
        }
        let before = subflow.meter.current();
        subflow.meter.window(self.now, window);
        if self.settle(index) {
            self.after_events(index, before);
            self.sending(index).arm();
        } else {
            let mut sending = self.sending(index);
            sending.pump();
            sending.arm();
        }
    }

    /// The acknowledgement has brought more than a few packets to count: a loss, or there is a path
    /// manager to see it.
    fn after_events(&mut self, index: u32, before: f64) {
        let owner = self.subflows[index as usize].source as usize;
        let lost = !self.outcome.lost.is_empty();
        if lost && self.sources[owner].finite {
            self.pump_flow(owner);
        } else {
            self.sending(index).pump();
        }
        if self.sources[owner].managed.is_some() {
            self.observe(index, before, lost);
        }
    }

    /// Counts what was acknowledged and puts back what was lost; true if there is more to do about
    /// it.
    #[inline(always)]
    fn settle(&mut self, index: u32) -> bool {
        let subflow = &mut self.subflows[index as usize];
        let source = &self.sources[subflow.source as usize];
        let known = self.outcome.lost.is_empty() && self.outcome.spurious == 0;
        if source.plain && known && source.state == FlowState::Active {
            let data = self.outcome.acked.iter().filter(|(_, data)| *data);
            subflow.meter.delivered(data.count() as u64);
            return false;
        }
        self.settle_any(index)
    }

    /// [`Simulation::settle`] where it takes more than to count.
    #[inline(never)]
    fn settle_any(&mut self, index: u32) -> bool {
        let subflow = &mut self.subflows[index as usize];
        let source = &mut self.sources[subflow.source as usize];
        let abandoned = subflow.abandoned;
        let count = |packets: &[(u64, bool)]| match packets {
            [] => 0,
            [(number, data)] => u64::from(*data && *number >= abandoned),
            _ => {
                let live = packets
                    .iter()
                    .filter(|(number, data)| *data && *number >= abandoned);
                live.count() as u64
            }
        };
        let (acked, lost) = (count(&self.outcome.acked), count(&self.outcome.lost));
        let mut delivered = source.on_acked(self.now, acked);
        if abandoned > 0 {
            let late = self.outcome.acked.iter();
            let stale = subflow.stale;
            let late = late.filter(|(number, data)| *data && (stale..abandoned).contains(number));
            delivered += source.on_acked_late(self.now, late.count() as u64);
        }
        if source.unresponsive {
            // Nothing of it is sent again: what was overtaken brings data, too.
            delivered += source.on_acked(self.now, self.outcome.spurious);
        }
        subflow.meter.delivered(delivered);
        if lost > 0 {
            source.on_lost(lost);
        }
        let more = lost > 0 || source.managed.is_some();
        let owner = subflow.source as usize;
        if source.finished == Some(self.now) {
            self.end_meters(owner);
        } else {
            self.schedule_again(owner);
        }
        more
    }

    /// A subflow, with all that it takes to send.
    #[inline(always)]
    fn sending(&mut self, index: u32) -> Sending<'_> {
        let subflow = &mut self.subflows[index as usize];
        Sending {
            now: self.now,
            index,
            source: &mut self.sources[subflow.source as usize],
            subflow,
            network: &mut self.network,
            timers: &mut self.timers,
        }
    }

    /// [`Sending::pump`], then [`Sending::arm`].
    #[inline(never)]
    fn pump(&mut self, index: u32) {
        let mut sending = self.sending(index);
        sending.pump();
        sending.arm();
    }

    /// [`Sending::send`].
    #[inline(never)]
    fn send(&mut self, index: u32, data: bool) {
        self.sending(index).send(data);
    }

    fn schedule_source(&mut self, index: usize, at: Time) {
        let source = &mut self.sources[index];
        if at < source.timer {
            source.timer = at;
            let id = self.subflows.len() + index;
            self.timers.schedule(at.max(self.now), id as u32);
        }
    }

    fn recorder_id(&self) -> u32 {
        (self.subflows.len() + self.sources.len()) as u32
    }

    /// Sends on all paths of a flow what may be sent, fastest path first.
    fn pump_flow(&mut self, index: usize) {
        let range = self.sources[index].subflows.clone();
        if range.len() == 1 {
            return self.pump(range.start);
        }
        let mut order: Vec<u32> = match &self.sources[index].managed {
            Some(managed) => managed.open.clone(),
            None => range.collect(),
        };
        let rtt = |&index: &u32| {
            let sender = self.subflows[index as usize].sender.as_ref();
            sender.map(|sender| sender.rtt().smoothed())
        };
        order.sort_by_key(rtt);
        for index in order {
            self.refresh(index);
            self.pump(index);
        }
    }

    /// Reads the window again, which may have changed by what happened on another path.
    fn refresh(&mut self, index: u32) {
        let subflow = &mut self.subflows[index as usize];
        if let Some(sender) = &subflow.sender {
            let controller = &self.sources[subflow.source as usize].controller;
            subflow
                .meter
                .window(self.now, controller.window(sender.slot()));
        }
    }

    fn result(&mut self, complete: bool) -> RunResult {
        let mut parts = Parts {
            subflows: &mut self.subflows,
            sources: &self.sources,
            fluids: self.fluids.as_deref(),
            links: &self.network.links,
        };
        self.recorder.finish(self.now, &mut parts);
        RunResult {
            seed: self.seed,
            flows: self.recorder.flows(&self.flows, &parts),
            links: self.recorder.links(self.network.tap.as_deref()),
            series: self.recorder.series(&self.flows),
            complete,
        }
    }
}

//! Flows start, pause and end; subflows join and leave.

use manyway_control::{Controller, Sender};
use manyway_scenario::Lifetime;
use manyway_units::Time;

use super::Simulation;
use super::source::FlowState;

impl Simulation<'_> {
    /// A flow starts, stops, or its application has produced something.
    pub(super) fn on_source_timer(&mut self, at: Time, index: usize) {
        let source = &mut self.sources[index];
        source.timer = Time::MAX;
        if source.state == FlowState::Waiting {
            source.state = FlowState::Active;
            self.start(index);
        }
        let source = &mut self.sources[index];
        if at >= source.stop {
            source.state = FlowState::Stopped;
            source.backlog = 0;
            self.end_meters(index);
        }
        let source = &mut self.sources[index];
        if source.state == FlowState::Active {
            if source.begins_again(at) {
                self.begin_again(index);
            }
            let source = &mut self.sources[index];
            let (more, stop) = (source.produce(at), source.stop);
            if stop < Time::MAX {
                self.schedule_source(index, stop);
            }
            if let Some(more) = more {
                self.schedule_source(index, more);
            }
            self.pump_flow(index);
            self.manage(index, None, None);
            self.schedule_again(index);
        }
    }

    /// The next transfer begins: what is under way still is of the last one, and doesn't count.
    #[cold]
    fn begin_again(&mut self, index: usize) {
        if !self.sources[index].finite {
            return;
        }
        for subflow in self.sources[index].subflows.clone() {
            let subflow = &mut self.subflows[subflow as usize];
            if let Some(sender) = &subflow.sender {
                subflow.stale = sender.next_packet_number();
                subflow.abandoned = subflow.abandoned.max(subflow.stale);
            }
        }
    }

    /// A flow that pauses goes on when its pause is over.
    #[inline]
    pub(super) fn schedule_again(&mut self, index: usize) {
        if let Some(at) = self.sources[index].resumes() {
            self.schedule_source(index, at);
        }
    }

    /// A flow is over: what happens to its subflows from now on doesn't count.
    #[cold]
    pub(super) fn end_meters(&mut self, owner: usize) {
        for index in self.sources[owner].subflows.clone() {
            self.subflows[index as usize].meter.end(self.now);
        }
    }

    /// The flow starts: its subflows join now or later, or when a path manager opens them.
    pub(super) fn start(&mut self, index: usize) {
        let subflows = self.sources[index].subflows.clone();
        if let Some(managed) = &mut self.sources[index].managed {
            managed.open.push(subflows.start);
            for candidate in subflows.clone().skip(1) {
                self.subflows[candidate as usize].meter.close(self.now);
            }
            return self.join(subflows.start);
        }
        for subflow in subflows {
            let from = self.subflows[subflow as usize].lifetime.from;
            if from <= self.now {
                self.join(subflow);
            } else {
                self.sending(subflow).schedule(from);
            }
        }
    }

    /// The subflow joins, for the first time or once more.
    pub(super) fn join(&mut self, index: u32) {
        let subflow = &mut self.subflows[index as usize];
        let source = &mut self.sources[subflow.source as usize];
        if let Some(sender) = &mut subflow.sender {
            sender.reopen(self.now, &mut source.controller);
        } else {
            let config = self.flows[subflow.source as usize].sender;
            let mut sender = Sender::new(config, self.now, &mut source.controller);
            if let Some(relay) = &subflow.relay {
                sender = sender.starting_at(relay.probes_sent());
            }
            subflow.sender = Some(sender);
        }
        let Some(sender) = &mut subflow.sender else {
            return;
        };
        if let Some(rtt) = subflow.relay.as_ref().and_then(|relay| relay.probed_rtt()) {
            sender.seed_rtt(rtt);
        }
        let window = source.controller.window(sender.slot());
        subflow.meter.join(self.now, window);
        if let Some(until) = subflow.lifetime.until {
            self.sending(index).schedule(until);
        }
    }

    /// Lets the subflow join or leave, if it is time to.
    pub(super) fn on_lifetime(&mut self, index: u32) {
        let subflow = &mut self.subflows[index as usize];
        if subflow.relay.is_some() {
            return;
        }
        let source = &mut self.sources[subflow.source as usize];
        let Lifetime { from, until } = subflow.lifetime;
        if subflow.sender.is_none() {
            if source.state == FlowState::Active && from <= self.now {
                self.join(index);
            }
            return;
        }
        let Some(until) = until else {
            return;
        };
        if until > self.now {
            return self.sending(index).schedule(until);
        }
        subflow.lifetime.until = None;
        let owner = subflow.source as usize;
        self.leave(index);
        self.pump_flow(owner);
    }

    /// The subflow leaves: its share of the coupled window goes to the others, and so does the data
    /// it had under way.
    pub(super) fn leave(&mut self, index: u32) {
        let subflow = &mut self.subflows[index as usize];
        let source = &mut self.sources[subflow.source as usize];
        let Some(sender) = &mut subflow.sender else {
            return;
        };
        let open = sender.outstanding_from(subflow.abandoned);
        let open = open.filter(|(_, sent)| sent.payload).count();
        sender.retire(&mut source.controller).for_each(drop);
        subflow.meter.end(self.now);
        source.on_lost(open as u64);
    }
}

//! What happens when a timer fires.

use manyway_control::{Controller, TimerEvent};
use manyway_units::Time;

use super::Simulation;
use super::view::Parts;

impl Simulation<'_> {
    pub(super) fn on_timer(&mut self, at: Time, id: u32) {
        if id == self.fluids_id() {
            return self.on_fluids(at);
        }
        let id = id as usize;
        if id < self.subflows.len() {
            self.on_subflow_timer(at, id as u32);
        } else if id < self.subflows.len() + self.sources.len() {
            self.on_source_timer(at, id - self.subflows.len());
        } else {
            let mut parts = Parts {
                subflows: &mut self.subflows,
                sources: &self.sources,
                fluids: self.fluids.as_deref(),
                links: &self.network.links,
            };
            let next = self.recorder.on_time(at, &mut parts);
            if let Some(next) = next {
                let id = self.recorder_id();
                self.timers.schedule(next, id);
            }
        }
    }

    fn on_subflow_timer(&mut self, at: Time, index: u32) {
        let subflow = &mut self.subflows[index as usize];
        if subflow.timer <= at {
            subflow.timer = Time::MAX;
        }
        self.on_lifetime(index);
        self.on_receiver_timer(index);
        self.on_sender_timer(index);
        self.pump(index);
    }

    fn on_receiver_timer(&mut self, index: u32) {
        let now = self.now;
        if let Some(receiver) = &mut self.subflows[index as usize].receiver {
            if receiver.is_due(now) {
                let write = |record: &mut _| receiver.acknowledge(now, record);
                self.network.acknowledge(now, index, write);
            } else if let Some(at) = receiver.deadline() {
                self.sending(index).schedule(at);
            }
        }
    }

    fn on_sender_timer(&mut self, index: u32) {
        let subflow = &mut self.subflows[index as usize];
        let Some(sender) = &mut subflow.sender else {
            return;
        };
        if sender.timeout().is_none_or(|at| at > self.now) {
            return;
        }
        self.outcome.clear();
        let source = &mut self.sources[subflow.source as usize];
        let event = sender.on_timeout(self.now, &mut source.controller, &mut self.outcome);
        let before = subflow.meter.current();
        let window = source.controller.window(sender.slot());
        subflow.meter.window(self.now, window);
        let owner = subflow.source as usize;
        if self.sources[owner].unresponsive {
            self.settle(index);
            return;
        }
        match event {
            TimerEvent::Nothing => {}
            TimerEvent::LossDetected => {
                self.settle(index);
                self.pump_flow(owner);
                self.observe(index, before, true);
            }
            TimerEvent::Expired => {
                self.settle(index);
                if self.on_silence(index) {
                    return;
                }
                self.pump_flow(owner);
                // A path that data is kept off finds out by itself that it works again.
                let subflow = &self.subflows[index as usize];
                let sender = subflow.sender.as_ref();
                let empty = sender.is_some_and(|sender| sender.packets_in_flight() == 0);
                if empty && self.sources[owner].is_live() {
                    self.send(index, false);
                }
            }
            TimerEvent::Probe { .. } => {
                if self.on_silence(index) {
                    return;
                }
                self.abandon(index);
                // Data that other paths could carry doesn't go where it might be stuck.
                let source = &mut self.sources[owner];
                let data = source.backlog > 0 && !source.avoids_silent_paths();
                source.backlog -= u64::from(data);
                // An empty probe goes last: it must not take the last place in a queue that the
                // data needs, time after time.
                if data {
                    self.send(index, true);
                }
                self.pump_flow(owner);
                if !data {
                    self.send(index, false);
                }
            }
        }
    }

    /// A finite transfer doesn't wait for a path that has fallen silent: its data is sent again on
    /// another.
    fn abandon(&mut self, index: u32) {
        let subflow = &mut self.subflows[index as usize];
        let source = &mut self.sources[subflow.source as usize];
        let Some(sender) = &subflow.sender else {
            return;
        };
        if source.avoids_silent_paths() {
            let stuck = sender.outstanding_from(subflow.abandoned);
            let stuck = stuck.filter(|(_, sent)| sent.payload).count() as u64;
            subflow.abandoned = sender.next_packet_number();
            source.on_lost(stuck);
        }
    }
}

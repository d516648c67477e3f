//! Sockets for an application outside the simulation, which writes packet by packet.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use manyway_scenario::Experiment;
use manyway_units::Time;

use super::{Simulation, SimulationError};

impl Simulation<'static> {
    /// [`Simulation::new`] with flows that have no data of their own: they send what the caller
    /// writes ([`write`](Self::write)).
    ///
    /// # Errors
    /// [`SimulationError`] if a link can't work, or a flow or a path names something that isn't
    /// there.
    pub fn with_empty_sockets(experiment: &Experiment, seed: u64) -> Result<Self, SimulationError> {
        let flows = Cow::Owned(experiment.flows.clone());
        let mut simulation = Self::build(experiment, flows, seed)?;
        for source in &mut simulation.sources {
            source.empty();
        }
        Ok(simulation)
    }
}

impl Simulation<'_> {
    /// Goes on to `until`, with all that happens at that moment; false if it was stopped on the
    /// way.
    pub fn advance(&mut self, until: Time, stop: &AtomicBool) -> bool {
        while self.step(until) {
            if stop.load(Ordering::Relaxed) {
                return false;
            }
        }
        true
    }

    /// Puts packets of data into a flow's socket; they leave as the window allows. Nothing happens
    /// if the flow hasn't started, or is over.
    ///
    /// # Panics
    /// If there is no such flow.
    pub fn write(&mut self, flow: usize, packets: u64) {
        if self.sources[flow].is_live() {
            self.sources[flow].backlog += packets;
            self.pump_flow(flow);
        }
    }

    /// Packets in a flow's socket that wait to be sent, lost ones included.
    ///
    /// # Panics
    /// If there is no such flow.
    pub fn unsent(&self, flow: usize) -> u64 {
        self.sources[flow].backlog
    }

    /// Packets of a flow's data that have been acknowledged.
    ///
    /// # Panics
    /// If there is no such flow.
    pub fn acknowledged(&mut self, flow: usize) -> u64 {
        let subflows = self.sources[flow].subflows.clone();
        let subflows = &mut self.subflows[subflows.start as usize..subflows.end as usize];
        let now = self.now;
        subflows
            .iter_mut()
            .map(|subflow| subflow.meter.read(now).delivered)
            .sum()
    }
}

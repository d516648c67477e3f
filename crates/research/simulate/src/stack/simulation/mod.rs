//! The stack level: a scenario's flows as production sessions over the scenario's links.
//!
//! Each flow is a connection from a client, which sends, to a server, which reads and compares
//! every byte: handshake, sealing, streams, scheduler and congestion control are the transport's
//! own. A flow of several paths is one connection with a socket of the client's for each. A path
//! through a relay has a production relay behind its last link, of which the client learns as from
//! a registry. The same seed gives the same result, bit for bit.

mod build;
mod flow;
mod registry;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use manyway_network::Link;
use manyway_session::CloseReason;
use manyway_units::Time;

use super::node::Node;
use crate::World;
use crate::packet::recorder::Recorder;
use crate::packet::{RunResult, SimulationError};
use crate::trace::{ObservedError, Observer, Tap};
use build::{Action, Agenda};
use flow::{Parts, Running, Subflow};

/// Windows and round-trip times are looked at so often, and what was read is shared out among the
/// paths on which it arrived.
const TICK: Duration = Duration::from_millis(10);

/// One run of an experiment.
#[derive(Debug)]
pub struct Simulation {
    seed: u64,
    end: Time,
    world: World<Node>,
    agenda: Agenda,
    flows: Vec<Running>,
    subflows: Vec<Subflow>,
    /// The ends of the routes over links: twice the number of the subflow, plus one on the way
    /// back.
    routes: Vec<((SocketAddr, SocketAddr), u32)>,
    scenario: Vec<manyway_scenario::Flow>,
    recorder: Recorder,
}

/// A run that can't be, or that shows a fault of the transport.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StackError {
    /// The experiment can't be run at all.
    #[error(transparent)]
    Experiment(#[from] SimulationError),
    /// A session can't be what the flow wants.
    #[error("{name}: {problem}")]
    Session {
        /// The flow's name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A connection ended before its flow.
    #[error("{name}: its connection ended at {at_s} s: {reason}")]
    Ended {
        /// The flow's name.
        name: String,
        /// When, in seconds.
        at_s: f64,
        /// Why.
        reason: CloseReason,
    },
    /// A transfer of files failed.
    #[error("{name}: its transfer failed: {problem}")]
    Transfer {
        /// The flow's name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// The server read something else than the client wrote.
    #[error("{name}: byte {offset} isn't what was sent")]
    Corrupt {
        /// The flow's name.
        name: String,
        /// The first wrong byte.
        offset: u64,
    },
}

impl Simulation {
    /// Runs to the end, or until `stop` is set, and says what was measured.
    ///
    /// # Errors
    /// [`StackError`] if a session does what it must not.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<RunResult, StackError> {
        self.run_with(stop, |_| {})
    }

    /// [`Simulation::run`], telling the share of the time that is done every now and then.
    ///
    /// # Errors
    /// As of [`Simulation::run`].
    pub fn run_with(
        &mut self,
        stop: &AtomicBool,
        mut progress: impl FnMut(f64),
    ) -> Result<RunResult, StackError> {
        let mut complete = true;
        self.attend()?;
        while self.world.now() < self.end {
            progress(self.world.now().as_secs_f64() / self.end.as_secs_f64());
            let failed = self.world.tap().is_some_and(Tap::has_failed);
            if failed || stop.load(Ordering::Relaxed) {
                complete = false;
                break;
            }
            let due = self.agenda.next().into_iter().chain(self.recorder.next());
            let next = due.fold(self.world.now() + TICK, Time::min);
            self.world.run_until(next.min(self.end));
            self.attend()?;
        }
        Ok(self.result(complete))
    }

    /// [`Simulation::run_with`], telling `observer` what happens to each packet.
    ///
    /// # Errors
    /// As of [`Simulation::run`], and what keeps the observer from writing.
    pub fn run_observed(
        &mut self,
        stop: &AtomicBool,
        progress: impl FnMut(f64),
        observer: Box<dyn Observer>,
    ) -> Result<RunResult, ObservedError<StackError>> {
        let tap = Tap::observed(self.world.take_tap(), self.recorder.links_count(), observer);
        self.world.set_tap(tap, &self.routes, build::number);
        let result = self.run_with(stop, progress).map_err(ObservedError::Run)?;
        let now = self.world.now();
        if let Some(mut tap) = self.world.take_tap() {
            tap.end(now).map_err(ObservedError::Write)?;
        }
        Ok(result)
    }

    /// A hash over every datagram sent and received and its time: equal for equal runs.
    pub fn trace_hash(&self) -> u64 {
        self.world.trace_hash()
    }

    /// The most bytes that a flow's receiver has had in its buffer so far, holes included; 0 before
    /// its connection.
    pub fn most_unread(&self, flow: usize) -> u64 {
        self.flows
            .get(flow)
            .map_or(0, |flow| flow.most_unread(&self.world))
    }

    /// The links of the topology, then private ones.
    pub fn links(&self) -> &[Link] {
        self.world.links()
    }

    /// Looks at everything, and does what is due.
    fn attend(&mut self) -> Result<(), StackError> {
        for flow in &mut self.flows {
            flow.observe(&mut self.world, &mut self.subflows)?;
        }
        let now = self.world.now();
        let mut parts = Parts {
            flows: &self.flows,
            subflows: &mut self.subflows,
            links: self.world.links(),
        };
        self.recorder.on_time(now, &mut parts);
        while let Some(action) = self.agenda.due(now) {
            self.act(action)?;
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), StackError> {
        let world = &mut self.world;
        match action {
            Action::Join(subflow) => {
                let subflow = &mut self.subflows[subflow];
                self.flows[subflow.flow].join(world, subflow)
            }
            Action::Leave(subflow) => {
                let subflow = &mut self.subflows[subflow];
                self.flows[subflow.flow].leave(world, subflow);
                Ok(())
            }
            Action::Stop(flow) => {
                self.flows[flow].stop(world, &mut self.subflows);
                Ok(())
            }
        }
    }

    fn result(&mut self, complete: bool) -> RunResult {
        let mut parts = Parts {
            flows: &self.flows,
            subflows: &mut self.subflows,
            links: self.world.links(),
        };
        self.recorder.finish(self.world.now(), &mut parts);
        RunResult {
            seed: self.seed,
            flows: self.recorder.flows(&self.scenario, &parts),
            links: self.recorder.links(self.world.tap()),
            series: self.recorder.series(&self.scenario),
            complete,
        }
    }
}

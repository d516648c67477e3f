//! Groups of flows that the packet level takes for one fluid.

use manyway_control::laws::Fluid;
use manyway_network::{LinkConfig, Queue, Topology};

use super::{Checks, members, named, resolve};
use crate::experiment::{Experiment, Flow};
use crate::fault::Fault;
use crate::file::{self, File};
use crate::quantity::Name;
use crate::tree::Key;

/// Resolves a file as [`experiment`](super::experiment) does, for the packet level: groups that are
/// a fluid are one flow each.
pub(crate) fn experiment_of_packets(file: &File) -> Result<Experiment, Vec<Fault>> {
    resolve(
        file,
        Checks {
            fluids: true,
            ..Checks::default()
        },
    )
}

impl Checks {
    /// Whether the group is one fluid.
    pub(super) fn is_fluid(&self, flow: &file::Flow) -> bool {
        self.fluids && flow.fluid == Some(true)
    }

    /// How many flows the group is here.
    pub(super) fn entries(&self, flow: &file::Flow, duration: std::time::Duration) -> u32 {
        match self.is_fluid(flow) {
            true => flow.count.unwrap_or(1).min(1),
            false => members(flow, duration),
        }
    }

    /// What a fluid can't be, and the links that can't carry one.
    pub(super) fn check_fluid(
        &mut self,
        name: &Name,
        group: &file::Flow,
        (flow, topology): (&Flow, &Topology),
    ) {
        let key = named("flows", name);
        let wrong = [
            ("size", group.size.is_some(), "can't have transfers"),
            ("pause", group.pause.is_some(), "can't have transfers"),
            (
                "rate",
                group.rate.is_some(),
                "can't have an application's rate",
            ),
            (
                "unresponsive",
                group.unresponsive == Some(true),
                "follows its law",
            ),
            (
                "stagger",
                group.stagger.is_some(),
                "starts as a whole, or evenly over `start_spread`",
            ),
            (
                "delay_step",
                group.delay_step.is_some(),
                "needs flows with equal delays",
            ),
            (
                "access",
                group.access.is_some(),
                "can't have links of its flows' own",
            ),
        ];
        for (part, _, message) in wrong.into_iter().filter(|(_, wrong, _)| *wrong) {
            let message = format!(
                "the fluid {:?} {message}: leave it out, or leave out `fluid`",
                name.as_str()
            );
            self.report(&key.join(part), message);
        }
        let law = flow.law.name();
        let problem = match flow.law.fluid() {
            Fluid::Window(_) => None,
            Fluid::Delay { .. } => Some(format!(
                "{law} acts on delay, and a fluid needs a law that acts on losses: choose one"
            )),
            Fluid::None { nearest } => Some(format!(
                "{law} has no fluid form, as it is more than an increase and a decrease by \
                 windows and round-trip times: take its nearest window law ({nearest})"
            )),
        };
        if let Some(problem) = problem {
            let message = format!("{problem}, or leave out `fluid`");
            self.report(&key.join("law"), message);
        }
        for path in flow.paths.iter().map(|path| &topology.paths[*path]) {
            let (there, back) = (path.links.iter(), path.reverse.iter());
            let links = there.map(|link| (link, true));
            for (&link, carries) in links.chain(back.map(|link| (link, false))) {
                let link = &topology.links[link];
                if let Some((part, needs)) = unfit(&link.config, carries) {
                    let key = Key::of(["links", &link.name]).join(part);
                    let message = format!(
                        "the fluid {:?} passes this link and needs {needs}: change that, or leave \
                         out {}.fluid",
                        name.as_str(),
                        named("flows", name),
                    );
                    self.report(&key, message);
                }
            }
        }
    }
}

/// The setting of a link with which a fluid can't pass, or its acknowledgements can't, and what
/// they need.
fn unfit(link: &LinkConfig, carries: bool) -> Option<(&'static str, &'static str)> {
    if !link.timetable.is_empty() {
        return Some(("timetable", "a constant rate and delay"));
    }
    if carries && link.policer.is_some() {
        return Some(("policer", "a link without a policer"));
    }
    let plain = matches!(link.queue, Queue::DropTail(_));
    (carries && !plain).then_some(("queue", "a DropTail queue"))
}

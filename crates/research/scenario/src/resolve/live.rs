//! What is different at the live level: flows are processes and connections of the kernel's, whose
//! transport is as it is.

use std::time::Duration;

use super::sessions::{refused, settle};
use super::{Checks, named, resolve};
use crate::experiment::{Experiment, Sealing};
use crate::fault::Fault;
use crate::file::{File, Flow, Law, PathUse, SlowStart};
use crate::quantity::{TimeSpan, WholePackets};

/// Bytes of a full packet.
const PACKET: u64 = 1500;

/// Resolves a file as [`experiment`](super::experiment) does, for flows that are processes and
/// connections of the kernel's.
pub(crate) fn experiment_live(file: &File) -> Result<Experiment, Vec<Fault>> {
    let mut file = file.clone();
    let mut faults = Vec::new();
    for (name, flow) in file.flows.iter_mut().flatten() {
        let key = named("flows", name);
        let kernel = matches!(flow.law, Some(Law::Kernel(_)));
        let own = match kernel {
            true => of_the_kernel(flow),
            false => refused(flow)
                .into_iter()
                .chain(of_the_program(flow))
                .collect(),
        };
        for (name, message) in own.into_iter().chain(everywhere(flow)) {
            let message = format!("{message}, or run another level");
            faults.push(Fault::new(&key.join(name), message));
        }
        if !kernel {
            settle(flow);
        }
    }
    let checks = Checks {
        kernel: true,
        ..Checks::default()
    };
    match resolve(&file, checks) {
        Ok(experiment) if faults.is_empty() => Ok(experiment),
        Ok(_) => Err(faults),
        Err(others) => Err(faults.into_iter().chain(others).collect()),
    }
}

type Refused = Vec<(&'static str, String)>;

/// What no live flow does.
fn everywhere(flow: &Flow) -> Refused {
    let mut refused = Refused::new();
    let mut refuse = |key, wrong: bool, message: &str| {
        if wrong {
            refused.push((key, message.to_owned()));
        }
    };
    let uses = flow.paths.iter().flatten();
    let timed = uses.filter(|used| used.start.is_some() || used.stop.is_some());
    refuse(
        "paths",
        timed.count() > 0,
        "live subflows come and go with their flow: write the paths' names only",
    );
    refuse(
        "ecn",
        flow.ecn == Some(true),
        "live links don't mark packets: leave it out",
    );
    refuse(
        "l4s",
        flow.l4s == Some(true),
        "live links don't mark packets: leave it out",
    );
    refuse(
        "class",
        flow.class.is_some_and(|class| class != 0),
        "live packets have no class: leave it out",
    );
    refuse(
        "fluid",
        flow.fluid == Some(true),
        "live flows are processes: leave it out",
    );
    let relayed = |used: &PathUse| used.relay == Some(true);
    refuse(
        "paths",
        flow.paths.iter().flatten().any(relayed),
        "live networks have no relays: leave relay out",
    );
    refuse(
        "relays",
        flow.relays.is_some(),
        "live networks have no relays: leave it out",
    );
    let paths = flow.paths.as_ref().map_or(0, Vec::len);
    refuse(
        "law",
        paths > 1 && flow.law.as_ref().is_some_and(Law::is_managed),
        "live networks have no relays, which this law manages: choose another law",
    );
    refuse(
        "files",
        flow.files.is_some(),
        "a live flow sends one file: leave it out",
    );
    refuse(
        "sealing",
        flow.sealing.is_some_and(|sealing| sealing != Sealing::Aead),
        "live packets are encrypted: write \"aead\", leave it out",
    );
    let random = "live flows don't draw it: write one value";
    let size = flow.size.as_ref();
    refuse(
        "size",
        size.is_some_and(|size| size.fixed().is_none()),
        random,
    );
    let stagger = flow.stagger.as_ref();
    refuse(
        "stagger",
        stagger.is_some_and(|stagger| stagger.fixed().is_none()),
        random,
    );
    refuse(
        "pause",
        flow.pause.is_some(),
        "a live flow makes one transfer: leave it out",
    );
    let size = flow.packet_size.map_or(PACKET, |size| size.0.bytes());
    refuse(
        "packet_size",
        size != PACKET,
        "live packets have up to 1500 B: write \"1500 B\", leave it out",
    );
    refused
}

/// What `manyway send` and `recv` have no options for.
fn of_the_program(flow: &Flow) -> Refused {
    let mut refused = Refused::new();
    let mut only = |key, differs: bool, value: &str| {
        if differs {
            let message = format!("`manyway send` has {value} only: write that, leave it out");
            refused.push((key, message));
        }
    };
    only("pacing", flow.pacing == Some(false), "true");
    only(
        "slow_start",
        flow.slow_start
            .is_some_and(|kind| kind != SlowStart::HyStart),
        "\"hystart\"",
    );
    only(
        "ack_every",
        flow.ack_every
            .is_some_and(|every| every != WholePackets(10)),
        "\"10 packets\"",
    );
    let usual = TimeSpan(Duration::from_millis(10));
    only(
        "ack_delay",
        flow.ack_delay.is_some_and(|delay| delay != usual),
        "\"10 ms\"",
    );
    refused
}

/// What the kernel decides itself.
fn of_the_kernel(flow: &Flow) -> Refused {
    let written = [
        ("pacing", flow.pacing.is_some()),
        ("slow_start", flow.slow_start.is_some()),
        ("growth", flow.growth.is_some()),
        ("recovery", flow.recovery.is_some()),
        ("loss_detection", flow.loss_detection.is_some()),
        (
            "retransmission_timeout",
            flow.retransmission_timeout.is_some(),
        ),
        ("initial_window", flow.initial_window.is_some()),
        ("window_floor", flow.window_floor.is_some()),
        ("threshold_floor", flow.threshold_floor.is_some()),
        ("initial_threshold", flow.initial_threshold.is_some()),
        ("unresponsive", flow.unresponsive == Some(true)),
        ("ack_every", flow.ack_every.is_some()),
        ("ack_delay", flow.ack_delay.is_some()),
        ("ack_size", flow.ack_size.is_some()),
        ("receive_times", flow.receive_times.is_some()),
        ("headers", flow.headers.is_some()),
        ("scheduler", flow.scheduler.is_some()),
    ];
    let message = "the kernel has its own: leave it out, here and in [defaults]";
    let written = written.into_iter().filter(|(_, written)| *written);
    written.map(|(key, _)| (key, message.to_owned())).collect()
}

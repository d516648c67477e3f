//! What is different where flows are production sessions: some keys have other defaults, and others
//! only one value that sessions have.

use std::time::Duration;

use manyway_units::ByteSize;

use super::{experiment, named};
use crate::experiment::Experiment;
use crate::fault::Fault;
use crate::file::{
    File, Flow, Growth, LossDetection, PathUse, Recovery, Relays, RetransmissionTimeout,
};
use crate::quantity::{Bytes, TimeSpan, WholePackets};

/// Bytes that a session's packet may have, with IPv4 and UDP headers.
const PACKET: std::ops::RangeInclusive<u64> = 1228..=65_028;

/// Bytes that a session may have room for.
const RECEIVE_BUFFER: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 40;

/// Headers of all kinds in a packet of 1500 bytes.
const HEADERS: ByteSize = ByteSize::new(66);

/// Paths that a connection may have.
const MAX_PATHS: usize = 1024;

/// Resolves a file as [`experiment`] does, for flows that are sessions.
pub(crate) fn experiment_of_sessions(file: &File) -> Result<Experiment, Vec<Fault>> {
    let mut file = file.clone();
    let mut faults = Vec::new();
    for (name, flow) in file.flows.iter_mut().flatten() {
        let key = named("flows", name);
        if flow.fluid == Some(true) {
            let message = "sessions can't be a fluid: leave it out, or run the packet level";
            faults.push(Fault::new(&key.join("fluid"), message.to_owned()));
        }
        for (name, message) in refused(flow) {
            let message = format!("{message}, or run the packet level");
            faults.push(Fault::new(&key.join(name), message));
        }
        settle(flow);
    }
    match experiment(&file) {
        Ok(experiment) if faults.is_empty() => Ok(experiment),
        Ok(_) => Err(faults),
        Err(others) => Err(faults.into_iter().chain(others).collect()),
    }
}

/// Where the flow says nothing, it has what sessions have.
pub(super) fn settle(flow: &mut Flow) {
    let ack_delay = Duration::from_millis(10);
    flow.loss_detection.get_or_insert(LossDetection::Adaptive);
    flow.ack_every.get_or_insert(WholePackets(10));
    flow.ack_delay.get_or_insert(TimeSpan(ack_delay));
    flow.headers.get_or_insert(Bytes(HEADERS));
}

/// The keys whose values sessions don't take, and what to do about each.
pub(super) fn refused(flow: &Flow) -> Vec<(&'static str, String)> {
    let mut refused = Vec::new();
    let mut only = |key, differs: bool, value: &str| {
        if differs {
            let message = format!("sessions only support {value}: write that, leave it out");
            refused.push((key, message));
        }
    };
    let detection = flow.loss_detection;
    only(
        "loss_detection",
        detection.is_some_and(|detection| detection != LossDetection::Adaptive),
        "\"adaptive\"",
    );
    let timeout = flow.retransmission_timeout;
    only(
        "retransmission_timeout",
        matches!(timeout, Some(RetransmissionTimeout::Tcp(_))),
        "\"probe\"",
    );
    only("growth", flow.growth == Some(Growth::Acks), "\"bytes\"");
    only(
        "recovery",
        flow.recovery == Some(Recovery::Grow),
        "\"hold\"",
    );
    let window = flow.initial_window.is_some_and(|window| window.0 != 10.0);
    only("initial_window", window, "\"10 packets\"");
    let headers = flow.headers.is_some_and(|headers| headers.0 != HEADERS);
    only("headers", headers, "\"66 B\"");
    only("receive_times", flow.receive_times == Some(false), "true");
    let mut own = |key, written: bool, own: &str| {
        if written {
            let message = format!("sessions have {own}: leave it out");
            refused.push((key, message));
        }
    };
    own(
        "window_floor",
        flow.window_floor.is_some(),
        "the law's own floor",
    );
    own(
        "threshold_floor",
        flow.threshold_floor.is_some(),
        "the law's own floor",
    );
    own(
        "initial_threshold",
        flow.initial_threshold.is_some(),
        "no threshold before the first loss",
    );
    own("ack_size", flow.ack_size.is_some(), "real acknowledgements");
    if flow.l4s == Some(true) {
        let message = "sessions send no L4S packets: leave it out".to_owned();
        refused.push(("l4s", message));
    }
    if flow.unresponsive == Some(true) {
        let message = "sessions react to losses: leave it out".to_owned();
        refused.push(("unresponsive", message));
    }
    if let Some(size) = flow
        .packet_size
        .filter(|size| !PACKET.contains(&size.0.bytes()))
    {
        let message = format!(
            "{:#} is out of range for a session: choose {} B to {} B",
            size.0,
            PACKET.start(),
            PACKET.end()
        );
        refused.push(("packet_size", message));
    }
    if let Some(size) = flow
        .receive_buffer
        .filter(|size| !RECEIVE_BUFFER.contains(&size.0.bytes()))
    {
        let message = format!(
            "{:#} is out of range for a session: choose 64 KiB to 1 TiB",
            size.0
        );
        refused.push(("receive_buffer", message));
    }
    let paths = flow.paths.as_ref().map_or(0, Vec::len);
    if paths > MAX_PATHS {
        let message =
            format!("{paths} paths are too many for a session: choose {MAX_PATHS} or less");
        refused.push(("paths", message));
    }
    let leaves = |used: &PathUse| used.relay == Some(true) && used.stop.is_some();
    if flow.paths.iter().flatten().any(leaves) {
        let message =
            "a session doesn't give up a relay by itself: leave out stop where relay is true";
        refused.push(("paths", message.to_owned()));
    }
    if let Some(relays) = &flow.relays {
        let own = Relays {
            subset: relays.subset,
            ..Relays::default()
        };
        if *relays != own {
            let message = "sessions use the manager's defaults: keep only subset";
            refused.push(("relays", message.to_owned()));
        }
    }
    refused
}

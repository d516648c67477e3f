//! What readers of a fluid's results have to know.

use manyway_control::Growth;
use manyway_network::Queue;
use manyway_scenario::Experiment;

use super::Epoch;
use crate::network::{Network, Remark};

/// What the packet level does and a fluid doesn't.
pub(super) fn remarks(experiment: &Experiment) -> Vec<String> {
    let mut remarks = Vec::new();
    for group in &experiment.groups {
        let Some(flow) = experiment.flows.get(group.members.start) else {
            continue;
        };
        let name = &group.name;
        if flow.size.is_some() {
            remarks.push(format!(
                "`{name}` has a size, which a fluid hasn't: it goes on until it stops."
            ));
        }
        if flow.unresponsive {
            remarks.push(format!(
                "`{name}` is unresponsive, but reacts to prices here."
            ));
        }
        if flow.rate.is_some() {
            remarks.push(format!(
                "The application's rate of `{name}` is taken for a link of its own."
            ));
        }
        if flow.options.growth == Growth::Acks && flow.ack.every > 1 {
            remarks.push(format!(
                "Windows of `{name}` grow by acknowledgements at the packet level, of which there \
                 are fewer than packets: here by packets."
            ));
        }
    }
    for link in &experiment.topology.links {
        if let Queue::Drr(_) | Queue::FqCoDel(_) | Queue::Priority(_) | Queue::DualPi2(_) =
            link.config.queue
        {
            remarks.push(format!(
                "The queue of `{}` serves flows or classes apart, which a fluid has no queues for: \
                 all lose the same share there.",
                link.name
            ));
        }
    }
    remarks
}

/// What is not determined of where an epoch rests.
pub(super) fn ambiguities(experiment: &Experiment, epoch: &Epoch) -> Vec<Remark> {
    let network = Network::at(experiment, epoch.times.0);
    let mut remarks = network.remarks();
    if let Some(rest) = &epoch.rest {
        remarks.extend(network.remarks_at(&network.loads(&rest.rates_bps)));
    }
    remarks
}

/// Where windows come to rest that no sender has.
pub(super) fn small_windows(experiment: &Experiment, epochs: &[Epoch]) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for epoch in epochs {
        let Some(rest) = &epoch.rest else { continue };
        let network = Network::at(experiment, epoch.times.0);
        let rtts: Vec<f64> = network.routes().map(|(_, route)| route.rtt).collect();
        let subflows = epoch.subflows.iter().zip(&rest.rates_bps).zip(rtts);
        for ((&(flow, _), rate), rtt) in subflows {
            let flow = &experiment.flows[flow];
            let window = rate * rtt / (8.0 * f64::from(flow.sender.packet_size));
            let group = experiment.groups[flow.group].name.as_str();
            // What is left of a path that is given up is no window.
            if window > 1e-3 && window < 1.0 && !names.contains(&group) {
                names.push(group);
            }
        }
    }
    (!names.is_empty()).then(|| {
        format!(
            "Windows of {} come to rest below a packet, which no sender's do: round trips have no \
             queueing in them here.",
            names
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        )
    })
}

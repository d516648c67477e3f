//! What studies take from a run at the packet level.

use manyway_simulate::packet::RunResult;

/// Goodput of the flows with this name in sum, Mbps.
pub(crate) fn goodput(run: &RunResult, flow: &str) -> f64 {
    let flows = run.flows.iter().filter(|known| known.name == flow);
    flows.map(|known| known.goodput_bps).sum::<f64>() / 1e6
}

/// Goodput of subflow `n` of a flow, Mbps; NaN if there is no such flow.
pub(crate) fn subflow(run: &RunResult, flow: &str, n: usize) -> f64 {
    let flow = run.flows.iter().find(|known| known.name == flow);
    flow.map_or(f64::NAN, |flow| flow.subflows[n].goodput_bps / 1e6)
}

//! Buffers at the receiver, by how far relays may be (Fig. 26 of the mPath paper), with sessions:
//! at the packet level, nothing waits for what is missing.

use std::sync::atomic::AtomicBool;

use manyway_scenario::Scenario;
use manyway_simulate::stack::Simulation;

use super::assumptions::Assumptions;
use super::experiments::networks;
use super::hours::TAUS;
use super::network::{Network, Node};
use super::runs::all;
use super::scenario::{Law, Run};
use super::statistics::Sample;
use crate::extent::Extent;
use crate::failure::Failure;
use crate::gate::{Gate, gate};
use crate::table::texts as table;

/// Paths open and close in the first minute; a buffer's maximum belongs to that time, too.
const DURATION_S: u32 = 120;

/// What comes of a τ, over all pairs.
#[derive(Debug, Clone)]
pub(crate) struct Buffers {
    tau: f64,
    /// The largest that each pair's receive buffer was, kB.
    largest: Sample,
    /// Relays whose paths carried something.
    used: Sample,
}

/// Runs the first pairs of each network with each τ.
pub(crate) fn measure(extent: Extent) -> Result<Vec<Buffers>, Failure> {
    let (count, pairs) = match extent.full() {
        true => (10, 5),
        false => (1, 2),
    };
    let assumptions = Assumptions {
        seed: extent.seed,
        ..Assumptions::default()
    };
    let networks = networks(count, &assumptions);
    let ends = networks.iter().flat_map(|network| {
        let pairs = network.pairs(pairs).into_iter();
        pairs.map(move |ends| (network, ends))
    });
    let ends: Vec<(&Network, (Node, Node))> = ends.collect();
    let jobs = TAUS
        .iter()
        .flat_map(|&tau| ends.iter().map(move |&of| (tau, of)));
    let jobs: Vec<_> = jobs.collect();
    let runs = all("Fig. 26", &jobs, |&(tau, (network, ends))| {
        run(network, ends, tau)
    })?;
    let by_tau = TAUS.iter().zip(runs.chunks(ends.len()));
    let buffers = by_tau.map(|(&tau, runs)| Buffers {
        tau,
        largest: Sample::new(runs.iter().map(|run| run.0 as f64 / 1e3)),
        used: Sample::new(runs.iter().map(|run| run.1 as f64)),
    });
    Ok(buffers.collect())
}

/// The most bytes in the receive buffer of a pair's only connection, and its relays that carried
/// something.
fn run(network: &Network, ends: (Node, Node), tau: f64) -> Result<(u64, usize), Failure> {
    let run = Run {
        law: Law::Mpath(network.relays.len()),
        pairs: vec![ends],
        duration_s: DURATION_S,
        epoch: 0,
        series: false,
    };
    let mut scenario = Scenario::parse(&network.scenario(&run), "planetlab.toml")?;
    scenario.set(&format!("flows.c0.law=mpath:tau={tau:.1}"))?;
    let points = scenario.session_points()?;
    let mut simulation = Simulation::new(&points[0].experiment, scenario.seed())?;
    let result = simulation.run(&AtomicBool::new(false))?;
    let flow = result.flows.iter().position(|flow| flow.name == "c0");
    let flow = flow.ok_or("no flow c0 in the result")?;
    let relayed = result.flows[flow].subflows[1..].iter();
    let used = relayed.filter(|subflow| subflow.goodput_bps > 0.0).count();
    Ok((simulation.most_unread(flow), used))
}

/// What must hold of it: with a few pairs, chance decides.
pub(crate) fn gates(buffers: &[Buffers], extent: Extent) -> Vec<Gate> {
    if !extent.full() {
        return Vec::new();
    }
    let more = buffers.windows(2).map(|pair| {
        let [smaller, larger] = [0, 1].map(|n| pair[n].largest.quantile(0.5));
        (format!("τ = {}", pair[1].tau), larger / smaller)
    });
    let shown: Vec<String> = buffers
        .iter()
        .map(|of| format!("{:.0} kB with {}", of.largest.quantile(0.5), of.tau))
        .collect();
    let more: Vec<(String, f64)> = more.collect();
    vec![gate("mpath/figure-26-grows").cases(more, shown.join(", "))]
}

/// The page's table.
pub(crate) fn markdown(buffers: &[Buffers]) -> String {
    let mut rows = table(&[
        "τ, round trips",
        "largest buffer, kB: median",
        "a quarter has less than",
        "a quarter has more than",
        "relays used, median",
    ]);
    for of in buffers {
        let largest = [0.5, 0.25, 0.75].map(|part| of.largest.quantile(part));
        let values = largest.map(|value| format!("{value:.0}"));
        let used = format!("{:.0}", of.used.quantile(0.5));
        rows.row([of.tau.to_string()].into_iter().chain(values).chain([used]));
    }
    rows.markdown()
}

//! The controller over TCP connections, beside the linear programme and the flow level.

use manyway_simulate::batch::OverlayLevel;

use super::sweep::{Sweep, below, headings};
use super::{Part, figures, rounded};
use crate::extent::Extent;
use crate::failure::Failure;
use crate::gate::gate;
use crate::ours::Ours;
use crate::runs::{Runs, Source};
use crate::statistics::{largest, mean, median};

/// A sample: the lowest demand, shorter runs, one skew and two ratios.
const SAMPLE: [&str; 5] = [
    "sweep.cases=[{ name = \"1.2 Mbps\" }]",
    "overlay.skew=0.5",
    "sweep.\"overlay.ratio\"=[1, 2]",
    "overlay.intervals=150",
    "overlay.judged=75",
];

pub(crate) fn part(extent: Extent) -> Result<Part, Failure> {
    let runs: Runs = extent.runs(u32::MAX, 1);
    let set: &[&str] = if extent.full() { &[] } else { &SAMPLE };
    let source = Source::new("overlay/packets", set);
    let packets = Sweep::run(source, runs, OverlayLevel::Packet)?;
    // The same demands, relays and selections, with δ of the packet level.
    let flow = Sweep::run(source, runs, OverlayLevel::Flow)?;
    let columns = headings([
        "below the LP: mean, %",
        "largest, %",
        "settled after: median, intervals",
        "longest",
        "deviation in time",
    ]);
    let table = packets.table(1, &columns, |runs| {
        let percent: Vec<f64> = runs.iter().map(|done| 100.0 * below(done)).collect();
        let times: Vec<f64> = runs.iter().map(|done| done.run.settled as f64).collect();
        let deviations: Vec<f64> = runs.iter().map(|done| done.run.deviation).collect();
        vec![
            mean(&percent),
            largest(&percent),
            median(&times),
            largest(&times),
            mean(&deviations),
        ]
    });
    let pairs = packets.done.iter().zip(&flow.done);
    let apart: Vec<f64> = pairs
        .map(|(packet, flow)| 100.0 * (packet.run.rate - flow.run.rate).abs() / flow.run.rate)
        .collect();
    let below: Vec<f64> = packets
        .done
        .iter()
        .map(|done| 100.0 * below(done))
        .collect();
    let times: Vec<f64> = packets
        .done
        .iter()
        .map(|done| done.run.settled as f64)
        .collect();
    let gates = vec![
        gate("overlay/packets-programme").value(
            largest(&below),
            format!(
                "{} runs, mean {:.2} %, at most {:.2} %",
                below.len(),
                mean(&below),
                largest(&below)
            ),
        ),
        gate("overlay/packets-flow")
            .value(largest(&apart), format!("at most {:.2} %", largest(&apart))),
        gate("overlay/packets-settled").value(
            median(&times),
            format!(
                "median {:.0}, longest {:.0}",
                median(&times),
                largest(&times)
            ),
        ),
    ];
    let claim = "overlay/section-5-1-packets";
    let ours = vec![
        Ours::exact(claim, "the programme", largest(&below)),
        Ours::exact(claim, "settled after, median", median(&times)),
    ];
    Ok(Part {
        headline: rounded(table.headline("packets", &[], 0..1)),
        tables: vec![("packets", table)],
        gates,
        ours,
        figures: vec![figures::packets(&packets)],
    })
}

//! wVegas: the paper's iterations, and Fig. 8 as optimum, fluid and packets.

use manyway_fluid::dynamics::{Iterate, Start, Steps, adjust_weights, approximate};
use manyway_fluid::optimum::{self, Utility, reweight};
use manyway_fluid::run::{FluidRun, RunOptions, run};
use manyway_fluid::{Network, epochs};
use manyway_report::{Kind, Plot, Series};
use manyway_scenario::Experiment;
use manyway_simulate::packet::RunResult;
use manyway_units::Time;

use crate::claims::number;
use crate::failure::Failure;
use crate::gate::{Gate, gate};
use crate::headline::Headline;
use crate::ours::Ours;
use crate::runs::{Runs, Source};
use crate::statistics::mean;
use crate::study::Figure;
use crate::table::{Table, markdown};

/// Fig. 2(a)'s subflows, by their names in the claims.
const FIG2A: [&str; 5] = ["s1", "s2 top", "s2 bottom", "s3", "s4"];

pub(crate) struct Wvegas {
    pub(crate) iterations: String,
    pub(crate) domino: String,
    pub(crate) gates: Vec<Gate>,
    pub(crate) ours: Vec<Ours>,
    pub(crate) tables: Vec<Table>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) headline: Vec<Headline>,
}

pub(crate) fn compare(runs: Runs) -> Result<Wvegas, Failure> {
    let mut gates = Vec::new();
    let mut figures = Vec::new();
    let mut ours = Vec::new();
    let iterations = iterations(&mut gates, &mut figures, &mut ours)?;
    let (domino, tables, headline) = domino(runs, &mut gates, &mut figures)?;
    Ok(Wvegas {
        iterations,
        domino,
        gates,
        ours,
        tables,
        figures,
        headline,
    })
}

/// Eq. (11)-(12) and Algorithm 1 on the paper's networks.
fn iterations(
    gates: &mut Vec<Gate>,
    figures: &mut Vec<Figure>,
    ours: &mut Vec<Ours>,
) -> Result<String, Failure> {
    let networks = [
        ("Fig. 1(a)", "wvegas/table2", 0.0),
        ("Fig. 1(b)", "wvegas/fig1b", 0.0),
        ("Fig. 2(a)", "wvegas/fig2a", 0.0),
        ("Fig. 2(c) at 210 s", "wvegas/fig8", 210.0),
        ("Fig. 2(c) at 410 s", "wvegas/fig8", 410.0),
    ];
    let mut rows = Vec::new();
    let mut worst = 0.0f64;
    for (name, scenario, at) in networks {
        let point = Source::new(scenario, &[]).points()?.remove(0);
        let at = Time::ZERO + std::time::Duration::from_secs_f64(at);
        let network = Network::at(&point.experiment, at);
        let best = optimum::solve(&network, Utility::Log)?;
        if scenario == "wvegas/table2" {
            let two = network.routes().zip(&best.rates);
            let two = two.filter(|((flow, _), _)| network.flows[*flow].name == "two");
            let names = ["flow 2-1", "flow 2-2"].into_iter();
            ours.extend(
                names
                    .zip(two)
                    .map(|(name, (_, rate))| Ours::exact("wvegas/figure-1a", name, rate / 1e6)),
            );
        }
        let totals = network.totals(&best.rates);
        let off = |found: &Iterate| {
            let pairs = network.totals(&found.rates).into_iter().zip(&totals);
            pairs
                .map(|(own, best)| (own / best - 1.0).abs())
                .fold(0.0, f64::max)
        };
        let rates = vec![1e6; best.rates.len()];
        let prices = Steps {
            theta: 0.1,
            gamma: 0.1,
        };
        let weights = Steps {
            theta: 0.1,
            gamma: 0.2,
        };
        let by_prices = Start {
            rates: &rates,
            price: 0.0,
        };
        let by_prices = approximate(&network, &by_prices, (prices, 5000))?;
        let by_weights = Start {
            rates: &rates,
            price: 1.0,
        };
        let by_weights = adjust_weights(&network, &by_weights, (weights, 2000))?;
        let mut row = vec![name.to_owned()];
        for found in [&by_prices, &by_weights] {
            let settled = found
                .iter()
                .rposition(|iterate| off(iterate) > 0.01)
                .map_or(0, |n| n + 1);
            let last = off(&found[found.len() - 1]);
            worst = worst.max(last);
            row.extend([settled.to_string(), format!("{last:.0e}")]);
        }
        rows.push(row);
        if scenario == "wvegas/fig2a" {
            let last = by_weights[1999].rates.iter().map(|rate| rate / 1e6);
            let off = last
                .zip(FIG2A)
                .map(|(own, name)| (own - number("wvegas/figure-3b", name)).abs())
                .fold(0.0, f64::max);
            gates.push(
                gate("wvegas/algorithm-1-decimals").value(off, format!("{off:.1e} Mbps off")),
            );
            figures.push(Figure::new(
                "fluid-algorithm1",
                steps(
                    &network,
                    "Algorithm 1 on Fig. 2(a)",
                    by_weights[..100].iter().map(|step| &step.rates),
                ),
            ));
            figures.push(Figure::new(
                "fluid-prices",
                steps(
                    &network,
                    "Eq. (11)-(12) on Fig. 2(a)",
                    by_prices[..1000].iter().map(|step| &step.rates),
                ),
            ));
        }
    }
    gates.push(gate("wvegas/algorithm-1").value(worst, format!("{worst:.0e}")));
    gates.extend([by_algorithm_2(figures)?, ring_by_algorithm_2(figures)?]);
    let columns = [
        "network",
        "(11)-(12): steps until all flows are within 1 %",
        "off after 5000",
        "Algorithm 1: steps",
        "off after 2000",
    ];
    Ok(markdown(&columns, &rows))
}

/// So many steps of Algorithm 2 are about 20.
const STEPS: usize = 20;

/// Fig. 3(a): how far from the optimum subflows are after 20 steps, by the first weights of source
/// 2's paths. The paper's are "much less" for the first.
fn by_algorithm_2(figures: &mut Vec<Figure>) -> Result<Gate, Failure> {
    let point = Source::new("wvegas/fig2a", &[]).points()?.remove(0);
    let network = Network::at(&point.experiment, Time::ZERO);
    let best = optimum::solve(&network, Utility::Log)?;
    let mut cases = Vec::new();
    for first in [0.1, 0.5, 0.9] {
        let flows = network.flows.iter();
        let weights = flows.flat_map(|flow| match flow.routes.len() {
            2 => vec![first, 1.0 - first],
            routes => vec![1.0; routes],
        });
        let weights: Vec<f64> = weights.collect();
        let found = reweight(&network, &weights, (STEPS + 1, 0.0))?;
        let off = found[STEPS].rates.iter().zip(&best.rates);
        let off = off.map(|(own, best)| 100.0 * (own / best - 1.0).abs());
        let off = off.fold(0.0, f64::max);
        cases.push((format!("{first} and {:.1}", 1.0 - first), off));
        if first == 0.1 {
            let rates = found.iter().map(|step| &step.rates);
            let plot = steps(&network, "Algorithm 2 on Fig. 2(a)", rates);
            figures.push(Figure::new("fluid-algorithm2", plot));
        }
    }
    let found = cases
        .iter()
        .map(|(first, off)| format!("{first}: {off:.1} %"));
    let found = found.collect::<Vec<_>>().join(", ");
    Ok(gate("wvegas/figure-3a").cases(cases, found))
}

/// Fig. 4: the part of each flow's traffic that has one hop after 20 steps, from the paper's
/// weights.
fn ring_by_algorithm_2(figures: &mut Vec<Figure>) -> Result<Gate, Failure> {
    let point = Source::new("wvegas/fig1b", &[]).points()?.remove(0);
    let network = Network::at(&point.experiment, Time::ZERO);
    let weights = [0.1, 0.9, 0.4, 0.6, 0.2, 0.8];
    let found = reweight(&network, &weights, (STEPS + 1, 0.0))?;
    let last = &found[STEPS].rates;
    let parts = last.chunks(2).map(|rates| rates[0] / (rates[0] + rates[1]));
    let cases: Vec<_> = ["one", "two", "three"].into_iter().zip(parts).collect();
    let shown = cases.iter().map(|(_, part)| format!("{part:.3}"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    let rates = found.iter().map(|step| &step.rates);
    let plot = steps(&network, "Algorithm 2 on Fig. 1(b)", rates);
    figures.push(Figure::new("fluid-algorithm2-ring", plot));
    Ok(gate("wvegas/figure-4").cases(cases, shown))
}

/// Rates over steps.
fn steps<'a>(
    network: &Network,
    what: &str,
    rates: impl Iterator<Item = &'a Vec<f64>> + Clone,
) -> Plot {
    let mut plot = Plot::new(format!("{what}: rates by step"), Kind::Lines);
    plot.x_label = "step".to_owned();
    plot.y_label = "Mbps".to_owned();
    plot.size = (1000, 400);
    for (r, (_, route)) in network.routes().enumerate() {
        let rates = rates.clone().enumerate();
        let points = rates.map(|(n, rates)| (n as f64 + 1.0, (rates[r] / 1e6).min(20.0)));
        plot.series.push(Series {
            name: route.name.clone(),
            points: points.collect(),
        });
    }
    plot
}

/// The subflows of Fig. 8: flow, path.
const SUBFLOWS: [(&str, usize); 14] = [
    ("one", 0),
    ("one", 1),
    ("two", 0),
    ("two", 1),
    ("three", 0),
    ("three", 1),
    ("four", 0),
    ("four", 1),
    ("five", 0),
    ("five", 1),
    ("six", 0),
    ("seven", 0),
    ("eight", 0),
    ("nine", 0),
];

/// Of the spans, these many.
const SPANS: usize = 9;

/// Rates in Mbps by subflow of [`SUBFLOWS`] and span.
type Rates = Vec<[f64; SPANS]>;

fn domino(
    runs: Runs,
    gates: &mut Vec<Gate>,
    figures: &mut Vec<Figure>,
) -> Result<(String, Vec<Table>, Vec<Headline>), Failure> {
    let point = Source::new("wvegas/fig8", &["law=wvegas"])
        .points()?
        .remove(0);
    let experiment = &point.experiment;
    let best = optima(experiment)?;
    let options = RunOptions {
        floors: true,
        ..RunOptions::default()
    };
    let fluid = fluid(&run(experiment, &options)?);
    let plain = run(experiment, &RunOptions::default())?;
    let rest = at_rest(experiment, &plain, &best);
    gates.push(gate("wvegas/figure-8-optimum").value(rest, format!("{rest:.0e}")));
    let columns: Vec<String> = (0..SUBFLOWS.len() * SPANS).map(|n| n.to_string()).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let measure = |run: &RunResult| -> Vec<f64> {
        let spans = SUBFLOWS.iter().flat_map(|&(name, path)| {
            let flow = run.flows.iter().find(|flow| flow.name == name);
            let spans = flow
                .map(|flow| flow.subflows[path].spans_bps.clone())
                .unwrap_or_default();
            spans.into_iter().map(|rate| rate / 1e6)
        });
        spans.collect()
    };
    let table = Table::run(Source::new("wvegas/fig8", &[]), runs, &columns, measure)?;
    let rates = |law: &str| -> Rates {
        let means = table.means(&[law]);
        means
            .chunks(SPANS)
            .map(|spans| std::array::from_fn(|n| spans[n]))
            .collect()
    };
    let (packet, lia) = (rates("wvegas"), rates("lia"));
    let [by_fluid, by_packet, by_lia] = [&fluid, &packet, &lia].map(|rates| distance(rates, &best));
    gates.push(gate("wvegas/figure-8").value(
        by_packet / by_lia,
        format!(
            "{by_packet:.2} and {by_lia:.2} Mbps; the fluid with wVegas' least backlog \
             {by_fluid:.2}"
        ),
    ));
    for (name, flows) in [("fluid-domino-two", "two"), ("fluid-domino-four", "four")] {
        figures.push(Figure::new(name, curves(flows, &best, &fluid, &packet)));
    }
    let text = domino_table(experiment, [&best, &fluid, &packet]);
    let headline =
        [("fluid", by_fluid), ("packets", by_packet), ("LIA", by_lia)].map(|(level, distance)| {
            let name = format!("Fig. 8, {level}: mean distance from the optimum, Mbps");
            Headline::rounded(name, distance)
        });
    Ok((text, vec![table], headline.into()))
}

/// The optimum in each span.
fn optima(experiment: &Experiment) -> Result<Rates, Failure> {
    let mut rates = vec![[0.0; SPANS]; SUBFLOWS.len()];
    for (n, span) in experiment.measure.spans.iter().enumerate() {
        let network = Network::at(experiment, span.from);
        let best = optimum::solve(&network, Utility::Log)?;
        for ((flow, route), rate) in network.routes().zip(&best.rates) {
            let name = &network.flows[flow].name;
            let spec = experiment
                .flows
                .iter()
                .find(|flow| flow.name == *name)
                .ok_or("no flow")?;
            let path = spec
                .paths
                .iter()
                .position(|&path| experiment.topology.paths[path].name == route.name);
            let known = SUBFLOWS
                .iter()
                .position(|&(own, p)| own == name && Some(p) == path);
            rates[known.ok_or("no subflow")?][n] = rate / 1e6;
        }
    }
    Ok(rates)
}

fn fluid(run: &FluidRun) -> Rates {
    let of = |&(name, path): &(&str, usize)| {
        let flow = run
            .flows
            .iter()
            .find(|flow| flow.name == name)
            .expect("the flow");
        std::array::from_fn(|n| flow.subflows[path].spans_bps[n] / 1e6)
    };
    SUBFLOWS.iter().map(of).collect()
}

/// How far flows are from the optimum at most where the fluid rests, in the spans' epochs.
fn at_rest(experiment: &Experiment, run: &FluidRun, best: &Rates) -> f64 {
    let moments = epochs(experiment, 1000);
    let mut worst = 0.0f64;
    for (n, span) in experiment.measure.spans.iter().enumerate() {
        let epoch = moments.iter().rposition(|&moment| moment <= span.from);
        let Some(rest) = epoch.and_then(|epoch| run.epochs[epoch].rest.as_ref()) else {
            return f64::NAN;
        };
        let subflows = &run.epochs[epoch.unwrap_or(0)].subflows;
        for (index, flow) in experiment.flows.iter().enumerate() {
            let own = subflows
                .iter()
                .zip(&rest.rates_bps)
                .filter(|((flow, _), _)| *flow == index);
            let own: f64 = own.map(|(_, rate)| rate / 1e6).sum();
            let known = SUBFLOWS
                .iter()
                .zip(best)
                .filter(|((name, _), _)| *name == flow.name);
            let known: f64 = known.map(|(_, spans)| spans[n]).sum();
            if known > 0.0 {
                worst = worst.max((own / known - 1.0).abs());
            }
        }
    }
    worst
}

/// Mean over spans and flows that take part. The optimum has one total for each flow, but splits it
/// over paths in one of many ways, so subflows have no distance from it.
fn distance(rates: &Rates, best: &Rates) -> f64 {
    let (rates, best) = (totals(rates), totals(best));
    let pairs = rates.iter().flatten().zip(best.iter().flatten());
    let pairs = pairs.filter(|(own, best)| **own > 0.0 || **best > 0.0);
    let off: Vec<f64> = pairs.map(|(own, best)| (own - best).abs()).collect();
    mean(&off)
}

/// Rates in Mbps by flow and span.
fn totals(rates: &Rates) -> Vec<[f64; SPANS]> {
    let subflows: Vec<_> = SUBFLOWS.iter().zip(rates).collect();
    let flows = subflows.chunk_by(|((one, _), _), ((other, _), _)| one == other);
    let total = |flow: &[(&(&str, usize), &[f64; SPANS])]| {
        std::array::from_fn(|n| flow.iter().map(|(_, spans)| spans[n]).sum())
    };
    flows.map(total).collect()
}

fn curves(flow: &str, best: &Rates, fluid: &Rates, packet: &Rates) -> Plot {
    let mut plot = Plot::new(
        format!("Fig. 8, flow {flow}: rates in each interval of 50 s"),
        Kind::Lines,
    );
    plot.x_label = "time, s".to_owned();
    plot.y_label = "Mbps".to_owned();
    plot.size = (1000, 400);
    for (index, (_, path)) in SUBFLOWS
        .iter()
        .enumerate()
        .filter(|(_, (name, _))| *name == flow)
    {
        for (level, rates) in [("optimum", best), ("fluid", fluid), ("packet", packet)] {
            let points = rates[index].iter().enumerate();
            plot.series.push(Series {
                name: format!("path {}, {level}", path + 1),
                points: points
                    .map(|(n, rate)| (225.0 + 50.0 * n as f64, *rate))
                    .collect(),
            });
        }
    }
    plot
}

fn domino_table(experiment: &Experiment, [best, fluid, packet]: [&Rates; 3]) -> String {
    let spans = experiment
        .measure
        .spans
        .iter()
        .map(|span| format!("{} s", span.name));
    let columns: Vec<String> = ["subflow".to_owned()].into_iter().chain(spans).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let rows = SUBFLOWS.iter().enumerate().map(|(index, (name, path))| {
        let cells = (0..SPANS).map(|n| {
            let [best, fluid, packet] = [best, fluid, packet].map(|rates| rates[index][n]);
            match best > 0.0 || packet > 0.0 {
                true => format!("{best:.2} / {fluid:.2} / {packet:.2}"),
                false => "-".to_owned(),
            }
        });
        [format!("{name}-{}", path + 1)]
            .into_iter()
            .chain(cells)
            .collect()
    });
    markdown(&columns, &rows.collect::<Vec<_>>())
}

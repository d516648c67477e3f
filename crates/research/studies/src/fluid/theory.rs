//! The fluid model against itself: closed forms, trajectories against equilibria, and where it
//! doesn't come to rest.

use manyway_fluid::dynamics::{Integrator, LossModel, System};
use manyway_fluid::run::{RunOptions, run};
use manyway_fluid::{Flow, FluidLaw, Link, Model, Network, Route};
use manyway_report::{Kind, Plot, Series};

use crate::failure::Failure;
use crate::gate::{Gate, gate};
use crate::headline::Headline;
use crate::runs::Source;
use crate::study::Figure;
use crate::table::markdown;

pub(crate) struct Theory {
    pub(crate) text: String,
    pub(crate) gates: Vec<Gate>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) headline: Vec<Headline>,
}

pub(crate) fn check() -> Result<Theory, Failure> {
    let mut gates = vec![closed_form()];
    let text = trajectories(&mut gates)?;
    let (gate, figure, headline) = cycle()?;
    gates.push(gate);
    Ok(Theory {
        text,
        gates,
        figures: vec![figure],
        headline: vec![headline],
    })
}

/// A law, and routes by their links and round-trip times in seconds.
type Spec<'a> = (&'a str, &'a [(&'a [usize], f64)]);

fn model(capacities: &[f64], flows: &[Spec<'_>]) -> Model {
    let network = Network {
        links: capacities
            .iter()
            .enumerate()
            .map(|(n, mbps)| Link {
                name: format!("l{n}"),
                capacity: mbps * 1e6,
            })
            .collect(),
        flows: flows
            .iter()
            .enumerate()
            .map(|(n, (_, routes))| Flow {
                name: format!("s{n}"),
                weight: 1.0,
                demand: None,
                routes: routes
                    .iter()
                    .enumerate()
                    .map(|(n, (links, rtt))| Route {
                        name: format!("r{n}"),
                        links: links.to_vec(),
                        rtt: *rtt,
                        packet: 12_000.0,
                    })
                    .collect(),
            })
            .collect(),
    };
    let laws = flows.iter().map(|(law, _)| {
        let spec = law.parse().expect("a law");
        FluidLaw::of(&spec).expect("a window law")
    });
    Model::new(network, laws.collect()).expect("a network")
}

/// n Reno flows on a link: x = √2/(τ √p), so that √p = Σ √2/τ / c.
fn closed_form() -> Gate {
    let rtts = [0.01, 0.03, 0.05, 0.11, 0.2];
    let routes = rtts.map(|rtt| [(&[0usize][..], rtt)]);
    let flows: Vec<Spec<'_>> = routes.iter().map(|route| ("reno", &route[..])).collect();
    let found = model(&[50.0], &flows).equilibrium();
    let root = rtts.iter().map(|rtt| 2f64.sqrt() / rtt).sum::<f64>() / (50e6 / 12_000.0);
    let rates = found.rates.iter().zip(rtts);
    let rates = rates.map(|(x, rtt)| (x * rtt * root / 2f64.sqrt() - 1.0).abs());
    let off = rates.chain([(found.prices[0] / (root * root) - 1.0).abs()]);
    let worst = off.fold(0.0, f64::max);
    gate("balia/closed-form").value(worst, format!("{worst:.1e}"))
}

/// Scenarios left to themselves: where trajectories are at the end, and where the equilibrium is.
fn trajectories(gates: &mut Vec<Gate>) -> Result<String, Failure> {
    let long = ["duration=3000 s", "measure={ from = \"2900 s\" }"];
    let loss = [
        "sweep={ \"flows.multipath.law\" = [\"reno\", \"ewtcp:a=0.25\", \"semicoupled\", \"lia\", \
         \"balia\", \"generalized\", \"generalized:n=2,eta=1\"] }",
    ];
    let four = ["sweep={ \"flows.*.law\" = [\"ewtcp:a=1\", \"semicoupled\", \"lia\", \"balia\"] }"];
    let delay = ["sweep={ law = [\"wvegas\"] }"];
    let all = [
        ("balia/fluid", [&long[..], &loss[..]].concat()),
        ("balia/table4", [&long[..], &four[..]].concat()),
        ("wvegas/fig1b", [&long[..], &delay[..]].concat()),
        ("wvegas/fig2a", [&long[..], &delay[..]].concat()),
    ];
    let mut rows = Vec::new();
    let mut worst = 0.0f64;
    for (scenario, set) in all {
        for point in Source::new(scenario, &set).points()? {
            let run = run(&point.experiment, &RunOptions::default())?;
            let epoch = run.epochs.last().ok_or("no epoch")?;
            let rest = epoch.rest.as_ref().ok_or("nobody is there")?;
            let mut totals = vec![(0.0, 0.0); run.flows.len()];
            for (n, &(flow, _)) in epoch.subflows.iter().enumerate() {
                totals[flow].0 += epoch.end_bps[n];
                totals[flow].1 += rest.rates_bps[n];
            }
            let off = totals.iter().map(|(end, rest)| (end / rest - 1.0).abs());
            let off = off.fold(0.0, f64::max);
            worst = worst.max(off);
            let how = match rest.method {
                Some(method) => format!("{method:?}").to_lowercase(),
                None => "optimum".to_owned(),
            };
            rows.push(vec![
                format!("{scenario}, {}", point.experiment.flows[0].law),
                how,
                format!("{:.1e}", rest.residual),
                format!("{off:.1e}"),
            ]);
            worst = if rest.converged { worst } else { f64::NAN };
        }
    }
    gates.push(gate("balia/trajectories").value(worst, format!("{worst:.1e}")));
    let columns = [
        "scenario and law",
        "equilibrium by",
        "its residual",
        "trajectory's flows from it, at most",
    ];
    Ok(markdown(&columns, &rows))
}

/// A Semicoupled flow over routes of 10 and 267 ms, outside the theorems' hypotheses.
fn cycle() -> Result<(Gate, Figure, Headline), Failure> {
    let model = model(
        &[40.8, 24.65],
        &[
            ("semicoupled", &[(&[0], 0.267), (&[0, 1], 0.01)]),
            ("reno", &[(&[1], 0.278)]),
            ("reno", &[(&[1], 0.248)]),
        ],
    );
    let rest = model.equilibrium();
    let system = LossModel::new(&model);
    let state = system.state(&rest.rates, &rest.prices);
    let eigenvalues = system.jacobian(&state).complex_eigenvalues();
    let abscissa = eigenvalues
        .iter()
        .map(|value| value.re)
        .fold(f64::NEG_INFINITY, f64::max);
    let mut integrator = Integrator::new(&system, state.map(|value| 0.9999 * value), 1e-6);
    let mut points = Vec::new();
    let end = 12_000.0;
    while integrator.time() < end {
        let step = integrator.step(end)?;
        points.push((step.times.1, step.states.1[0].exp() * 12e-3));
    }
    let late = points
        .iter()
        .filter(|(time, _)| *time > 10_000.0)
        .map(|(_, rate)| *rate);
    let (least, most) = late.fold((f64::INFINITY, 0.0f64), |(a, b), rate| {
        (a.min(rate), b.max(rate))
    });
    let mut plot = Plot::new(
        "A Semicoupled flow over 267 ms and 10 ms leaves its equilibrium: rate on the long path",
        Kind::Lines,
    );
    plot.x_label = "time, s".to_owned();
    plot.y_label = "Mbps".to_owned();
    plot.size = (1000, 400);
    let line = Series {
        name: "long path".to_owned(),
        points,
    };
    plot.series = vec![line.thinned(1000)];
    let unstable = rest.converged && abscissa > 0.0;
    let gate = gate("balia/outside-the-hypotheses").value(
        if unstable { most / least } else { f64::NAN },
        format!("spectral abscissa {abscissa:.1e}/s, {least:.1} to {most:.1} Mbps"),
    );
    let headline = Headline::rounded(
        "unstable equilibrium: rate on the long path, Mbps",
        rest.rates[0] * 12e-3,
    );
    Ok((gate, Figure::new("fluid-cycle", plot), headline))
}

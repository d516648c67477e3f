//! Fluid and packet level on the network of Fig. 2 of Peng et al., by capacities and by measured
//! loss.

use manyway_fluid::{FluidLaw, Model, Network};
use manyway_scenario::Point;
use manyway_simulate::packet::{RunResult, SubflowResult};
use manyway_units::Time;

use crate::failure::Failure;
use crate::gate::{Gate, GateRow, gate};
use crate::headline::Headline;
use crate::runs::{RED, Runs, Source};
use crate::statistics::mean;
use crate::table::{Table, markdown};

/// What the square root law has for a constant under random loss, and under periodic loss, where
/// the fluid has √2.
const CONSTANTS: [f64; 2] = [1.31, 1.224_744_871_391_589];

pub(crate) struct Friendliness {
    pub(crate) bias: String,
    pub(crate) shares: String,
    pub(crate) losses: String,
    pub(crate) table3: String,
    pub(crate) smallest_window: String,
    pub(crate) coupled: String,
    pub(crate) gates: Vec<Gate>,
    pub(crate) tables: Vec<Table>,
    pub(crate) headline: Vec<Headline>,
}

/// Kinds of flows, in cases.
const KINDS: [&str; 2] = ["multipath", "single path"];

/// Mean rate (Mbps), round trip (ms) and loss (%) of each kind of subflow.
const COLUMNS: [&str; 9] = [
    "multipath, first",
    "second",
    "single",
    "RTT: multipath, first",
    "second",
    "single",
    "loss: multipath, first",
    "second",
    "single",
];

pub(crate) fn compare(runs: Runs) -> Result<Friendliness, Failure> {
    let fig2 = Network2::run(Source::new("balia/fluid", &[]), runs)?;
    let set = [RED, "headers=0 B", "jitter=0 s"];
    let small = [&set[..], &["flows.multipath.window_floor=1 packets"]].concat();
    let table3 = Network2::run(Source::new("balia/table3", &set), runs.at_most(4))?;
    let smallest = Network2::run(Source::new("balia/table3", &small), runs.at_most(4))?;
    let mut gates = Vec::new();
    let (bias, bias_tables) = bias(runs, &mut gates)?;
    let mut headline = Vec::new();
    for (loss, table) in ["random loss", "periodic loss"].iter().zip(&bias_tables) {
        headline.extend(table.headline(loss, &[], 0..1));
    }
    headline.extend(fig2.table.headline("Fig. 2, packets", &[], 0..3));
    headline.extend(fig2.fluid_rates("Fig. 2, fluid"));
    let shares = fig2.shares(&mut gates, gate("balia/fluid-fig-2"));
    let losses = fig2.losses(&mut gates);
    let small = table3.shares(&mut gates, gate("balia/fluid-table-3"));
    let smallest_window = smallest.shares(&mut gates, gate("balia/fluid-table-3-floor"));
    let coupled = fig2.coupled()?;
    let mut tables = vec![fig2.table, table3.table, smallest.table];
    tables.extend(bias_tables);
    Ok(Friendliness {
        bias,
        shares,
        losses,
        table3: small,
        smallest_window,
        coupled,
        gates,
        tables,
        headline,
    })
}

/// Fig. 2's network with a sweep over laws: the scenario's points, and what was measured of them.
struct Network2 {
    points: Vec<Point>,
    table: Table,
}

impl Network2 {
    fn run(source: Source<'_>, runs: Runs) -> Result<Self, Failure> {
        Ok(Network2 {
            points: source.points()?,
            table: Table::run(source, runs, &COLUMNS, measure)?,
        })
    }

    /// The points whose laws have a fluid form, with their names and what was measured.
    fn known(&self) -> impl Iterator<Item = (&Point, String, Vec<f64>)> {
        let rows = self.points.iter().zip(&self.table.rows);
        rows.filter(|(point, _)| FluidLaw::of(&point.experiment.flows[0].law).is_ok())
            .map(|(point, row)| {
                let means = row.values.iter().map(|value| value.mean).collect();
                (point, point.experiment.flows[0].law.to_string(), means)
            })
    }

    /// The network with the round trips that were measured, queues included; first of flows, then
    /// the single ones.
    fn network(point: &Point, measured: &[f64]) -> (Network, Vec<FluidLaw>) {
        let mut network = Network::at(&point.experiment, Time::ZERO);
        for flow in &mut network.flows {
            for (n, route) in flow.routes.iter_mut().enumerate() {
                let kind = if flow.name.starts_with("multipath") {
                    n
                } else {
                    2
                };
                route.rtt = measured[3 + kind] / 1e3;
            }
        }
        let laws = point
            .experiment
            .flows
            .iter()
            .map(|flow| FluidLaw::of(&flow.law));
        (network, laws.filter_map(Result::ok).collect())
    }

    /// Mean rates in Mbps of the multipath flows' first and second subflow, and of the single-path
    /// flows.
    fn kinds(network: &Network, rates: &[f64]) -> [f64; 3] {
        let mut sums = [(0.0, 0.0); 3];
        let mut rates = rates.iter();
        for flow in &network.flows {
            for (n, (route, rate)) in flow.routes.iter().zip(rates.by_ref()).enumerate() {
                let kind = if flow.name.starts_with("multipath") {
                    n
                } else {
                    2
                };
                sums[kind].0 += rate * route.packet / 1e6;
                sums[kind].1 += 1.0;
            }
        }
        sums.map(|(sum, count)| sum / count)
    }

    /// Rates of the multipath and of the single-path flows at the fluid's equilibrium; without
    /// Coupled, whose equilibrium isn't unique.
    fn fluid_rates(&self, what: &str) -> Vec<Headline> {
        let laws = self.known().filter(|(_, law, _)| law != "coupled");
        let rates = laws.flat_map(|(point, law, measured)| {
            let (network, laws) = Self::network(point, &measured);
            let model = Model::new(network, laws).expect("the scenario's network");
            let rest = model.equilibrium();
            let [first, second, single] = Self::kinds(model.network(), &rest.rates);
            [("multipath", first + second), ("single", single)]
                .map(|(kind, rate)| Headline::rounded(format!("{what}, {law}: {kind}, Mbps"), rate))
        });
        rates.collect()
    }

    /// By capacities: who has how much of the links.
    fn shares(&self, gates: &mut Vec<Gate>, gate: GateRow) -> String {
        let mut rows = Vec::new();
        let (mut cases, mut found) = (Vec::new(), Vec::new());
        for (point, law, measured) in self.known() {
            let (network, laws) = Self::network(point, &measured);
            let model = Model::new(network, laws).expect("the scenario's network");
            let rest = model.equilibrium();
            let fluid = Self::kinds(model.network(), &rest.rates);
            let pairs = [
                (fluid[0] + fluid[1], measured[0] + measured[1]),
                (fluid[1], measured[1]),
                (fluid[2], measured[2]),
            ];
            let mut row = vec![format!(
                "{law}{}",
                if rest.converged {
                    ""
                } else {
                    " (not converged)"
                }
            )];
            for (fluid, packet) in pairs {
                row.push(format!("{fluid:.3}"));
                row.push(format!("{packet:.3}"));
            }
            rows.push(row);
            if law == "coupled" {
                continue;
            }
            let off = [pairs[0], pairs[2]].map(|(fluid, packet)| 100.0 * (fluid / packet - 1.0));
            found.push(format!("{law} {:+.1} and {:+.1} %", off[0], off[1]));
            let kinds = KINDS.map(|kind| format!("{law}, {kind}"));
            cases.extend(kinds.into_iter().zip(off.map(f64::abs)));
        }
        gates.push(gate.cases(cases, found.join(", ")));
        let columns = [
            "law",
            "multipath, fluid",
            "packet",
            "its second subflow, fluid",
            "packet",
            "single-path, fluid",
            "packet",
        ];
        markdown(&columns, &rows)
    }

    /// By measured loss: what rate a law has at the loss and the round trip that its subflows had.
    fn losses(&self, gates: &mut Vec<Gate>) -> String {
        let mut rows = Vec::new();
        let (mut cases, mut found) = (Vec::new(), Vec::new());
        for (point, law, measured) in self.known() {
            let (mut network, laws) = Self::network(point, &measured);
            // Capacities that limit nobody: the price is what was measured.
            for link in &mut network.links {
                link.capacity *= 1e3;
            }
            let kinds = network.flows.iter().flat_map(|flow| {
                let multipath = flow.name.starts_with("multipath");
                (0..flow.routes.len()).map(move |n| if multipath { n } else { 2 })
            });
            let losses = kinds.map(|kind| measured[6 + kind] / 100.0).collect();
            let model = Model::new(network, laws).expect("the scenario's network");
            let model = model.with_losses(losses);
            let rest = model.equilibrium();
            let fluid = Self::kinds(model.network(), &rest.rates);
            let ratios = [
                (fluid[0] + fluid[1]) / (measured[0] + measured[1]),
                fluid[2] / measured[2],
            ];
            let mut row = vec![format!(
                "{law}{}",
                if rest.converged {
                    ""
                } else {
                    " (not converged)"
                }
            )];
            row.extend(measured[6..9].iter().map(|loss| format!("{loss:.4}")));
            row.extend(ratios.map(|ratio| format!("{ratio:.3}")));
            rows.push(row);
            if law == "coupled" {
                continue;
            }
            let [random, periodic] = CONSTANTS.map(|constant| 2f64.sqrt() / constant);
            // Below the one bias, or above the other.
            let off =
                ratios.map(|ratio| 100.0 * (1.0 - ratio / random).max(ratio / periodic - 1.0));
            let kinds = KINDS.map(|kind| format!("{law}, {kind}"));
            cases.extend(kinds.into_iter().zip(off));
            found.push(format!("{law} {:.2} and {:.2}", ratios[0], ratios[1]));
        }
        gates.push(gate("balia/fluid-loss").cases(cases, found.join(", ")));
        let columns = [
            "law",
            "loss, first (%)",
            "second (%)",
            "single (%)",
            "multipath, fluid over packet",
            "single-path, fluid over packet",
        ];
        markdown(&columns, &rows)
    }

    /// Coupled's second path, with and without the smallest window.
    fn coupled(&self) -> Result<String, Failure> {
        use manyway_fluid::run::{RunOptions, run};
        let known = self.known().find(|(_, law, _)| law == "coupled");
        let (point, _, measured) = known.ok_or("the scenario has no point with Coupled")?;
        let mut rows = Vec::new();
        for (name, floors) in [("fluid", false), ("fluid, window of 1 at least", true)] {
            let options = RunOptions {
                floors,
                ..RunOptions::default()
            };
            let run = run(&point.experiment, &options)?;
            let second = &run.flows[0].subflows[1];
            let goodput = second.goodput_bps / 1e6;
            rows.push(vec![
                name.to_owned(),
                format!("{goodput:.3}"),
                format!("{:.2}", second.window_mean_packets),
            ]);
        }
        let window = measured[1] * 1e6 / 12_000.0 * measured[4] / 1e3;
        rows.push(vec![
            "packet".to_owned(),
            format!("{:.3}", measured[1]),
            format!("{window:.2}"),
        ]);
        Ok(markdown(
            &["Coupled", "second subflow (Mbps)", "its window (packets)"],
            &rows,
        ))
    }
}

fn measure(run: &RunResult) -> Vec<f64> {
    let of = |name: &str, path: usize| -> Vec<&SubflowResult> {
        let flows = run.flows.iter().filter(|flow| flow.name.starts_with(name));
        flows.map(|flow| &flow.subflows[path]).collect()
    };
    let kinds = [of("multipath", 0), of("multipath", 1), of("single", 0)];
    let mean = |each: fn(&SubflowResult) -> f64| {
        let kinds = kinds.iter();
        kinds.map(move |subflows| {
            self::mean(
                &subflows
                    .iter()
                    .map(|subflow| each(subflow))
                    .collect::<Vec<_>>(),
            )
        })
    };
    let loss = kinds.iter().map(|subflows| {
        let events: u64 = subflows.iter().map(|subflow| subflow.loss_events).sum();
        let sent: u64 = subflows.iter().map(|subflow| subflow.packets_sent).sum();
        100.0 * events as f64 / sent as f64
    });
    mean(|subflow| subflow.goodput_bps / 1e6)
        .chain(mean(|subflow| 1e3 * subflow.rtt_mean_s))
        .chain(loss)
        .collect()
}

/// Reno's window at its loss, as a constant over √p: under random loss, and alone on a link, where
/// loss is periodic.
fn bias(runs: Runs, gates: &mut Vec<Gate>) -> Result<(String, Vec<Table>), Failure> {
    let random = [
        "links.second.queue=4000 packets",
        "links.second.rate=1 Gbps",
        "links.second.loss=0.0002",
        "flows.multipath.count=0",
        "sweep.\"flows.multipath.law\"=[\"reno\"]",
    ];
    let periodic = [
        "links.second.queue=200 packets",
        "flows.multipath.count=0",
        "flows.single.count=1",
        "sweep.\"flows.multipath.law\"=[\"reno\"]",
    ];
    let mut rows = Vec::new();
    let mut tables = Vec::new();
    let (by_chance, in_turn) = (
        gate("balia/constant-random"),
        gate("balia/constant-periodic"),
    );
    for (name, set, constant, gate) in [
        ("random", &random[..], CONSTANTS[0], by_chance),
        ("periodic", &periodic[..], CONSTANTS[1], in_turn),
    ] {
        let source = Source::new("balia/fluid", set);
        let table = Table::run(source, runs, &["window · √loss"], |run| {
            let subflows = run.flows.iter().map(|flow| &flow.subflows[0]);
            let constants = subflows.map(|subflow| {
                let loss = subflow.loss_events as f64 / subflow.packets_sent as f64;
                subflow.window_mean_packets * loss.sqrt()
            });
            let constants: Vec<f64> = constants.collect();
            vec![mean(&constants)]
        })?;
        let found = table.rows[0].values[0].mean;
        rows.push(vec![
            name.to_owned(),
            format!("{constant:.3}"),
            format!("{found:.3}"),
            format!("{:+.1}", 100.0 * (2f64.sqrt() / found - 1.0)),
        ]);
        gates.push(gate.value(100.0 * (found / constant - 1.0), format!("{found:.3}")));
        tables.push(table);
    }
    let columns = [
        "loss",
        "known constant",
        "packet level",
        "fluid above it (%)",
    ];
    Ok((markdown(&columns, &rows), tables))
}

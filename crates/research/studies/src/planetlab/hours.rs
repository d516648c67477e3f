//! Section 4.2 over hours (Fig. 15 to 17), and how far relays may be (Fig. 27).

use manyway_simulate::packet::{FlowResult, RunResult};
use serde::Serialize;

use super::assumptions::{Assumptions, Background};
use super::experiments::{Plan, networks};
use super::network::{Network, Node, bottlenecks};
use super::runs::{all, open, rates, simulate};
use super::scenario::{INTERVAL_S, Law, Run};
use super::statistics::{Sample, settled_s};
use crate::failure::Failure;
use crate::gate::{Gate, GateRow, gate};
use crate::ours::Ours;
use crate::table::texts as table;

/// As many relays as on Emulab (Fig. 7).
const FEW: usize = 3;
/// So many pairs are looked through for one of the wanted kind.
const LOOKED_THROUGH: usize = 50;
/// Part of the usable relays that counts as all: one that is found late is used late.
const ALL: f64 = 0.99;
/// Values of τ, in round-trip times of the direct path.
pub(crate) const TAUS: [f64; 5] = [1.0, 1.5, 2.0, 3.0, 4.0];

/// All of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Hours {
    /// Fig. 15: with flows of others on congested links, and with rates that they leave.
    pub(crate) shared: Vec<Joined>,
    pub(crate) reduced: Vec<Joined>,
    /// The latter with as few relays as on Emulab.
    pub(crate) few: Vec<Joined>,
    /// Fig. 16: pairs that the core limits.
    pub(crate) core: Vec<Tried>,
    /// The same with flows of others on congested links.
    pub(crate) core_shared: Vec<Tried>,
    /// Fig. 17: pairs that their access links limit.
    pub(crate) access: Vec<Tried>,
    /// The same with queues of a quarter of the length.
    pub(crate) access_short: Vec<Tried>,
    /// Fig. 27.
    pub(crate) reach: Vec<Reach>,
}

/// A TCP flow alone, mPath beside it, and mPath after it has ended; goodput in Mbps.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Joined {
    pub(crate) tcp: f64,
    /// mPath's direct path and its proxied ones.
    pub(crate) beside: [f64; 2],
    pub(crate) after: [f64; 2],
}

/// How a pair finds its relays and uses them.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Tried {
    /// Usable relays found in two minutes, and in the whole run.
    pub(crate) found: f64,
    pub(crate) usable: f64,
    /// Relays that have had a path.
    pub(crate) used: f64,
    /// Proxied paths open: median over the run.
    pub(crate) open: f64,
    /// When all usable relays have been used, minutes; infinite if not within the run.
    pub(crate) all_min: f64,
    /// Goodput over TCP's at the same time, and when it had settled, seconds.
    pub(crate) ratio: f64,
    pub(crate) settled_s: f64,
}

/// What comes of a τ.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Reach {
    pub(crate) tau: f64,
    pub(crate) usable: Sample,
    /// mPath over TCP at the same time.
    pub(crate) ratios: Sample,
}

/// Runs all of it on networks with seeds from that of `assumptions` on.
pub(crate) fn hours(assumptions: &Assumptions, plan: Plan) -> Result<Hours, Failure> {
    let others = Assumptions {
        background: Background::Elastic(4),
        ..assumptions.clone()
    };
    let short = Assumptions {
        queue_s: assumptions.queue_s / 4.0,
        ..assumptions.clone()
    };
    let reduced = networks(plan.networks, assumptions);
    let short = networks(plan.networks, &short);
    let shared = networks(plan.networks, &others);
    let in_core = |network: &Network, (from, to)| {
        let (access, core) = bottlenecks(&network.route(from, to));
        access > 2.0 * core
    };
    let at_end = |network: &Network, (from, to)| {
        let (access, core) = bottlenecks(&network.route(from, to));
        access <= core
    };
    Ok(Hours {
        shared: all("Fig. 15, others' flows", &first(&shared, in_core), |job| {
            joined(job, assumptions.relays)
        })?,
        reduced: all("Fig. 15", &first(&reduced, in_core), |job| {
            joined(job, assumptions.relays)
        })?,
        few: all("Fig. 15, few relays", &first(&reduced, in_core), |job| {
            joined(job, FEW)
        })?,
        core: all("Fig. 16", &first(&reduced, in_core), |job| {
            tried(job, 80 * 60)
        })?,
        core_shared: all("Fig. 16, others' flows", &first(&shared, in_core), |job| {
            tried(job, 80 * 60)
        })?,
        access: all("Fig. 17", &first(&reduced, at_end), |job| {
            tried(job, 30 * 60)
        })?,
        access_short: all("Fig. 17, short queues", &first(&short, at_end), |job| {
            tried(job, 30 * 60)
        })?,
        reach: reach(&reduced, plan.pairs)?,
    })
}

type Ends = (Node, Node);

/// The first pair of each network of which this is true.
fn first(networks: &[Network], wanted: impl Fn(&Network, Ends) -> bool) -> Vec<(&Network, Ends)> {
    let of = |network| {
        let mut pairs = Network::pairs(network, LOOKED_THROUGH).into_iter();
        pairs
            .find(|&pair| wanted(network, pair))
            .map(|pair| (network, pair))
    };
    networks.iter().filter_map(of).collect()
}

fn run(law: Law, ends: Ends, duration_s: u32) -> Run {
    Run {
        law,
        pairs: vec![ends],
        duration_s,
        epoch: 0,
        series: true,
    }
}

/// The paper's procedure, minutes: TCP alone, from 20 on with mPath, and from 60 to 90 mPath alone.
fn joined(&(network, ends): &(&Network, Ends), relays: usize) -> Result<Joined, Failure> {
    let mut text = network.scenario(&run(Law::Mpath(relays), ends, 90 * 60));
    text.push_str("[flows.tcp]\nlaw = \"reno\"\npaths = [\"c0-direct\"]\nstop = \"60 min\"\n");
    let result = simulate(
        &text,
        &[
            "flows.c0.start=20 min",
            "measure.spans=[{ name = \"alone\", from = \"10 min\", until = \"20 min\" }, \
             { name = \"beside\", from = \"45 min\", until = \"60 min\" }, \
             { name = \"after\", from = \"75 min\", until = \"90 min\" }]",
        ],
    )?;
    let of = |name, span: usize| -> Result<[f64; 2], Failure> {
        let subflows = &flow(&result, name)?.subflows;
        let rates = subflows.iter().map(|subflow| subflow.spans_bps[span] / 1e6);
        let rates: Vec<f64> = rates.collect();
        Ok([rates[0], rates[1..].iter().sum()])
    };
    Ok(Joined {
        tcp: of("tcp", 0)?[0],
        beside: of("c0", 1)?,
        after: of("c0", 2)?,
    })
}

fn tried(&(network, ends): &(&Network, Ends), duration_s: u32) -> Result<Tried, Failure> {
    let relays = network.relays.len();
    let of = |law, duration_s| simulate(&network.scenario(&run(law, ends, duration_s)), &[]);
    let early = of(Law::Mpath(relays), 120)?;
    let mpath = of(Law::Mpath(relays), duration_s)?;
    let tcp = of(Law::Tcp, duration_s)?;
    let usable = usable(flow(&mpath, "c0")?);
    let uses = first_uses(&mpath);
    let used = flow(&mpath, "c0")?.subflows[1..].iter();
    let used = used.filter(|relay| relay.openings > 0).count() as f64;
    let last = uses.get(((ALL * uses.len() as f64).ceil() as usize).max(1) - 1);
    let last = last.filter(|_| used >= ALL * usable);
    let open_paths = Sample::new(open(flow(&mpath, "c0")?, &mpath));
    Ok(Tried {
        found: self::usable(flow(&early, "c0")?),
        usable,
        open: open_paths.quantile(0.5),
        used,
        all_min: last.map_or(f64::INFINITY, |at| at / 60.0),
        ratio: flow(&mpath, "c0")?.goodput_bps / flow(&tcp, "c0")?.goodput_bps,
        settled_s: settled_s(&rates(flow(&mpath, "c0")?, &mpath), INTERVAL_S),
    })
}

/// Relays whose probe was answered in time.
fn usable(flow: &FlowResult) -> f64 {
    let relays = flow.subflows[1..].iter();
    let usable = relays.filter(|it| it.openings > 0 || it.packets_sent > it.timeouts);
    usable.count() as f64
}

/// When each relay was used first, seconds, in the order of time; without those whose path was
/// never open at the end of an interval.
fn first_uses(run: &RunResult) -> Vec<f64> {
    let windows = run.series.iter().filter(|series| series.kind == "window");
    let relayed = windows.filter(|series| series.of[1] != "c0-direct");
    let first = |values: &[f64]| values.iter().position(|value| *value > 0.0);
    let mut uses: Vec<f64> = relayed
        .filter_map(|series| first(&series.values))
        .map(|n| (n + 1) as f64 * INTERVAL_S)
        .collect();
    uses.sort_by(f64::total_cmp);
    uses
}

/// The first pairs of each network with each τ, ten minutes.
fn reach(networks: &[Network], pairs: usize) -> Result<Vec<Reach>, Failure> {
    let ends = networks.iter().flat_map(|network| {
        let pairs = network.pairs(pairs).into_iter();
        pairs.map(move |pair| (network, pair))
    });
    let ends: Vec<(&Network, Ends)> = ends.collect();
    let tcp = all("Fig. 27, TCP", &ends, |&(network, ends)| {
        let result = simulate(&network.scenario(&run(Law::Tcp, ends, 600)), &[])?;
        Ok(flow(&result, "c0")?.goodput_bps)
    })?;
    let jobs: Vec<(f64, (&Network, Ends))> = TAUS
        .iter()
        .flat_map(|&tau| ends.iter().map(move |&ends| (tau, ends)))
        .collect();
    let found = all("Fig. 27", &jobs, |&(tau, (network, ends))| {
        let relays = network.relays.len();
        let text = network.scenario(&run(Law::Mpath(relays), ends, 600));
        let set = format!("flows.c0.law=mpath:tau={tau:.1}");
        let result = simulate(&text, &[&set])?;
        let flow = flow(&result, "c0")?;
        Ok((usable(flow), flow.goodput_bps))
    })?;
    let by_tau = TAUS.iter().zip(found.chunks(ends.len()));
    let reach = by_tau.map(|(&tau, found)| Reach {
        tau,
        usable: Sample::new(found.iter().map(|found| found.0)),
        ratios: Sample::new(found.iter().zip(&tcp).map(|(found, tcp)| found.1 / tcp)),
    });
    Ok(reach.collect())
}

fn flow<'a>(run: &'a RunResult, name: &str) -> Result<&'a FlowResult, Failure> {
    let found = run.flows.iter().find(|flow| flow.name == name);
    found.ok_or_else(|| format!("no flow {name} in the result").into())
}

impl Joined {
    /// All pairs' growth after the TCP flow's end: of direct paths, and of proxied ones.
    fn growth(pairs: &[Joined]) -> [f64; 2] {
        [0, 1].map(|n| {
            pairs
                .iter()
                .map(|pair| pair.after[n] - pair.beside[n])
                .sum()
        })
    }

    /// The proxied paths' part of it.
    fn proxied(pairs: &[Joined]) -> f64 {
        let [direct, proxied] = Self::growth(pairs);
        proxied / (direct + proxied)
    }

    /// What mPath alone has over what the TCP flow had alone.
    fn gain(&self) -> f64 {
        (self.after[0] + self.after[1]) / self.tcp
    }
}

fn median<T>(of: &[T], value: impl Fn(&T) -> f64) -> f64 {
    Sample::new(of.iter().map(value)).quantile(0.5)
}

/// What stands beside the paper's numbers.
pub(crate) fn ours(hours: &Hours) -> Vec<Ours> {
    let found = median(&hours.core, |pair| pair.found);
    vec![Ours::exact("mpath/figure-16", "usable after 2 min", found)]
}

/// What must hold of it.
pub(crate) fn gates(hours: &Hours) -> Vec<Gate> {
    let Hours {
        shared,
        reduced,
        few,
        core,
        core_shared,
        access,
        access_short,
        reach,
    } = hours;
    let one = |gate: GateRow, value: f64| gate.value(value, format!("{value:.2}"));
    // `quantile` leaves out what isn't finite, and some never come to an end.
    let tried = |pairs: &[Tried]| {
        let mut minutes: Vec<f64> = pairs.iter().map(|pair| pair.all_min).collect();
        minutes.sort_by(f64::total_cmp);
        minutes
            .get(minutes.len() / 2)
            .map_or(f64::NAN, |at| at.min(1000.0))
    };
    let more = reach.windows(2).map(|pair| {
        let case = format!("τ = {}", pair[1].tau);
        (case, pair[1].usable.mean() / pair[0].usable.mean())
    });
    let more: Vec<(String, f64)> = more.collect();
    let shown: Vec<String> = reach
        .iter()
        .map(|reach| format!("{:.0} with {}", reach.usable.mean(), reach.tau))
        .collect();
    let at = |tau: f64| {
        let of = reach.iter().find(|reach| reach.tau == tau);
        of.map_or(f64::NAN, |reach| reach.ratios.mean())
    };
    let gains = |pairs: &[Joined]| median(pairs, Joined::gain);
    vec![
        gate("mpath/figure-15-gain").cases(
            [
                ("others' flows", gains(shared)),
                ("others' rates", gains(reduced)),
            ],
            format!("{:.2}, {:.2}", gains(shared), gains(reduced)),
        ),
        one(gate("mpath/figure-15-proxied"), Joined::proxied(shared)),
        one(gate("mpath/figure-15-direct"), Joined::proxied(reduced)),
        one(gate("mpath/figure-15-direct-few"), Joined::proxied(few)),
        one(
            gate("mpath/figure-16-found"),
            median(core, |pair| pair.found),
        ),
        one(gate("mpath/figure-16-open"), median(core, |pair| pair.open)),
        one(
            gate("mpath/figure-16-open-shared"),
            median(core_shared, |pair| pair.open),
        ),
        one(gate("mpath/figure-16-tried"), tried(core)),
        one(
            gate("mpath/figure-17-rate"),
            median(access, |pair| pair.ratio),
        ),
        one(
            gate("mpath/figure-17-settled"),
            median(access, |pair| pair.settled_s),
        ),
        one(gate("mpath/figure-17-tried"), tried(access)),
        one(gate("mpath/figure-17-tried-short"), tried(access_short)),
        gate("mpath/figure-27-usable").cases(more, shown.join(", ")),
        one(gate("mpath/figure-27-enough"), at(4.0) / at(2.0)),
    ]
}

/// The page's tables, by the names of their places.
pub(crate) fn tables(hours: Option<&Hours>) -> [(&'static str, String); 3] {
    let Some(hours) = hours else {
        return ["joined", "tried", "reach"]
            .map(|place| (place, "(The full run alone has this.)".to_owned()));
    };
    let mut joined = table(&[
        "links",
        "TCP alone",
        "direct, beside TCP",
        "proxied",
        "direct, alone",
        "proxied",
    ]);
    for (name, pairs) in [
        ("others' flows", &hours.shared),
        ("others' rates", &hours.reduced),
        ("others' rates, 3 relays", &hours.few),
    ] {
        for pair in pairs {
            let values = [
                pair.tcp,
                pair.beside[0],
                pair.beside[1],
                pair.after[0],
                pair.after[1],
            ];
            let values = values.iter().map(|value| format!("{value:.2}"));
            joined.row(std::iter::once(name.to_owned()).chain(values));
        }
    }
    let mut tried = table(&[
        "limited",
        "usable after 2 min",
        "in all",
        "used",
        "open, median",
        "all used after, min",
        "of TCP's goodput",
        "settled, s",
    ]);
    for (name, pairs) in [
        ("in the core", &hours.core),
        ("in the core, others' flows", &hours.core_shared),
        ("at an end", &hours.access),
        ("at an end, short queues", &hours.access_short),
    ] {
        for pair in pairs {
            let minutes = match pair.all_min.is_finite() {
                true => format!("{:.0}", pair.all_min),
                false => "never".to_owned(),
            };
            tried.row([
                name.to_owned(),
                format!("{:.0}", pair.found),
                format!("{:.0}", pair.usable),
                format!("{:.0}", pair.used),
                format!("{:.0}", pair.open),
                minutes,
                format!("{:.2}", pair.ratio),
                format!("{:.0}", pair.settled_s),
            ]);
        }
    }
    let mut reach = table(&[
        "τ, round trips",
        "usable relays, mean",
        "mean ratio",
        "median ratio",
    ]);
    for row in &hours.reach {
        reach.row([
            format!("{}", row.tau),
            format!("{:.0}", row.usable.mean()),
            format!("{:.2}", row.ratios.mean()),
            format!("{:.2}", row.ratios.quantile(0.5)),
        ]);
    }
    [
        ("joined", joined.markdown()),
        ("tried", tried.markdown()),
        ("reach", reach.markdown()),
    ]
}

//! Whether `auto` is fair where its paths meet another flow: `scenarios/field/fair.toml` on two
//! links, with queues from a twentieth of a bandwidth-delay product to twenty, with and without
//! random losses, and with one CUBIC flow in its place to compare with.

mod verdict;

use manyway_simulate::packet::RunResult;
use serde_json::Value;

use self::verdict::{Cell, Control};
use crate::extent::{Extent, Size};
use crate::failure::Failure;
use crate::headline::Headline;
use crate::measured::goodput;
use crate::page::Page;
use crate::runs::{Runs, Source};
use crate::statistics::mean;
use crate::study::{Outcome, Study};
use crate::table::{Table, markdown};

/// The study.
pub(crate) struct Fair;

/// A link and its queue, of so many bandwidth-delay products.
#[derive(Copy, Clone)]
struct Network {
    name: &'static str,
    set: [&'static str; 2],
    queues: [(&'static str, &'static str); 6],
}

const NETWORKS: [Network; 2] = [
    Network {
        name: "20 Mbps, 20 ms",
        set: ["links.shared.rate=20 Mbps", "links.shared.delay=10 ms"],
        queues: [
            ("0.05", "links.shared.queue=1 packet"),
            ("0.1", "links.shared.queue=3 packets"),
            ("0.5", "links.shared.queue=17 packets"),
            ("1", "links.shared.queue=33 packets"),
            ("4", "links.shared.queue=133 packets"),
            ("20", "links.shared.queue=667 packets"),
        ],
    },
    Network {
        name: "100 Mbps, 50 ms",
        set: ["links.shared.rate=100 Mbps", "links.shared.delay=25 ms"],
        queues: [
            ("0.05", "links.shared.queue=21 packets"),
            ("0.1", "links.shared.queue=42 packets"),
            ("0.5", "links.shared.queue=208 packets"),
            ("1", "links.shared.queue=417 packets"),
            ("4", "links.shared.queue=1667 packets"),
            ("20", "links.shared.queue=8333 packets"),
        ],
    },
];
/// What the short run takes of them: the first network, with these queues.
const SHORT: [&str; 2] = ["0.1", "1"];
/// Share of packets lost at random where the other flow has to keep what it has.
const LOSS: &str = "links.shared.loss=0.01";
/// Numbers of subflows, and their paths.
const SUBFLOWS: [(usize, &str); 2] = [
    (2, "flows.main.paths=[\"a\", \"b\"]"),
    (4, "flows.main.paths=[\"a\", \"b\", \"c\", \"d\"]"),
];
const CUBIC: [&str; 2] = ["flows.main.paths=[\"a\"]", "flows.main.law=cubic"];
/// Other seeds than the scenario's, of which there are 20.
const OTHER_SEEDS: &str = "seed=1001";

impl Study for Fair {
    fn name(&self) -> &'static str {
        "fair"
    }

    fn reproduces(&self) -> &'static str {
        "shares of `auto` beside one other flow, and of one CUBIC flow in its place"
    }

    fn cost(&self, size: Size) -> u32 {
        match size {
            Size::Short => 7,
            Size::Full => 900,
        }
    }

    fn run(&self, extent: Extent) -> Result<Outcome, Failure> {
        let runs = extent.runs(20, 3);
        let mut tables = Vec::new();
        let (mut cells, mut controls) = (Vec::new(), Vec::new());
        for network in NETWORKS {
            for (products, queue) in network.queues {
                let short = network.name == NETWORKS[0].name && SHORT.contains(&products);
                if extent.full() || short {
                    let at = format!("{}, queue {products}", network.name);
                    let set = [&network.set[..], &[queue]].concat();
                    let (more, control) = beside(&at, &set, runs, &mut tables)?;
                    cells.extend(more);
                    controls.extend(control);
                }
            }
        }
        Ok(outcome(&cells, &controls, tables))
    }
}

/// The cells of one link with one queue, and what chance makes of CUBIC's own there.
fn beside(
    at: &str,
    set: &[&str],
    runs: Runs,
    tables: &mut Vec<Table>,
) -> Result<(Vec<Cell>, Vec<Control>), Failure> {
    let mut run = |more: &[&str]| -> Result<Table, Failure> {
        let set = [set, more].concat();
        let table = Table::run(Source::new("field/fair", &set), runs, &COLUMNS, columns)?;
        tables.push(table.clone());
        Ok(table)
    };
    let mut both = |set: &[&str]| Ok::<_, Failure>([run(set)?, run(&[set, &[LOSS][..]].concat())?]);
    let cubic = both(&CUBIC)?;
    let mut cells = Vec::new();
    for (subflows, paths) in SUBFLOWS {
        let auto = both(&[paths])?;
        for (n, row) in auto[0].rows.iter().enumerate() {
            let values = |of: &[Table; 2]| of.each_ref().map(|table| table.rows[n].values.clone());
            let ([auto, auto_lossy], [one, one_lossy]) = (values(&auto), values(&cubic));
            let [other, order] = &row.point[..] else {
                panic!("a law and an order")
            };
            cells.push(Cell {
                name: format!("{at}: {subflows} {order} {other}"),
                share: auto[0],
                one: one[0],
                kept: auto_lossy[1].mean / one_lossy[1].mean,
            });
        }
    }
    let again = run(&[&CUBIC[..], &[OTHER_SEEDS]].concat())?;
    let controls = again.rows.iter().zip(&cubic[0].rows);
    let controls = controls.map(|(again, one)| Control {
        one: one.values[0],
        again: again.values[0],
    });
    Ok((cells, controls.collect()))
}

const COLUMNS: [&str; 2] = ["share", "the other flow, Mbps"];

fn columns(run: &RunResult) -> Vec<f64> {
    let [main, other] = ["main", "other"].map(|flow| goodput(run, flow));
    vec![main / (main + other), other]
}

fn outcome(cells: &[Cell], controls: &[Control], tables: Vec<Table>) -> Outcome {
    let missed = cells.iter().filter(|cell| !cell.missed().is_empty());
    let missed = missed.count();
    let uneven = controls.iter().filter(|control| control.is_more_uneven());
    let uneven = uneven.count();
    let page = Page::new(include_str!("page.md"))
        .fill("repeat", &tables[0].rows[0].values[0].runs.to_string())
        .fill("cells", &cells.len().to_string())
        .fill("missed", &missed.to_string())
        .fill("each", &verdict::by_gate(cells))
        .fill("controls", &controls.len().to_string())
        .fill("uneven", &uneven.to_string())
        .fill("table", &table(cells));
    let shares = |one: fn(&Cell) -> f64| mean(&cells.iter().map(one).collect::<Vec<_>>());
    let headline = vec![
        Headline::exact("cells with a gate that is missed", missed as f64),
        Headline::exact("mean share of auto", shares(|cell| cell.share.mean)),
        Headline::exact("mean share of one CUBIC flow", shares(|cell| cell.one.mean)),
        Headline::exact("mean part kept with 1 % lost", shares(|cell| cell.kept)),
        Headline::exact("CUBIC's rows that miss the gate themselves", uneven as f64),
    ];
    Outcome {
        page: page.text(),
        gates: verdict::gates(cells),
        ours: Vec::new(),
        tables,
        headline,
        figures: Vec::new(),
        details: Value::Null,
    }
}

/// A row for each cell.
fn table(cells: &[Cell]) -> String {
    let columns = [
        "link, queue in bandwidth-delay products: subflows of `auto`",
        "mean share",
        "least and largest",
        "one CUBIC flow",
        "least and largest",
        "the other keeps with 1 % lost",
        "missed",
    ];
    let rows = cells.iter().map(|cell| {
        let range =
            |of: &manyway_simulate::measure::Summary| format!("{:.2}-{:.2}", of.min, of.max);
        vec![
            cell.name.clone(),
            format!("{:.2}", cell.share.mean),
            range(&cell.share),
            format!("{:.2}", cell.one.mean),
            range(&cell.one),
            format!("{:.2}", cell.kept),
            cell.missed().join(", "),
        ]
    });
    markdown(&columns, &rows.collect::<Vec<_>>())
}

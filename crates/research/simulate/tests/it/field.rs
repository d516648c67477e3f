//! The field matrix: the scenarios in `scenarios/field`, and the table that `docs/field.md` has of
//! them.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use manyway_scenario::{Experiment, Point, Scenario};
use manyway_simulate::packet::{RunResult, Simulation};
use manyway_simulate::stack;

/// Where `docs/field.md` has what the scenarios give.
const MARKS: [&str; 2] = [
    "<!-- field: MANYWAY_UPDATE_FIELD=1 cargo test -p manyway-simulate field writes what follows \
     -->\n",
    "<!-- /field -->",
];
const LAW: &str = "flows.main.law";
/// Those that have gates. `MANYWAY_FULL=1` has the others, too.
const SHORT: &str = "sweep.\"flows.main.law\"=[\"cubic\", \"auto\"]";
/// The column of a single CUBIC flow in the first one's place.
const ONE: &str = "one CUBIC flow";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The 95th percentile of the queueing delay on the worst path of the only flow, in ms: of smoothed
/// round-trip times above those of the links.
fn queueing(experiment: &Experiment, result: &RunResult) -> f64 {
    let from = experiment.measure.from.as_secs_f64();
    let delays = experiment.flows[0].paths.iter().zip(&result.series);
    let delays = delays.map(|(&path, rtts)| {
        let path = &experiment.topology.paths[path];
        let links = path.links.iter().chain(&path.reverse);
        let there = links.map(|&link| experiment.topology.links[link].config.delay.as_secs_f64());
        let base = there.sum::<f64>() + path.return_delay.as_secs_f64();
        let mut measured = rtts.values[(from / rtts.interval_s) as usize..].to_vec();
        measured.sort_by(f64::total_cmp);
        (measured[measured.len() * 95 / 100] - base) * 1e3
    });
    delays.fold(0.0, f64::max)
}

/// When a path is back at 90 % of what it had, in seconds after it came up again: from there on
/// for a second.
fn back(result: &RunResult) -> f64 {
    let rates = &result.series[0];
    let mean = |from: f64, to: f64| {
        let place = |at: f64| (at / rates.interval_s).round() as usize;
        let values = &rates.values[place(from)..place(to)];
        values.iter().sum::<f64>() / values.len() as f64
    };
    let before = mean(10.0, 30.0);
    let seconds = (0..330).map(|step| f64::from(step) / 10.0);
    let is_back = |after: &f64| mean(35.0 + after, 36.0 + after) >= 0.9 * before;
    seconds.clone().find(is_back).unwrap_or(f64::NAN)
}

/// What a table's cells say: the means of all runs.
type Numbers = Vec<f64>;

/// A table's file, what its cells measure, and how they say it.
struct Table {
    file: &'static str,
    level: Level,
    measure: fn(&Experiment, &RunResult) -> Numbers,
    say: fn(&[f64]) -> String,
}

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Packet,
    Stack,
}

/// Of all flows, or of those whose names begin so, in Mbps.
fn goodput(result: &RunResult, name: &str) -> f64 {
    let flows = result
        .flows
        .iter()
        .filter(|flow| flow.name.starts_with(name));
    flows.map(|flow| flow.goodput_bps / 1e6).sum()
}

fn rate(mbps: f64) -> String {
    match mbps >= 100.0 {
        true => format!("{mbps:.0}"),
        false => format!("{mbps:.1}"),
    }
}

/// The first flow's share of what both have over the first link, in per cent.
fn share(result: &RunResult) -> f64 {
    let [main, other] = &result.flows[..] else {
        panic!("two flows")
    };
    let all: f64 = main
        .subflows
        .iter()
        .map(|subflow| subflow.goodput_bps)
        .sum();
    let apart = main.subflows.iter().filter(|subflow| subflow.path == "c");
    let main = all - apart.map(|subflow| subflow.goodput_bps).sum::<f64>();
    100.0 * main / (main + other.goodput_bps)
}

const ALONE: fn(&Experiment, &RunResult) -> Numbers =
    |experiment, result| vec![goodput(result, "main"), queueing(experiment, result)];
const SAY_ALONE: fn(&[f64]) -> String = |of| format!("{}, {:.0}", rate(of[0]), of[1]);

const TABLES: [Table; 11] = [
    Table {
        file: "apart",
        level: Level::Packet,
        measure: ALONE,
        say: SAY_ALONE,
    },
    Table {
        file: "long-fat",
        level: Level::Packet,
        measure: ALONE,
        say: SAY_ALONE,
    },
    Table {
        file: "sizes",
        level: Level::Packet,
        measure: |_, result| vec![result.flows[0].completion_s().unwrap_or(f64::NAN)],
        say: |of| format!("{:.2}", of[0]),
    },
    Table {
        file: "dark",
        level: Level::Packet,
        measure: |_, result| vec![goodput(result, "main"), back(result)],
        say: |of| format!("{}, {:.1}", rate(of[0]), of[1]),
    },
    Table {
        file: "buffers",
        level: Level::Stack,
        measure: |_, result| vec![goodput(result, "main")],
        say: |of| rate(of[0]),
    },
    Table {
        file: "together",
        level: Level::Packet,
        measure: |_, result| vec![share(result)],
        say: |of| format!("{:.0}", of[0]),
    },
    Table {
        file: "beside",
        level: Level::Packet,
        measure: |_, result| vec![share(result), goodput(result, "other")],
        say: |of| format!("{:.0}, {}", of[0], rate(of[1])),
    },
    Table {
        file: "three",
        level: Level::Packet,
        measure: |_, result| {
            let apart = &result.flows[0].subflows[2];
            vec![share(result), apart.goodput_bps / 1e6]
        },
        say: |of| format!("{:.0}, {}", of[0], rate(of[1])),
    },
    Table {
        file: "return",
        level: Level::Packet,
        measure: |_, result| vec![goodput(result, "main"), goodput(result, "other")],
        say: |of| format!("{}, {}", rate(of[0]), rate(of[1])),
    },
    Table {
        file: "crossing",
        level: Level::Packet,
        measure: |_, result| {
            let crossing = &result.flows[1..];
            let took = crossing
                .iter()
                .map(|flow| flow.completion_s().unwrap_or(f64::NAN));
            vec![
                goodput(result, "main"),
                took.sum::<f64>() / crossing.len() as f64,
            ]
        },
        say: |of| format!("{}, {:.1}", rate(of[0]), of[1]),
    },
    SESSIONS,
];

/// As the first one, with production sessions. It takes minutes, so only `MANYWAY_FULL=1` has it.
const SESSIONS: Table = Table {
    file: "apart",
    level: Level::Stack,
    measure: ALONE,
    say: SAY_ALONE,
};

impl Table {
    /// What gates call it.
    fn name(&self) -> &'static str {
        match (self.file, self.level) {
            ("apart", Level::Stack) => "apart (sessions)",
            (file, _) => file,
        }
    }

    /// What the page calls it.
    fn title(&self) -> String {
        let level = match self.name() {
            "apart (sessions)" => " with `--level stack`",
            _ => "",
        };
        format!("`scenarios/field/{}.toml`{level}", self.file)
    }
}

/// Means of all runs of a point.
fn measured(table: &Table, point: &Point, seeds: u64) -> Numbers {
    let experiment = &point.experiment;
    let never = AtomicBool::new(false);
    let mut means: Numbers = Vec::new();
    for seed in 0..seeds {
        let result = match table.level {
            Level::Packet => Simulation::new(experiment, seed).unwrap().run(&never),
            Level::Stack => stack::Simulation::new(experiment, seed)
                .and_then(|mut simulation| simulation.run(&never))
                .unwrap(),
        };
        let numbers = (table.measure)(experiment, &result);
        means.resize(numbers.len(), 0.0);
        let both = means.iter_mut().zip(numbers);
        both.for_each(|(mean, number)| *mean += number / seeds as f64);
    }
    means
}

/// Networks by name, and for each what laws have there.
type Rows = Vec<(String, Vec<(String, Numbers)>)>;

fn rows(table: &Table, settings: &[&str]) -> (String, Rows) {
    let file = root().join(format!("scenarios/field/{}.toml", table.file));
    let mut scenario = Scenario::load(&file).unwrap_or_else(|error| panic!("{error}"));
    for setting in settings {
        scenario
            .set(setting)
            .unwrap_or_else(|error| panic!("{error}"));
    }
    let points = match table.level {
        Level::Packet => scenario.points(),
        Level::Stack => scenario.session_points(),
    };
    let mut rows: Rows = Vec::new();
    for point in points.unwrap_or_else(|error| panic!("{error}")) {
        let is_law = |(key, _): &&(String, String)| key == LAW;
        let law = point.set.iter().find(is_law).expect("the laws are swept");
        let network: Vec<_> = point.set.iter().filter(|set| !is_law(set)).collect();
        let network = network.iter().map(|(_, value)| value.as_str());
        let network = network.collect::<Vec<_>>().join(", ");
        let network = if network.is_empty() {
            "as it is".to_owned()
        } else {
            network
        };
        let cell = (
            law.1.clone(),
            measured(table, &point, scenario.repeat().into()),
        );
        match rows.iter_mut().find(|row| row.0 == network) {
            Some(row) => row.1.push(cell),
            None => rows.push((network, vec![cell])),
        }
    }
    (scenario.about().to_owned(), rows)
}

/// A row for each network, a column for each law; beside another flow, one for a single CUBIC flow
/// in the first one's place.
fn written(table: &Table, laws: &[&str]) -> (String, Rows) {
    let (about, mut rows) = rows(table, laws);
    if table.file == "beside" {
        let one = [
            "flows.main.paths=[\"a\"]",
            "sweep.\"flows.main.law\"=[\"cubic\"]",
        ];
        for ((_, cells), (_, one)) in rows.iter_mut().zip(self::rows(table, &one).1) {
            cells.extend(
                one.into_iter()
                    .map(|(_, numbers)| (ONE.to_owned(), numbers)),
            );
        }
    }
    let mut text = format!("\n{}. {about}:\n\n|", table.title());
    for (law, _) in &rows[0].1 {
        match law == ONE {
            true => write!(text, " | {law}"),
            false => write!(text, " | `{law}`"),
        }
        .unwrap();
    }
    text += &format!(" |\n|---{}|\n", "|--:".repeat(rows[0].1.len()));
    for (network, cells) in &rows {
        write!(text, "| {network}").unwrap();
        for (law, cell) in cells {
            let said = (table.say)(cell);
            match law == "auto" && laws.is_empty() && is_behind(table.name(), cell, cells) {
                true => write!(text, " | **{said}**"),
                false => write!(text, " | {said}"),
            }
            .unwrap();
        }
        text += " |\n";
    }
    (text, rows)
}

/// Without other flows, whether this cell is worse than the row's best by more than 5 %.
fn is_behind(name: &str, cell: &[f64], row: &[(String, Numbers)]) -> bool {
    let all = row.iter().map(|(_, numbers)| numbers[0]);
    match name {
        "apart" | "apart (sessions)" | "long-fat" | "dark" | "buffers" => {
            cell[0] < 0.95 * all.fold(0.0, f64::max)
        }
        "sizes" => cell[0] > 1.05 * all.fold(f64::INFINITY, f64::min),
        _ => false,
    }
}

/// Gates that `auto` misses, without those of [`SESSIONS`]: docs/field.md has the causes.
const MISSED: [&str; 5] = [
    "apart: 100 Mbps, policed to 20 with a burst of 64 kB",
    "apart: the same, 10 and 30 ms",
    "together: reno, 667 packets",
    "beside: cubic, 1 % lost",
    "beside: reno, 1 % lost",
];

/// Those of [`SESSIONS`].
const MISSED_BY_SESSIONS: [&str; 2] = [
    "apart (sessions): 100 Mbps, policed to 20 with a burst of 64 kB",
    "apart (sessions): the same, 10 and 30 ms",
];

/// Where `auto` misses what it has to reach.
fn missed(tables: &[(&'static str, String, Rows)]) -> Vec<String> {
    let mut missed = Vec::new();
    for (file, _, rows) in tables {
        for (network, cells) in rows {
            let of = |law: &str| {
                let cell = cells.iter().find(|(name, _)| name == law);
                cell.map(|(_, numbers)| numbers.as_slice())
            };
            let (auto, cubic) = (of("auto").unwrap(), of("cubic").unwrap());
            let one = of(ONE);
            let fair = |share: f64| {
                let one = one.map_or(50.0, |one| one[0]);
                (f64::min(40.0, one - 10.0)..=f64::max(60.0, one + 10.0)).contains(&share)
            };
            let good = match *file {
                "apart" | "apart (sessions)" if network.contains("rates") => {
                    auto[0] >= 0.9 * cubic[0]
                }
                "apart" | "apart (sessions)" | "long-fat" => auto[0] >= 0.99 * cubic[0],
                "sizes" => auto[0] <= cubic[0] / 0.9,
                "buffers" => auto[0] >= 0.99 * cubic[0],
                // All of what the third path could carry.
                "three" => fair(auto[0]) && auto[1] >= 0.99 * cubic[1],
                "beside" if network.contains("lost") => auto[1] >= 0.8 * one.expect("a column")[1],
                "beside" => fair(auto[0]),
                "together" => network.starts_with("bbr") || fair(auto[0]),
                "dark" => auto[0] >= 0.9 * cubic[0] && auto[1] <= 5.0,
                // The transfers that cross it.
                "crossing" => auto[1] <= cubic[1],
                "return" if network == "two links, one return path" => auto[0] >= 0.9 * cubic[0],
                _ => true,
            };
            if !good {
                missed.push(format!("{file}: {network}"));
            }
        }
    }
    missed
}

/// The page's tables without the columns of laws that these don't have, and without the marks that
/// take all of them.
fn shortened(page: &str, tables: &str) -> String {
    let page = match tables.contains("`lia`") {
        true => page.to_owned(),
        false => {
            let last = page.split_once(&SESSIONS.title());
            last.expect("its table is the last one").0.replace("**", "")
        }
    };
    let cells = |line: &str| line.split('|').map(str::to_owned).collect::<Vec<_>>();
    let mut headers = tables.lines().filter(|line| line.starts_with("| |"));
    let mut keeps = Vec::new();
    let lines = page.lines().map(|line| {
        if line.starts_with("| |") {
            let header = cells(headers.next().unwrap_or_default());
            keeps = cells(line).iter().map(|it| header.contains(it)).collect();
        }
        match line.starts_with('|') {
            true => {
                let kept = cells(line).into_iter().zip(&keeps);
                let kept = kept.filter(|(_, keep)| **keep).map(|(cell, _)| cell);
                kept.collect::<Vec<_>>().join("|")
            }
            false => line.to_owned(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_field_page_says_what_the_scenarios_give() {
    let path = root().join("docs/field.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS[0]).expect("the page has the marks");
    let (committed, after) = rest.split_once(MARKS[1]).expect("the page has the marks");
    let updates = std::env::var_os("MANYWAY_UPDATE_FIELD").is_some();
    let full = updates || std::env::var_os("MANYWAY_FULL").is_some();
    let laws: &[&str] = if full { &[] } else { &[SHORT] };
    let wanted = TABLES
        .iter()
        .filter(|it| full || it.name() != SESSIONS.name());
    let tables: Vec<_> = std::thread::scope(|scope| {
        let tables: Vec<_> = wanted
            .map(|table| scope.spawn(move || (table.name(), written(table, laws))))
            .collect();
        let done = tables.into_iter().map(|table| {
            let (name, (text, rows)) = table.join().unwrap();
            (name, text, rows)
        });
        done.collect()
    });
    let text: String = tables.iter().map(|(_, text, _)| text.as_str()).collect();
    if updates {
        let [begin, end] = MARKS;
        std::fs::write(path, format!("{before}{begin}{text}\n{end}{after}")).unwrap();
    } else {
        assert!(
            shortened(committed, &text).trim() == text.trim(),
            "docs/field.md is not up to date: run MANYWAY_UPDATE_FIELD=1 cargo test -p \
             manyway-simulate field\n{text}"
        );
    }
    let by_sessions = if full { &MISSED_BY_SESSIONS[..] } else { &[] };
    assert_eq!(missed(&tables), [&MISSED, by_sessions].concat());
}

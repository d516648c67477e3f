//! Fig. 3 and 4: the rate controller with fixed paths.

use manyway_control::overlay::RateConfig;
use manyway_fluid::optimum::{Utility, solve};
use manyway_fluid::{Flow, Link, Network, Route};
use manyway_simulate::flow::{Convergence, Overlay, Rules, Run, Sharing, Start};

use super::papers::{Gate, Table};
use super::{Part, RULES, SKEWS, mean, overlay, rules, tabulate, told, uniform};

const INTERVALS: usize = 10_000;
/// The convergence value is the mean of so many intervals at the end; the convergence time is counted by a band of 98 %.
const LAST: usize = 5000;
const BAND: f64 = 0.98;
const RATIOS: [f64; 4] = [0.6, 1.0, 1.6, 2.0];

pub(crate) fn part(repeat: u32) -> Result<Part, String> {
    let fig3 = figure_3(repeat)?;
    let fig4a = figure_4a(repeat)?;
    let fig4b = figure_4b(repeat)?;
    let fig4c = figure_4c(repeat)?;
    let mut gates = gates_3(&fig3);
    gates.extend(gates_4a(&fig4a));
    gates.extend(gates_4b(&fig4b));
    gates.extend(gates_4c(&fig4c));
    let tables = vec![
        ("fig3", fig3),
        ("fig4a", fig4a),
        ("fig4b", fig4b),
        ("fig4c", fig4c),
    ];
    Ok(Part { tables, gates })
}

/// The normalised aggregate source rate in each interval, with fixed paths.
fn series(
    (setting, selection): (&Overlay, &[Vec<usize>]),
    rules: Rules,
    seed: u64,
) -> Result<Vec<f64>, String> {
    let mut run = Run::new(setting, selection, rules, seed).map_err(told)?;
    Ok(run.series(INTERVALS))
}

/// Means of Fig. 3's example, and the longest stretch in which the sum doesn't fall below 0.98.
fn figure_3(repeat: u32) -> Result<Table, String> {
    let mut points = Vec::new();
    for sharing in Sharing::ALL {
        for step in [0.06, 1.0] {
            points.push((
                vec![sharing.name().to_owned(), format!("{step} Mbps")],
                (sharing, step),
            ));
        }
    }
    let example = Overlay {
        relays: vec![6e6; 4],
        demands: vec![6e6; 4],
    };
    let selection = [vec![0, 1], vec![0, 1], vec![1, 2], vec![2, 3]];
    let columns = ["satisfaction", "longest stretch above 0.98, intervals"];
    tabulate(
        "fig3",
        &columns,
        (&points, repeat),
        |&(sharing, step), seed| {
            let control = RateConfig::aiad().with_increment(step / 6.0);
            let series = series(
                (&example, &selection),
                rules(control, Start::MaxMin, sharing),
                seed,
            )?;
            let late = &series[INTERVALS - LAST..];
            let stretch = late.split(|&rate| rate < 0.98).map(<[f64]>::len).max();
            Ok(vec![mean(late), stretch.unwrap_or(0) as f64])
        },
    )
}

fn gates_3(table: &Table) -> Vec<Gate> {
    let gate = |sharing: &Sharing| {
        let small = table.means(&[sharing.name(), "0.06 Mbps"]);
        let large = table.means(&[sharing.name(), "1 Mbps"]);
        Gate::new(
            &format!(
                "Fig. 3, {}: mean satisfaction ≥ 0.98 with ε = 0.06 Mbps; with 1 Mbps it never lasts (50 intervals)",
                sharing.name()
            ),
            format!(
                "{:.3}; {:.3}, at most {} intervals",
                small[0], large[0], large[1]
            ),
            small[0] >= 0.98 && large[0] < 0.98 && large[1] < 50.0,
        )
    };
    Sharing::ALL.iter().map(gate).collect()
}

/// The linear programme's value, normalised by the demands.
fn largest(overlay: &Overlay, selection: &[Vec<usize>]) -> Result<f64, String> {
    let link = |(index, &capacity): (usize, &f64)| Link {
        name: format!("relay {}", index + 1),
        capacity,
    };
    let route = |&relay: &usize| Route {
        name: format!("relay {}", relay + 1),
        links: vec![relay],
        rtt: 0.04,
        packet: 4000.0,
    };
    let flow = |(source, relays): (usize, &Vec<usize>)| Flow {
        name: format!("source {}", source + 1),
        weight: 1.0,
        demand: Some(overlay.demands[source]),
        routes: relays.iter().map(route).collect(),
    };
    let network = Network {
        links: overlay.relays.iter().enumerate().map(link).collect(),
        flows: selection.iter().enumerate().map(flow).collect(),
    };
    let best = solve(&network, Utility::Throughput).map_err(|error| error.to_string())?;
    Ok(best.rates.iter().sum::<f64>() / overlay.demand())
}

/// Fig. 4(a): b = 0.5, f = 1, k = 2, AIAD from 0: the programme, and what the controller comes to for each ε.
fn figure_4a(repeat: u32) -> Result<Table, String> {
    let points = RULES.map(|sharing| (vec![sharing.name().to_owned()], sharing));
    let columns = [
        "LP",
        "ε = 0.001, of the LP",
        "ε = 0.01, of the LP",
        "ε = 0.1, of the LP",
        "deviation in time, ε = 0.01",
        "ε = 0.1",
    ];
    tabulate("fig4a", &columns, (&points, repeat), |&sharing, seed| {
        let setting = overlay(0.5, 1.0);
        let selection = uniform(&setting, 2, seed).map_err(told)?;
        let best = largest(&setting, &selection)?;
        let (mut values, mut deviations) = (vec![best], Vec::new());
        for increment in [0.001, 0.01, 0.1] {
            let control = RateConfig::aiad().with_increment(increment);
            let series = series(
                (&setting, &selection),
                rules(control, Start::Zero, sharing),
                seed,
            )?;
            let late = &series[INTERVALS - LAST..];
            let value = mean(late);
            values.push(value / best);
            let squares = late.iter().map(|rate| (rate - value).powi(2)).sum::<f64>();
            deviations.push((squares / LAST as f64).sqrt());
        }
        values.extend(&deviations[1..]);
        Ok(values)
    })
}

fn gates_4a(table: &Table) -> Vec<Gate> {
    let lp = &table.rows[0].values[0];
    let mut gates = vec![Gate::new(
        "Fig. 4(a): LP optimum over uniform selections 0.75 ± 0.02; the paper's 0.80 is one selection",
        format!("{:.3}, from {:.3} to {:.3}", lp.mean, lp.min, lp.max),
        (lp.mean - 0.75).abs() <= 0.02,
    )];
    for row in &table.rows {
        let [small, usual, large] = [1, 2, 3].map(|column| row.values[column].mean);
        gates.push(Gate::new(
            &format!(
                "Fig. 4(a), {}: ε = 0.001 and 0.01 within 2 % of the LP, 0.1 worse than both",
                row.point[0]
            ),
            format!("{small:.3}, {usual:.3}, {large:.3} of it"),
            small >= 0.98 && usual >= 0.98 && large < small.min(usual) - 0.005,
        ));
    }
    gates
}

/// Every pair of skew and ratio.
fn pairs() -> Vec<(f64, f64)> {
    SKEWS
        .into_iter()
        .flat_map(|skew| RATIOS.map(|ratio| (skew, ratio)))
        .collect()
}

/// Fig. 4(b): how far below the programme's value each run ends.
fn figure_4b(repeat: u32) -> Result<Table, String> {
    let mut points = Vec::new();
    for sharing in RULES {
        for (law, control) in [("AIAD", RateConfig::aiad()), ("MIMD", RateConfig::mimd())] {
            for increment in [0.01, 0.001] {
                let name = vec![
                    sharing.name().to_owned(),
                    law.to_owned(),
                    format!("ε = {increment}"),
                ];
                points.push((name, (sharing, control.with_increment(increment))));
            }
        }
    }
    let columns = ["mean difference, %", "largest difference, %"];
    tabulate(
        "fig4b",
        &columns,
        (&points, repeat),
        |&(sharing, control), seed| {
            let mut differences = Vec::new();
            for (skew, ratio) in pairs() {
                let setting = overlay(skew, ratio);
                let selection = uniform(&setting, 2, seed).map_err(told)?;
                let best = largest(&setting, &selection)?;
                let series = series(
                    (&setting, &selection),
                    rules(control, Start::Zero, sharing),
                    seed,
                )?;
                let value = mean(&series[INTERVALS - LAST..]);
                differences.push(100.0 * (best - value) / best);
            }
            Ok(vec![
                mean(&differences),
                differences.iter().copied().fold(0.0, f64::max),
            ])
        },
    )
}

fn gates_4b(table: &Table) -> Vec<Gate> {
    let gate = |sharing: &Sharing| {
        let rows = table
            .rows
            .iter()
            .filter(|row| row.point[0] == sharing.name());
        let most = rows.map(|row| row.values[1].max).fold(0.0, f64::max);
        Gate::new(
            &format!(
                "Fig. 4(b), {}: all runs within 4 % of the LP",
                sharing.name()
            ),
            format!("at most {most:.2} %"),
            most <= 4.0,
        )
    };
    RULES.iter().map(gate).collect()
}

/// Fig. 4(c): the median over all pairs of skew and ratio of the time to converge.
fn figure_4c(repeat: u32) -> Result<Table, String> {
    let mut points = Vec::new();
    for sharing in RULES {
        for (start, suffix) in [(Start::Zero, ""), (Start::MaxMin, "-maxmin")] {
            for (law, control) in [("AIAD", RateConfig::aiad()), ("MIMD", RateConfig::mimd())] {
                let name = vec![sharing.name().to_owned(), format!("{law}{suffix}")];
                points.push((name, (sharing, start, control)));
            }
        }
    }
    tabulate(
        "fig4c",
        &["median time, intervals", "longest time"],
        (&points, repeat),
        |&(sharing, start, control), seed| {
            let mut times = Vec::new();
            for (skew, ratio) in pairs() {
                let setting = overlay(skew, ratio);
                let selection = uniform(&setting, 2, seed).map_err(told)?;
                let series = series((&setting, &selection), rules(control, start, sharing), seed)?;
                let settled = Convergence::of(&series, LAST, BAND).ok_or("no intervals")?;
                times.push(settled.time as f64);
            }
            times.sort_by(f64::total_cmp);
            let middle = times.len() / 2;
            Ok(vec![
                (times[middle - 1] + times[middle]) / 2.0,
                times[times.len() - 1],
            ])
        },
    )
}

fn gates_4c(table: &Table) -> Vec<Gate> {
    let value =
        |sharing: Sharing, law: &str, column: usize| table.means(&[sharing.name(), law])[column];
    let median = |sharing, law| value(sharing, law, 0);
    let fine = |sharing: &Sharing| {
        let of = |law| median(*sharing, law);
        of("AIAD-maxmin") < 100.0 && of("AIAD-maxmin") <= of("AIAD") && of("MIMD") < of("AIAD")
    };
    let found = RULES.map(|sharing| {
        let times = ["AIAD", "MIMD", "AIAD-maxmin", "MIMD-maxmin"]
            .map(|law| format!("{:.0}", median(sharing, law)));
        format!("{}: {}", sharing.name(), times.join(", "))
    });
    let longest = RULES.map(|sharing| {
        let of = |law| value(sharing, law, 1);
        format!(
            "{}: {:.0} and {:.0}",
            sharing.name(),
            of("AIAD-maxmin"),
            of("MIMD-maxmin")
        )
    });
    let slower =
        |sharing: &Sharing| value(*sharing, "AIAD-maxmin", 1) <= value(*sharing, "MIMD-maxmin", 1);
    let mut order = Gate::new(
        "Fig. 4(c): AIAD-maxmin settles before MIMD-maxmin (longest times)",
        longest.join("; "),
        RULES.iter().all(slower),
    );
    order.explained = Some(
        "by max-min it does, by proportional sharing it doesn't: the paper's order depends on the rule",
    );
    let medians = Gate::new(
        "Fig. 4(c): AIAD-maxmin converges in tens of intervals, AIAD later; from 0, MIMD before AIAD (medians of AIAD, MIMD, AIAD-maxmin, MIMD-maxmin)",
        found.join("; "),
        RULES.iter().all(fine),
    );
    vec![medians, order]
}

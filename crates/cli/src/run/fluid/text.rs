//! The fluid's results for people: tables of flows, links and equilibria. This module
//! chooses what is shown and how it is rounded.

use manyway_report::{Column, Table};
use manyway_results::fluid::{Epoch, Flow, Link, Measured, Outcome, PointResult, Report};
use manyway_results::naming::heading;

use crate::run::number::Style;

/// A table shows no more rows than these.
const ROWS: usize = 20;
/// Number of epochs that fit side by side.
const EPOCHS: usize = 8;
/// Number of points that the text shows.
const POINTS: usize = 12;
/// The text mentions flows that are farther than this from their equilibrium.
const UNREST: f64 = 0.02;

pub(super) fn summary(report: &Report) -> String {
    let mut text = format!("{}: fluid level", report.scenario);
    let done = report.points.iter().find_map(|point| match &point.outcome {
        Outcome::Done(measured) => Some(measured),
        Outcome::Failed { .. } => None,
    });
    if let Some(measured) = done {
        let (from, until) = (measured.measured_from_s, measured.measured_until_s);
        text += &format!(", measured from {from} s to {until} s");
    }
    text += "\n\n";
    for point in report.points.iter().take(POINTS) {
        text += &of_point(point);
    }
    if report.points.len() > POINTS {
        text += &format!(
            "{} more points are in --json.\n",
            report.points.len() - POINTS
        );
    }
    text.truncate(text.trim_end().len());
    text
}

fn of_point(point: &PointResult) -> String {
    let set = heading(&point.set);
    let measured = match &point.outcome {
        Outcome::Failed { error } => return format!("{set}: {error}\n\n"),
        Outcome::Done(measured) => measured,
    };
    let mut text = match set.as_str() {
        "" => String::new(),
        set => format!("{set}:\n\n"),
    };
    text += &flows(measured);
    text += &links(measured);
    text += &rest(measured);
    for remark in &measured.remarks {
        text += remark;
        text.push('\n');
    }
    if !measured.remarks.is_empty() {
        text.push('\n');
    }
    text
}

/// The members of a group; tables show their mean.
struct Group<'a> {
    label: String,
    members: Vec<&'a Flow>,
}

impl Group<'_> {
    fn mean(&self, of: impl Fn(&Flow) -> f64) -> f64 {
        self.members.iter().map(|flow| of(flow)).sum::<f64>() / self.members.len() as f64
    }
}

fn groups(flows: &[Flow]) -> Vec<Group<'_>> {
    let parts = flows.chunk_by(|a, b| a.group == b.group);
    let group = |members: &[Flow]| match members.len() {
        1 => members[0].name.clone(),
        n => format!("{n} × {}", members[0].group),
    };
    parts
        .map(|members| Group {
            label: group(members),
            members: members.iter().collect(),
        })
        .collect()
}

fn flows(measured: &Measured) -> String {
    let groups = groups(&measured.flows);
    let subflows = || measured.flows.iter().flat_map(|flow| &flow.subflows);
    let rate = Style::rate(measured.flows.iter().map(|flow| flow.goodput_bps));
    let window = Style::plain(subflows().map(|subflow| subflow.window_mean_packets), 2);
    let rtt = Style::millis(subflows().map(|subflow| subflow.rtt_mean_s));
    let price = Prices::of(measured);
    let mut columns: Vec<Column> = ["flow", "law", "path"].map(Column::left).into();
    columns.push(Column::right(format!("goodput ({}bps)", rate.prefix)));
    columns.extend(["window (packets)", "rtt (ms)"].map(Column::right));
    columns.push(Column::right(price.heading));
    let mut table = Table::new(columns);
    let write = |style: &Style, value: f64| style.number(value.is_finite().then_some(value));
    for group in groups.iter().take(ROWS) {
        let first = group.members[0];
        let several = first.subflows.len() > 1;
        let goodput = write(&rate, group.mean(|flow| flow.goodput_bps));
        if several {
            let cells = [
                group.label.clone(),
                first.law.clone(),
                String::new(),
                goodput.clone(),
            ];
            table.row(cells.into_iter().chain([const { String::new() }; 3]));
        }
        for (n, subflow) in first.subflows.iter().enumerate() {
            let (name, law) = match several {
                true => (String::new(), String::new()),
                false => (group.label.clone(), first.law.clone()),
            };
            table.row([
                name,
                law,
                subflow.path.clone(),
                write(&rate, group.mean(|flow| flow.subflows[n].goodput_bps)),
                write(
                    &window,
                    group.mean(|flow| flow.subflows[n].window_mean_packets),
                ),
                write(&rtt, group.mean(|flow| flow.subflows[n].rtt_mean_s)),
                price.write(group.mean(|flow| flow.subflows[n].price)),
            ]);
        }
    }
    let note = match groups.len() > ROWS {
        true => format!("{} more groups are in --json.\n", groups.len() - ROWS),
        false if groups.len() < measured.flows.len() => "Goodput is per flow.\n".to_owned(),
        false => String::new(),
    };
    format!("{table}{note}\n")
}

fn links(measured: &Measured) -> String {
    let links = &measured.links;
    let shown = &links[..links.len().min(ROWS)];
    let load = Style::rate(shown.iter().map(|link| link.load_bps));
    let price = Prices::of(measured);
    let mut table = Table::new([
        Column::left("link"),
        Column::right("utilisation (%)"),
        Column::right(format!("load ({}bps)", load.prefix)),
        Column::right(price.heading),
    ]);
    for Link {
        name,
        utilisation,
        load_bps,
        price: paid,
    } in shown
    {
        table.row([
            name.clone(),
            Style::percent(1).number(*utilisation),
            load.number(*load_bps),
            price.write(*paid),
        ]);
    }
    let note = match links.len() - shown.len() {
        0 => String::new(),
        left_out => format!("{left_out} more links are in --json.\n"),
    };
    format!("{table}{note}\n")
}

/// The unit of prices.
struct Prices {
    heading: &'static str,
    unit: f64,
}

impl Prices {
    fn of(measured: &Measured) -> Self {
        match measured.prices_are_delays {
            true => Prices {
                heading: "queueing delay (ms)",
                unit: 1e-3,
            },
            false => Prices {
                heading: "loss (%)",
                unit: 1e-2,
            },
        }
    }

    fn write(&self, price: f64) -> String {
        match price.is_finite() {
            true => format!("{:.4}", price / self.unit),
            false => "-".to_owned(),
        }
    }
}

/// Each epoch's equilibrium.
fn rest(measured: &Measured) -> String {
    let epochs = &measured.epochs;
    let shown = &epochs[..epochs.len().min(EPOCHS)];
    let rate = Style::rate(
        shown
            .iter()
            .flat_map(|epoch| epoch.subflows.iter().map(|s| s.rest_bps)),
    );
    let columns = shown.iter().map(|epoch| Column::right(epoch.heading()));
    let mut table = Table::new(
        ["equilibrium", "path"]
            .map(Column::left)
            .into_iter()
            .chain(columns),
    );
    for group in groups(&measured.flows).iter().take(ROWS) {
        for (n, subflow) in group.members[0].subflows.iter().enumerate() {
            let name = if n == 0 {
                group.label.clone()
            } else {
                String::new()
            };
            let cells = shown.iter().map(|epoch| {
                let value = at_rest(epoch, &group.members, &subflow.path);
                rate.number(value)
            });
            table.row([name, subflow.path.clone()].into_iter().chain(cells));
        }
    }
    let mut text = format!("{table}Rates in {}bps with headers.", rate.prefix);
    if epochs.len() > shown.len() {
        text += &format!(" {} more epochs are in --json.", epochs.len() - shown.len());
    }
    text.push('\n');
    for epoch in shown {
        text += &unsettled(measured, epoch);
    }
    text.push('\n');
    text
}

/// The mean over the members that are active, if any is.
fn at_rest(epoch: &Epoch, members: &[&Flow], path: &str) -> Option<f64> {
    let own = epoch.subflows.iter().filter(|subflow| {
        subflow.path == path && members.iter().any(|flow| flow.name == subflow.flow)
    });
    let rates: Vec<f64> = own.map(|subflow| subflow.rest_bps).collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

/// Warnings about an epoch's equilibrium.
fn unsettled(measured: &Measured, epoch: &Epoch) -> String {
    if epoch.converged == Some(false) {
        let residual = epoch.residual.unwrap_or(f64::NAN);
        return format!(
            "{}: the solver found no equilibrium; these rates come nearest to one (residual \
             {residual:.1e}).\n",
            epoch.heading()
        );
    }
    match measured.unrest(epoch) {
        off if off > UNREST => format!(
            "{}: at its end, a flow's rate is {:.0} % away from equilibrium.\n",
            epoch.heading(),
            100.0 * off
        ),
        _ => String::new(),
    }
}

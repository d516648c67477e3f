//! The results for people.

use manyway_report::{Column, Table};
use manyway_simulate::batch::{
    FlowReport, GroupReport, LinkReport, Measured, PointReport, Report, Results, SubflowReport,
};

use super::number::{Estimate, Style};

/// More flows than this are shown as groups only.
const FLOWS: usize = 12;
/// More groups or links than this are left out.
const ROWS: usize = 20;
/// A sweep's table has a column for so many groups and links.
const COLUMNS: usize = 4;

/// Everything worth a look, a few tables.
pub(super) fn summary(report: &Report) -> String {
    let mut text = headline(report);
    match &report.results {
        Results::Point(measured) => text.push_str(&point(measured)),
        Results::Sweep { points } => text.push_str(&sweep(points)),
    }
    text.truncate(text.trim_end().len());
    text
}

fn headline(report: &Report) -> String {
    let measured = report.points().next().map(|(_, measured)| measured);
    let seeds = match report.repeat {
        1 => format!("seed {}", report.seed),
        n => {
            let last = report.seed.wrapping_add(u64::from(n) - 1);
            format!("{n} runs (seeds {} to {last})", report.seed)
        }
    };
    let each = match &report.results {
        Results::Sweep { points } => format!("{} points, each ", points.len()),
        Results::Point(_) => String::new(),
    };
    let from_to = measured.map_or_else(String::new, |measured| {
        let (from, to) = (measured.measured_from_s, measured.measured_until_s);
        format!(", measured from {from} s to {to} s")
    });
    let interval = match report.repeat {
        1 => "",
        _ => "; ± is the 95 % confidence interval of the mean",
    };
    format!("{}: {each}{seeds}{from_to}{interval}\n\n", report.scenario)
}

fn point(measured: &Measured) -> String {
    let few = measured.flows.len() <= FLOWS;
    let grouped = measured.groups.iter().any(|group| group.count > 1);
    let mut text = String::new();
    if few {
        text.push_str(&flows(measured));
    }
    if grouped || !few {
        text.push_str(&groups(measured));
    }
    if measured.flows.len() > 1 {
        let jain = Style::plain([1.0], 3).write((measured.jain, measured.jain_ci95));
        let n = measured.flows.len();
        text.push_str(&format!(
            "Jain's index of the {n} flows' goodput: {jain}\n\n"
        ));
    }
    text.push_str(&links(&measured.links));
    text
}

fn flows(measured: &Measured) -> String {
    let subflows = || measured.flows.iter().flat_map(|flow| &flow.subflows);
    let styles = Styles::of(
        measured.flows.iter().map(|flow| flow.goodput_bps),
        subflows(),
    );
    let finite = measured.flows.iter().any(|flow| flow.completed.is_some());
    let mut columns = vec![
        Column::left("flow"),
        Column::left("law"),
        Column::left("path"),
    ];
    columns.extend(styles.columns());
    columns.extend(finite.then(|| Column::right("complete after (s)")));
    let mut table = Table::new(columns);
    for flow in &measured.flows {
        let law = measured
            .groups
            .iter()
            .find(|group| group.name == flow.group);
        let law = law.and_then(|group| group.law.clone()).unwrap_or_default();
        let mut head = vec![flow.name.clone(), law];
        let rate = (Some(flow.goodput_bps), flow.goodput_ci95_bps);
        let share = (flow.share, flow.share_ci95);
        let complete = finite.then(|| completion(flow, measured.runs));
        if let [only] = &flow.subflows[..] {
            head.push(only.path.clone());
            let cells = styles.cells(rate, share, Some(only));
            table.row(head.into_iter().chain(cells).chain(complete));
            continue;
        }
        head.push(String::new());
        table.row(
            head.into_iter()
                .chain(styles.cells(rate, share, None))
                .chain(complete),
        );
        add_subflows(&mut table, &styles, &flow.subflows);
    }
    let note = "A flow's share is of the goodput of all, a subflow's of its flow's.";
    noted(
        table,
        measured.flows.iter().any(|flow| flow.subflows.len() > 1),
        note,
    )
}

/// A row for each subflow below its flow.
fn add_subflows(table: &mut Table, styles: &Styles, subflows: &[SubflowReport]) {
    for subflow in subflows {
        let head = [String::new(), String::new(), subflow.path.clone()];
        let rate = (Some(subflow.goodput_bps), subflow.goodput_ci95_bps);
        let share = (subflow.share, subflow.share_ci95);
        table.row(
            head.into_iter()
                .chain(styles.cells(rate, share, Some(subflow))),
        );
    }
}

fn completion(flow: &FlowReport, runs: u32) -> String {
    match flow.completed {
        None => String::new(),
        Some(0) => "not complete".to_owned(),
        Some(completed) => {
            let time = Style::plain(flow.completion_s, 3);
            let time = time.write((flow.completion_s, flow.completion_ci95_s));
            match completed == runs {
                true => time,
                false => format!("{time} ({completed} of {runs} runs)"),
            }
        }
    }
}

fn groups(measured: &Measured) -> String {
    let shown = &measured.groups[..measured.groups.len().min(ROWS)];
    let most = shown.iter().map(|group| group.goodput_max_bps);
    let styles = Styles::of(most, shown.iter().flat_map(|group| &group.subflows));
    let finite = shown.iter().any(|group| group.completed.is_some());
    let unit = format!("({}bps)", styles.rate.prefix);
    let mut columns = vec![
        Column::left("group"),
        Column::left("law"),
        Column::left("path"),
    ];
    columns.extend(styles.columns());
    columns.extend(["least", "median", "most"].map(|name| Column::right(format!("{name} {unit}"))));
    columns.push(Column::right("Jain"));
    columns.extend(finite.then(|| Column::right("complete")));
    columns.extend(finite.then(|| Column::right("after (s)")));
    let mut table = Table::new(columns);
    for group in shown {
        let head = [
            format!("{} × {}", group.count, group.name),
            group.law.clone().unwrap_or_default(),
        ];
        let rate = (Some(group.goodput_bps), group.goodput_ci95_bps);
        let share = (group.share, group.share_ci95);
        let (path, only) = match &group.subflows[..] {
            [only] => (only.path.clone(), Some(only)),
            _ => (String::new(), None),
        };
        let cells = styles.cells(rate, share, only);
        table.row(
            head.into_iter()
                .chain([path])
                .chain(cells)
                .chain(spread(group, &styles)),
        );
        if only.is_none() {
            add_subflows(&mut table, &styles, &group.subflows);
        }
    }
    let left_out = measured.groups.len() - shown.len();
    let mut note = "Means per flow; a group's share is that of all its flows together.".to_owned();
    if left_out > 0 {
        note.push_str(&format!(" {left_out} more groups are in --json."));
    }
    noted(table, true, &note)
}

/// What a group's row has behind the columns that a flow has too.
fn spread(group: &GroupReport, styles: &Styles) -> Vec<String> {
    let mut cells: Vec<String> = [
        group.goodput_min_bps,
        group.goodput_median_bps,
        group.goodput_max_bps,
    ]
    .map(|rate| styles.rate.write((Some(rate), None)))
    .into();
    cells.push(Style::plain([1.0], 3).write((group.jain, group.jain_ci95)));
    if group.completed.is_some() {
        cells.push(Style::plain([], 1).write((group.completed, None)));
        let time = Style::plain(group.completion_s, 3);
        cells.push(time.write((group.completion_s, group.completion_ci95_s)));
    }
    cells
}

fn links(links: &[LinkReport]) -> String {
    let shown = &links[..links.len().min(ROWS)];
    let load = Style::rate(shown.iter().map(|link| link.load_bps));
    let queue = Style::plain(shown.iter().map(|link| link.queue_mean_packets), 2);
    let marked = shown.iter().any(|link| link.marks > 0.0);
    let counts = Style::plain(
        shown.iter().map(|link| link.drops),
        fractions(shown.iter().map(|link| link.drops)),
    );
    let mut columns = vec![
        Column::left("link"),
        Column::right("utilisation (%)"),
        Column::right(format!("load ({}bps)", load.prefix)),
        Column::right("queue (packets)"),
        Column::right("drops"),
        Column::right("dropped (%)"),
    ];
    columns.extend(marked.then(|| Column::right("marks")));
    let mut table = Table::new(columns);
    for link in shown {
        let mut row = vec![
            link.name.clone(),
            Style::percent(1).write((Some(link.utilisation), link.utilisation_ci95)),
            load.write((Some(link.load_bps), link.load_ci95_bps)),
            queue.write((Some(link.queue_mean_packets), link.queue_ci95_packets)),
            counts.write((Some(link.drops), link.drops_ci95)),
            Style::percent(3).write((link.drop_rate, link.drop_rate_ci95)),
        ];
        row.extend(marked.then(|| counts.write((Some(link.marks), link.marks_ci95))));
        table.row(row);
    }
    let left_out = links.len() - shown.len();
    noted(
        table,
        left_out > 0,
        &format!("{left_out} more links are in --json."),
    )
}

/// A row for each point.
fn sweep(points: &[PointReport]) -> String {
    let Some(first) = points.first() else {
        return String::new();
    };
    let groups = 0..first.measured.groups.len().min(COLUMNS);
    let links = 0..first.measured.links.len().min(COLUMNS);
    let group = |point: &PointReport, n: usize| match point.measured.groups.get(n) {
        Some(group) => (Some(group.goodput_bps), group.goodput_ci95_bps),
        None => (None, None),
    };
    let link = |point: &PointReport, n: usize| match point.measured.links.get(n) {
        Some(link) => (Some(link.utilisation), link.utilisation_ci95),
        None => (None, None),
    };
    let goodputs = || {
        points
            .iter()
            .flat_map(|point| groups.clone().map(move |n| group(point, n).0))
    };
    let rate = Style::rate(goodputs().flatten());

    let mut columns: Vec<Column> = first.set.keys().map(Column::left).collect();
    for n in groups.clone() {
        let name = &first.measured.groups[n].name;
        columns.push(Column::right(format!("{name} ({}bps)", rate.prefix)));
    }
    columns.extend(
        links
            .clone()
            .map(|n| Column::right(format!("{} (%)", first.measured.links[n].name))),
    );
    columns.push(Column::right("Jain"));
    let mut table = Table::new(columns);
    for point in points {
        let measured = &point.measured;
        let goodputs = groups.clone().map(|n| rate.write(group(point, n)));
        let loads = links
            .clone()
            .map(|n| Style::percent(1).write(link(point, n)));
        let jain = Style::plain([1.0], 3).write((measured.jain, measured.jain_ci95));
        table.row(
            point
                .set
                .values()
                .cloned()
                .chain(goodputs)
                .chain(loads)
                .chain([jain]),
        );
    }
    let mut note = "Goodput per flow of each group, utilisation of each link.".to_owned();
    if first.measured.groups.len() > COLUMNS || first.measured.links.len() > COLUMNS {
        note.push_str(" There are more of them in --json.");
    }
    noted(table, true, &note)
}

/// A table, a line about it if there is something to say, an empty line.
fn noted(table: Table, worth: bool, note: &str) -> String {
    match worth {
        true => format!("{table}{note}\n\n"),
        false => format!("{table}\n"),
    }
}

/// How the numbers of flows and subflows are written.
struct Styles {
    rate: Style,
    window: Style,
    rtt: Style,
    losses: Style,
}

impl Styles {
    fn of<'a>(
        rates: impl Iterator<Item = f64>,
        subflows: impl Iterator<Item = &'a SubflowReport> + Clone,
    ) -> Self {
        let losses = subflows.clone().map(|subflow| subflow.loss_events);
        Self {
            rate: Style::rate(rates),
            window: Style::plain(
                subflows
                    .clone()
                    .filter_map(|subflow| subflow.window_mean_packets),
                2,
            ),
            rtt: Style::millis(subflows.filter_map(|subflow| subflow.rtt_mean_s)),
            losses: Style::plain(losses.clone(), fractions(losses)),
        }
    }

    fn columns(&self) -> [Column; 5] {
        [
            format!("goodput ({}bps)", self.rate.prefix),
            "share (%)".to_owned(),
            "window (packets)".to_owned(),
            "rtt (ms)".to_owned(),
            "loss events".to_owned(),
        ]
        .map(Column::right)
    }

    fn cells(
        &self,
        rate: Estimate,
        share: Estimate,
        subflow: Option<&SubflowReport>,
    ) -> [String; 5] {
        let of = |style: &Style, read: fn(&SubflowReport) -> Estimate| match subflow {
            Some(subflow) => style.write(read(subflow)),
            None => String::new(),
        };
        [
            self.rate.write(rate),
            Style::percent(1).write(share),
            of(&self.window, |subflow| {
                (subflow.window_mean_packets, subflow.window_ci95_packets)
            }),
            of(&self.rtt, |subflow| {
                (subflow.rtt_mean_s, subflow.rtt_ci95_s)
            }),
            of(&self.losses, |subflow| {
                (Some(subflow.loss_events), subflow.loss_events_ci95)
            }),
        ]
    }
}

/// Decimals that counts need: none, unless they are means.
fn fractions(counts: impl Iterator<Item = f64>) -> usize {
    usize::from(counts.into_iter().any(|count| count.fract() != 0.0))
}

#[cfg(test)]
mod tests;

//! The packet level's results for people: tables of flows, groups, spans, links, and of a sweep's
//! points. This module chooses what is shown and how it is rounded; it computes no result.

mod percentiles;
mod styles;
mod sweep;
mod transfers;

#[cfg(test)]
mod tests;

use manyway_report::{Column, Table};
use manyway_simulate::batch::{
    FlowReport, GroupReport, Level, LinkReport, Measured, Report, Results,
};

use self::styles::{Styles, Transfers, fractions, means, noted};
use crate::run::number::Style;

/// With more flows than these, the tables show groups only.
const FLOWS: usize = 12;
/// A table shows no more groups or links than these.
const ROWS: usize = 20;

/// A headline and a few tables.
pub(super) fn summary(report: &Report) -> String {
    let mut text = headline(report);
    match &report.results {
        Results::Point(measured) => text.push_str(&point(measured)),
        Results::Sweep { points } => text.push_str(&sweep::sweep(points, report.repeat)),
    }
    text.truncate(text.trim_end().len());
    text
}

fn headline(report: &Report) -> String {
    let seeds = match report.repeat {
        1 => format!("seed {}", report.seed),
        n => {
            let last = report.seed.wrapping_add(u64::from(n).saturating_sub(1));
            format!("{n} runs (seeds {} to {last})", report.seed)
        }
    };
    let each = match &report.results {
        Results::Sweep { points } if points.len() > 1 => {
            format!("{} points, each ", points.len())
        }
        _ => String::new(),
    };
    let level = match report.level {
        Level::Packet => "",
        Level::Stack => "stack level, ",
        Level::Live => "live level, ",
    };
    let mut text = format!("{}: {level}{each}{seeds}", report.scenario);
    let mut times = report
        .points()
        .map(|(_, m)| (m.measured_from_s, m.measured_until_s));
    if let Some((from, to)) = times.next()
        && times.all(|other| other == (from, to))
    {
        text.push_str(&format!(", measured from {from} s to {to} s"));
    }
    if report.repeat > 1 {
        text.push_str("; ± is the 95 % confidence interval of the mean");
    }
    if report.unfinished > 0 {
        let over: u64 = report
            .points()
            .map(|(_, measured)| u64::from(measured.runs))
            .sum();
        let all = over + report.unfinished;
        text.push_str(&format!("; STOPPED: {over} of {all} runs are over"));
    }
    text + "\n\n"
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
    if !few {
        text.push_str(&members(measured));
    }
    let groups = measured.groups.iter().map(|group| (Vec::new(), group));
    text.push_str(&transfers::table(Vec::new(), groups));
    text.push_str(&spans(measured));
    let groups = measured.groups.iter().map(|group| (Vec::new(), group));
    let shown = measured.links.iter().map(|link| (Vec::new(), link));
    text.push_str(&percentiles::tables(&[], groups, shown));
    if measured.flows.len() > 1 {
        let jain = Style::plain([1.0], 3).write(measured.jain);
        let n: u64 = measured
            .flows
            .iter()
            .filter(|flow| flow.goodput_bps.n > 0)
            .map(|flow| u64::from(flow.count))
            .sum();
        text.push_str(&format!(
            "Jain's index of the {n} flows' goodput: {jain}\n\n"
        ));
    }
    text.push_str(&links(&measured.links));
    text
}

/// A row for each flow and, where it has several, its subflows.
fn flows(measured: &Measured) -> String {
    let subflows = || measured.flows.iter().flat_map(|flow| &flow.subflows);
    let goodputs = measured.flows.iter().map(|flow| flow.goodput_bps.mean);
    let styles = Styles::of(goodputs, subflows());
    let transfers = Transfers::of(means(measured.flows.iter().map(|flow| flow.completion_s)));
    let finite = measured.flows.iter().any(|flow| flow.completed.is_some());
    let names = ["flow", "law", "path"].map(Column::left);
    let mut columns: Vec<Column> = names.into_iter().chain(styles.columns()).collect();
    columns.extend(finite.then(|| transfers.column("complete after")));
    let mut table = Table::new(columns);
    for flow in &measured.flows {
        let group = measured
            .groups
            .iter()
            .find(|group| group.name == flow.group);
        let law = group
            .and_then(|group| group.law.clone())
            .unwrap_or_default();
        let (path, only) = match &flow.subflows[..] {
            [only] => (only.path.clone(), Some(only)),
            _ => (String::new(), None),
        };
        let cells = styles.cells(flow.goodput_bps, flow.share, only);
        let after = flow.completed.map(|completed| {
            let all = f64::from(measured.runs);
            transfers.write(flow.completion_s, f64::from(completed), all)
        });
        table.row(
            [called(flow), law, path]
                .into_iter()
                .chain(cells)
                .chain(after),
        );
        for subflow in flow.subflows.iter().filter(|_| only.is_none()) {
            let head = [String::new(), String::new(), subflow.path.clone()];
            table.row(head.into_iter().chain(styles.of_subflow(subflow)));
        }
    }
    let several = measured.flows.iter().any(|flow| flow.subflows.len() > 1);
    let note = "A flow's share is of all flows' goodput, a subflow's share of its flow's goodput.";
    noted(table, several.then_some(note))
}

/// A flow's name; of a fluid, whose row is of all its flows together, with their number.
fn called(flow: &FlowReport) -> String {
    match flow.count {
        1 => flow.name.clone(),
        count => format!("{count} × {}", flow.name),
    }
}

/// A row for each group.
fn groups(measured: &Measured) -> String {
    let shown = &measured.groups[..measured.groups.len().min(ROWS)];
    let rate = Style::rate(shown.iter().map(|group| group.goodput_max_bps.mean));
    let transfers = Transfers::of(means(shown.iter().map(|group| group.completion_max_s)));
    let finite = shown.iter().any(|group| group.completed.is_some());
    let mut columns = vec![Column::left("group"), Column::left("law")];
    columns.push(Column::right(format!("goodput ({}bps)", rate.prefix)));
    columns.extend(["least", "median", "most", "share (%)", "Jain"].map(Column::right));
    if finite {
        columns.extend(["complete after", "the last after"].map(|name| transfers.column(name)));
    }
    let mut table = Table::new(columns);
    for group in shown {
        let mut row = vec![
            format!("{} × {}", came(group), group.name),
            group.law.clone().unwrap_or_default(),
            rate.write(group.goodput_bps),
        ];
        let spread = [
            group.goodput_min_bps,
            group.goodput_median_bps,
            group.goodput_max_bps,
        ];
        row.extend(spread.map(|goodput| {
            let mean = (goodput.n > 0).then_some(goodput.mean);
            rate.number(mean)
        }));
        row.push(Style::percent(1).write(group.share));
        row.push(Style::plain([1.0], 3).write(group.jain));
        if let Some(completed) = group.completed {
            row.push(transfers.write(group.completion_s, completed.mean, flows_of(group)));
            row.push(transfers.time(group.completion_max_s.map(|longest| longest.mean)));
        }
        table.row(row);
    }
    let mut note = "Goodput is per flow; a group's share is that of all its flows.".to_owned();
    let left_out = measured.groups.len() - shown.len();
    if left_out > 0 {
        note.push_str(&format!(" {left_out} more groups are in --json."));
    }
    noted(table, Some(&note))
}

/// The group's flows; on average, where starts are random.
fn flows_of(group: &GroupReport) -> f64 {
    group
        .started
        .map_or(group.count as f64, |started| started.mean)
}

fn came(group: &GroupReport) -> String {
    let flows = flows_of(group);
    Style::plain([flows], fractions([flows])).number(flows)
}

/// The mean subflow of each group over each of its paths.
fn members(measured: &Measured) -> String {
    let shown = &measured.groups[..measured.groups.len().min(ROWS)];
    let subflows = || shown.iter().flat_map(|group| &group.subflows);
    let styles = Styles::of(
        subflows().map(|subflow| subflow.goodput_bps.mean),
        subflows(),
    );
    let names = ["mean subflow of", "over"].map(Column::left);
    let mut table = Table::new(names.into_iter().chain(styles.columns()));
    for group in shown {
        for (index, subflow) in group.subflows.iter().take(ROWS).enumerate() {
            let name = if index == 0 { group.name.as_str() } else { "" };
            let head = [name.to_owned(), subflow.path.clone()];
            table.row(head.into_iter().chain(styles.of_subflow(subflow)));
        }
    }
    noted(table, Some("A subflow's share is of its flow's goodput."))
}

/// Goodput in the spans of time that the scenario names.
fn spans(measured: &Measured) -> String {
    let shown = &measured.groups[..measured.groups.len().min(ROWS)];
    let spans = || shown.iter().flat_map(|group| &group.spans);
    let rate = Style::rate(spans().map(|span| span.goodput_bps.mean));
    let Some(first) = shown.iter().find(|group| !group.spans.is_empty()) else {
        return String::new();
    };
    let names = first
        .spans
        .iter()
        .map(|span| Column::right(format!("{} ({}bps)", span.name, rate.prefix)));
    let mut table = Table::new([Column::left("group")].into_iter().chain(names));
    for group in shown {
        let cells = group.spans.iter().map(|span| rate.write(span.goodput_bps));
        table.row([group.name.clone()].into_iter().chain(cells));
    }
    noted(
        table,
        Some("Goodput per flow in each span of time that the scenario names."),
    )
}

fn links(links: &[LinkReport]) -> String {
    let shown = &links[..links.len().min(ROWS)];
    let load = Style::rate(shown.iter().map(|link| link.load_bps.mean));
    let queue = Style::plain(shown.iter().map(|link| link.queue_mean_packets.mean), 2);
    let marked = shown.iter().any(|link| link.marks.mean > 0.0);
    let counts = || {
        shown
            .iter()
            .flat_map(|link| [link.drops.mean, link.marks.mean])
    };
    let count = Style::plain(counts(), fractions(counts()));
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
            Style::percent(1).write(link.utilisation),
            load.write(link.load_bps),
            queue.write(link.queue_mean_packets),
            count.write(link.drops),
            Style::percent(3).write(link.drop_rate),
        ];
        row.extend(marked.then(|| count.write(link.marks)));
        table.row(row);
    }
    let note = match links.len() - shown.len() {
        0 => None,
        left_out => Some(format!("{left_out} more links are in --json.")),
    };
    noted(table, note.as_deref())
}

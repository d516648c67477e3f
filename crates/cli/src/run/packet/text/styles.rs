//! What the tables of the packet level share: columns of flows and subflows, units, notes. This
//! module formats and never chooses what is shown.

use manyway_report::{Column, Table};
use manyway_simulate::batch::SubflowReport;
use manyway_simulate::measure::Estimate;

use crate::run::number::Style;

/// Number of decimals for counts: none, unless they are means.
pub(super) fn fractions(counts: impl IntoIterator<Item = f64>) -> usize {
    usize::from(counts.into_iter().any(|count| count.fract() != 0.0))
}

/// The columns that flows and subflows have.
pub(super) struct Styles {
    rate: Style,
    window: Style,
    rtt: Style,
    losses: Style,
}

impl Styles {
    pub(super) fn of<'a>(
        rates: impl Iterator<Item = f64>,
        subflows: impl Iterator<Item = &'a SubflowReport> + Clone,
    ) -> Self {
        let windows = subflows
            .clone()
            .filter_map(|subflow| subflow.window_mean_packets)
            .map(|window| window.mean);
        let rtts = subflows.clone().filter_map(|subflow| subflow.rtt_mean_s);
        let losses = subflows.map(|subflow| subflow.loss_events.mean);
        Self {
            rate: Style::rate(rates),
            window: Style::plain(windows, 2),
            rtt: Style::millis(rtts.map(|rtt| rtt.mean)),
            losses: Style::plain(losses.clone(), fractions(losses)),
        }
    }

    pub(super) fn columns(&self) -> [Column; 5] {
        [
            &format!("goodput ({}bps)", self.rate.prefix),
            "share (%)",
            "window (packets)",
            "rtt (ms)",
            "loss events",
        ]
        .map(Column::right)
    }

    pub(super) fn of_subflow(&self, subflow: &SubflowReport) -> [String; 5] {
        self.cells(subflow.goodput_bps, subflow.share, Some(subflow))
    }

    /// Cells that only subflows have stay blank without one.
    pub(super) fn cells(
        &self,
        goodput: Estimate,
        share: Option<Estimate>,
        subflow: Option<&SubflowReport>,
    ) -> [String; 5] {
        let of = |style: &Style, read: fn(&SubflowReport) -> Option<Estimate>| {
            subflow.map_or_else(String::new, |subflow| style.write(read(subflow)))
        };
        [
            self.rate.write(goodput),
            Style::percent(1).write(share),
            of(&self.window, |subflow| subflow.window_mean_packets),
            of(&self.rtt, |subflow| subflow.rtt_mean_s),
            of(&self.losses, |subflow| {
                Some(subflow.loss_events).filter(|events| events.n > 0)
            }),
        ]
    }
}

/// The columns of completion times.
#[derive(Clone, Copy)]
pub(super) struct Transfers(Style);

impl Transfers {
    pub(super) fn of(times: impl IntoIterator<Item = f64>) -> Self {
        Self(Style::time(times))
    }

    pub(super) fn column(self, name: &str) -> Column {
        Column::right(format!("{name} ({}s)", self.0.prefix))
    }

    /// A time alone.
    pub(super) fn time(self, seconds: Option<f64>) -> String {
        self.0.number(seconds)
    }

    /// The time, and how many of `all` were complete unless all were.
    pub(super) fn write(self, time: Option<Estimate>, completed: f64, all: f64) -> String {
        let [count, all_of] = [completed, all].map(|count| {
            let style = Style::plain([all], fractions([count]));
            style.number(count)
        });
        let time = self.0.write(time);
        match completed < all {
            true => format!("{time} ({count} of {all_of})"),
            false => time,
        }
    }
}

/// The means of the estimates that exist.
pub(super) fn means(
    estimates: impl Iterator<Item = Option<Estimate>>,
) -> impl Iterator<Item = f64> {
    estimates.flatten().map(|estimate| estimate.mean)
}

/// A table, its note if there is one, and an empty line.
pub(super) fn noted(table: Table, note: Option<&str>) -> String {
    match note {
        Some(note) => format!("{table}{note}\n\n"),
        None => format!("{table}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_rounded() {
        let transfers = Transfers::of([1.5]);
        assert_eq!(transfers.write(None, 9.7, 32.0 / 3.0), "- (9.7 of 10.7)");
        assert_eq!(transfers.write(None, 9.0, 11.0), "- (9 of 11)");
    }
}

//! How the numbers of tables are written.

use manyway_report::Column;
use manyway_simulate::batch::SubflowReport;

use crate::run::number::{Estimate, Style};

/// A mean and its confidence interval.
pub(super) fn estimate(mean: impl Into<Option<f64>>, ci95: Option<f64>) -> Estimate {
    (mean.into(), ci95)
}

/// Decimals that counts need: none, unless they are means.
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
            .filter_map(|subflow| subflow.window_mean_packets);
        let losses = subflows.clone().map(|subflow| subflow.loss_events);
        Self {
            rate: Style::rate(rates),
            window: Style::plain(windows, 2),
            rtt: Style::millis(subflows.filter_map(|subflow| subflow.rtt_mean_s)),
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
        let goodput = estimate(subflow.goodput_bps, subflow.goodput_ci95_bps);
        let share = estimate(subflow.share, subflow.share_ci95);
        self.cells(goodput, share, Some(subflow))
    }

    /// What only subflows have stays blank without one.
    pub(super) fn cells(
        &self,
        goodput: Estimate,
        share: Estimate,
        subflow: Option<&SubflowReport>,
    ) -> [String; 5] {
        let of = |style: &Style, read: fn(&SubflowReport) -> Estimate| {
            subflow.map_or_else(String::new, |subflow| style.write(read(subflow)))
        };
        [
            self.rate.write(goodput),
            Style::percent(1).write(share),
            of(&self.window, |s| {
                estimate(s.window_mean_packets, s.window_ci95_packets)
            }),
            of(&self.rtt, |s| estimate(s.rtt_mean_s, s.rtt_ci95_s)),
            of(&self.losses, |s| {
                estimate(s.loss_events, s.loss_events_ci95)
            }),
        ]
    }
}

/// The columns that tell how long transfers took.
#[derive(Clone, Copy)]
pub(super) struct Transfers(Style);

impl Transfers {
    pub(super) fn of(times: impl IntoIterator<Item = f64>) -> Self {
        Self(Style::time(times))
    }

    pub(super) fn column(self, name: &str) -> Column {
        Column::right(format!("{name} ({}s)", self.0.prefix))
    }

    pub(super) fn time(self, time: Estimate) -> String {
        self.0.write(time)
    }

    /// The time, and how many of `all` were complete unless all were.
    pub(super) fn write(self, time: Estimate, completed: f64, all: f64) -> String {
        let count = Style::plain([all], fractions([completed]));
        let count = count.write(estimate(completed, None));
        match completed < all {
            true => format!("{} ({count} of {all})", self.time(time)),
            false => self.time(time),
        }
    }
}

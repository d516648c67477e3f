//! The live view of a transfer: a line per path and the total, redrawn on a terminal; elsewhere a
//! plain line every five seconds.
//!
//! It reads counters and draws; it never changes the transfer.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use manyway::files::{Phase, Progress};
use manyway::{Connection, ConnectionStats, PathState, RelayState, SelectionStats};
use manyway_units::{ByteSize, Rate, format_duration};

use crate::meter::{Direction, Labels, Meter, Row};
use crate::outage::{News, Outages};
use crate::progress::{self, Report};
use crate::reports::Reporter;
use crate::screen::Screen;

const REDRAW: Duration = Duration::from_millis(250);
const PLAIN_LINE: Duration = Duration::from_secs(5);
const OUTAGE: &str = "no path works: nothing comes back any more; manyway goes on trying";
/// Paths through relays with a line of their own: there may be hundreds.
const MAX_RELAYED: usize = 12;

/// Shows a transfer. Dropping it clears what it drew.
#[derive(Debug)]
pub(crate) struct Live<'a> {
    screen: &'a Screen,
    progress: Arc<Progress>,
    connection: Connection,
    direction: Direction,
    labels: Labels,
    reporter: Option<Reporter>,
    started: Instant,
    bars: Vec<ProgressBar>,
}

impl<'a> Live<'a> {
    pub(crate) fn new(
        screen: &'a Screen,
        direction: Direction,
        progress: Arc<Progress>,
        connection: Connection,
    ) -> Self {
        Self {
            screen,
            progress,
            connection,
            direction,
            labels: Labels::new(),
            reporter: None,
            started: Instant::now(),
            bars: Vec::new(),
        }
    }

    /// Replaces the names of some paths.
    pub(crate) fn labelled(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }

    /// Tells programs as well.
    pub(crate) fn reporting(mut self, reporter: Reporter) -> Self {
        self.reporter = Some(reporter);
        self
    }

    /// Redraws until the caller drops it.
    pub(crate) async fn run(mut self) -> std::convert::Infallible {
        let terminal = self.screen.is_terminal();
        let mut meter = Meter::new(self.direction, std::mem::take(&mut self.labels));
        let mut total = TotalRate::default();
        let mut next_line = PLAIN_LINE;
        let mut outages = Outages::default();
        loop {
            tokio::time::sleep(REDRAW).await;
            let at = self.started.elapsed();
            let stats = self.connection.stats();
            let completion = Completion::of(&self.progress, self.direction, &stats);
            let rows = meter.sample(at, &stats);
            match outages.look(at, &stats) {
                Some(News::Began) => self.screen.say(OUTAGE),
                Some(News::Ended(lasted)) => {
                    let lasted = format_duration(Duration::from_secs(lasted.as_secs().max(1)));
                    self.screen
                        .say(&format!("the connection works again, after {lasted}"));
                }
                None => {}
            }
            let view = View {
                at,
                outage: outages.lasts(at),
                completion,
                rate: total.sample(at, completion.done),
                rows,
                relays: RelayCounts::of(&stats),
            };
            if let Some(reporter) = &self.reporter {
                let file = || self.progress.current();
                reporter.report(|transfer| Some(view.report(transfer, file())));
            }
            if terminal {
                self.redraw(&view);
            } else if at >= next_line {
                next_line += PLAIN_LINE;
                self.screen.say(&view.plain_line());
            }
        }
    }

    fn redraw(&mut self, view: &View) {
        let lines = view.lines();
        while self.bars.len() < lines.len() {
            let bar = self.screen.bars().add(ProgressBar::no_length());
            bar.set_style(
                ProgressStyle::with_template("{wide_msg}").expect("the template is well-formed"),
            );
            self.bars.push(bar);
        }
        for bar in self.bars.drain(lines.len()..) {
            bar.finish_and_clear();
        }
        for (bar, line) in self.bars.iter().zip(lines) {
            bar.set_message(line);
            bar.tick();
        }
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        for bar in &self.bars {
            bar.finish_and_clear();
            self.screen.bars().remove(bar);
        }
    }
}

/// The goodput, smoothed over some ten seconds so that the ETA doesn't jump.
#[derive(Debug, Default)]
struct TotalRate {
    last: Option<(Duration, u64)>,
    smoothed: f64,
}

impl TotalRate {
    fn sample(&mut self, at: Duration, done: u64) -> Rate {
        if let Some((since, before)) = self.last.replace((at, done)) {
            let span = at.saturating_sub(since);
            let now = Rate::of(done.saturating_sub(before), span).bits_per_sec();
            // Until ten seconds have passed it is the mean since the start.
            let weight = (span.as_secs_f64() / at.as_secs_f64().clamp(0.1, 10.0)).min(1.0);
            self.smoothed += weight * (now - self.smoothed);
        }
        Rate::from_bits_per_sec(self.smoothed)
    }
}

/// How much of a transfer is complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    pub(crate) phase: Phase,
    pub(crate) done: u64,
    pub(crate) total: u64,
    pub(crate) files: u64,
    pub(crate) files_done: u64,
}

impl Completion {
    pub(crate) fn of(progress: &Progress, direction: Direction, stats: &ConnectionStats) -> Self {
        let total = progress.bytes_total();
        let mut done = progress.bytes_done();
        let mut phase = progress.phase();
        if direction == Direction::Sending {
            // Data may wait in the stream's buffer for long: only acknowledged data counts.
            done = done.min(stats.bytes_acked);
            if phase == Phase::Syncing && done < total {
                phase = Phase::Transferring;
            }
        }
        Self {
            phase,
            done,
            total,
            files: progress.files_total(),
            files_done: progress.files_done(),
        }
    }
}

/// One moment of a transfer.
#[derive(Debug)]
struct View {
    at: Duration,
    /// For how long nothing has come back.
    outage: Option<Duration>,
    completion: Completion,
    rate: Rate,
    rows: Vec<Row>,
    relays: RelayCounts,
}

/// How many relays are in which state, and the selection among them.
#[derive(Debug, Clone, Default)]
struct RelayCounts {
    in_use: usize,
    available: usize,
    waiting: usize,
    selection: Option<SelectionStats>,
}

impl RelayCounts {
    fn of(stats: &ConnectionStats) -> Self {
        let count = |state| stats.relays.iter().filter(|r| r.state == state).count();
        Self {
            in_use: count(RelayState::InUse),
            available: count(RelayState::Available),
            waiting: count(RelayState::Waiting),
            selection: stats.selection.clone(),
        }
    }

    fn line(&self) -> Option<String> {
        let Self {
            in_use,
            available,
            waiting,
            selection,
        } = self;
        let picked = selection.as_ref().map_or_else(String::new, picked);
        (in_use + available + waiting > 0).then(|| {
            format!(
                "relays: {in_use} in use, {available} ready, {waiting} not answering \
                yet{picked}"
            )
        })
    }
}

/// The selection of relays, and whether its rate is enough.
fn picked(selection: &SelectionStats) -> String {
    let mut text = format!(
        "; {} of {} picked",
        selection.relays.len(),
        selection.wanted
    );
    if let (Some(rate), Some(demand), Some(enough)) =
        (selection.rate, selection.demand, selection.satisfied)
    {
        let enough = if enough { "enough" } else { "not enough" };
        write!(text, ", {rate:.1} of {demand:.1}: {enough}").expect("a String takes everything");
    }
    match selection.reselections {
        0 => {}
        1 => text.push_str(", reselected once"),
        n => write!(text, ", reselected {n} times").expect("a String takes everything"),
    }
    text
}

impl View {
    /// A line per path, then the total.
    fn lines(&self) -> Vec<String> {
        let width = self
            .rows
            .iter()
            .map(|row| row.label.chars().count())
            .max()
            .unwrap_or(0);
        let (shown, others) = self.shown();
        let mut lines: Vec<String> = shown.iter().map(|row| path_line(row, width)).collect();
        lines.extend(others);
        lines.extend(self.relays.line());
        lines.push(self.total());
        lines
    }

    /// Direct paths, then the fastest paths through relays; one line for the rest.
    fn shown(&self) -> (Vec<&Row>, Option<String>) {
        let (mut relayed, mut shown): (Vec<&Row>, Vec<&Row>) =
            self.rows.iter().partition(|row| row.relay);
        if relayed.len() > MAX_RELAYED {
            relayed.sort_by(|a, b| b.rate.bits_per_sec().total_cmp(&a.rate.bits_per_sec()));
        }
        let rest = relayed.split_off(relayed.len().min(MAX_RELAYED));
        shown.extend(relayed);
        let rate: Rate = rest.iter().map(|row| row.rate).sum();
        let others = (!rest.is_empty())
            .then(|| format!("{} more paths through relays  {rate:.1}", rest.len()));
        (shown, others)
    }

    fn plain_line(&self) -> String {
        let mut line = format!("{:.0} s: {}", self.at.as_secs_f64(), self.total());
        let (shown, others) = self.shown();
        for row in shown {
            write!(line, "; {}", path_line(row, 0)).expect("a String takes everything");
        }
        for more in others.into_iter().chain(self.relays.line()) {
            write!(line, "; {more}").expect("a String takes everything");
        }
        line
    }

    fn total(&self) -> String {
        let Completion {
            phase,
            done,
            total,
            files,
            ..
        } = self.completion;
        let size = ByteSize::new(total);
        if let Some(outage) = self.outage
            && matches!(phase, Phase::Listing | Phase::Transferring)
        {
            let part = 100.0 * done as f64 / total.max(1) as f64;
            let time = format_duration(Duration::from_secs(outage.as_secs()));
            return format!("{part:.0} % of {size}, outage: no answer on any path for {time}");
        }
        match phase {
            Phase::Greeting => "waiting for the peer".to_owned(),
            Phase::Listing => format!("listing: {files} files, {size}"),
            Phase::Transferring => {
                let part = 100.0 * done as f64 / total.max(1) as f64;
                format!("{part:.0} % of {size}, {:.1}, {}", self.rate, self.eta())
            }
            Phase::Syncing | Phase::Done => format!("all {size} transferred, writing to disk"),
        }
    }

    fn eta(&self) -> String {
        match self.seconds_left() {
            Some(left) => format!("{} left", format_duration(Duration::from_secs_f64(left))),
            None => "stalled".to_owned(),
        }
    }

    /// `None` if that is for ever.
    fn seconds_left(&self) -> Option<f64> {
        let left = self.completion.total.saturating_sub(self.completion.done);
        if left > 0 && self.outage.is_some() {
            return None;
        }
        let seconds = match left {
            0 => 0.0,
            left => (left as f64 / self.rate.bytes_per_sec()).ceil(),
        };
        (seconds < 1e7).then_some(seconds)
    }

    /// The same for programs.
    fn report(&self, transfer: u64, file: String) -> Report {
        let (shown, _) = self.shown();
        let Completion {
            phase,
            done,
            total,
            files,
            files_done,
        } = self.completion;
        Report::Progress(progress::Progress {
            transfer,
            seconds: self.at.as_secs_f64(),
            phase: progress::phase(phase),
            bytes: done,
            bytes_total: total,
            files: files_done,
            files_total: files,
            file,
            rate_bps: self.rate.bits_per_sec(),
            // While the list grows, nobody knows.
            eta_seconds: match phase {
                Phase::Greeting | Phase::Listing => None,
                _ => self.seconds_left(),
            },
            paths_left_out: self.rows.len() - shown.len(),
            paths: shown.into_iter().map(Into::into).collect(),
        })
    }
}

fn path_line(row: &Row, width: usize) -> String {
    let mut line = format!("{:width$}  ", row.label);
    match row.state {
        PathState::Validating => line.push_str("validating"),
        PathState::Stalled => line.push_str("stalled: no answer"),
        _ => {
            let rtt = row.rtt.as_secs_f64() * 1e3;
            write!(line, "{:>10.1}  rtt {rtt:.0} ms", row.rate).expect("a String takes everything");
        }
    }
    if let (Some(window), Some(loss), PathState::Active) = (row.window, row.loss, row.state) {
        write!(
            line,
            "  window {window:.0} × {} B  loss {:.2} %",
            row.packet,
            loss * 100.0
        )
        .expect("a String takes everything");
    }
    line
}

#[cfg(test)]
mod tests {
    use manyway::{CarrierKind, PathId};

    use super::*;

    fn row(label: &str, state: PathState) -> Row {
        Row {
            id: PathId(1),
            name: label.split(' ').next().unwrap().to_owned(),
            remote: "203.0.113.5:4433".parse().unwrap(),
            carrier: CarrierKind::Udp,
            label: label.to_owned(),
            relay: false,
            state,
            rate: Rate::from_mbps(38.25),
            rtt: Duration::from_micros(20_400),
            window: Some(71.6),
            packet: 1452,
            loss: Some(0.0012),
        }
    }

    fn view() -> View {
        let mut receiving = row("lte0 → 198.51.100.1", PathState::Active);
        (receiving.window, receiving.loss) = (None, None);
        View {
            at: Duration::from_millis(5003),
            outage: None,
            completion: Completion {
                phase: Phase::Transferring,
                done: 25_000_000,
                total: 100_000_000,
                files: 3,
                files_done: 1,
            },
            rate: Rate::from_mbps(60.0),
            rows: vec![
                row("eth0 → 203.0.113.5", PathState::Active),
                row("wlan0 → 203.0.113.5", PathState::Stalled),
                row("usb0 → 203.0.113.5", PathState::Validating),
                receiving,
            ],
            relays: RelayCounts::default(),
        }
    }

    #[test]
    fn lines() {
        insta::assert_snapshot!("live", view().lines().join("\n"));
        insta::assert_snapshot!("plain", view().plain_line());
    }

    #[test]
    fn for_programs() {
        let name = "photos/a\u{202e}b".to_owned();
        let json = serde_json::to_string_pretty(&view().report(2, name)).unwrap();
        insta::assert_snapshot!("report", json);
    }

    #[test]
    fn the_selection_stands_beside_the_relays() {
        let mut relays = RelayCounts {
            in_use: 2,
            available: 4,
            ..RelayCounts::default()
        };
        let mut selection = SelectionStats {
            wanted: 2,
            relays: vec!["192.0.2.1:443".parse().unwrap(); 2],
            demand: None,
            iterations: 0,
            reselections: 0,
            rate: None,
            satisfied: None,
        };
        relays.selection = Some(selection.clone());
        insta::assert_snapshot!(
            relays.line().unwrap(),
            @"relays: 2 in use, 4 ready, 0 not answering yet; 2 of 2 picked"
        );
        selection.demand = Some(Rate::from_mbps(20.0));
        selection.rate = Some(Rate::from_mbps(13.25));
        (selection.satisfied, selection.reselections) = (Some(false), 3);
        relays.selection = Some(selection);
        assert_eq!(
            relays.line().unwrap(),
            "relays: 2 in use, 4 ready, 0 not answering yet; 2 of 2 picked, 13.2 Mbps of 20.0 \
             Mbps: not enough, reselected 3 times"
        );
    }

    #[test]
    fn the_total_shows_the_phase() {
        let mut view = view();
        view.rate = Rate::ZERO;
        assert!(view.total().ends_with("stalled"), "{}", view.total());
        for (phase, words) in [
            (Phase::Greeting, "waiting for the peer"),
            (Phase::Listing, "listing: 3 files, 100 MB"),
            (Phase::Syncing, "all 100 MB transferred, writing to disk"),
        ] {
            view.completion.phase = phase;
            assert_eq!(view.total(), words);
        }
    }

    #[test]
    fn an_outage_is_called_one_and_has_no_end() {
        let mut view = view();
        view.outage = Some(Duration::from_millis(12_300));
        assert_eq!(
            view.total(),
            "25 % of 100 MB, outage: no answer on any path for 12 s"
        );
        assert_eq!(view.seconds_left(), None);
        view.completion.phase = Phase::Syncing;
        assert_eq!(view.total(), "all 100 MB transferred, writing to disk");
    }

    #[test]
    fn the_total_rate_is_a_mean_at_first_and_forgets_later() {
        let mut rate = TotalRate::default();
        let mut last = Rate::ZERO;
        for step in 0..=20_u64 {
            last = rate.sample(Duration::from_millis(250 * step), 1_000_000 * step);
        }
        assert!((last.mbps() - 32.0).abs() < 0.5, "{last}");
        for step in 21..=400 {
            last = rate.sample(Duration::from_millis(250 * step), 20_000_000);
        }
        assert!(last.mbps() < 0.1, "{last}");
    }
}

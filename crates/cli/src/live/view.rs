//! What the live view shows of one moment: lines that fit a terminal, one line for a log, and an
//! object for programs. It reads no clock and draws nothing.

use std::fmt::Write as _;
use std::time::Duration;

use manyway::files::Phase;
use manyway::{ConnectionStats, RelayState, SelectionStats};
use manyway_units::{ByteSize, Rate, format_duration, printable};

use super::pace::{Now, Still};
use crate::completion::Completion;
use crate::meter::{Condition, Row};
use crate::progress::{self, Report};
use crate::screen::Size;
use crate::text::{BAD, FAINT, GOOD, Line, UNSURE, bar, ending};

/// Paths through relays with a line of their own: there may be hundreds.
const MAX_RELAYED: usize = 12;
/// Most characters of a file's name.
const MAX_NAME: usize = 1024;
/// Below this width, lines leave out what matters less.
const NARROW: usize = 60;
/// The widths of the bar in one line with the rest.
const BAR: (usize, usize) = (10, 30);

/// One moment of a transfer.
#[derive(Debug)]
pub(super) struct View {
    pub(super) at: Duration,
    /// The time of day since when nothing moves, if nothing does.
    pub(super) since: String,
    pub(super) completion: Completion,
    pub(super) file: String,
    pub(super) pace: Now,
    pub(super) rows: Vec<Row>,
    pub(super) relays: RelayCounts,
    /// With windows and losses: `-v`.
    pub(super) verbose: bool,
}

/// How many relays are in which state, and the selection among them.
#[derive(Debug, Clone, Default)]
pub(super) struct RelayCounts {
    in_use: usize,
    available: usize,
    waiting: usize,
    selection: Option<SelectionStats>,
}

impl RelayCounts {
    pub(super) fn of(stats: &ConnectionStats) -> Self {
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

/// A path's line in parts: its state, its numbers or how long it has been silent, its name, and
/// what experts want to know.
struct PathWords {
    state: Line,
    numbers: String,
    label: String,
    details: String,
}

impl PathWords {
    fn of(row: &Row, narrow: bool, verbose: bool) -> Self {
        let up = || {
            let rtt = row.rtt.as_secs_f64() * 1e3;
            match narrow {
                true => format!("{:.1}", row.rate),
                false => format!("{:>10.1} · {rtt:>4.0} ms", row.rate),
            }
        };
        let down = || {
            let silent = format_duration(Duration::from_secs(row.silent.as_secs()));
            match narrow {
                true => format!("for {silent}"),
                false => format!("no answer for {silent}"),
            }
        };
        let (style, state, numbers) = match row.condition {
            Condition::Trying => (UNSURE, "trying", String::new()),
            Condition::Up => (GOOD, "up", up()),
            Condition::UpAgain => (GOOD, "up again", up()),
            Condition::Down => (BAD, "down", down()),
        };
        let mut details = String::new();
        let works = matches!(row.condition, Condition::Up | Condition::UpAgain);
        if let (true, Some(window), Some(loss)) = (works && verbose, row.window, row.loss) {
            let (packet, lost) = (row.packet, loss * 100.0);
            write!(
                details,
                " · {lost:.2} % lost · window {window:.0} × {packet} B"
            )
            .expect("a String takes everything");
        }
        Self {
            state: Line::default().styled(style, state),
            numbers,
            label: row.label.clone(),
            details,
        }
    }

    /// In columns of these widths.
    fn line(&self, state: usize, numbers: usize) -> Line {
        let gap = " ".repeat(state.saturating_sub(self.state.width()));
        let Self {
            numbers: words,
            label,
            details,
            ..
        } = self;
        let line = self.state.clone().and(gap);
        line.and(format!("  {words:<numbers$} · {label}"))
            .styled(FAINT, details)
    }

    /// In a line with others.
    fn plain(&self) -> String {
        let numbers: Vec<&str> = self.numbers.split_whitespace().collect();
        let state = self.state.render(false);
        let words = format!("{state} {}", numbers.join(" "));
        format!("{} · {}{}", words.trim_end(), self.label, self.details)
    }
}

impl View {
    /// Lines for a terminal: how far the transfer is, its file, its paths.
    pub(super) fn lines(&self, size: Size) -> Vec<Line> {
        // The painter leaves the last column and the last row free.
        let columns = size.columns.saturating_sub(1);
        let mut lines = self.head(columns);
        lines.extend(self.file_line(columns));
        let relays = self.relays.line();
        let room = size
            .rows
            .saturating_sub(1 + lines.len() + usize::from(relays.is_some()));
        lines.extend(self.path_lines(columns, room));
        lines.extend(relays.map(Line::from));
        lines
    }

    /// The bar and the numbers: in one line, or in two where that is too long.
    fn head(&self, columns: usize) -> Vec<Line> {
        if self.completion.phase != Phase::Transferring {
            return vec![self.total(columns)];
        }
        let fraction = self.completion.fraction();
        let percent = format!(" {:>3.0} %", (100.0 * fraction).floor());
        let rest = self.total(columns);
        let beside = columns.saturating_sub(percent.len() + rest.width() + 2);
        if beside >= BAR.0 {
            let line = bar(fraction, beside.min(BAR.1)).and(percent).and("  ");
            return vec![line.join(rest)];
        }
        let alone = columns.saturating_sub(percent.len());
        vec![bar(fraction, alone.min(2 * BAR.1)).and(percent), rest]
    }

    /// What is done and what is left, without the bar.
    fn total(&self, columns: usize) -> Line {
        let Completion {
            phase,
            done,
            total,
            files,
            ..
        } = self.completion;
        let size = ByteSize::new(total).decimal();
        if let Some(Still::Outage(_)) = self.pace.still
            && phase != Phase::Done
        {
            return self.still("outage");
        }
        match phase {
            Phase::Greeting => "waiting for the peer".into(),
            Phase::Listing => format!("listing: {files} files, {size}").into(),
            Phase::Transferring if self.pace.still.is_some() => self.still("stalled"),
            Phase::Transferring => {
                let amount = match columns < NARROW {
                    true => String::new(),
                    false => format!("{} of {size}, ", ByteSize::new(done).decimal()),
                };
                let left = self.pace.left;
                let left = left.map_or_else(String::new, |left| {
                    format!(", {} left", format_duration(left))
                });
                format!("{amount}{:.1}{left}", self.pace.rate).into()
            }
            Phase::Syncing | Phase::Done if columns < NARROW => "writing to disk".into(),
            Phase::Syncing | Phase::Done => {
                format!("all {size} transferred, writing to disk").into()
            }
        }
    }

    /// `outage since 14:03:12 (35 s)`.
    fn still(&self, what: &str) -> Line {
        let since = self.pace.still.map_or(self.at, Still::since);
        let lasted = self.at.saturating_sub(since).as_secs();
        let lasted = format_duration(Duration::from_secs(lasted));
        let text = format!("{what} since {} ({lasted})", self.since);
        Line::default().styled(BAD, text)
    }

    fn file_line(&self, columns: usize) -> Option<Line> {
        let Completion {
            phase,
            files,
            files_done,
            ..
        } = self.completion;
        if phase != Phase::Transferring || self.file.is_empty() {
            return None;
        }
        let count = match files {
            0 | 1 => String::new(),
            files => format!("{files_done} of {files} files · "),
        };
        let room = columns.saturating_sub(count.chars().count());
        let name = printable(&self.file, MAX_NAME);
        Some(
            Line::default()
                .styled(FAINT, count)
                .and(ending(&name, room)),
        )
    }

    fn path_lines(&self, columns: usize, room: usize) -> Vec<Line> {
        let (mut shown, mut others) = self.shown();
        let lines = |shown: &[&Row], others: &[&Row]| shown.len() + usize::from(!others.is_empty());
        while lines(&shown, &others) > room.max(1) {
            others.extend(shown.pop());
        }
        let narrow = columns < NARROW;
        let words = shown
            .iter()
            .map(|row| PathWords::of(row, narrow, self.verbose));
        let words: Vec<PathWords> = words.collect();
        let widest = |width: fn(&PathWords) -> usize| words.iter().map(width).max().unwrap_or(0);
        let state = widest(|words| words.state.width());
        let numbers = widest(|words| words.numbers.chars().count());
        let more = more(&others).map(Line::from);
        let lines = words.iter().map(|words| words.line(state, numbers));
        lines.chain(more).collect()
    }

    /// Direct paths, then the fastest paths through relays, then those that don't work yet; and the
    /// rest.
    fn shown(&self) -> (Vec<&Row>, Vec<&Row>) {
        let (mut relayed, mut shown): (Vec<&Row>, Vec<&Row>) =
            self.rows.iter().partition(|row| row.relay);
        if relayed.len() > MAX_RELAYED {
            relayed.sort_by(|a, b| b.rate.bits_per_sec().total_cmp(&a.rate.bits_per_sec()));
        }
        let rest = relayed.split_off(relayed.len().min(MAX_RELAYED));
        shown.extend(relayed);
        shown.sort_by_key(|row| row.condition == Condition::Trying);
        (shown, rest)
    }

    /// One line, for a log or a terminal that redraws nothing.
    pub(super) fn plain_line(&self) -> String {
        let mut line = format!("{:.0} s: ", self.at.as_secs_f64());
        if self.completion.phase == Phase::Transferring {
            let percent = (100.0 * self.completion.fraction()).floor();
            write!(line, "{percent:.0} %, ").expect("a String takes everything");
        }
        line.push_str(&self.total(usize::MAX).render(false));
        let (shown, others) = self.shown();
        let paths = shown
            .iter()
            .map(|row| PathWords::of(row, false, self.verbose).plain());
        for more in paths.chain(more(&others)).chain(self.relays.line()) {
            write!(line, "; {more}").expect("a String takes everything");
        }
        line
    }

    /// The same for programs.
    pub(super) fn report(&self, transfer: u64) -> Report {
        let (shown, others) = self.shown();
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
            file: self.file.clone(),
            rate_bps: self.pace.rate.bits_per_sec(),
            // While the list grows, nobody knows.
            eta_seconds: match phase {
                Phase::Greeting | Phase::Listing => None,
                _ => self.pace.left.map(|left| left.as_secs_f64()),
            },
            paths_left_out: others.len(),
            paths: shown.into_iter().map(Into::into).collect(),
        })
    }
}

/// One line for many paths.
fn more(others: &[&Row]) -> Option<String> {
    let rate: Rate = others.iter().map(|row| row.rate).sum();
    let many = others.len();
    (many > 0).then(|| match many {
        1 => format!("1 more path, {rate:.1}"),
        _ => format!("{many} more paths, {rate:.1}"),
    })
}

#[cfg(test)]
mod tests;

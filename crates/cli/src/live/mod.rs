//! The live view of a transfer: how far it is, its file and a line per path, redrawn on a terminal;
//! elsewhere a plain line every five seconds.
//!
//! It reads counters and draws; it never changes the transfer.

mod pace;
mod view;

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Local;
use manyway::Connection;
use manyway::files::Progress;

use self::pace::{Pace, Still};
use self::view::{RelayCounts, View};
use crate::completion::{Completion, Moved};
use crate::meter::{Direction, Labels, Meter};
use crate::reports::Reporter;
use crate::screen::{Block, Screen};

const REDRAW: Duration = Duration::from_millis(250);
const PLAIN_LINE: Duration = Duration::from_secs(5);

/// Shows a transfer. Dropping it clears what it drew.
#[derive(Debug)]
pub(crate) struct Live<'a> {
    screen: &'a Screen,
    block: Block,
    progress: Arc<Progress>,
    connection: Connection,
    direction: Direction,
    labels: Labels,
    reporter: Option<Reporter>,
    started: Instant,
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
            block: screen.block(),
            progress,
            connection,
            direction,
            labels: Labels::new(),
            reporter: None,
            started: Instant::now(),
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
        let mut meter = Meter::new(self.direction, std::mem::take(&mut self.labels));
        let mut pace = Pace::default();
        let mut next_line = PLAIN_LINE;
        loop {
            tokio::time::sleep(REDRAW).await;
            let at = self.started.elapsed();
            let view = self.view(at, &mut meter, &mut pace);
            if let Some(reporter) = &self.reporter {
                reporter.report(|transfer| Some(view.report(transfer)));
            }
            if self.screen.redraws() {
                self.block.show(view.lines(self.screen.size()));
            } else if at >= next_line {
                next_line += PLAIN_LINE;
                self.screen.say(&view.plain_line());
            }
        }
    }

    fn view(&self, at: Duration, meter: &mut Meter, pace: &mut Pace) -> View {
        let stats = self.connection.stats();
        let completion = Completion::of(&self.progress, self.direction, &stats);
        let rows = meter.sample(at, &stats);
        let moved = Moved::of(&self.progress, &stats);
        let pace = pace.sample(at, &completion, moved, &rows);
        View {
            at,
            since: pace
                .still
                .map_or_else(String::new, |still| time_of_day(at, still)),
            completion,
            file: self.progress.current(),
            pace,
            rows,
            relays: RelayCounts::of(&stats),
            verbose: self.screen.is_verbose(),
        }
    }
}

/// When it began, as a clock on the wall says.
fn time_of_day(at: Duration, still: Still) -> String {
    let since = Local::now() - at.saturating_sub(still.since());
    since.format("%H:%M:%S").to_string()
}

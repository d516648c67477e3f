//! The progress bar of a batch of runs. This module only reads a [`Control`] and draws; it starts
//! and stops nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use manyway_simulate::batch::Control;
use manyway_units::format_duration;

use crate::screen::{Block, Screen};
use crate::text::bar;

const REDRAW: Duration = Duration::from_millis(250);
/// What takes no longer needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);
/// Columns of the bar.
const BAR: usize = 30;

/// A bar on the terminal that vanishes when this is dropped; nothing where lines can't be redrawn.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    screen: &'a Screen,
    control: Arc<Control>,
    started: Instant,
    block: Block,
}

impl<'a> Progress<'a> {
    pub(super) fn new(screen: &'a Screen, control: &Arc<Control>) -> Self {
        Self {
            screen,
            control: control.clone(),
            started: Instant::now(),
            block: screen.block(),
        }
    }

    /// Redraws for ever; the caller drops it when the runs are done.
    pub(super) async fn run(self) -> std::convert::Infallible {
        if !self.screen.redraws() || self.screen.is_quiet() {
            return std::future::pending().await;
        }
        tokio::time::sleep(PATIENCE).await;
        loop {
            self.redraw();
            tokio::time::sleep(REDRAW).await;
        }
    }

    fn redraw(&self) {
        let fraction = self.control.fraction();
        let message = words(&self.control, fraction, self.started.elapsed());
        let line = bar(fraction, BAR).and(" ").and(message);
        self.block.show(vec![line]);
    }
}

/// `12 of 40 runs, 31 %, 2 min 5 s left`.
fn words(control: &Control, fraction: f64, elapsed: Duration) -> String {
    let done = format!(
        "{} of {} runs, {:.0} %",
        control.over(),
        control.runs(),
        (100.0 * fraction).floor()
    );
    let left = elapsed.as_secs_f64() * (1.0 / fraction - 1.0);
    match left < 1e7 {
        true => {
            let left = Duration::from_secs_f64(left.ceil());
            format!("{done}, {} left", format_duration(left))
        }
        false => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_from_what_is_done() {
        let control = Control::new();
        let after = |fraction| words(&control, fraction, Duration::from_secs(30));
        assert_eq!(after(0.25), "0 of 0 runs, 25 %, 1 min 30 s left");
        assert_eq!(after(0.999), "0 of 0 runs, 99 %, 1 s left");
        assert_eq!(after(0.0), "0 of 0 runs, 0 %");
    }
}

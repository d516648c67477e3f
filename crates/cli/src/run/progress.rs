//! The progress bar of a batch of runs. This module only reads a [`Control`] and draws; it starts
//! and stops nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use manyway_simulate::batch::Control;
use manyway_units::format_duration;

use crate::screen::Screen;

const REDRAW: Duration = Duration::from_millis(250);
/// What takes no longer needs no bar.
const PATIENCE: Duration = Duration::from_secs(1);
/// Parts of the bar.
const PARTS: u64 = 1000;

/// A bar on the terminal that vanishes when this is dropped; nothing where lines can't be redrawn.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    screen: &'a Screen,
    control: Arc<Control>,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(screen: &'a Screen, control: &Arc<Control>) -> Self {
        Self {
            screen,
            control: control.clone(),
            started: Instant::now(),
            bar: None,
        }
    }

    /// Redraws for ever; the caller drops it when the runs are done.
    pub(super) async fn run(mut self) -> std::convert::Infallible {
        if !self.screen.is_terminal() || self.screen.is_quiet() {
            return std::future::pending().await;
        }
        tokio::time::sleep(PATIENCE).await;
        loop {
            self.redraw();
            tokio::time::sleep(REDRAW).await;
        }
    }

    fn redraw(&mut self) {
        let fraction = self.control.fraction();
        let message = words(&self.control, fraction, self.started.elapsed());
        let screen = self.screen;
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{bar:30} {msg}");
            let bar = screen.bars().add(ProgressBar::new(PARTS));
            bar.with_style(style.expect("the template is well-formed"))
        });
        bar.set_position((fraction * PARTS as f64) as u64);
        bar.set_message(message);
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            self.screen.bars().remove(bar);
        }
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

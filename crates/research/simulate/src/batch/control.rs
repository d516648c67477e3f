//! How whoever starts runs sees their progress and stops them from another thread. This module
//! counts and never runs anything itself.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::plan::Job;

/// Parts that a run's progress is counted in.
const PARTS: f64 = 1e6;

/// The progress of runs, and the wish to stop them, shared between the thread that started them and
/// those that carry them out.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    runs: AtomicU64,
    over: AtomicU64,
    parts: AtomicU64,
}

impl Control {
    /// Nothing is done, nobody has asked to stop.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks to stop, soon: runs that are over count, those under way are dropped.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked to stop, or a run failed.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Number of all runs; 0 before the start.
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Number of runs that are over.
    pub fn over(&self) -> u64 {
        self.over.load(Ordering::Relaxed)
    }

    /// How much of all runs is done, 0 to 1; it counts what is done of those under way.
    pub fn fraction(&self) -> f64 {
        let whole = self.runs() as f64 * PARTS;
        match whole > 0.0 {
            true => (self.parts.load(Ordering::Relaxed) as f64 / whole).min(1.0),
            false => 0.0,
        }
    }

    /// Tells of so many runs more, before the first of them starts.
    pub fn expect(&self, runs: u64) {
        self.runs.fetch_add(runs, Ordering::Relaxed);
    }

    pub(super) fn flag(&self) -> &AtomicBool {
        &self.stop
    }
}

/// A run under way, as seen by whoever carries it out.
#[derive(Debug)]
pub struct Running<'a> {
    seed: u64,
    job: Option<Job>,
    control: &'a Control,
    /// Parts already counted in `control`.
    told: Cell<u64>,
}

impl<'a> Running<'a> {
    /// The run with this seed starts; it is over when this is dropped.
    pub fn new(seed: u64, control: &'a Control) -> Self {
        let told = Cell::new(0);
        Self {
            seed,
            job: None,
            control,
            told,
        }
    }

    /// The same of a run of a plan.
    pub(super) fn of(job: Job, control: &'a Control) -> Self {
        let (seed, told) = (job.seed, Cell::new(0));
        Self {
            seed,
            job: Some(job),
            control,
            told,
        }
    }

    /// Which run of a plan it is, if it is one.
    pub fn job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// The seed that all its randomness comes from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// When this becomes true the run should end; its result is dropped if it isn't complete.
    pub fn stop_flag(&self) -> &'a AtomicBool {
        self.control.flag()
    }

    /// Tells how much of the run is done, 0 to 1; less than before doesn't count.
    pub fn progress(&self, done: f64) {
        let parts = (done.clamp(0.0, 1.0) * PARTS) as u64;
        let before = self.told.replace(parts.max(self.told.get()));
        let more = parts.saturating_sub(before);
        self.control.parts.fetch_add(more, Ordering::Relaxed);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.progress(1.0);
        self.control.over.fetch_add(1, Ordering::Relaxed);
    }
}

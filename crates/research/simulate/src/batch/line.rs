//! Carries a plan out on several threads: runs start in order, and whatever order they end in, a
//! line takes their results in by number. This module never looks into a result; [`Tally`] does.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use manyway_scenario::Experiment;

use super::control::{Control, Running};
use super::plan::{BatchError, Job, Plan};
use super::report::{Measured, PointReport, Report, Results};
use super::tally::Tally;
use crate::packet::RunResult;

impl Plan<'_> {
    /// Carries out the runs by `level` and hands each result to `sink`, in the order of the points,
    /// then of the repetitions, whatever order the runs end in. It ends early when `control` is
    /// told to stop: then finished runs count, the others are missing ([`Report::unfinished`]).
    ///
    /// `level` and `sink` may run on any of the threads, `sink` on one at a time.
    ///
    /// # Errors
    ///
    /// The first error of `level` or `sink`; no further runs are started and those under way are
    /// stopped. [`BatchError::Stopped`] if no run was over when it was stopped.
    pub fn run<E: Send>(
        &self,
        level: impl Fn(&Experiment, &Running<'_>) -> Result<RunResult, E> + Sync,
        sink: impl FnMut(&Job, &RunResult) -> Result<(), E> + Send,
        control: &Control,
    ) -> Result<Report, BatchError<E>> {
        let pool = self.pool()?;
        control.expect(self.jobs());
        let line = Line::new(self, control, sink);
        pool.broadcast(|_| {
            while let Some(ticket) = line.take() {
                let job = ticket.job;
                let run = Running::of(job, control);
                let result = level(&self.points[job.point].experiment, &run);
                drop(run);
                ticket.hand_in(result);
            }
        });
        line.report()
    }
}

/// What all threads share.
pub(super) struct Line<'a, S, E> {
    plan: &'a Plan<'a>,
    control: &'a Control,
    room: u64,
    state: Mutex<State<'a, S, E>>,
    moved: Condvar,
}

struct State<'a, S, E> {
    sink: S,
    /// Number of the next run to start.
    next: u64,
    /// Number of the next result to take in.
    due: u64,
    /// Results whose turn has not come; `None` is a run that was stopped.
    early: BTreeMap<u64, Option<RunResult>>,
    /// The point whose runs are being taken in.
    current: Option<(usize, Tally<'a>)>,
    points: Vec<(usize, Measured)>,
    taken_in: u64,
    /// The error of the run with the lowest number.
    error: Option<(u64, BatchError<E>)>,
    panicked: bool,
}

impl<'a, S, E> Line<'a, S, E>
where
    S: FnMut(&Job, &RunResult) -> Result<(), E>,
{
    pub(super) fn new(plan: &'a Plan<'a>, control: &'a Control, sink: S) -> Self {
        Self {
            plan,
            control,
            room: plan.room() + plan.threads.max(1) as u64,
            state: Mutex::new(State {
                sink,
                next: 0,
                due: 0,
                early: BTreeMap::new(),
                current: None,
                points: Vec::new(),
                taken_in: 0,
                error: None,
                panicked: false,
            }),
            moved: Condvar::new(),
        }
    }

    /// The next run, as soon as there is room for its result; `None` when there is nothing left to
    /// start.
    pub(super) fn take(&self) -> Option<Ticket<'_, 'a, S, E>> {
        let mut state = self.lock();
        loop {
            let over = state.next == self.plan.jobs() || state.error.is_some() || state.panicked;
            if over || self.control.is_stopped() {
                return None;
            }
            if state.next < state.due + self.room {
                break;
            }
            // The run that is due is under way on another thread, which will wake us.
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let index = state.next;
        state.next += 1;
        Some(Ticket {
            job: self.plan.job(index),
            index,
            line: self,
            handed_in: false,
        })
    }

    /// What came of it all.
    pub(super) fn report(self) -> Result<Report, BatchError<E>> {
        let mut state = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        state.close_point();
        if let Some((_, error)) = state.error {
            return Err(error);
        }
        let jobs = self.plan.jobs();
        if state.taken_in == 0 && jobs > 0 {
            return Err(BatchError::Stopped);
        }
        Ok(Report {
            scenario: self.plan.scenario.to_owned(),
            level: self.plan.level,
            seed: self.plan.seed,
            repeat: self.plan.repeat,
            unfinished: jobs - state.taken_in,
            results: results(self.plan, state.points),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State<'a, S, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn results(plan: &Plan<'_>, mut points: Vec<(usize, Measured)>) -> Results {
    let swept = plan.points.len() != 1 || !plan.points[0].set.is_empty();
    match points.pop() {
        Some((_, only)) if !swept => Results::Point(only),
        last => Results::Sweep {
            points: points
                .into_iter()
                .chain(last)
                .map(|(index, measured)| PointReport {
                    point: index as u64 + 1,
                    set: plan.points[index].set.iter().cloned().collect(),
                    measured,
                })
                .collect(),
        },
    }
}

impl<'a, S, E> State<'a, S, E>
where
    S: FnMut(&Job, &RunResult) -> Result<(), E>,
{
    fn take_in(&mut self, plan: &'a Plan<'a>, index: u64, run: &RunResult) {
        let job = plan.job(index);
        if self
            .current
            .as_ref()
            .is_none_or(|(point, _)| *point != job.point)
        {
            self.close_point();
            let tally = Tally::new(&plan.points[job.point].experiment);
            self.current = Some((job.point, tally));
        }
        if let Some((_, tally)) = &mut self.current {
            tally.add(run);
        }
        self.taken_in += 1;
        if let Err(error) = (self.sink)(&job, run) {
            self.fail(index, BatchError::Result { job, error });
        }
    }

    fn close_point(&mut self) {
        if let Some((point, tally)) = self.current.take() {
            self.points.push((point, tally.measured()));
        }
    }

    fn fail(&mut self, index: u64, error: BatchError<E>) {
        if self.error.as_ref().is_none_or(|(first, _)| index < *first) {
            self.error = Some((index, error));
        }
    }
}

/// The right and the duty to hand in the result of a run.
pub(super) struct Ticket<'l, 'a, S, E>
where
    S: FnMut(&Job, &RunResult) -> Result<(), E>,
{
    pub(super) job: Job,
    index: u64,
    line: &'l Line<'a, S, E>,
    handed_in: bool,
}

impl<S, E> Ticket<'_, '_, S, E>
where
    S: FnMut(&Job, &RunResult) -> Result<(), E>,
{
    pub(super) fn hand_in(mut self, result: Result<RunResult, E>) {
        let line = self.line;
        let mut state = line.lock();
        let job = self.job;
        let result = result
            .map_err(|error| state.fail(self.index, BatchError::Run { job, error }))
            .ok()
            .filter(|run| run.complete)
            .map(|mut run| {
                if !line.plan.keeps_series(&job) {
                    run.series = Vec::new();
                }
                run
            });
        state.early.insert(self.index, result);
        loop {
            let due = state.due;
            let Some(run) = state.early.remove(&due) else {
                break;
            };
            state.due += 1;
            if let Some(run) = run.filter(|_| state.error.is_none()) {
                state.take_in(line.plan, due, &run);
            }
        }
        if state.error.is_some() {
            line.control.stop();
        }
        self.handed_in = true;
        line.moved.notify_all();
    }
}

impl<S, E> Drop for Ticket<'_, '_, S, E>
where
    S: FnMut(&Job, &RunResult) -> Result<(), E>,
{
    /// A run that panicked: nobody may wait for it.
    fn drop(&mut self) {
        if !self.handed_in {
            self.line.lock().panicked = true;
            self.line.control.stop();
            self.line.moved.notify_all();
        }
    }
}

//! The integrator: implicit, with error control and projection on lower bounds.

use nalgebra::{DMatrix, DVector, Dyn, LU};

use super::tableau::{DIAGONAL, EMBEDDED, LOWER, STAGES};
use super::{System, projected};

/// Integrates a [`System`] by steps of an L-stable diagonally implicit Runge-Kutta method of order
/// 4 with error control.
///
/// Every stage solves `U_i = max(b, a_i + hγ f(U_i))`: the projection is part of the equations, so
/// that a price that reaches 0 stays there and leaves it again without the step having to end at
/// that moment. Between such moments the order is 4; in a step with one of them it is less, and
/// error control makes it short.
#[derive(Debug)]
pub struct Integrator<'a, S> {
    system: &'a S,
    /// Relative, of the error of one step.
    tolerance: f64,
    time: f64,
    /// What the next step tries.
    length: f64,
    state: DVector<f64>,
    /// `f(u)⁺` there.
    slope: DVector<f64>,
    jacobian: DMatrix<f64>,
    /// The Jacobian is that of `state`.
    fresh: bool,
    factors: Option<Factors>,
    steps: usize,
}

/// An LU decomposition of `1 − hγ J` with the rows of components that are on their bounds left as
/// in the identity.
#[derive(Debug)]
struct Factors {
    scaled: f64,
    bound: Vec<bool>,
    lu: LU<f64, Dyn, Dyn>,
}

/// One step: a cubic between its ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Where it begins and ends, in seconds.
    pub times: (f64, f64),
    /// States at its ends.
    pub states: (DVector<f64>, DVector<f64>),
    /// Derivatives at its ends.
    pub slopes: (DVector<f64>, DVector<f64>),
    bounds: DVector<f64>,
}

/// Integration came to a standstill: a step of the smallest possible length was still too long.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the integration came to a standstill at {at} s: choose a larger tolerance")]
pub struct Stuck {
    /// When.
    pub at: f64,
}

/// Newton iterations of a stage.
const ITERATIONS: usize = 10;
/// What a stage may be wrong by, in tolerances.
const STAGE_ERROR: f64 = 0.01;
/// Steps don't grow or shrink by more than this at once.
const CHANGE: (f64, f64) = (0.15, 6.0);

impl<'a, S: System> Integrator<'a, S> {
    /// Begins at a state, at time 0, with a relative tolerance for the error of each step, between
    /// 1e-12 and 0.1.
    ///
    /// Components below their bounds are put onto them.
    pub fn new(system: &'a S, state: DVector<f64>, tolerance: f64) -> Self {
        let state = state.zip_map(system.bounds(), f64::max);
        let slope = projected(system, &state);
        let mut integrator = Integrator {
            system,
            tolerance: tolerance.clamp(1e-12, 0.1),
            time: 0.0,
            length: 0.0,
            jacobian: DMatrix::zeros(0, 0),
            fresh: false,
            factors: None,
            steps: 0,
            slope,
            state,
        };
        // A step that changes nothing by more than a hundredth of its scale, or than the tolerance
        // asks for.
        let pace = integrator.norm(&integrator.slope) * integrator.tolerance;
        integrator.length = 0.01 * integrator.tolerance.powf(0.25) / pace.max(1e-9);
        integrator
    }

    /// Seconds from the start.
    pub fn time(&self) -> f64 {
        self.time
    }

    /// The state now.
    pub fn state(&self) -> &DVector<f64> {
        &self.state
    }

    /// `f(u)⁺` now, per second.
    pub fn slope(&self) -> &DVector<f64> {
        &self.slope
    }

    /// Steps so far.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// One step, which doesn't go beyond `until`.
    ///
    /// # Errors
    /// [`Stuck`] if no step is short enough.
    pub fn step(&mut self, until: f64) -> Result<Step, Stuck> {
        loop {
            let left = until - self.time;
            // Two equal steps rather than one and a splinter.
            let length = match self.length {
                next if next >= left => left,
                next if 2.0 * next > left => left / 2.0,
                next => next,
            };
            if self.time + length <= self.time {
                return Err(Stuck { at: self.time });
            }
            if !self.fresh {
                self.jacobian = self.system.jacobian(&self.state);
                self.factors = None;
                self.fresh = true;
            }
            let Some(stages) = self.stages(length) else {
                self.length = length / 4.0;
                continue;
            };
            let error = self.error(&stages, length);
            let factor = match error.is_finite() {
                true => (0.9 * error.max(1e-12).powf(-0.25)).clamp(CHANGE.0, CHANGE.1),
                false => CHANGE.0,
            };
            if error > 1.0 || error.is_nan() {
                self.length = length * factor.min(0.9);
                continue;
            }
            self.length = match length < self.length {
                // A step that was cut short says little about the next one.
                true => self.length.min(length * CHANGE.1).max(length * factor),
                false => length * factor,
            };
            return Ok(self.accept(stages, length, until));
        }
    }

    fn accept(&mut self, mut stages: Stages, length: f64, until: f64) -> Step {
        let end = stages.state;
        let direct = projected(self.system, &end);
        let bounds = self.system.bounds();
        let last = &mut stages.slopes[STAGES - 1];
        // In stiff components the stage's own slope has less of the iteration's error; on a bound
        // only the projected one is meant.
        for (i, slope) in last.iter_mut().enumerate() {
            if end[i] <= bounds[i] {
                *slope = direct[i];
            }
        }
        let slope = std::mem::replace(last, DVector::zeros(0));
        let from = self.time;
        self.time = if length >= until - from {
            until
        } else {
            from + length
        };
        self.steps += 1;
        self.fresh = false;
        let states = (std::mem::replace(&mut self.state, end.clone()), end);
        let slopes = (std::mem::replace(&mut self.slope, slope.clone()), slope);
        Step {
            times: (from, self.time),
            states,
            slopes,
            bounds: bounds.clone(),
        }
    }

    /// All stages, or nothing if one can't be solved.
    fn stages(&mut self, length: f64) -> Option<Stages> {
        let mut slopes = vec![self.slope.clone()];
        let mut state = self.state.clone();
        for row in &LOWER[1..] {
            let mut base = self.state.clone();
            for (slope, factor) in slopes.iter().zip(row) {
                base.axpy(length * factor, slope, 1.0);
            }
            state = self.stage(&base, state, length * DIAGONAL)?;
            slopes.push((&state - base) / (length * DIAGONAL));
        }
        Some(Stages { slopes, state })
    }

    /// Solves `U = max(b, base + scaled f(U))` by Newton's method with the Jacobian of the step's
    /// beginning.
    fn stage(
        &mut self,
        base: &DVector<f64>,
        guess: DVector<f64>,
        scaled: f64,
    ) -> Option<DVector<f64>> {
        let system = self.system;
        let bounds = system.bounds();
        let mut state = guess;
        let mut before = f64::INFINITY;
        for _ in 0..ITERATIONS {
            let free = base + system.derivative(&state) * scaled;
            let bound: Vec<bool> = free.iter().zip(bounds).map(|(free, b)| free <= b).collect();
            let target = free.zip_map(bounds, f64::max);
            let factors = self.factors(scaled, &bound)?;
            let change = factors.lu.solve(&(target - &state))?;
            let size = self.norm(&change);
            if !size.is_finite() {
                return None;
            }
            state += change;
            for (value, bound) in state.iter_mut().zip(bounds) {
                *value = value.max(*bound);
            }
            let rate = size / before;
            if size <= STAGE_ERROR && (rate < 0.5 || size <= 1e-3 * STAGE_ERROR) {
                return Some(state);
            }
            if rate > 2.0 {
                return None;
            }
            before = size;
        }
        None
    }

    fn factors(&mut self, scaled: f64, bound: &[bool]) -> Option<&Factors> {
        let fits = |known: &Factors| known.scaled == scaled && known.bound == bound;
        if !self.factors.as_ref().is_some_and(fits) {
            let mut matrix = &self.jacobian * -scaled;
            for (i, _) in bound.iter().enumerate().filter(|(_, on)| **on) {
                matrix.row_mut(i).fill(0.0);
            }
            for i in 0..bound.len() {
                matrix[(i, i)] += 1.0;
            }
            self.factors = Some(Factors {
                scaled,
                bound: bound.to_vec(),
                lu: matrix.lu(),
            });
        }
        self.factors.as_ref()
    }

    /// Of the step, in tolerances.
    fn error(&self, stages: &Stages, length: f64) -> f64 {
        let mut error = DVector::zeros(self.state.len());
        let weights = LOWER[STAGES - 1].iter().chain(&[DIAGONAL]);
        for ((slope, weight), embedded) in stages.slopes.iter().zip(weights).zip(EMBEDDED) {
            error.axpy(length * (weight - embedded), slope, 1.0);
        }
        let bounds = self.system.bounds();
        let on_bound = |i: usize| stages.state[i] <= bounds[i];
        if !(0..error.len()).any(on_bound) {
            return self.norm(&error);
        }
        // What ends on its bound is right there; on its way it is wrong by about what it would have
        // fallen below, and that for a part of the step.
        let end = self.system.derivative(&stages.state);
        for i in (0..error.len()).filter(|&i| on_bound(i)) {
            let free = self.state[i] + length * end[i].min(self.slope[i]);
            let came = self.state[i] > bounds[i];
            error[i] = if came {
                (bounds[i] - free).max(0.0) * self.tolerance.sqrt()
            } else {
                0.0
            };
        }
        self.norm(&error)
    }

    /// The largest component, in tolerances.
    fn norm(&self, vector: &DVector<f64>) -> f64 {
        let sizes = vector.iter().zip(&self.state).enumerate();
        let sizes = sizes.map(|(i, (x, value))| x.abs() / self.system.scale(i, *value));
        // Not `f64::max`, which overlooks what is no number.
        let largest = sizes.fold(
            0.0,
            |most: f64, x| if x > most || x.is_nan() { x } else { most },
        );
        largest / self.tolerance
    }
}

struct Stages {
    slopes: Vec<DVector<f64>>,
    /// That of the last stage: the result.
    state: DVector<f64>,
}

impl Step {
    /// Component `i` at a time within the step.
    pub fn value(&self, i: usize, time: f64) -> f64 {
        let (from, to) = self.times;
        let h = to - from;
        let s = ((time - from) / h).clamp(0.0, 1.0);
        let (u0, u1) = (self.states.0[i], self.states.1[i]);
        let (f0, f1) = (h * self.slopes.0[i], h * self.slopes.1[i]);
        // Hermite's cubic.
        let rest = 1.0 - s;
        let bend = f0 * rest - f1 * s + (u1 - u0) * (s - rest);
        (u0 * rest + u1 * s + s * rest * bend).max(self.bounds[i])
    }

    /// The whole state at a time within the step.
    pub fn at(&self, time: f64) -> DVector<f64> {
        DVector::from_fn(self.states.0.len(), |i, _| self.value(i, time))
    }
}

#[cfg(test)]
mod tests;

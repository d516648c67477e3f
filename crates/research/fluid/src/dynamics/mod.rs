//! Projected systems over time: `u̇ = f(u)⁺`, where a component on its lower bound does not fall
//! below it.

mod delay;
mod integrator;
mod iterations;
mod loss;
mod tableau;

pub use delay::DelayModel;
pub use integrator::{Integrator, Step, Stuck};
pub use iterations::{Iterate, Start, Steps, adjust_weights, approximate};
pub use loss::LossModel;

use nalgebra::{DMatrix, DVector};

/// An autonomous system with lower bounds, `u̇_i = f_i(u)` where `u_i > b_i`, else `max(0,
/// f_i(u))`: the projection `(·)⁺` of eq. (3)-(4) of Peng et al.
///
/// `f` is continuous; it is asked for states on the bounds or above them only.
pub trait System {
    /// `b`, of as many components as a state has; `-∞` where there is none.
    fn bounds(&self) -> &DVector<f64>;

    /// `f(u)`, per second, not projected.
    fn derivative(&self, state: &DVector<f64>) -> DVector<f64>;

    /// `∂f/∂u`, dimension by dimension.
    fn jacobian(&self, state: &DVector<f64>) -> DMatrix<f64>;

    /// By how much component `i` may be wrong, for a relative tolerance of 1.
    fn scale(&self, i: usize, value: f64) -> f64;
}

/// `f(u)⁺`.
pub(crate) fn projected(system: &impl System, state: &DVector<f64>) -> DVector<f64> {
    let mut slope = system.derivative(state);
    for ((slope, value), bound) in slope.iter_mut().zip(state).zip(system.bounds()) {
        if value <= bound {
            *slope = slope.max(0.0);
        }
    }
    slope
}

#[cfg(test)]
mod tests;

use super::*;

/// A system by its functions.
struct Given<F, J> {
    bounds: DVector<f64>,
    derivative: F,
    jacobian: J,
}

impl<F: Fn(&DVector<f64>) -> DVector<f64>, J: Fn(&DVector<f64>) -> DMatrix<f64>> System
    for Given<F, J>
{
    fn bounds(&self) -> &DVector<f64> {
        &self.bounds
    }
    fn derivative(&self, state: &DVector<f64>) -> DVector<f64> {
        (self.derivative)(state)
    }
    fn jacobian(&self, state: &DVector<f64>) -> DMatrix<f64> {
        (self.jacobian)(state)
    }
    fn scale(&self, _: usize, value: f64) -> f64 {
        value.abs() + 1.0
    }
}

fn free<F, J>(dimension: usize, derivative: F, jacobian: J) -> Given<F, J> {
    Given {
        bounds: DVector::repeat(dimension, f64::NEG_INFINITY),
        derivative,
        jacobian,
    }
}

/// The state at `until`, with the number of steps.
fn end(system: &impl System, from: &[f64], tolerance: f64, until: f64) -> (Vec<f64>, usize) {
    let mut integrator = Integrator::new(system, DVector::from_column_slice(from), tolerance);
    while integrator.time() < until {
        integrator.step(until).unwrap();
    }
    (integrator.state().as_slice().to_vec(), integrator.steps())
}

#[test]
fn the_logistic_curve_is_met_within_the_tolerance() {
    let system = free(
        1,
        |u: &DVector<f64>| u.map(|u| u * (1.0 - u)),
        |u: &DVector<f64>| DMatrix::from_element(1, 1, 1.0 - 2.0 * u[0]),
    );
    let exact = |t: f64| 1.0 / (1.0 + 99.0 * (-t).exp());
    let mut steps = Vec::new();
    for tolerance in [1e-4, 1e-6, 1e-8] {
        let (found, taken) = end(&system, &[0.01], tolerance, 6.0);
        let error = (found[0] - exact(6.0)).abs();
        // What is wrong at the beginning grows 25-fold with the curve.
        assert!(error < 100.0 * tolerance, "{tolerance}: {error}");
        steps.push(taken as f64);
    }
    // Errors of steps fall with h⁴, so that a hundredth of the tolerance takes 3.2 times the steps.
    assert!(steps[2] / steps[1] < 4.5, "{steps:?}");
}

/// A hundred times the rate of change that a step can follow is no reason for more steps.
#[test]
fn stiffness_costs_nothing_once_it_is_over() {
    // Towards a slow curve at 10⁶/s: exact is u₁ = e^{-t}, u₂ = u₁ + e^{-10⁶ t}.
    let fast = 1e6;
    let derivative =
        |u: &DVector<f64>| DVector::from_vec(vec![-u[0], -fast * (u[1] - u[0]) - u[0]]);
    let jacobian =
        |_: &DVector<f64>| DMatrix::from_row_slice(2, 2, &[-1.0, 0.0, fast - 1.0, -fast]);
    let (found, steps) = end(&free(2, derivative, jacobian), &[1.0, 2.0], 1e-6, 5.0);
    for value in found {
        assert!((value - (-5.0f64).exp()).abs() < 1e-5, "{value}");
    }
    assert!(steps < 150, "{steps}");
}

/// `p̂` follows a load that goes up and down around a capacity: 0 while it has been below it for
/// long enough, with closed forms for when it leaves 0 and when it is back.
#[test]
fn a_price_slides_along_zero_and_leaves_it_in_time() {
    // (cos t, sin t, p): ṗ = (sin t − a)⁺.
    let a = 0.5;
    let system = Given {
        bounds: DVector::from_vec(vec![f64::NEG_INFINITY, f64::NEG_INFINITY, 0.0]),
        derivative: |u: &DVector<f64>| DVector::from_vec(vec![-u[1], u[0], u[1] - a]),
        jacobian: |_: &DVector<f64>| {
            DMatrix::from_row_slice(3, 3, &[0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0])
        },
    };
    let leaves = a.asin();
    let price = |t: f64| leaves.cos() - t.cos() - a * (t - leaves);
    let tau = std::f64::consts::TAU;
    for tolerance in [1e-5, 1e-7] {
        let mut integrator =
            Integrator::new(&system, DVector::from_vec(vec![1.0, 0.0, 0.1]), tolerance);
        let mut worst = 0.0f64;
        while integrator.time() < 3.0 * tau {
            let step = integrator.step(3.0 * tau).unwrap();
            for part in 1..=4 {
                let time = step.times.0 + (step.times.1 - step.times.0) * f64::from(part) / 4.0;
                let within = time % tau;
                // At first it falls to 0 from 0.1 before the load exceeds the capacity, which it
                // does not a second time.
                let exact = match within {
                    t if t > leaves => price(t).max(0.0),
                    _ if time < tau => (0.1 + 1.0 - time.cos() - a * time).max(0.0),
                    _ => 0.0,
                };
                let found = step.value(2, time);
                if part == 4 {
                    worst = worst.max((found - exact).abs());
                }
                assert!(
                    found > -1e-3 && (found - exact).abs() < 2e-2,
                    "{time}: {found} {exact}"
                );
            }
        }
        assert!(worst < 300.0 * tolerance, "{tolerance}: {worst}");
    }
}

#[test]
fn halving_the_step_divides_the_error_by_sixteen() {
    // A pendulum without friction, whose energy tells the error.
    let system = free(
        2,
        |u: &DVector<f64>| DVector::from_vec(vec![u[1], -u[0].sin()]),
        |u: &DVector<f64>| DMatrix::from_row_slice(2, 2, &[0.0, 1.0, -u[0].cos(), 0.0]),
    );
    let energy = |u: &DVector<f64>| u[1] * u[1] / 2.0 - u[0].cos();
    let error = |length: f64| {
        let start = DVector::from_vec(vec![1.0, 0.5]);
        let mut integrator = Integrator::new(&system, start.clone(), 0.1);
        while integrator.time() < 2.0 - 1e-9 {
            // A tolerance that all steps meet, so that `until` alone says how long they are; stages
            // are solved far better.
            integrator.tolerance = 1e-11;
            integrator.jacobian = system.jacobian(&integrator.state);
            integrator.factors = None;
            let stages = integrator.stages(length).unwrap();
            let until = integrator.time + length;
            integrator.accept(stages, length, until);
        }
        (energy(integrator.state()) - energy(&start)).abs()
    };
    let (long, short) = (error(0.1), error(0.05));
    let order = (long / short).log2();
    assert!(order > 3.7 && order < 5.5, "{order}: {long} {short}");
}

#[test]
fn what_has_no_solution_is_told() {
    // u̇ = u² ends at t = 1.
    let system = free(
        1,
        |u: &DVector<f64>| u.map(|u| u * u),
        |u: &DVector<f64>| DMatrix::from_element(1, 1, 2.0 * u[0]),
    );
    let mut integrator = Integrator::new(&system, DVector::from_element(1, 1.0), 1e-6);
    let stuck = loop {
        if let Err(stuck) = integrator.step(2.0) {
            break stuck;
        }
        assert!(integrator.steps() < 100_000);
    };
    assert!((stuck.at - 1.0).abs() < 1e-3, "{stuck:?}");
}

#[test]
fn what_is_no_number_is_told_too() {
    let system = free(
        1,
        |u: &DVector<f64>| u.map(|u| (1.0 - u).sqrt()),
        |u: &DVector<f64>| DMatrix::from_element(1, 1, -0.5 / (1.0 - u[0]).sqrt()),
    );
    let mut integrator = Integrator::new(&system, DVector::from_element(1, 3.0), 1e-6);
    assert_eq!(integrator.step(2.0), Err(Stuck { at: 0.0 }));
}

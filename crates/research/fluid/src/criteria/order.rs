//! Which of two laws is friendlier, and which more responsive, by theorems III.4 and III.5.

use super::domain::{Domain, Point};
use super::local::{Seen, least_negative};
use super::search::{Found, Search};
use super::subject::Subject;
use super::verdict::{Evidence, Witness};
use crate::law::FluidLaw;

/// One law above another, over a domain.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Whether it is so at all points.
    pub holds: bool,
    /// A point where it isn't.
    pub witness: Option<Witness>,
    /// The point that was nearest to that, if it holds.
    pub nearest: Option<Witness>,
    /// Points at which it was looked at.
    pub points: usize,
}

/// Relative differences that are rounding.
const TOLERANCE: f64 = 1e-9;

/// `Φ̂ ≥ Φ̃` on every path: by Theorem III.4 the second law is the friendlier one, if both meet
/// C1-C4.
pub fn phi_order(above: &Subject, below: &FluidLaw, domain: &Domain) -> Order {
    let measure = |law: &FluidLaw, point: &Point| {
        let higher = law.phis(&point.rates, &point.rtts);
        let lower = below.phis(&point.rates, &point.rtts);
        let values = higher.iter().zip(&lower).map(|(a, b)| 1.0 - a / b);
        let (r, value) = values.enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Seen {
            value,
            evidence: Evidence::Phis {
                path: r + 1,
                above: higher[r],
                below: lower[r],
            },
        })
    };
    order(Search::new(above, domain).run(TOLERANCE, &measure))
}

/// `∂Φ̂/∂x ⪯ ∂Φ̃/∂x`: by Theorem III.5 the first law is the more responsive one, if gains are
/// equal.
pub fn jacobian_order(more: &Subject, less: &FluidLaw, domain: &Domain) -> Order {
    let measure = |law: &FluidLaw, point: &Point| {
        let own = law.jacobian(&point.rates, &point.rtts);
        let difference = &own - less.jacobian(&point.rates, &point.rtts);
        // What is nothing beside the matrices themselves is rounding.
        if difference.amax() < 1e-13 * own.amax() {
            return None;
        }
        let (value, change) = least_negative(&difference, &point.rates)?;
        let product = change.dot(&(&difference * &change));
        Some(Seen {
            value,
            evidence: Evidence::Difference {
                change: change.as_slice().to_vec(),
                difference: product,
            },
        })
    };
    order(Search::new(more, domain).run(TOLERANCE, &measure))
}

fn order(found: Found) -> Order {
    let holds = found
        .worst
        .as_ref()
        .is_none_or(|worst| worst.value <= TOLERANCE);
    let (witness, nearest) = if holds {
        (None, found.worst)
    } else {
        (found.worst, None)
    };
    Order {
        holds,
        witness,
        nearest,
        points: found.points,
    }
}

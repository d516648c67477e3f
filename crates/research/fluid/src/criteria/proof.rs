//! Known proofs that a law meets a criterion.

use manyway_control::laws::{AnyLaw, Generalized};

use super::domain::Domain;
use super::subject::Subject;
use super::verdict::Criterion;
use crate::law::FluidLaw;

/// Where it is proved that a criterion holds for all members at all points of a domain.
pub(super) fn of_all(
    criterion: Criterion,
    subject: &Subject,
    domain: &Domain,
) -> Option<&'static str> {
    let mut proofs = subject.laws().map(|law| of(criterion, law, domain));
    let first = proofs.next()??;
    proofs.all(|proof| proof == Some(first)).then_some(first)
}

const SEPARATE: &str = "each path's φ depends on its own rate alone and falls with it";
const CLASS_1: &str = "Theorem IV.1 (1) of Peng et al.";
const CLASS_2: &str = "Theorem IV.1 (2) of Peng et al.";
const NINE: &str = "Lemmas G.1 and G.2 of Peng et al., which are strict off ties";
const CLOSED: &str = "in closed form, docs/criteria.md";
const FORMULA: &str = "by its formula";
const SUM: &str = "a sum of ewtcp's φ and semicoupled's, which both meet it";

fn of(criterion: Criterion, law: &FluidLaw, domain: &Domain) -> Option<&'static str> {
    use Criterion::{C0, C1, C2, C3, C4, C5};
    let equal = domain.equal_rtts();
    match law {
        FluidLaw::Window(AnyLaw::Reno(_) | AnyLaw::Ewtcp(_)) => Some(SEPARATE),
        FluidLaw::Window(AnyLaw::FullyCoupled(_)) => match criterion {
            C0 if equal => Some(FORMULA),
            C1 if equal => Some("Appendix G of Peng et al., β = 0"),
            C5 => Some(FORMULA),
            _ => None,
        },
        FluidLaw::Window(AnyLaw::Semicoupled(_)) => class(criterion, (1.0, 1.0), domain),
        FluidLaw::Window(AnyLaw::Generalized(Generalized { beta, n, eta, cap })) => {
            // A cap that never binds is none.
            let as_printed = cap.is_infinite() || *eta == 0.0;
            as_printed.then(|| class(criterion, (*beta, *n), domain))?
        }
        FluidLaw::Max => max(criterion, domain),
        FluidLaw::AutoGroup => match criterion {
            C3 | C5 => Some(FORMULA),
            // A sum of negative definite matrices is one.
            C2 => class(criterion, (1.0, 1.0), domain).map(|_| SUM),
            _ => None,
        },
        // The minimum with Reno's increase never binds: x_r max x ≤ S².
        FluidLaw::Window(AnyLaw::Lia(_)) if equal => max(criterion, domain),
        FluidLaw::Window(AnyLaw::Lia(_)) => matches!(criterion, C3 | C5).then_some(FORMULA),
        // The fastest path's φ is 2/(τ²S²), which determines the total.
        FluidLaw::Window(AnyLaw::Balia(_)) => matches!(criterion, C3 | C4 | C5).then_some(FORMULA),
        _ => None,
    }
}

fn max(criterion: Criterion, domain: &Domain) -> Option<&'static str> {
    match criterion {
        Criterion::C3 | Criterion::C5 => Some(FORMULA),
        Criterion::C0 => None,
        _ => class(criterion, (1.0, f64::INFINITY), domain),
    }
}

/// Of eq. (16). With unequal round-trip times the paper's proof of C1 has a gap, and for β < 1
/// there are counterexamples (docs/criteria.md).
fn class(criterion: Criterion, (beta, n): (f64, f64), domain: &Domain) -> Option<&'static str> {
    let equal = domain.equal_rtts();
    let printed = beta > 0.0 && beta <= 1.0 && (n.is_infinite() || n.fract() == 0.0);
    match (criterion, domain.most_paths()) {
        (Criterion::C1, _) if printed && equal => Some(CLASS_1),
        (Criterion::C1, _) if beta == 1.0 => Some(CLOSED),
        (Criterion::C2, ..=8) if printed && equal => Some(CLASS_2),
        (Criterion::C2, 9) if printed && equal => Some(NINE),
        (Criterion::C3, _) if beta > 0.0 && beta <= 1.0 => Some(FORMULA),
        (Criterion::C4, _) if beta > 0.0 => Some(CLOSED),
        (Criterion::C5, _) => Some(FORMULA),
        _ => None,
    }
}

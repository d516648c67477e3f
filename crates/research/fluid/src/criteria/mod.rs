//! The design criteria C0-C5 of Peng et al., evaluated over sampled states of one source.
//!
//! Each criterion is a number at a point, by the law's own code on dual numbers. Points are drawn
//! by a seed, and from the worst of them a local search goes on: what *holds* after that is not
//! proved, but nothing near the worst point found breaks it. Where a proof is known, the verdict
//! names it. What doesn't hold comes with a point and numbers to check.

mod domain;
mod limits;
mod linear;
mod local;
mod order;
mod proof;
mod response;
mod search;
mod subject;
mod table;
mod testbed;
mod tradeoff;
mod verdict;

use std::sync::atomic::{AtomicBool, Ordering};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub use domain::{Domain, Point, Rtts};
pub use linear::{Linearisation, at_fixed_prices};
pub use order::{Order, jacobian_order, phi_order};
pub use subject::{NoSubject, Subject};
pub use table::{Row, table_1, table_1_until};
pub use testbed::{Fig1, Fig2};
pub use tradeoff::{FIG_2, SLOPE_PER_PACKET, Tradeoff, oscillation, tradeoff};
pub use verdict::{Criteria, Criterion, Evidence, Verdict, Witness};

use crate::law::FluidLaw;
use local::Seen;
use response::response;
use search::{Found, NEVER, Search};

/// Each of so many points of the domain has its prices raised, to see C1 from afar.
const POINTS_PER_PRICES: usize = 10;

/// How far a link's price is raised.
const RAISES: [f64; 7] = [1.0, 1.01, 2.0, 1e2, 1e4, 1e8, 1e12];

/// C0 to C5 of a law, or of a class of laws, over a domain.
pub fn evaluate(subject: &Subject, domain: &Domain) -> Criteria {
    evaluated(subject, domain, &NEVER)
}

/// [`evaluate`], which ends soon once `stop` is set: `None` then.
pub fn evaluate_until(subject: &Subject, domain: &Domain, stop: &AtomicBool) -> Option<Criteria> {
    let found = evaluated(subject, domain, stop);
    (!stop.load(Ordering::Relaxed)).then_some(found)
}

fn evaluated(subject: &Subject, domain: &Domain, stop: &AtomicBool) -> Criteria {
    let search = Search::until(subject, domain, stop);
    Criteria {
        law: subject.label().to_owned(),
        domain: domain.clone(),
        verdicts: Criterion::ALL.map(|criterion| judged(criterion, &search)),
        jump_at_ties: jump_at_ties(subject, domain),
    }
}

/// One criterion of [`evaluate`].
pub fn judge(criterion: Criterion, subject: &Subject, domain: &Domain) -> Verdict {
    judged(criterion, &Search::new(subject, domain))
}

fn judged(criterion: Criterion, search: &Search<'_>) -> Verdict {
    let measure: fn(&FluidLaw, &Point) -> Option<Seen> = match criterion {
        Criterion::C0 => local::symmetry,
        Criterion::C1 => local::own_price,
        Criterion::C2 => local::definiteness,
        Criterion::C3 => limits::only_empty_paths_pay,
        Criterion::C4 => local::columns,
        Criterion::C5 => limits::free_paths_fill,
    };
    let mut found = search.run(criterion.tolerance(), &measure);
    let mut unsolved = None;
    // What breaks nearby needs no look from afar.
    if criterion == Criterion::C1 && !found.violated(criterion.tolerance()) {
        unsolved = raise_prices(search, &mut found);
    }
    verdict(criterion, search, found, unsolved)
}

fn verdict(
    criterion: Criterion,
    search: &Search<'_>,
    found: Found,
    unsolved: Option<String>,
) -> Verdict {
    let violated = found
        .worst
        .as_ref()
        .map(|worst| worst.value > criterion.tolerance());
    let undefined = match violated {
        Some(true) => None,
        Some(false) => unsolved,
        None => Some(found.why_undefined(criterion)),
    };
    let holds = match (violated, &undefined) {
        (Some(violated), None) => Some(!violated),
        _ => None,
    };
    let (witness, nearest) = match holds {
        Some(false) => (found.worst, None),
        _ => (None, found.worst),
    };
    Verdict {
        criterion,
        holds,
        theorem: holds
            .is_some_and(|holds| holds)
            .then(|| proof::of_all(criterion, search.subject, search.domain))
            .flatten(),
        witness,
        nearest,
        undefined,
        points: found.points,
        points_without_value: found.without_value,
    }
}

/// The other half of C1: a solution at drawn prices, and a link's traffic that only falls, to
/// nothing, as its price is raised. Says where no solution was found.
fn raise_prices(search: &Search<'_>, found: &mut Found) -> Option<String> {
    let mut rng = Pcg64Mcg::seed_from_u64(search.domain.seed ^ 0xC1);
    let mut unsolved = None;
    for n in 0..search.domain.samples.div_ceil(POINTS_PER_PRICES) {
        if search.is_stopped() {
            break;
        }
        let (name, law) = search.subject.member(n);
        let Some(mut point) = search.domain.draw(&mut rng) else {
            continue;
        };
        let paths = point.rtts.len();
        let prices: Vec<f64> = (0..paths)
            .map(|_| 10f64.powf(-1.0 - 4.0 * rng.random::<f64>()))
            .collect();
        let carries = rng.random_range(1..1usize << paths.min(20));
        let carries: Vec<usize> = (0..paths).filter(|r| carries >> r & 1 == 1).collect();
        found.points += 1;
        match traffic(law, &point.rtts, &prices, &carries) {
            Some(steps) => {
                let seen = rise(&steps, &carries, &prices);
                point.rates = steps[0].rates.clone();
                found.offer(name, &point, seen, Criterion::C1.tolerance());
            }
            None => {
                let at = |values: &[f64]| format!("{values:?}");
                unsolved.get_or_insert_with(|| {
                    format!(
                        "no solution of (8) was found for {name} at q = {}, τ = {}",
                        at(&prices),
                        at(&point.rtts)
                    )
                });
            }
        }
    }
    unsolved
}

/// A source's answer to a raised price.
struct Step {
    factor: f64,
    rates: Vec<f64>,
    traffic: f64,
}

fn traffic(law: &FluidLaw, rtts: &[f64], prices: &[f64], carries: &[usize]) -> Option<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    for factor in RAISES {
        let mut raised = prices.to_vec();
        for &r in carries {
            raised[r] *= factor;
        }
        let from = steps.last().map(|step| step.rates.as_slice());
        let rates = response(law, rtts, &raised, from)?;
        steps.push(Step {
            factor,
            traffic: carries.iter().map(|&r| rates[r]).sum(),
            rates,
        });
    }
    Some(steps)
}

/// The largest elasticity of traffic to price between two raises, which shouldn't be positive; or
/// how much is left in the end.
fn rise(steps: &[Step], carries: &[usize], prices: &[f64]) -> Seen {
    // Below a billionth of the first total is what the solver leaves of nothing.
    let nothing = 1e-9 * steps[0].rates.iter().sum::<f64>();
    let elasticity = |a: &Step, b: &Step| {
        let traffic = b.traffic.max(nothing) / a.traffic.max(nothing);
        traffic.ln() / (b.factor / a.factor).ln()
    };
    let pairs = steps.windows(2).map(|pair| {
        let value = elasticity(&pair[0], &pair[1]);
        // Solutions aren't known better.
        (
            if value.abs() < 1e-6 { 0.0 } else { value },
            &pair[0],
            &pair[1],
        )
    });
    let (first, last) = (&steps[0], &steps[steps.len() - 1]);
    // A thousandth at the most may be left after twelve decades.
    let left = last.traffic / first.traffic.max(nothing) - 1e-3;
    let pairs = pairs.chain((last.traffic > nothing && left > 0.0).then_some((left, first, last)));
    let worst = pairs.max_by(|a, b| a.0.total_cmp(&b.0));
    let (value, a, b) = worst.expect("there are several raises");
    Seen {
        value,
        evidence: Evidence::Traffic {
            link_carries: carries.iter().map(|r| r + 1).collect(),
            prices: prices.to_vec(),
            factors: (a.factor, b.factor),
            traffic: (a.traffic, b.traffic),
        },
    }
}

fn jump_at_ties(subject: &Subject, domain: &Domain) -> f64 {
    let rtt = match &domain.rtts {
        Rtts::Equal(rtt) => *rtt,
        Rtts::Between(low, _) => *low,
        Rtts::Each(rtts) => rtts[0],
    };
    let jump = |law: &FluidLaw| {
        let beside = |ahead: f64| law.jacobian(&[1.0 + ahead, 1.0 - ahead, 0.5], &[rtt; 3]);
        let (before, after) = (beside(-1e-9), beside(1e-9));
        (&before - &after).amax() / before.amax()
    };
    subject.laws().map(jump).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;

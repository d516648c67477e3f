//! Where the paper's statements end: paths, round-trip times, orders.

use manyway_fluid::FluidLaw;
use manyway_fluid::criteria::{
    Criterion, Domain, Order, Rtts, Subject, Verdict, jacobian_order, judge, phi_order,
};
use serde_json::{Value, json};

use super::subject;
use crate::failure::Failure;
use crate::gate::{Gate, gate};

/// What was found.
pub(crate) struct Edges {
    pub(crate) paths: Vec<PathLimit>,
    pub(crate) ratios: Vec<RatioLimit>,
    pub(crate) phis: Vec<Pair>,
    pub(crate) jacobians: Vec<Pair>,
    pub(crate) class_c1: Verdict,
}

/// The fewest paths at which C2 breaks with equal round-trip times.
pub(crate) struct PathLimit {
    pub(crate) beta: f64,
    pub(crate) n: &'static str,
    /// `1 + 8/β`, up to which it shouldn't.
    pub(crate) limit: f64,
    /// The last count without and the first with a violation.
    pub(crate) holds: Verdict,
    pub(crate) broken: Option<(usize, Verdict)>,
}

/// The least ratio of round-trip times at which C2 breaks.
pub(crate) struct RatioLimit {
    pub(crate) law: &'static str,
    pub(crate) paths: usize,
    pub(crate) ratio: f64,
}

/// Two laws in the order that the paper gives them.
pub(crate) struct Pair {
    pub(crate) first: &'static str,
    pub(crate) second: &'static str,
    pub(crate) order: Order,
}

const CHAIN: [&str; 4] = ["ewtcp", "semicoupled", "max", "coupled"];

impl Edges {
    pub(crate) fn find(full: bool, within: &Domain) -> Result<Self, Failure> {
        let betas: &[f64] = if full { &[1.0, 0.5, 0.2] } else { &[1.0] };
        let mut paths = Vec::new();
        for &beta in betas {
            for n in ["1", "2", "8", "inf"] {
                paths.push(PathLimit::find(beta, n, full, within)?);
            }
        }
        let mut ratios = Vec::new();
        for law in ["semicoupled", "max", "lia", "generalized"] {
            for paths in if full { vec![2, 3, 8] } else { vec![2] } {
                ratios.push(RatioLimit::find(law, paths, full, within)?);
            }
        }
        let unequal = Domain {
            rtts: Rtts::Between(0.01, 0.3),
            ..within.clone()
        };
        Ok(Edges {
            paths,
            ratios,
            phis: pairs(within, phi_order)?,
            jacobians: pairs(within, jacobian_order)?,
            class_c1: judge(Criterion::C1, &Subject::class(), &unequal),
        })
    }

    pub(crate) fn gates(&self) -> Vec<Gate> {
        let first = |limit: &PathLimit| limit.broken.as_ref().map(|(paths, _)| *paths);
        let told = self.paths.iter().map(|limit| {
            let paths = first(limit).map_or_else(|| "none found".to_owned(), |n| n.to_string());
            format!("β = {}, n = {}: {paths}", limit.beta, limit.n)
        });
        let told: Vec<String> = told.collect();
        // Where it ends is known for the smallest and the largest norm.
        let differs = |limit: &&PathLimit| {
            let end = match limit.n {
                "1" => Some(limit.limit.floor() as usize + 1),
                "inf" => Some(10),
                _ => None,
            };
            limit.holds.holds != Some(true) || end.is_some_and(|end| first(limit) != Some(end))
        };
        let orders = |pairs: &[Pair]| {
            let words = pairs.iter().map(|pair| {
                let word = if pair.order.holds { "yes" } else { "no" };
                format!("{}, {}: {word}", pair.first, pair.second)
            });
            words.collect::<Vec<_>>().join("; ")
        };
        let out_of_order =
            |pairs: &[Pair]| pairs.iter().filter(|pair| !pair.order.holds).count() as f64;
        let witness = self.class_c1.witness.as_ref().map(ToString::to_string);
        vec![
            gate("balia/theorem-4-1-paths").value(
                self.paths.iter().filter(differs).count() as f64,
                format!("first broken at {}", told.join("; ")),
            ),
            gate("balia/order-of-phi").value(out_of_order(&self.phis), orders(&self.phis)),
            gate("balia/order-of-jacobians")
                .value(out_of_order(&self.jacobians), orders(&self.jacobians)),
            gate("balia/theorem-4-1-c1").value(
                f64::from(u8::from(self.class_c1.holds != Some(true))),
                witness.unwrap_or_default(),
            ),
        ]
    }

    pub(crate) fn json(&self) -> Value {
        let paths: Vec<Value> = self
            .paths
            .iter()
            .map(|limit| {
                json!({
                    "beta": limit.beta, "n": limit.n, "limit": limit.limit,
                    "last_without": limit.holds,
                    "first_broken": limit.broken.as_ref().map(|(paths, _)| paths),
                    "witness": limit.broken.as_ref().map(|(_, verdict)| &verdict.witness),
                })
            })
            .collect();
        let ratios: Vec<Value> = self
            .ratios
            .iter()
            .map(|limit| json!({"law": limit.law, "paths": limit.paths, "ratio": limit.ratio}))
            .collect();
        let orders = |pairs: &[Pair]| -> Vec<Value> {
            pairs
                .iter()
                .map(|pair| {
                    json!({
                        "first": pair.first, "second": pair.second, "holds": pair.order.holds,
                        "witness": pair.order.witness, "points": pair.order.points,
                    })
                })
                .collect()
        };
        json!({
            "c2_by_paths": paths,
            "c2_by_rtt_ratio": ratios,
            "order_of_phi": orders(&self.phis),
            "order_of_jacobians": orders(&self.jacobians),
            "c1_of_the_class_at_unequal_rtts": self.class_c1,
        })
    }
}

/// Every pair of the chain.
fn pairs(
    within: &Domain,
    order: fn(&Subject, &FluidLaw, &Domain) -> Order,
) -> Result<Vec<Pair>, Failure> {
    let mut pairs = Vec::new();
    for (n, first) in CHAIN.into_iter().enumerate() {
        for second in CHAIN.into_iter().skip(n + 1) {
            let below = subject(second)?;
            let below = below.laws().next().ok_or("a law is one law")?;
            pairs.push(Pair {
                first,
                second,
                order: order(&subject(first)?, below, within),
            });
        }
    }
    Ok(pairs)
}

impl PathLimit {
    /// By bisection between 9, which is safe by Lemma G.1, and what one path that has nearly all
    /// breaks. A violation stays one with a path more that carries next to nothing.
    fn find(beta: f64, n: &'static str, full: bool, within: &Domain) -> Result<Self, Failure> {
        let law = subject(&format!("generalized:beta={beta},n={n}"))?;
        let limit = 1.0 + 8.0 / beta;
        let judged = |paths: usize| {
            let domain = Domain {
                paths: paths..=paths,
                decades: 6.0,
                samples: if full { 4000 } else { 400 },
                seed: within.seed,
                ..Domain::default()
            };
            judge(Criterion::C2, &law, &domain)
        };
        let (mut safe, mut high) = (9, limit.floor() as usize + 1);
        let mut holds = judged(safe);
        let mut broken = Some((high, judged(high))).filter(|(_, found)| found.holds == Some(false));
        while high - safe > 1 {
            let paths = usize::midpoint(safe, high);
            let verdict = judged(paths);
            match verdict.holds {
                Some(false) => (high, broken) = (paths, Some((paths, verdict))),
                _ => (safe, holds) = (paths, verdict),
            }
        }
        Ok(PathLimit {
            beta,
            n,
            limit,
            holds,
            broken,
        })
    }
}

impl RatioLimit {
    /// By bisection.
    fn find(law: &'static str, paths: usize, full: bool, within: &Domain) -> Result<Self, Failure> {
        let subject = subject(law)?;
        let (mut low, mut high) = (1.0f64, 1000.0f64);
        for _ in 0..if full { 14 } else { 8 } {
            let ratio = (low * high).sqrt();
            let domain = Domain {
                paths: paths..=paths,
                rtts: Rtts::Between(0.1, 0.1 * ratio),
                samples: if full { 1000 } else { 300 },
                seed: within.seed,
                ..Domain::default()
            };
            match judge(Criterion::C2, &subject, &domain).holds {
                Some(false) => high = ratio,
                _ => low = ratio,
            }
        }
        Ok(RatioLimit {
            law,
            paths,
            ratio: high,
        })
    }
}

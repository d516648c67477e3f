//! Sampling of a domain, and the local search for the worst point of each criterion.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::domain::{Domain, Point};
use super::local::Seen;
use super::subject::Subject;
use super::verdict::{Criterion, Witness};
use crate::law::FluidLaw;

/// The worst points that the search goes on from.
const STARTS: usize = 4;

/// What it may cost from each.
const EVALUATIONS: usize = 1000;

/// A value at a point, `None` where there is none.
pub(super) type Measure<'m> = &'m dyn Fn(&FluidLaw, &Point) -> Option<Seen>;

/// Sampled points of a domain, and the search for the worst one of each criterion.
pub(super) struct Search<'a> {
    pub(super) subject: &'a Subject,
    pub(super) domain: &'a Domain,
    points: Vec<Point>,
    /// Once set, what is found is of no use, and the search ends soon.
    stop: &'a AtomicBool,
}

/// What nobody stops.
pub(super) static NEVER: AtomicBool = AtomicBool::new(false);

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The point nearest to a violation, or the clearest violation of the fewest paths.
    pub(super) worst: Option<Witness>,
    pub(super) points: usize,
    pub(super) without_value: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(subject: &'a Subject, domain: &'a Domain) -> Self {
        Self::until(subject, domain, &NEVER)
    }

    /// The same, until somebody stops it.
    pub(super) fn until(subject: &'a Subject, domain: &'a Domain, stop: &'a AtomicBool) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(domain.seed);
        let samples = (0..domain.samples).take_while(|_| !stop.load(Ordering::Relaxed));
        let points = samples.filter_map(|_| domain.draw(&mut rng));
        Search {
            stop,
            subject,
            domain,
            points: points.collect(),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Looks at all points, then for worse ones near the worst. Values above the tolerance are
    /// violations.
    pub(super) fn run(&self, tolerance: f64, measure: Measure<'_>) -> Found {
        let mut found = Found::default();
        let mut sampled: Vec<(usize, f64)> = Vec::new();
        for (n, point) in self.points.iter().enumerate() {
            if self.is_stopped() {
                return found;
            }
            let (name, law) = self.subject.member(n);
            found.points += 1;
            match measure(law, point) {
                Some(seen) => {
                    sampled.push((n, seen.value));
                    found.offer(name, point, seen, tolerance);
                }
                None => found.without_value += 1,
            }
        }
        // What is violated already has its witness among few paths: only that is searched for a
        // clearer one.
        let fewest = |n: &usize| match found.violated(tolerance) {
            true => self.points[*n].rates.len(),
            false => 0,
        };
        sampled.sort_by(|a, b| fewest(&a.0).cmp(&fewest(&b.0)).then(b.1.total_cmp(&a.1)));
        for (n, _) in sampled.into_iter().take(STARTS) {
            self.climb(n, (tolerance, measure), &mut found);
        }
        self.round(tolerance, measure, &mut found);
        found
    }

    /// An evolution strategy with one parent, whose steps grow when they succeed and shrink when
    /// they don't.
    fn climb(&self, from: usize, (tolerance, measure): (f64, Measure<'_>), found: &mut Found) {
        let (name, law) = self.subject.member(from);
        let mut rng = Pcg64Mcg::seed_from_u64(self.domain.seed ^ (from as u64 + 1) << 8);
        let mut parent = self.points[from].clone();
        let Some(mut best) = measure(law, &parent) else {
            return;
        };
        let mut sigma = 0.5;
        for _ in 0..EVALUATIONS {
            if self.is_stopped() {
                return;
            }
            let child = self.domain.near(&parent, sigma, &mut rng);
            let seen = child.and_then(|child| Some((measure(law, &child)?, child)));
            found.points += 1;
            match seen {
                Some((seen, child)) if seen.value > best.value => {
                    (parent, best) = (child, seen);
                    sigma = f64::min(1.5 * sigma, 1.0);
                }
                _ => sigma = if sigma < 1e-6 { 0.5 } else { 0.9 * sigma },
            }
        }
        found.offer(name, &parent, best, tolerance);
    }

    /// A witness of round numbers, if they are one too.
    fn round(&self, tolerance: f64, measure: Measure<'_>, found: &mut Found) {
        let Some(witness) = found.worst.as_mut() else {
            return;
        };
        if witness.value <= tolerance {
            return;
        }
        let Some(law) = self.subject.named_member(&witness.law) else {
            return;
        };
        for digits in 2..=5 {
            let rounded = Point {
                rates: witness
                    .point
                    .rates
                    .iter()
                    .map(|x| significant(*x, digits))
                    .collect(),
                rtts: witness
                    .point
                    .rtts
                    .iter()
                    .map(|x| significant(*x, digits))
                    .collect(),
            };
            let Some(seen) = measure(law, &rounded).filter(|_| self.domain.contains(&rounded))
            else {
                continue;
            };
            if seen.value > tolerance && seen.value > 0.9 * witness.value - 1e-9 {
                witness.point = rounded;
                witness.value = seen.value;
                witness.evidence = seen.evidence;
                return;
            }
        }
    }
}

impl Found {
    /// Keeps what is worse: a violation before none, of fewer paths before more, a larger value
    /// before a smaller.
    pub(super) fn offer(&mut self, law: &str, point: &Point, seen: Seen, tolerance: f64) {
        let rank = |value: f64, point: &Point| {
            let violated = value > tolerance;
            let paths = if violated { point.rates.len() } else { 0 };
            (violated, std::cmp::Reverse(paths), value)
        };
        let worse = self
            .worst
            .as_ref()
            .is_none_or(|worst| rank(seen.value, point) > rank(worst.value, &worst.point));
        if worse {
            self.worst = Some(Witness {
                law: law.to_owned(),
                point: point.clone(),
                value: seen.value,
                evidence: seen.evidence,
            });
        }
    }

    pub(super) fn violated(&self, tolerance: f64) -> bool {
        let worst = self.worst.as_ref();
        worst.is_some_and(|worst| worst.value > tolerance)
    }

    pub(super) fn why_undefined(&self, criterion: Criterion) -> String {
        match criterion {
            _ if self.points == 0 => "no point of the domain is off ties".to_owned(),
            Criterion::C1 | Criterion::C4 => format!(
                "the Jacobian is singular at all of {} points: it has no inverse",
                self.points
            ),
            _ => format!("φ isn't finite at any of {} points", self.points),
        }
    }
}

fn significant(value: f64, digits: i32) -> f64 {
    let text = format!("{value:.*e}", digits as usize - 1);
    text.parse().unwrap_or(value)
}

//! The states of a source at which criteria are evaluated.

use std::ops::RangeInclusive;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// Where a criterion is looked at: sources with so many paths, their round-trip times and their
/// rates, off ties.
///
/// The laws are homogeneous in rates and in round-trip times, so that only ratios matter: the
/// largest rate is always [`Domain::TOP`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Domain {
    /// Paths of a source, the least and the most.
    pub paths: RangeInclusive<usize>,
    /// Their round-trip times.
    pub rtts: Rtts,
    /// Rates are log-uniform over so many decades in half of the points, over fewer in the other
    /// half; in a quarter there are a largest, some that are alike, and the rest, alike too.
    pub decades: f64,
    /// Points drawn.
    pub samples: usize,
    /// The same seed gives the same points.
    pub seed: u64,
}

/// Round-trip times of a source's paths, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rtts {
    /// The same on every path.
    Equal(f64),
    /// Between two: log-uniform in half of the points, at either end in the other half.
    Between(f64, f64),
    /// These; they say how many paths there are.
    Each(Vec<f64>),
}

/// The state of one source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// `x_r` of every path, packets/s.
    pub rates: Vec<f64>,
    /// `τ_r` of every path, seconds.
    pub rtts: Vec<f64>,
}

impl Default for Domain {
    /// The hypotheses of Table I: up to eight paths of equal round-trip times.
    fn default() -> Self {
        Domain {
            paths: 2..=8,
            rtts: Rtts::Equal(0.1),
            decades: 3.0,
            samples: 2000,
            seed: 1,
        }
    }
}

impl Domain {
    /// The largest rate of every point, packets/s.
    pub const TOP: f64 = 10_000.0;

    /// The largest rate, and the largest rate over round-trip time, exceed the next by this part at
    /// least: a maximum has no derivative at ties.
    pub const OFF_TIES: f64 = 1e-3;

    /// Whether all paths have one round-trip time.
    pub fn equal_rtts(&self) -> bool {
        match &self.rtts {
            Rtts::Equal(_) => true,
            Rtts::Between(low, high) => low == high,
            Rtts::Each(rtts) => rtts.iter().all(|rtt| *rtt == rtts[0]),
        }
    }

    /// The most paths that a point has.
    pub fn most_paths(&self) -> usize {
        match &self.rtts {
            Rtts::Each(rtts) => rtts.len(),
            _ => *self.paths.end(),
        }
    }

    /// A point; `None` if ties couldn't be avoided.
    pub(super) fn draw(&self, rng: &mut Pcg64Mcg) -> Option<Point> {
        (0..100).find_map(|_| {
            let rtts = self.draw_rtts(rng);
            let spread = match rng.random::<bool>() {
                true => self.decades,
                false => self.decades * 10f64.powf(-2.5 * rng.random::<f64>()),
            };
            let part = |of: f64, rng: &mut Pcg64Mcg| 10f64.powf(-of * rng.random::<f64>());
            let mut rates: Vec<f64> = rtts.iter().map(|_| part(spread, rng)).collect();
            if rng.random_range(0..4) == 0 {
                let high = part(spread, rng);
                rates.fill(high);
                rates[0] = 1.0;
                let some = rng.random_range(1..=rtts.len());
                rates[some..].fill(high * part(self.decades, rng));
            }
            self.within(Point { rates, rtts })
        })
    }

    fn draw_rtts(&self, rng: &mut Pcg64Mcg) -> Vec<f64> {
        let paths = rng.random_range(self.paths.clone());
        match &self.rtts {
            Rtts::Equal(rtt) => vec![*rtt; paths],
            Rtts::Between(low, high) => {
                // The ends are where trouble is.
                let ends = rng.random::<bool>();
                let part = |part: f64| if ends { part.round() } else { part };
                (0..paths)
                    .map(|_| low * (high / low).powf(part(rng.random::<f64>())))
                    .map(|rtt| rtt.clamp(*low, *high))
                    .collect()
            }
            Rtts::Each(rtts) => rtts.clone(),
        }
    }

    /// A point near another: rates, and round-trip times if they are drawn, times `e^(σ·noise)`.
    /// `None` if it ties.
    pub(super) fn near(&self, point: &Point, sigma: f64, rng: &mut Pcg64Mcg) -> Option<Point> {
        let mut near = point.clone();
        // Few coordinates at a time: what stands at the edge of the domain stays there.
        let few = rng.random::<f64>();
        for rate in &mut near.rates {
            if rng.random::<f64>() < few.max(1.5 / point.rates.len() as f64) {
                *rate *= (sigma * noise(rng)).exp();
            }
        }
        if let Rtts::Between(low, high) = self.rtts {
            for rtt in &mut near.rtts {
                *rtt = (*rtt * (sigma * noise(rng)).exp()).clamp(low, high);
            }
        }
        self.within(near)
    }

    /// Whether a point is off ties, with its rates and round-trip times in the domain.
    pub(super) fn contains(&self, point: &Point) -> bool {
        let rtts = match &self.rtts {
            Rtts::Between(low, high) => {
                let within = |rtt: &f64| (*low..=*high).contains(rtt);
                point.rtts.iter().all(within)
            }
            Rtts::Equal(rtt) => point.rtts.iter().all(|own| own == rtt),
            Rtts::Each(rtts) => point.rtts == *rtts,
        };
        rtts && self.within(point.clone()).is_some()
    }

    /// The point with its largest rate at the top and no rate below the domain; `None` if it ties.
    fn within(&self, mut point: Point) -> Option<Point> {
        let most = point.rates.iter().copied().fold(0.0, f64::max);
        for rate in &mut point.rates {
            *rate = Self::TOP * (*rate / most).max(10f64.powf(-self.decades));
        }
        let linked = point.rates.iter().zip(&point.rtts).map(|(x, tau)| x / tau);
        (off_ties(point.rates.iter().copied()) && off_ties(linked)).then_some(point)
    }
}

/// The sum of three uniform numbers of variance 1, about normal.
fn noise(rng: &mut Pcg64Mcg) -> f64 {
    (0..3).map(|_| 2.0 * rng.random::<f64>() - 1.0).sum()
}

fn off_ties(values: impl Iterator<Item = f64>) -> bool {
    let (mut first, mut second) = (0.0f64, 0.0f64);
    for value in values {
        second = second.max(value.min(first));
        first = first.max(value);
    }
    second <= first * (1.0 - Domain::OFF_TIES)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn points_are_off_ties_within_the_domain_and_reproducible() {
        let domain = Domain {
            rtts: Rtts::Between(0.01, 0.3),
            ..Domain::default()
        };
        let draw = || {
            let mut rng = Pcg64Mcg::seed_from_u64(7);
            let mut points = Vec::new();
            for _ in 0..500 {
                let point = domain.draw(&mut rng).unwrap();
                points.extend(domain.near(&point, 0.3, &mut rng));
                points.push(point);
            }
            points
        };
        let points = draw();
        assert_eq!(points, draw());
        for Point { rates, rtts } in &points {
            assert!((2..=8).contains(&rates.len()) && rates.len() == rtts.len());
            assert!(off_ties(rates.iter().copied()));
            assert!(rates.iter().all(|x| (9.999..=Domain::TOP).contains(x)));
            assert!(rtts.iter().all(|tau| (0.01..=0.3).contains(tau)));
        }
        // Both far apart and nearly equal rates are among them.
        let spread =
            |point: &Point| Domain::TOP / point.rates.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(points.iter().any(|point| spread(point) < 1.05));
        assert!(points.iter().any(|point| spread(point) > 500.0));
    }

    #[test]
    fn ties_are_of_the_largest() {
        assert!(off_ties([1.0, 1.0, 2.0].into_iter()));
        assert!(!off_ties([1.0, 2.0, 2.0].into_iter()));
        assert!(!off_ties([1999.0, 2000.0].into_iter()));
    }
}

//! Links whose rate varies at random, as that of LTE and WiFi.

use std::time::Duration;

use manyway_units::{Rate, Time};
use rand::RngExt;

use crate::invalid::{InvalidLink, check_rate};
use crate::random::{Generator, Purpose, generator};
use crate::{Change, Timetable};

/// What a link has in an outage.
const IDLE_BPS: f64 = 1.0;

/// A rate that changes in steps: its logarithm is a first-order autoregressive process (AR(1)),
/// normally distributed, with outages that come and go by a chain of two states.
///
/// Sprout's model of cellular links (K. Winstein et al., NSDI 2013) has outages too, and a rate in
/// Brownian motion. This one returns to its mean.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct Varying {
    /// From one step to the next; at least [`Varying::SHORTEST`].
    pub interval: Duration,
    /// The standard deviation of the rate's natural logarithm, 0 to 2.
    pub deviation: f64,
    /// The correlation of a step's logarithm with the one before, at least 0 and less than 1.
    pub memory: f64,
    /// Times without a rate, in which packets wait.
    pub outages: Option<Outages>,
    /// Seed of all of it.
    pub seed: u64,
}

/// Times without a rate; both means are at least the interval, and whole intervals are drawn.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Outages {
    /// The mean time from the end of one to the beginning of the next.
    pub every: Duration,
    /// The mean length of one.
    pub lasting: Duration,
}

impl Varying {
    /// The shortest interval.
    pub const SHORTEST: Duration = Duration::from_millis(1);
    /// After so many steps, the first one comes again.
    pub const STEPS: u32 = 2048;

    /// The rate over time; over a whole round its mean is exactly `mean`, outages included.
    ///
    /// # Errors
    /// The first setting that can't work.
    pub fn timetable(&self, mean: Rate) -> Result<Timetable, InvalidLink> {
        self.validate()?;
        check_rate("rate", mean)?;
        let mut generator = generator(self.seed, Purpose::Rate);
        let (mut log, mut out) = (normal(&mut generator), false);
        let shares: Vec<f64> = (0..Self::STEPS)
            .map(|_| {
                let share = if out {
                    0.0
                } else {
                    (self.deviation * log).exp()
                };
                let rest = (1.0 - self.memory * self.memory).sqrt();
                log = self.memory * log + rest * normal(&mut generator);
                out ^= generator.random_bool(self.turns(out));
                share
            })
            .collect();
        // The first step is none of an outage.
        let scale = f64::from(Self::STEPS) / shares.iter().sum::<f64>();
        let change = |(step, share): (u32, f64)| {
            let bits = mean.bits_per_sec() * share * scale;
            Change {
                at: Time::ZERO + self.interval * step,
                rate: Some(Rate::from_bits_per_sec(bits.max(IDLE_BPS))),
                ..Change::default()
            }
        };
        Ok(Timetable {
            changes: (0..).zip(shares).map(change).collect(),
            period: Some(self.interval * Self::STEPS),
        })
    }

    /// The probability that an outage begins, or ends, after a step.
    fn turns(&self, out: bool) -> f64 {
        let mean = |outages: Outages| if out { outages.lasting } else { outages.every };
        self.outages.map_or(0.0, |outages| {
            self.interval.as_secs_f64() / mean(outages).as_secs_f64()
        })
    }

    fn validate(&self) -> Result<(), InvalidLink> {
        let check = |name: &str, value: String, good: bool, allowed| match good {
            true => Ok(()),
            false => Err(InvalidLink::new(format!("varying.{name}"), value, allowed)),
        };
        let interval = self.interval;
        let times = (Self::SHORTEST..=Duration::from_secs(3600)).contains(&interval);
        check(
            "interval",
            format!("{interval:?}"),
            times,
            "choose 1 ms to 1 h",
        )?;
        let (deviation, memory) = (self.deviation, self.memory);
        let some = (0.0..=2.0).contains(&deviation);
        check("deviation", deviation.to_string(), some, "choose 0 to 2")?;
        let below_one = (0.0..1.0).contains(&memory);
        let allowed = "choose at least 0 and less than 1";
        check("memory", memory.to_string(), below_one, allowed)?;
        let Some(Outages { every, lasting }) = self.outages else {
            return Ok(());
        };
        let allowed = "choose at least the interval";
        for (name, mean) in [("every", every), ("lasting", lasting)] {
            let name = format!("outages.{name}");
            check(&name, format!("{mean:?}"), mean >= interval, allowed)?;
        }
        Ok(())
    }
}

/// Of mean 0 and variance 1, nearly normal: twelve uniform numbers are.
fn normal(generator: &mut Generator) -> f64 {
    (0..12).map(|_| generator.random::<f64>()).sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const LTE: Varying = Varying {
        interval: Duration::from_millis(50),
        deviation: 0.5,
        memory: 0.9,
        outages: None,
        seed: 1,
    };

    /// Each step's share of the mean, over many seeds; 0 in an outage.
    fn shares(varying: &Varying, seed: u64) -> Vec<f64> {
        let mean = Rate::from_mbps(20.0);
        let timetable = Varying { seed, ..*varying }.timetable(mean).unwrap();
        assert_eq!(timetable.changes.len(), 2048);
        assert_eq!(timetable.period, Some(varying.interval * 2048));
        timetable.validate().unwrap();
        let share = |change: &Change| match change.rate.unwrap().bits_per_sec() {
            idle if idle == IDLE_BPS => 0.0,
            bits => bits / mean.bits_per_sec(),
        };
        timetable.changes.iter().map(share).collect()
    }

    fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
        values.clone().sum::<f64>() / values.count() as f64
    }

    #[track_caller]
    fn near(found: f64, wanted: f64, tolerance: f64) {
        assert!((found - wanted).abs() < tolerance, "{found}, not {wanted}");
    }

    #[test]
    fn the_logarithm_has_its_deviation_and_its_memory() {
        let (mut variance, mut correlation) = (0.0, 0.0);
        for seed in 1..=50 {
            let shares = shares(&LTE, seed);
            near(mean(shares.iter().copied()), 1.0, 1e-9);
            // Around the mean that all seeds have: -0.5²/2, but for what scaling moves.
            let logs: Vec<f64> = shares.iter().map(|share| share.ln()).collect();
            let middle = mean(logs.iter().copied());
            variance += mean(logs.iter().map(|log| (log - middle).powi(2))) / 50.0;
            let pairs = logs
                .windows(2)
                .map(|pair| (pair[0] - middle) * (pair[1] - middle));
            correlation += mean(pairs) / 50.0;
        }
        near(variance.sqrt(), 0.5, 0.01);
        near(correlation / variance, 0.9, 0.01);
    }

    #[test]
    fn outages_come_and_go_as_often_as_they_should() {
        let outages = Outages {
            every: Duration::from_millis(2000),
            lasting: Duration::from_millis(500),
        };
        let varying = Varying {
            outages: Some(outages),
            ..LTE
        };
        let all: Vec<Vec<f64>> = (1..=50).map(|seed| shares(&varying, seed)).collect();
        near(mean(all.iter().flatten().copied()), 1.0, 1e-9);
        let out = all.iter().flatten().filter(|share| **share == 0.0).count() as f64;
        near(out / (50.0 * 2048.0), 0.2, 0.01);
        let begins = |shares: &Vec<f64>| {
            let begins = shares
                .windows(2)
                .filter(|pair| pair[0] > 0.0 && pair[1] == 0.0);
            begins.count() as f64
        };
        // Ten intervals each.
        near(out / all.iter().map(begins).sum::<f64>(), 10.0, 0.5);
    }

    #[test]
    fn seeds_differ_and_repeat() {
        assert_eq!(shares(&LTE, 1), shares(&LTE, 1));
        assert_ne!(shares(&LTE, 1), shares(&LTE, 2));
        let steady = Varying {
            deviation: 0.0,
            ..LTE
        };
        assert!(
            shares(&steady, 3)
                .iter()
                .all(|share| (share - 1.0).abs() < 1e-12)
        );
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let refused = |varying: Varying, field: &str| {
            let error = varying.timetable(Rate::from_mbps(1.0)).unwrap_err();
            assert_eq!(error.field, field, "{error}");
        };
        let outages = |every, lasting| Varying {
            outages: Some(Outages {
                every: Duration::from_millis(every),
                lasting: Duration::from_millis(lasting),
            }),
            ..LTE
        };
        refused(
            Varying {
                interval: Duration::ZERO,
                ..LTE
            },
            "varying.interval",
        );
        refused(
            Varying {
                deviation: f64::NAN,
                ..LTE
            },
            "varying.deviation",
        );
        refused(
            Varying {
                deviation: 2.1,
                ..LTE
            },
            "varying.deviation",
        );
        refused(Varying { memory: 1.0, ..LTE }, "varying.memory");
        refused(outages(49, 50), "varying.outages.every");
        refused(outages(50, 49), "varying.outages.lasting");
        assert_eq!(LTE.timetable(Rate::ZERO).unwrap_err().field, "rate");
    }
}

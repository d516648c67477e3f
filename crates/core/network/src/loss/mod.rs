//! Losses on the wire: independent, or in bursts.

use rand::RngExt;

use crate::InvalidLink;
use crate::random::{Generator, Purpose, generator};

/// Packets lost on the wire, whatever the queue does.
#[derive(Debug, Copy, Clone, PartialEq, Default)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each packet with this probability, independently of all others.
    Bernoulli(f64),
    /// One packet in so many, at equal distances; the first lost one is this number.
    Periodic {
        /// At least 2.
        every: u32,
    },
    /// In bursts: a chain of two states, good and bad, takes a step with every packet (E. N.
    /// Gilbert, 1960; E. O. Elliott, 1963). The first packet finds it in its stationary
    /// distribution.
    GilbertElliott {
        /// Probability of a step from good to bad.
        good_to_bad: f64,
        /// Probability of a step from bad to good: bad times last 1/`bad_to_good` packets on
        /// average.
        bad_to_good: f64,
        /// Probability with which a packet is lost in the good state; often 0.
        good: f64,
        /// Probability with which a packet is lost in the bad state; often 1.
        bad: f64,
    },
}

impl Loss {
    /// Share of the packets that are lost in the long run.
    pub fn mean(&self) -> f64 {
        match *self {
            Loss::None => 0.0,
            Loss::Bernoulli(p) => p,
            Loss::Periodic { every } => 1.0 / f64::from(every),
            Loss::GilbertElliott {
                good_to_bad,
                bad_to_good,
                good,
                bad,
            } => {
                let share = good_to_bad / (good_to_bad + bad_to_good);
                (1.0 - share) * good + share * bad
            }
        }
    }

    pub(crate) fn validate(&self) -> Result<(), InvalidLink> {
        const BELOW_ONE: &str = "choose a probability of at least 0 and less than 1";
        const ANY: &str = "choose a probability from 0 to 1";
        const POSITIVE: &str = "choose a probability greater than 0 and at most 1";
        let check = |field: &str, p: f64, good: bool, allowed| match good {
            true => Ok(()),
            false => Err(InvalidLink::new(field, p, allowed)),
        };
        match *self {
            Loss::None => Ok(()),
            Loss::Bernoulli(p) => check("loss", p, (0.0..1.0).contains(&p), BELOW_ONE),
            Loss::Periodic { every: 2.. } => Ok(()),
            Loss::Periodic { every } => {
                let allowed = "choose at least 2 packets";
                Err(InvalidLink::new("loss.every", every, allowed))
            }
            Loss::GilbertElliott {
                good_to_bad,
                bad_to_good,
                good,
                bad,
            } => {
                let all = 0.0..=1.0;
                check(
                    "loss.good_to_bad",
                    good_to_bad,
                    all.contains(&good_to_bad),
                    ANY,
                )?;
                let leaves = all.contains(&bad_to_good) && bad_to_good > 0.0;
                check("loss.bad_to_good", bad_to_good, leaves, POSITIVE)?;
                let below_one = (0.0..1.0).contains(&good);
                check("loss.good", good, below_one, BELOW_ONE)?;
                check("loss.bad", bad, all.contains(&bad), ANY)
            }
        }
    }
}

/// Losses at work.
#[derive(Debug, Clone)]
pub(crate) struct Losses {
    loss: Loss,
    /// The state of the chain.
    bad: bool,
    /// Packets since the last one lost by period.
    passed: u32,
    generator: Generator,
}

impl Losses {
    /// `None` if nothing is ever lost. The configuration is valid.
    pub(crate) fn new(loss: Loss, seed: u64) -> Option<Self> {
        let mut generator = generator(seed, Purpose::Loss);
        let bad = match loss {
            Loss::None => return None,
            Loss::Bernoulli(_) | Loss::Periodic { .. } => false,
            Loss::GilbertElliott {
                good_to_bad,
                bad_to_good,
                ..
            } => generator.random_bool(good_to_bad / (good_to_bad + bad_to_good)),
        };
        Some(Self {
            loss,
            bad,
            passed: 0,
            generator,
        })
    }

    /// Whether the next packet is lost.
    pub(crate) fn next(&mut self) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Bernoulli(p) => self.generator.random_bool(p),
            Loss::Periodic { every } => {
                self.passed += 1;
                let lost = self.passed == every;
                if lost {
                    self.passed = 0;
                }
                lost
            }
            Loss::GilbertElliott {
                good_to_bad,
                bad_to_good,
                good,
                bad,
            } => {
                let (loss, leave) = match self.bad {
                    true => (bad, bad_to_good),
                    false => (good, good_to_bad),
                };
                let lost = self.generator.random_bool(loss);
                self.bad ^= self.generator.random_bool(leave);
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests;

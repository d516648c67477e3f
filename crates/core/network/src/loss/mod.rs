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
    /// In bursts: a chain of two states, good and bad, takes a step with every packet (E. N.
    /// Gilbert, 1960; E. O. Elliott, 1963). The first packet finds it in its stationary
    /// distribution.
    GilbertElliott {
        /// Probability of a step from good to bad.
        to_bad: f64,
        /// Probability of a step from bad to good: bad times last 1/`to_good` packets on average.
        to_good: f64,
        /// Probability with which a packet is lost in the good state; often 0.
        loss_good: f64,
        /// Probability with which a packet is lost in the bad state; often 1.
        loss_bad: f64,
    },
}

impl Loss {
    /// Share of the packets that are lost in the long run.
    pub fn mean(&self) -> f64 {
        match *self {
            Loss::None => 0.0,
            Loss::Bernoulli(p) => p,
            Loss::GilbertElliott {
                to_bad,
                to_good,
                loss_good,
                loss_bad,
            } => {
                let bad = to_bad / (to_bad + to_good);
                (1.0 - bad) * loss_good + bad * loss_bad
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
            Loss::GilbertElliott {
                to_bad,
                to_good,
                loss_good,
                loss_bad,
            } => {
                let all = 0.0..=1.0;
                check("loss.to_bad", to_bad, all.contains(&to_bad), ANY)?;
                let leaves = all.contains(&to_good) && to_good > 0.0;
                check("loss.to_good", to_good, leaves, POSITIVE)?;
                let below_one = (0.0..1.0).contains(&loss_good);
                check("loss.loss_good", loss_good, below_one, BELOW_ONE)?;
                check("loss.loss_bad", loss_bad, all.contains(&loss_bad), ANY)
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
    generator: Generator,
}

impl Losses {
    /// `None` if nothing is ever lost. The configuration is valid.
    pub(crate) fn new(loss: Loss, seed: u64) -> Option<Self> {
        let mut generator = generator(seed, Purpose::Loss);
        let bad = match loss {
            Loss::None => return None,
            Loss::Bernoulli(_) => false,
            Loss::GilbertElliott {
                to_bad, to_good, ..
            } => generator.random_bool(to_bad / (to_bad + to_good)),
        };
        Some(Self {
            loss,
            bad,
            generator,
        })
    }

    /// Whether the next packet is lost.
    pub(crate) fn next(&mut self) -> bool {
        match self.loss {
            Loss::None => false,
            Loss::Bernoulli(p) => self.generator.random_bool(p),
            Loss::GilbertElliott {
                to_bad,
                to_good,
                loss_good,
                loss_bad,
            } => {
                let (loss, leave) = match self.bad {
                    true => (loss_bad, to_good),
                    false => (loss_good, to_bad),
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

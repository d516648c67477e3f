//! Whose a queue is. We take a part of it away and see what goes: all of that if the queue is ours
//! alone, and our share of that if others fill it up.

/// It is ours if this part of what we take away goes.
const OURS: f64 = 0.75;
/// Nothing can be told if the queue has grown by more than this part of what we take away: it
/// changed for another reason.
const GROWN: f64 = 1.0;
/// Packets sent after a cut fill the second round after it.
const ROUNDS: u32 = 2;

/// A path's window was cut to see what its queue does.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// The queue before, in seconds.
    before: f64,
    /// What we took away of it, in seconds.
    taken: f64,
    /// Rounds since.
    rounds: u32,
}

/// Whose the queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Ours,
    Others,
    Unclear,
}

impl Trial {
    /// So much was taken of a queue that stood at `before`, in seconds.
    pub(super) fn new(before: f64, taken: f64) -> Trial {
        Trial {
            before,
            taken,
            rounds: 0,
        }
    }

    /// The end of a round, in which the queue stood at so many seconds: whose it is, once the trial
    /// is over.
    pub(super) fn on_round_end(&mut self, standing: f64) -> Option<Whose> {
        self.rounds += 1;
        let gone = (self.before - standing) / self.taken;
        let whose = if gone >= OURS {
            Whose::Ours
        } else if gone < -GROWN {
            Whose::Unclear
        } else {
            Whose::Others
        };
        (self.rounds == ROUNDS).then_some(whose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_ours_if_what_we_take_away_goes() {
        for (standing, whose) in [
            (0.040, Whose::Ours),
            (0.043, Whose::Ours),
            (0.050, Whose::Others),
            (0.075, Whose::Others),
            (0.085, Whose::Unclear),
        ] {
            let mut trial = Trial::new(0.060, 0.020);
            assert_eq!(trial.on_round_end(0.0), None);
            assert_eq!(trial.on_round_end(standing), Some(whose), "{standing}");
        }
    }
}

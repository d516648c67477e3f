//! Whose a queue is. We take a part of it away and see what goes: all of that if the queue is ours
//! alone, and our share of that if others fill it up.

/// It is ours if this part of what we take away goes.
const OURS: f64 = 0.75;
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

impl Trial {
    /// So much was taken of a queue that stood at `before`, in seconds.
    pub(super) fn new(before: f64, taken: f64) -> Trial {
        Trial {
            before,
            taken,
            rounds: 0,
        }
    }

    /// The end of a round, in which the queue stood at so many seconds: whether it is ours, once
    /// that can be told.
    pub(super) fn on_round_end(&mut self, standing: f64) -> Option<bool> {
        self.rounds += 1;
        let gone = self.before - standing;
        (self.rounds == ROUNDS).then_some(gone >= OURS * self.taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_ours_if_what_we_take_away_goes() {
        for (standing, ours) in [(0.040, true), (0.043, true), (0.050, false), (0.070, false)] {
            let mut trial = Trial::new(0.060, 0.020);
            assert_eq!(trial.on_round_end(0.0), None);
            assert_eq!(trial.on_round_end(standing), Some(ours), "{standing}");
        }
    }
}

//! The two largest values that BBR remembers for a while.

/// The largest delivery rate in this cycle of bandwidth probes and the one before
/// (draft-ietf-ccwg-bbr §5.5.4).
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct MaxBandwidth {
    /// Bytes/s.
    cycles: [f64; 2],
}

impl MaxBandwidth {
    /// Bytes/s; 0 before the first sample.
    pub(super) fn get(&self) -> f64 {
        self.cycles[0].max(self.cycles[1])
    }

    pub(super) fn update(&mut self, rate: f64) {
        self.cycles[1] = self.cycles[1].max(rate);
    }

    /// The next cycle begins, unless this one has brought nothing.
    pub(super) fn advance(&mut self) {
        if self.cycles[1] > 0.0 {
            self.cycles = [self.cycles[1], 0.0];
        }
    }
}

/// Rounds for which it is remembered how much more was acknowledged at once than expected.
const ROUNDS: usize = 10;

/// How many bytes more than expected were acknowledged at once, lately (§5.5.9).
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct ExtraAcked {
    /// By round, the present one first.
    rounds: [f64; ROUNDS],
}

impl ExtraAcked {
    /// The most of the last rounds: of all that are remembered, or of the present one.
    pub(super) fn get(&self, all: bool) -> f64 {
        let rounds = if all { ROUNDS } else { 1 };
        self.rounds[..rounds].iter().copied().fold(0.0, f64::max)
    }

    pub(super) fn update(&mut self, bytes: f64) {
        self.rounds[0] = self.rounds[0].max(bytes);
    }

    pub(super) fn on_round(&mut self) {
        self.rounds.rotate_right(1);
        self.rounds[0] = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_is_remembered_for_two_cycles() {
        let mut max = MaxBandwidth::default();
        max.update(5.0);
        max.update(3.0);
        assert_eq!(max.get(), 5.0);
        max.advance();
        max.advance();
        assert_eq!(max.get(), 5.0);
        max.update(2.0);
        assert_eq!(max.get(), 5.0);
        max.advance();
        assert_eq!(max.get(), 2.0);
    }

    #[test]
    fn extra_bytes_are_remembered_for_ten_rounds() {
        let mut extra = ExtraAcked::default();
        extra.update(7.0);
        extra.update(4.0);
        for _ in 0..9 {
            extra.on_round();
            assert_eq!((extra.get(true), extra.get(false)), (7.0, 0.0));
        }
        extra.on_round();
        assert_eq!(extra.get(true), 0.0);
    }
}

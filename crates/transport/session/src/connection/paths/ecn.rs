//! ECN on one path: marks sent while they come back counted, and marks that arrived (RFC 9000
//! §13.4).

use manyway_wire::EcnCounts;

use crate::driver::Ecn;

/// Acknowledged packets without ECN counts after which a path counts as one that clears marks.
const PATIENCE: u32 = 10;

/// The marks of one path, in both directions.
#[derive(Debug, Default)]
pub(super) struct EcnMarks {
    enabled: bool,
    confirmed: bool,
    acked_unreported: u32,
    received: EcnCounts,
}

impl EcnMarks {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            ..Self::default()
        }
    }

    /// Whether packets leave marked.
    pub(super) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The path leads another way now: marks have to prove themselves anew, but the counts of what
    /// arrived go on.
    pub(super) fn restart(&mut self, enabled: bool) {
        *self = Self {
            received: self.received,
            ..Self::new(enabled)
        };
    }

    pub(super) fn on_received(&mut self, mark: Option<Ecn>) {
        match mark {
            Some(Ecn::Ect0) => self.received.ect0 += 1,
            Some(Ecn::Ect1) => self.received.ect1 += 1,
            Some(Ecn::Ce) => self.received.ce += 1,
            None => {}
        }
    }

    /// An ACK came, with or without counts.
    pub(super) fn on_ack(&mut self, counts: Option<EcnCounts>, newly_acked: usize) {
        if !self.enabled || self.confirmed || newly_acked == 0 {
            return;
        }
        if counts.is_some_and(|c| c.ect0 + c.ect1 + c.ce > 0) {
            self.confirmed = true;
            return;
        }
        self.acked_unreported += newly_acked as u32;
        self.enabled = self.acked_unreported < PATIENCE;
    }

    /// What to report in an ACK, if anything arrived marked.
    pub(super) fn received(&self) -> Option<EcnCounts> {
        let EcnCounts { ect0, ect1, ce } = self.received;
        (ect0 + ect1 + ce > 0).then_some(self.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: EcnCounts = EcnCounts {
        ect0: 1,
        ect1: 0,
        ce: 0,
    };

    #[test]
    fn marks_that_never_come_back_are_given_up() {
        let mut marks = EcnMarks::new(true);
        marks.on_ack(None, 9);
        assert!(marks.is_enabled());
        marks.on_ack(None, 1);
        assert!(!marks.is_enabled());
        marks.restart(true);
        assert!(marks.is_enabled(), "another way may keep them");
    }

    #[test]
    fn marks_that_came_back_once_are_kept() {
        let mut marks = EcnMarks::new(true);
        marks.on_ack(None, 9);
        marks.on_ack(Some(ONE), 1);
        marks.on_ack(None, 100);
        assert!(marks.is_enabled());
    }

    #[test]
    fn what_arrived_is_counted_across_a_move() {
        let mut marks = EcnMarks::new(false);
        assert_eq!(marks.received(), None);
        marks.on_received(Some(Ecn::Ect0));
        marks.on_received(None);
        marks.restart(false);
        assert_eq!(marks.received(), Some(ONE));
    }
}

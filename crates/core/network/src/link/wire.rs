//! What happens to a packet on the wire beyond its propagation delay: jitter, lateness, and the
//! order of arrivals.

use rand::RngExt;

use super::nanos;
use crate::random::{Generator, Purpose, generator};
use crate::{Late, LinkConfig};

/// The random part of the time on the wire.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    /// Most, in ns.
    jitter: Option<(u64, Generator)>,
    late: Option<(Late, Generator)>,
    overtaking: bool,
    /// When the last packet arrives that keeps its place, in ns.
    latest: u64,
}

/// What one packet has drawn, in ns.
#[derive(Debug, Copy, Clone, Default)]
pub(super) struct Extra {
    jitter: u64,
    late: u64,
}

impl Wire {
    pub(super) fn new(config: &LinkConfig) -> Self {
        let with = |purpose| generator(config.seed, purpose);
        let (jitter, late) = (nanos(config.jitter), config.late);
        Self {
            jitter: (jitter > 0).then(|| (jitter, with(Purpose::Jitter))),
            late: (late.share > 0.0 && !late.by.is_zero()).then(|| (late, with(Purpose::Late))),
            overtaking: config.overtaking,
            latest: 0,
        }
    }

    /// Whether all packets take equally long.
    pub(super) fn is_plain(&self) -> bool {
        self.jitter.is_none() && self.late.is_none()
    }

    /// Draws for the next packet.
    pub(super) fn draw(&mut self) -> Extra {
        let jitter = self
            .jitter
            .as_mut()
            .map_or(0, |(most, generator)| generator.random_range(0..=*most));
        let late = self.late.as_mut().map_or(0, |(late, generator)| {
            match generator.random_bool(late.share) {
                true => nanos(late.by),
                false => 0,
            }
        });
        Extra { jitter, late }
    }

    /// When a packet arrives that would do so at `due`, in ns, but for what it has drawn.
    ///
    /// Lost packets keep their place in the order too: losses don't change when the others arrive.
    pub(super) fn arrival(&mut self, due: u64, extra: Extra) -> u64 {
        let mut arrives = due.saturating_add(extra.jitter);
        if !self.overtaking {
            arrives = arrives.max(self.latest);
            self.latest = arrives;
        }
        arrives.saturating_add(extra.late)
    }

    /// What was to arrive after `at` never will.
    pub(super) fn cut(&mut self, at: u64) {
        self.latest = self.latest.min(at);
    }
}

//! How long a sender waits for an acknowledgement.

use manyway_units::Time;

use super::Sender;
use super::types::RetransmissionTimeout;
use crate::rtt::nanos;

/// TCP's timeout before the first round-trip sample, ns (RFC 6298 §2.1).
const FIRST_TIMEOUT: u64 = 1_000_000_000;
/// No backed-off probe timeout is longer than this, ns (RFC 6298 §2.5 allows 60 s and more).
const MAX_BACKOFF: u64 = 60_000_000_000;

impl<P> Sender<P> {
    #[inline]
    pub(super) fn has_tcp_timer(&self) -> bool {
        self.config.retransmission_timeout != RetransmissionTimeout::Probe
    }

    #[inline(always)]
    pub(super) fn pto_time(&self) -> Option<Time> {
        if self.flight.packets() == 0 {
            return None;
        }
        let pto = self.timer_nanos();
        let backed_off = match self.pto_count {
            0 => pto,
            count => backed_off(pto, count),
        };
        let due = self.pto_from.as_nanos().saturating_add(backed_off);
        Some(Time::from_nanos(due))
    }

    /// The timeout without backoff, ns: QUIC's probe timeout (RFC 9002 §6.2.1), or TCP's of the
    /// same smoothed round-trip time and variance (RFC 6298 §2).
    #[inline(always)]
    pub(super) fn timer_nanos(&self) -> u64 {
        // TCP's samples contain the time for which a receiver holds an acknowledgement. Ours don't
        // (RFC 9002 §5.3), so both timeouts add it.
        let expected = self.rtt.pto_nanos() + nanos(self.config.max_ack_delay);
        match self.config.retransmission_timeout {
            RetransmissionTimeout::Probe => expected,
            RetransmissionTimeout::Tcp { min } if self.rtt.has_sample() => expected.max(nanos(min)),
            RetransmissionTimeout::Tcp { min } => FIRST_TIMEOUT.max(nanos(min)),
        }
    }

    /// Something that elicits acknowledgements was acknowledged.
    #[inline]
    pub(super) fn restart_timer(&mut self, now: Time) {
        self.pto_count = 0;
        if self.has_tcp_timer() {
            self.pto_from = now;
        }
    }
}

#[cold]
fn backed_off(pto: u64, count: u32) -> u64 {
    let longest = MAX_BACKOFF.max(pto);
    pto.saturating_mul(1 << count.min(20)).min(longest)
}

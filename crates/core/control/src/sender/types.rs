//! What a sender and its owner pass each other.

use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_units::Time;

use crate::options::bounded;

/// How a [`super::Sender`] behaves.
#[derive(Copy, Clone, Debug, PartialEq)]
// In this order, since simulations of many flows wait for memory: what every packet and every
// acknowledgement touch comes last, before the counters.
#[repr(C)]
pub struct SenderConfig {
    /// The round-trip time to assume before the first sample (RFC 9002 §6.2.2: 333 ms).
    pub initial_rtt: Duration,
    /// Whether the two thresholds below stay what they are.
    pub loss_detection: LossDetection,
    /// A packet is lost when one sent this many packets later is acknowledged (RFC 9002 §6.1.1).
    pub packet_threshold: u32,
    /// A packet is lost when a later one is acknowledged and this many round trips have passed
    /// since it was sent (RFC 9002 §6.1.2).
    pub time_threshold: f64,
    /// The window to start from, in packets.
    pub initial_window: f64,
    /// Whether the sender starts by careful resume (RFC 9959), from what `remembered` says, and
    /// [remembers](super::Sender::remembered) what the path carries.
    pub careful_resume: bool,
    /// What an earlier path between the same hosts carried.
    pub remembered: Option<Remembered>,
    /// Persistent congestion is a run of losses longer than this many probe timeouts (RFC 9002
    /// §7.6.1).
    pub persistent_congestion_threshold: u32,
    /// Spread packets over the round trip instead of sending as soon as the window opens.
    pub pacing: bool,
    /// Bytes of a full packet; a window of w packets allows w times as many bytes in flight.
    pub packet_size: u32,
    /// The longest that the peer holds back an acknowledgement on purpose.
    pub max_ack_delay: Duration,
    /// What happens when nothing is acknowledged for a while.
    pub retransmission_timeout: RetransmissionTimeout,
}

/// What a path carried, for a later one between the same hosts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The most bytes that were acknowledged within a round trip.
    pub bytes: u64,
    /// The smallest round-trip time.
    pub min_rtt: Duration,
}

/// How a sender tells lost packets from overtaken ones.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum LossDetection {
    /// By thresholds that don't change (RFC 9002 §6.1). A cut is never undone.
    #[default]
    Fixed,
    /// By the packet threshold alone, as TCP of the papers' time does (RFC 6675): if too few
    /// packets arrive behind a lost one, only a timeout finds it.
    Packets,
    /// By thresholds that learn, as RACK's do (RFC 8985): once packets were overtaken, the packet
    /// threshold rests, and the time threshold grows with how late they came. When all packets of a
    /// loss event arrive after all, its cut is undone ([`Controller::on_spurious_loss`]).
    ///
    /// [`Controller::on_spurious_loss`]: crate::Controller::on_spurious_loss
    Adaptive,
}

/// What a sender does when nothing is acknowledged for a while.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum RetransmissionTimeout {
    /// It asks for a probe, and nothing counts as lost until that is acknowledged (RFC 9002 §6.2).
    #[default]
    Probe,
    /// All that is in flight counts as lost, the window starts again from its minimum, and a single
    /// packet may leave until something is acknowledged (RFC 6298 §5, RFC 5681 §3.1).
    Tcp {
        /// The shortest timeout (RFC 6298 §2.4: 1 s; Linux: 200 ms).
        min: Duration,
    },
}

impl Default for SenderConfig {
    fn default() -> Self {
        SenderConfig {
            packet_size: 1200,
            initial_rtt: Duration::from_millis(333),
            max_ack_delay: Duration::from_millis(10),
            loss_detection: LossDetection::Fixed,
            retransmission_timeout: RetransmissionTimeout::Probe,
            packet_threshold: 3,
            time_threshold: 9.0 / 8.0,
            pacing: true,
            initial_window: 10.0,
            careful_resume: false,
            remembered: None,
            persistent_congestion_threshold: 3,
        }
    }
}

impl SenderConfig {
    /// The same with values that would make nonsense of the arithmetic replaced by the nearest
    /// sound.
    pub(super) fn sane(mut self) -> Self {
        self.packet_size = self.packet_size.max(1);
        self.packet_threshold = self.packet_threshold.max(1);
        self.time_threshold = if self.time_threshold > 1.0 {
            self.time_threshold.min(1e3)
        } else {
            1.0
        };
        self.initial_window = bounded(self.initial_window);
        self.initial_rtt = self.initial_rtt.max(Duration::from_micros(1));
        self.max_ack_delay = self.max_ack_delay.min(Duration::from_secs(3600));
        self
    }
}

/// A packet as sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Sent<P> {
    /// Its size as the window counts it.
    pub bytes: u32,
    /// Whether the peer must acknowledge it. If not, it isn't in flight and never counts as lost.
    pub ack_eliciting: bool,
    /// The window had room for more but there was nothing to send.
    pub app_limited: bool,
    /// What it carries.
    pub payload: P,
}

/// An acknowledgement.
#[derive(Copy, Clone, Debug)]
pub struct AckInfo<'a> {
    /// The largest packet number acknowledged.
    pub largest: u64,
    /// What is acknowledged: descending, disjoint, the first range ending with `largest`.
    pub ranges: &'a [RangeInclusive<u64>],
    /// How long the peer held `largest` back. Believed up to the configured `max_ack_delay`.
    pub delay: Duration,
    /// Packets received with Congestion Experienced so far, if the peer counts them.
    pub ce_count: Option<u64>,
    /// When `largest` arrived, by the peer's clock.
    pub receive_time: Option<Time>,
    /// It came back on another path than the packets took, so it tells no round-trip time of this
    /// one: half of that is the other path's.
    pub elsewhere: bool,
}

impl AckInfo<'_> {
    /// Whether it acknowledges one packet only.
    #[inline]
    pub(super) fn is_short(&self) -> bool {
        matches!(self.ranges, [range] if *range.start() == self.largest)
    }

    #[inline]
    pub(super) fn check(&self, next: u64) -> Result<(), AckError> {
        if self.largest >= next {
            return Err(AckError::NeverSent {
                packet: self.largest,
                next,
            });
        }
        let mut below = None;
        for range in self.ranges {
            let (start, end) = (*range.start(), *range.end());
            let in_order = below.map_or(end == self.largest, |below| end < below);
            if start > end || !in_order {
                return Err(AckError::Disordered { start, end });
            }
            below = Some(start);
        }
        if below.is_none() {
            return Err(AckError::Empty);
        }
        Ok(())
    }
}

/// An acknowledgement that no honest peer sends.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AckError {
    /// A packet is acknowledged that was never sent.
    #[error("packet {packet} is acknowledged, but only packets below {next} have been sent")]
    NeverSent {
        /// The number acknowledged.
        packet: u64,
        /// The first number not yet sent.
        next: u64,
    },
    /// A range is reversed, out of order, or doesn't fit the largest number.
    #[error("acknowledgement range {start}..={end} is out of order")]
    Disordered {
        /// The range's first number.
        start: u64,
        /// The range's last number.
        end: u64,
    },
    /// There is no range at all.
    #[error("the acknowledgement has no range")]
    Empty,
}

/// What became of packets: numbers and payloads, in ascending order per call. The caller clears and
/// reuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<P> {
    /// Acknowledged.
    pub acked: Vec<(u64, P)>,
    /// Lost.
    pub lost: Vec<(u64, P)>,
    /// How many packets had been declared lost and have arrived after all.
    pub spurious: u64,
}

impl<P> Default for Outcome<P> {
    fn default() -> Self {
        Outcome {
            acked: Vec::new(),
            lost: Vec::new(),
            spurious: 0,
        }
    }
}

impl<P> Outcome<P> {
    /// Empties it and keeps the lists' memory.
    pub fn clear(&mut self) {
        self.acked.clear();
        self.lost.clear();
        self.spurious = 0;
    }
}

/// Whether a path may send.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// So many full packets may leave now; at least one.
    Now {
        /// What the window and the pacer's burst allow.
        packets: u32,
    },
    /// The window has room, but the pacer says to ask again at this time.
    Paced(Time),
    /// Nothing before an acknowledgement or a loss makes room.
    WindowFull,
}

/// What a timer led to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TimerEvent {
    /// It wasn't due, or there was nothing to do.
    Nothing,
    /// Packets were declared lost; they are in the outcome.
    LossDetected,
    /// No acknowledgement for a probe timeout: send one or two ack-eliciting packets, whatever
    /// [`super::Sender::permit`] says.
    Probe {
        /// Consecutive probe timeouts, this one included.
        count: u32,
    },
    /// TCP's retransmission timeout: all that was in flight is lost, and in the outcome.
    Expired,
}

/// Counters of one sender.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
// What each packet counts comes first: see `SenderConfig`.
#[repr(C)]
pub struct SenderStats {
    /// Packets sent, of all kinds.
    pub packets_sent: u64,
    /// Bytes sent, of all kinds.
    pub bytes_sent: u64,
    /// Bytes of ack-eliciting packets acknowledged.
    pub bytes_acked: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets declared lost and acknowledged later.
    pub spurious_losses: u64,
    /// Window cuts by loss or congestion marks; at most one per round trip.
    pub loss_events: u64,
    /// Loss events whose packets have all arrived after all, so that the cut was undone.
    pub undone_events: u64,
    /// Congestion marks that the peer has counted.
    pub ce_marks: u64,
    /// Probe or retransmission timeouts.
    pub timeouts: u64,
    /// Persistent congestion events: windows reset to the minimum.
    pub persistent_congestions: u64,
    /// Whether the window has jumped to half of what an earlier path carried.
    pub resumed: bool,
}

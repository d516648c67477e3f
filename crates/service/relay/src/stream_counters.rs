use manyway_wire::relay::StreamRefusal;

use crate::exposition::Exposition;

/// Why the relay closes a TCP connection in silence, or why a stream ends.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Ending {
    /// Both ends have sent everything.
    Done,
    /// One of the ends has broken off.
    Broken,
    /// The peer is gone: a listener, or a connection that hadn't said what it is for.
    Left,
    /// Nothing has moved for too long.
    Idle,
    /// It has taken too long to say what it is for.
    Slow,
    /// It has sent something that isn't a message to a relay, or isn't allowed now.
    Malformed,
    /// It has named another relay.
    OtherRelay,
    /// It has sent a grant that this relay didn't make.
    Forged,
    /// Its address can't be a client's.
    Address,
    /// Its source has too many connections.
    Source,
    /// There are too many connections.
    Full,
    /// It hadn't said what it is for when others came.
    Evicted,
    /// It sends too many messages.
    Flood,
    /// The operator has revoked the account's access.
    Revoked,
}

impl Ending {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Done,
        Self::Broken,
        Self::Left,
        Self::Idle,
        Self::Slow,
        Self::Malformed,
        Self::OtherRelay,
        Self::Forged,
        Self::Address,
        Self::Source,
        Self::Full,
        Self::Evicted,
        Self::Flood,
        Self::Revoked,
    ];

    /// Its name in the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Broken => "broken",
            Self::Left => "left",
            Self::Idle => "idle",
            Self::Slow => "slow",
            Self::Malformed => "malformed",
            Self::OtherRelay => "other_relay",
            Self::Forged => "forged",
            Self::Address => "address",
            Self::Source => "source",
            Self::Full => "full",
            Self::Evicted => "evicted",
            Self::Flood => "flood",
            Self::Revoked => "revoked",
        }
    }
}

/// A refusal's name in the metrics.
const fn refusal_name(reason: StreamRefusal) -> &'static str {
    match reason {
        StreamRefusal::Voucher => "voucher",
        StreamRefusal::VoucherExpired => "voucher_expired",
        StreamRefusal::ForUdp => "for_udp",
        StreamRefusal::UnknownName => "unknown_name",
        StreamRefusal::Address => "address",
        StreamRefusal::Leaving => "leaving",
        StreamRefusal::Busy => "busy",
        StreamRefusal::NoAnswer => "no_answer",
        StreamRefusal::CallOver => "call_over",
        StreamRefusal::Replaced => "replaced",
        StreamRefusal::Account => "account",
        StreamRefusal::Revoked => "revoked",
    }
}

/// What a relay has done with TCP connections since its start, and how many there are.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamCounters {
    /// Connections at present.
    pub connections: u64,
    /// Listeners at present.
    pub listening: u64,
    /// Streams at present, including those that wait for their listener.
    pub streams: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Calls made to listeners.
    pub calls: u64,
    /// Calls that were answered.
    pub spliced: u64,
    /// Bytes read from one end of a stream.
    pub received_bytes: u64,
    /// Bytes written to the other.
    pub forwarded_bytes: u64,
    /// Streams whose bytes the relay copied, because the system didn't splice them.
    pub copied: u64,
    /// Requests refused, by [`StreamRefusal`].
    pub refused: [u64; StreamRefusal::ALL.len()],
    /// Connections and streams that ended, by [`Ending`].
    pub ended: [u64; Ending::ALL.len()],
}

impl StreamCounters {
    /// The number of requests refused for this reason.
    pub fn refused_for(&self, reason: StreamRefusal) -> u64 {
        self.refused[index(reason)]
    }

    /// The number of connections and streams that ended in this way.
    pub fn ended_by(&self, why: Ending) -> u64 {
        self.ended[why as usize]
    }

    pub(crate) fn refuse(&mut self, reason: StreamRefusal) {
        self.refused[index(reason)] += 1;
    }

    pub(crate) fn end(&mut self, why: Ending) {
        self.ended[why as usize] += 1;
    }

    /// Adds the counters.
    pub fn expose(&self, text: &mut Exposition) {
        let plain = [
            (
                "connections",
                "gauge",
                "TCP connections now.",
                self.connections,
            ),
            (
                "listeners",
                "gauge",
                "Listeners over TCP now.",
                self.listening,
            ),
            (
                "streams",
                "gauge",
                "Streams now, with those being called.",
                self.streams,
            ),
            (
                "accepted_total",
                "counter",
                "TCP connections that came.",
                self.accepted,
            ),
            ("calls_total", "counter", "Calls to listeners.", self.calls),
            (
                "spliced_total",
                "counter",
                "Calls that were answered.",
                self.spliced,
            ),
            (
                "copied_total",
                "counter",
                "Streams copied instead of spliced.",
                self.copied,
            ),
            (
                "received_bytes_total",
                "counter",
                "Bytes read from streams.",
                self.received_bytes,
            ),
            (
                "forwarded_bytes_total",
                "counter",
                "Bytes written to streams.",
                self.forwarded_bytes,
            ),
        ];
        for (name, kind, help, value) in plain {
            text.single(&format!("manyway_relay_tcp_{name}"), kind, help, value);
        }
        let name = "manyway_relay_tcp_refused_total";
        text.family(name, "counter", "Requests refused, by reason.");
        for reason in StreamRefusal::ALL {
            let labels = [("reason", refusal_name(reason))];
            text.sample(name, &labels, self.refused_for(reason));
        }
        let name = "manyway_relay_tcp_ended_total";
        let help = "Connections and streams that ended, by reason.";
        text.family(name, "counter", help);
        for why in Ending::ALL {
            text.sample(name, &[("reason", why.name())], self.ended_by(why));
        }
    }
}

fn index(reason: StreamRefusal) -> usize {
    reason as usize - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_text() {
        let mut counters = StreamCounters::default();
        counters.refuse(StreamRefusal::ForUdp);
        counters.end(Ending::Slow);
        let mut text = Exposition::default();
        counters.expose(&mut text);
        let text = text.into_text();
        for line in [
            "manyway_relay_tcp_refused_total{reason=\"for_udp\"} 1",
            "manyway_relay_tcp_ended_total{reason=\"slow\"} 1",
            "manyway_relay_tcp_streams 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
        for (at, why) in Ending::ALL.into_iter().enumerate() {
            assert_eq!(at, why as usize);
        }
        for (at, reason) in StreamRefusal::ALL.into_iter().enumerate() {
            assert_eq!(at, index(reason));
        }
    }
}

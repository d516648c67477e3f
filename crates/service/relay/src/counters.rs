use crate::exposition::Exposition;

/// Why a datagram is dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Reason {
    /// Malformed, or of a kind that relays don't handle.
    Malformed,
    /// For another relay.
    OtherRelay,
    /// This relay didn't make its grant, consent or proof for this sender.
    Forged,
    /// Its grant has expired or was made for another source address, and the relay has told the
    /// sender recently.
    Stale,
    /// Its payload is a message to relays, or empty.
    Nested,
    /// The account has used up its rate.
    AccountRate,
    /// The relay's own limit is reached.
    TotalRate,
    /// Too many requests, from this source or altogether.
    RequestRate,
    /// Sent from an address that the relay doesn't serve.
    Address,
    /// The relay is about to stop and grants nothing new.
    Leaving,
    /// The kernel didn't take it: the socket is full, or there is no route to the destination.
    Socket,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 11] = [
        Self::Malformed,
        Self::OtherRelay,
        Self::Forged,
        Self::Stale,
        Self::Nested,
        Self::AccountRate,
        Self::TotalRate,
        Self::RequestRate,
        Self::Address,
        Self::Leaving,
        Self::Socket,
    ];

    /// Its name in the metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::OtherRelay => "other_relay",
            Self::Forged => "forged",
            Self::Stale => "stale",
            Self::Nested => "nested",
            Self::AccountRate => "account_rate",
            Self::TotalRate => "total_rate",
            Self::RequestRate => "request_rate",
            Self::Address => "address",
            Self::Leaving => "leaving",
            Self::Socket => "socket",
        }
    }
}

/// What a relay has done since its start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams received.
    pub received: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Datagrams forwarded.
    pub forwarded: u64,
    /// Bytes forwarded, without the grants.
    pub forwarded_bytes: u64,
    /// Grants checked: once per run of packets with the same one.
    pub checks: u64,
    /// Answers to HELLO and LISTEN.
    pub consents: u64,
    /// Answers to MINT with grants.
    pub minted: u64,
    /// Refusals of MINT.
    pub refused: u64,
    /// STALE messages.
    pub stale: u64,
    /// Bytes of all answers.
    pub reply_bytes: u64,
    /// Datagrams dropped, by [`Reason`].
    pub dropped: [u64; Reason::ALL.len()],
}

impl Counters {
    /// The number of datagrams dropped for this reason.
    pub fn dropped_for(&self, reason: Reason) -> u64 {
        self.dropped[reason as usize]
    }

    pub(crate) fn drop(&mut self, reason: Reason) {
        self.dropped[reason as usize] += 1;
    }

    /// Adds the counters.
    pub fn expose(&self, text: &mut Exposition) {
        let plain = [
            ("received_packets", "Datagrams that came in.", self.received),
            ("received_bytes", "Their bytes.", self.received_bytes),
            ("forwarded_packets", "Datagrams sent on.", self.forwarded),
            (
                "forwarded_bytes",
                "Their bytes, without the grants.",
                self.forwarded_bytes,
            ),
            (
                "grant_checks",
                "Grants checked, once per run of packets.",
                self.checks,
            ),
            ("consents", "Answers to HELLO and LISTEN.", self.consents),
            ("mints", "Answers to MINT with grants.", self.minted),
            ("refusals", "Answers to MINT without grants.", self.refused),
            ("stale", "STALE messages.", self.stale),
            ("reply_bytes", "Bytes of all answers.", self.reply_bytes),
        ];
        for (name, help, value) in plain {
            let name = format!("manyway_relay_{name}_total");
            text.single(&name, "counter", help, value);
        }
        let name = "manyway_relay_dropped_packets_total";
        text.family(name, "counter", "Datagrams dropped, by reason.");
        for reason in Reason::ALL {
            let labels = [("reason", reason.name())];
            text.sample(name, &labels, self.dropped_for(reason));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_text() {
        let mut counters = Counters {
            forwarded: 7,
            ..Counters::default()
        };
        counters.drop(Reason::Forged);
        let mut text = Exposition::default();
        counters.expose(&mut text);
        let text = text.into_text();
        assert!(
            text.contains("\nmanyway_relay_forwarded_packets_total 7\n"),
            "{text}"
        );
        assert!(text.contains("{reason=\"forged\"} 1\n"), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(
                name.starts_with("manyway_relay_") && value.parse::<u64>().is_ok(),
                "{line}"
            );
        }
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(index, reason as usize);
        }
    }
}

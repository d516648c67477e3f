//! Whether an address is the peer's: our challenge (RFC 9000 §8.2), and the limit on what may be
//! sent there before it is answered (§8.1).
//!
//! It owns the counters of one address and never sends anything: whoever writes datagrams asks it
//! what is due and how much may leave, and tells it what left and what came.

use std::time::Duration;

use manyway_units::{Backoff, Time};

/// Challenges sent before an address is given up.
const MAX_CHALLENGES: u32 = 5;
/// When a challenge is repeated.
const CHALLENGE_INTERVAL: Backoff =
    Backoff::new(Duration::from_millis(300), Duration::from_millis(4800));
/// An address that isn't validated by then is given up, whatever kept the challenges from leaving.
const VALIDATION_TIMEOUT: Duration = Duration::from_secs(15);
/// Bytes that may go to an address for each byte that came from it, until it has answered a
/// challenge.
const AMPLIFICATION: u64 = 3;
/// The smallest datagram worth sending to an address that hasn't answered.
const SMALLEST_DATAGRAM: u64 = 64;

/// Path validation: our challenge and the amplification limit.
#[derive(Debug)]
pub(crate) struct Validation {
    challenge: Option<Challenge>,
    validated: bool,
    /// The amplification limit applies.
    limited: bool,
    /// The handshake was answered there.
    of_handshake: bool,
    /// The most that may go there before it answers, whoever we are.
    quota: Option<u64>,
    received: u64,
    sent: u64,
}

#[derive(Debug)]
struct Challenge {
    data: [u8; 8],
    sent: u32,
    first_sent: Time,
    next: Time,
    deadline: Time,
}

impl Validation {
    /// An address that hasn't answered. With `limited`, little may be sent there before it does.
    /// TCP needs no such limit: its own handshake has shown that the address takes part.
    pub(crate) fn new(limited: bool) -> Self {
        Self {
            challenge: None,
            validated: false,
            limited,
            of_handshake: false,
            quota: None,
            received: 0,
            sent: 0,
        }
    }

    /// The handshake was answered there: the bytes of INITs and REPLYs count like others, and an
    /// answer to our challenge does wherever it comes from. Who copies the peer's packets and
    /// overtakes them changes where they come from, not who could read the challenge.
    pub(crate) fn on_handshake(&mut self, received: u64, sent: u64) {
        self.of_handshake = true;
        self.received += received;
        self.sent += sent;
    }

    /// Whether an answer counts from wherever it comes.
    pub(crate) fn is_of_handshake(&self) -> bool {
        self.of_handshake
    }

    pub(crate) fn is_validated(&self) -> bool {
        self.validated
    }

    /// The handshake's answer came from this very address.
    pub(crate) fn set_validated(&mut self) {
        self.validated = true;
        self.challenge = None;
    }

    pub(crate) fn start(&mut self, now: Time, data: [u8; 8]) {
        self.challenge = Some(Challenge {
            deadline: now + VALIDATION_TIMEOUT,
            data,
            sent: 0,
            first_sent: now,
            next: now,
        });
    }

    /// The challenge to send now, if one is due.
    pub(crate) fn due(&self, now: Time) -> Option<[u8; 8]> {
        self.challenge
            .as_ref()
            .filter(|c| c.next <= now && c.sent < MAX_CHALLENGES)
            .map(|c| c.data)
    }

    /// Whether it was the first one.
    pub(crate) fn on_challenge_sent(&mut self, now: Time) -> bool {
        let Some(challenge) = &mut self.challenge else {
            return false;
        };
        if challenge.sent == 0 {
            challenge.first_sent = now;
        }
        challenge.next = now + CHALLENGE_INTERVAL.delay(challenge.sent);
        challenge.sent += 1;
        challenge.sent == 1
    }

    /// Whether the answer is the one we wait for; with the round-trip time if it can be told.
    pub(crate) fn on_response(&mut self, now: Time, data: [u8; 8]) -> Option<Option<Duration>> {
        let challenge = self.challenge.take_if(|c| c.sent > 0 && c.data == data)?;
        self.validated = true;
        Some((challenge.sent == 1).then(|| now.since(challenge.first_sent)))
    }

    /// When there is something to do about the challenge. One that is due already waits for the
    /// next datagram out, not for the time.
    pub(crate) fn timer(&self, now: Time) -> Option<Time> {
        let challenge = self.challenge.as_ref()?;
        if self.due(now).is_some() {
            Some(challenge.deadline)
        } else {
            Some(challenge.next.min(challenge.deadline))
        }
    }

    /// Every challenge went unanswered, or couldn't even be sent for too long.
    pub(crate) fn has_failed(&self, now: Time) -> bool {
        let failed = |c: &Challenge| c.sent >= MAX_CHALLENGES && c.next <= now || c.deadline <= now;
        self.challenge.as_ref().is_some_and(failed)
    }

    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Whether a CLOSE may go there: a peer turned away at once hasn't validated the path to it
    /// yet.
    pub(crate) fn takes_close(&self, initiator: bool) -> bool {
        self.validated || (!initiator && self.allowance(initiator) > 0)
    }

    /// The peer has named the address: so many bytes may go there before it answers.
    pub(crate) fn limit(&mut self, quota: u64) {
        self.quota = Some(quota);
    }

    /// Bytes the next datagram may have. The initiator isn't limited where the ticket told it the
    /// address.
    pub(crate) fn allowance(&self, initiator: bool) -> usize {
        let left = match self.quota {
            _ if self.validated => return usize::MAX,
            Some(quota) => quota.saturating_sub(self.sent),
            None if initiator || !self.limited => return usize::MAX,
            None => (self.received * AMPLIFICATION).saturating_sub(self.sent),
        };
        if left < SMALLEST_DATAGRAM {
            0
        } else {
            left as usize
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: [u8; 8] = *b"question";

    /// An address under challenge, asked once at `Time::ZERO`.
    fn asked() -> Validation {
        let mut validation = Validation::new(true);
        validation.start(Time::ZERO, DATA);
        assert_eq!(validation.due(Time::ZERO), Some(DATA));
        assert!(validation.on_challenge_sent(Time::ZERO), "the first one");
        validation
    }

    #[test]
    fn an_address_that_has_not_answered_gets_three_times_what_it_sent() {
        let mut validation = Validation::new(true);
        assert_eq!(validation.allowance(false), 0, "nothing came from it");
        validation.on_received(1000);
        assert_eq!(validation.allowance(false), 3000);
        validation.on_sent(1200);
        assert_eq!(validation.allowance(false), 1800);
        validation.on_sent(1200);
        validation.on_sent(600);
        assert_eq!(validation.allowance(false), 0);
        validation.on_sent(1);
        validation.on_received(1);
        assert_eq!(validation.allowance(false), 0, "two bytes are no datagram");
        validation.on_received(100);
        assert_eq!(validation.allowance(false), 302);
    }

    #[test]
    fn the_answer_lifts_the_limit_and_nothing_else_does() {
        let mut validation = asked();
        validation.on_received(100);
        assert_eq!(
            validation.on_response(Time::from_millis(9), *b"answer-2"),
            None
        );
        assert!(!validation.is_validated());
        assert_eq!(validation.allowance(false), 300);
        let rtt = Some(Duration::from_millis(40));
        assert_eq!(
            validation.on_response(Time::from_millis(40), DATA),
            Some(rtt)
        );
        assert!(validation.is_validated());
        assert_eq!(validation.allowance(false), usize::MAX);
        assert_eq!(
            validation.on_response(Time::from_millis(41), DATA),
            None,
            "once"
        );
        assert_eq!(validation.timer(Time::from_millis(41)), None);
    }

    #[test]
    fn a_challenge_that_never_left_has_no_answer() {
        let mut validation = Validation::new(true);
        validation.start(Time::ZERO, DATA);
        assert_eq!(validation.on_response(Time::ZERO, DATA), None);
        assert!(!validation.is_validated());
    }

    #[test]
    fn the_initiator_and_tcp_are_not_limited() {
        assert_eq!(Validation::new(true).allowance(true), usize::MAX);
        assert_eq!(Validation::new(false).allowance(false), usize::MAX);
    }

    #[test]
    fn the_round_trip_begins_when_the_challenge_leaves() {
        let mut validation = Validation::new(true);
        validation.start(Time::ZERO, DATA);
        validation.on_challenge_sent(Time::from_millis(100));
        let rtt = Duration::from_millis(40);
        let answered = validation.on_response(Time::from_millis(140), DATA);
        assert_eq!(answered, Some(Some(rtt)));
    }

    /// To an address that the peer has named goes what it may cost, whoever asks, to the last
    /// datagram.
    #[test]
    fn a_named_address_gets_its_quota() {
        for initiator in [false, true] {
            let mut validation = Validation::new(true);
            validation.limit(1000);
            validation.on_received(5000);
            assert_eq!(validation.allowance(initiator), 1000);
            validation.on_sent(1000 - SMALLEST_DATAGRAM as usize);
            let smallest = validation.allowance(initiator);
            assert_eq!(smallest, SMALLEST_DATAGRAM as usize);
            validation.on_sent(1);
            assert_eq!(validation.allowance(initiator), 0);
            validation.set_validated();
            assert_eq!(validation.allowance(initiator), usize::MAX);
        }
    }

    #[test]
    fn challenges_are_repeated_ever_more_rarely_and_given_up() {
        let mut validation = asked();
        let mut now = Time::ZERO;
        let mut pauses = Vec::new();
        for _ in 1..MAX_CHALLENGES {
            assert!(!validation.has_failed(now) && validation.due(now).is_none());
            let next = validation.timer(now).expect("it is repeated");
            pauses.push(next.since(now).as_millis());
            now = next;
            assert_eq!(validation.due(now), Some(DATA));
            assert!(!validation.on_challenge_sent(now), "not the first one");
        }
        assert_eq!(pauses, [300, 600, 1200, 2400]);
        let end = validation.timer(now).expect("the answer is waited for");
        assert_eq!(end.since(now), Duration::from_millis(4800));
        assert!(validation.due(end).is_none() && validation.has_failed(end));
        // Asked more than once, nobody can tell which one the answer belongs to.
        assert_eq!(validation.on_response(end, DATA), Some(None));
    }

    #[test]
    fn challenges_that_cannot_leave_fail_in_time() {
        let mut validation = Validation::new(true);
        validation.start(Time::ZERO, DATA);
        let end = Time::ZERO + VALIDATION_TIMEOUT;
        assert_eq!(
            validation.timer(Time::ZERO),
            Some(end),
            "it waits for a datagram"
        );
        assert!(!validation.has_failed(Time::from_millis(14_999)) && validation.has_failed(end));
    }

    #[test]
    fn close_goes_where_the_limit_allows_it() {
        let mut validation = Validation::new(true);
        assert!(!validation.takes_close(false) && !validation.takes_close(true));
        validation.on_received(100);
        assert!(
            validation.takes_close(false),
            "a peer that was turned away at once"
        );
        assert!(
            !validation.takes_close(true),
            "an initiator has nobody there yet"
        );
        validation.on_sent(300);
        assert!(!validation.takes_close(false));
        validation.set_validated();
        assert!(validation.takes_close(false) && validation.takes_close(true));
    }
}

//! A peer whose address changes under a live path: its NAT has bound anew, or it has roamed.
//!
//! A packet that opens, newer than all before it on its path, from another address than the path's,
//! makes that address a **candidate**: it is challenged while the path goes on with its own
//! address, its **home**. Whoever copies a packet and is faster than the original does the same
//! (RFC 9000 §9.3.3). So the home is challenged too, and as long as it is reachable, the path
//! stays: only if the candidate has answered and the home hasn't within a probe timeout, the path
//! moves. An attacker would have to cut the home off, and who can do that is the path.
//!
//! It owns the candidates of one path and bounds them. It never sends and never moves the path: it
//! says what is due, and where the path should lead.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_units::{Backoff, Time};
use rand::{CryptoRng, RngExt};

use super::validation::Validation;

/// Addresses of one path under challenge at a time.
const MAX_CANDIDATES: usize = 4;
/// After the home has proven reachable, other addresses are left alone for this long, unless a
/// probe timeout runs out.
const PAUSE: Duration = Duration::from_secs(1);
/// Numbers remembered of packets that went to candidates.
const MAX_ELSEWHERE: usize = 64;
/// After at least this much silence behind stream data, a receiver says where it is now; it repeats
/// that after twice as long.
const SILENCE: Duration = Duration::from_millis(300);
/// Most calls of a receiver that hears nothing.
const MAX_CALLS: u32 = 5;

/// Reused for the ranges of one ACK after the other, newest first.
pub(crate) type Ranges = Vec<RangeInclusive<u64>>;

/// Which addresses a path could move to.
#[derive(Debug, Default)]
pub(super) struct Migration {
    candidates: Vec<Candidate>,
    /// The challenge to the path's own address.
    home: Option<Home>,
    /// Before this time no address becomes a candidate.
    quiet_until: Time,
    /// The newest packets that went to candidates. Their acknowledgements say nothing about the
    /// path.
    elsewhere: Vec<u64>,
    watch: Watch,
}

/// An address under challenge.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) remote: SocketAddr,
    pub(super) validation: Validation,
    /// The peer's challenge from there, to be answered there.
    pub(super) respond: Option<[u8; 8]>,
    /// An ACK of the path goes there too.
    pub(super) ack: bool,
    /// The newest packet that came from there.
    newest: u64,
    pub(super) since: Time,
    /// It has answered; with the round-trip time if it can be told.
    pub(super) answered: Option<Option<Duration>>,
}

#[derive(Debug)]
struct Home {
    data: [u8; 8],
    sent: bool,
    /// The candidate may take over then.
    deadline: Time,
}

/// A receiver's watch over a path that carried stream data: if our own address has changed, the
/// sender can't reach us and we have nothing to acknowledge; it has to hear of us.
#[derive(Debug, Default)]
struct Watch {
    at: Option<Time>,
    called: Time,
    calls: u32,
}

/// Where a packet on a path came from.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The path's own address.
    Home,
    /// An address under challenge, by its place in the list.
    Candidate(usize),
    /// The path's own address, but to another address of ours than an initiator has chosen for it.
    OtherSocket,
    /// Elsewhere, and too old or too soon to mean anything.
    Stray,
}

impl Migration {
    pub(super) fn timer(&self, now: Time) -> Option<Time> {
        if self.candidates.is_empty() {
            return self.watch.at;
        }
        let challenges = self
            .candidates
            .iter()
            .filter_map(|c| c.validation.timer(now));
        let answered = self.candidates.iter().any(|c| c.answered.is_some());
        let home = self.home.as_ref().filter(|_| answered).map(|h| h.deadline);
        challenges.chain(home).chain(self.watch.at).min()
    }

    /// Whether something is due for an address under challenge that may have a datagram of so many
    /// bytes at least.
    pub(super) fn owes(&self, now: Time, least: usize) -> bool {
        let owed = |c: &Candidate| c.respond.is_some() || c.validation.due(now).is_some() || c.ack;
        let may = |c: &Candidate| c.validation.allowance(false) >= least;
        self.candidates.iter().any(|c| owed(c) && may(c))
    }

    /// Whether something is due for the home's proof.
    pub(super) fn owes_home(&self) -> bool {
        self.home.as_ref().is_some_and(|h| !h.sent)
    }

    /// How many addresses are under challenge.
    pub(super) fn candidates(&self) -> usize {
        self.candidates.len()
    }

    pub(super) fn candidate(&mut self, at: usize) -> Option<&mut Candidate> {
        self.candidates.get_mut(at)
    }

    /// The challenge to the path's own address, if it has to leave now.
    pub(super) fn take_home_challenge(&mut self) -> Option<[u8; 8]> {
        let home = self.home.as_mut().filter(|h| !h.sent)?;
        home.sent = true;
        Some(home.data)
    }

    /// An ACK leaves for the path's own address: the others get a copy.
    pub(super) fn copy_ack(&mut self) {
        self.candidates.iter_mut().for_each(|c| c.ack = true);
    }

    /// Takes packets that went to candidates out of the ranges of an ACK, newest first as they
    /// come.
    pub(super) fn without_elsewhere(&self, ranges: &mut Ranges) {
        for &number in &self.elsewhere {
            let Some(at) = ranges.iter().position(|r| r.contains(&number)) else {
                continue;
            };
            let (start, end) = (*ranges[at].start(), *ranges[at].end());
            let above = (number < end).then(|| number + 1..=end);
            let below = (number > start).then(|| start..=number - 1);
            ranges.splice(at..=at, above.into_iter().chain(below));
        }
    }

    /// A packet went to a candidate.
    pub(super) fn note_elsewhere(&mut self, number: u64) {
        if self.elsewhere.len() == MAX_ELSEWHERE {
            self.elsewhere.remove(0);
        }
        self.elsewhere.push(number);
    }

    /// A packet came from the path's own, validated address: if it is newer than all from
    /// elsewhere, the peer still is where it was.
    pub(super) fn on_packet_from_home(&mut self, now: Time, number: u64) {
        if !self.candidates.is_empty() && self.candidates.iter().all(|c| c.newest < number) {
            self.settle(now);
        }
    }

    /// Whether a packet came from a candidate, and which.
    pub(super) fn on_packet_from(&mut self, number: u64, remote: SocketAddr) -> Option<usize> {
        let at = self.candidates.iter().position(|c| c.remote == remote)?;
        let candidate = &mut self.candidates[at];
        candidate.newest = candidate.newest.max(number);
        Some(at)
    }

    /// Whether no other address may become a candidate now.
    pub(super) fn is_quiet(&self, now: Time) -> bool {
        now < self.quiet_until
    }

    /// Makes the address that a packet came from a candidate; its place. With a `home_deadline` the
    /// path's own address is challenged as well, and has until then to answer.
    pub(super) fn challenge(
        &mut self,
        now: Time,
        number: u64,
        remote: SocketAddr,
        home_deadline: Option<Time>,
        rng: &mut impl CryptoRng,
    ) -> usize {
        let (data, home) = (rng.random(), rng.random());
        let at = self.add(now, number, remote, Validation::new(true), data);
        if let Some(deadline) = home_deadline
            && self.home.is_none()
        {
            self.home = Some(Home {
                data: home,
                sent: false,
                deadline,
            });
        }
        at
    }

    /// The handshake was answered at this address, too: perhaps the path leads there.
    pub(super) fn suspect(
        &mut self,
        now: Time,
        remote: SocketAddr,
        (received, sent): (u64, u64),
        rng: &mut impl CryptoRng,
    ) {
        let mut validation = Validation::new(true);
        validation.on_handshake(received, sent);
        self.add(now, 0, remote, validation, rng.random());
    }

    /// Adds a candidate and challenges it; its place. Of too many, one that hasn't answered and was
    /// heard least lately gives way.
    fn add(
        &mut self,
        now: Time,
        newest: u64,
        remote: SocketAddr,
        mut validation: Validation,
        data: [u8; 8],
    ) -> usize {
        if self.candidates.len() == MAX_CANDIDATES {
            let oldest = (0..MAX_CANDIDATES).min_by_key(|&at| {
                let candidate = &self.candidates[at];
                let answered = candidate.answered.is_some();
                (
                    answered,
                    candidate.validation.is_of_handshake(),
                    candidate.newest,
                )
            });
            self.candidates.remove(oldest.unwrap_or(0));
        }
        validation.start(now, data);
        self.candidates.push(Candidate {
            remote,
            validation,
            respond: None,
            ack: false,
            newest,
            since: now,
            answered: None,
        });
        self.candidates.len() - 1
    }

    /// The path's own address has answered its first challenge.
    pub(super) fn on_home_validated(&mut self, now: Time) {
        if !self.candidates.is_empty() {
            self.settle(now);
        }
    }

    /// Whether a response is the home's. That it is reachable counts, from wherever its answer
    /// comes.
    pub(super) fn on_home_response(&mut self, now: Time, data: [u8; 8]) -> bool {
        let is_it = self.home.as_ref().is_some_and(|h| h.data == data);
        if is_it {
            self.settle(now);
        }
        is_it
    }

    /// Whether a response is that of the candidate it came from, or of one that the handshake was
    /// answered at.
    pub(super) fn on_response(&mut self, now: Time, origin: Origin, data: [u8; 8]) -> bool {
        for (at, candidate) in self.candidates.iter_mut().enumerate() {
            if (origin == Origin::Candidate(at) || candidate.validation.is_of_handshake())
                && let Some(rtt) = candidate.validation.on_response(now, data)
            {
                candidate.answered = Some(rtt);
                return true;
            }
        }
        false
    }

    /// Gives up candidates that don't answer. The address that the path should lead to by now, if
    /// it is another one; `validated` says whether the path's own has ever answered.
    pub(super) fn destination(&mut self, now: Time, validated: bool) -> Option<SocketAddr> {
        self.candidates.retain(|c| !c.validation.has_failed(now));
        if self.candidates.is_empty() {
            self.home = None;
            return None;
        }
        let waits = self.home.as_ref().is_some_and(|h| now < h.deadline);
        if waits && validated {
            return None;
        }
        let answered = self.candidates.iter().filter(|c| c.answered.is_some());
        answered.max_by_key(|c| c.newest).map(|c| c.remote)
    }

    /// The path goes to the candidate's address from now on: the others are forgotten.
    pub(super) fn take(&mut self, remote: SocketAddr) -> Option<Candidate> {
        self.home = None;
        let candidates = std::mem::take(&mut self.candidates);
        candidates.into_iter().find(|c| c.remote == remote)
    }

    /// Stream data arrived.
    pub(super) fn note_data(&mut self, now: Time, silence: Duration) {
        self.watch.calls = 0;
        // The timer isn't moved on with each packet: it looks when it fires.
        let at = now + silence.max(SILENCE);
        self.watch.at = Some(self.watch.at.map_or(at, |known| known.min(at)));
    }

    /// A probe timeout ran out: perhaps the home isn't what it was.
    pub(super) fn on_probe_timeout(&mut self) {
        self.quiet_until = Time::ZERO;
    }

    fn settle(&mut self, now: Time) {
        self.candidates.clear();
        self.home = None;
        self.quiet_until = now + PAUSE;
    }

    /// Whether it is time to call, the last packet having come at `heard`.
    pub(super) fn call(&mut self, now: Time, heard: Time, silence: Duration) -> bool {
        let watch = &mut self.watch;
        if watch.at.is_none_or(|at| at > now) {
            return false;
        }
        if watch.calls > 0 && heard > watch.called {
            // The call was answered. The next stream data begins a new watch.
            watch.at = None;
            return false;
        }
        let silence = silence.max(SILENCE);
        let due = heard + silence;
        if watch.calls == 0 && due > now {
            watch.at = Some(due);
            return false;
        }
        watch.called = now;
        watch.calls += 1;
        let next = now + Backoff::new(silence, Duration::MAX).delay(watch.calls);
        watch.at = (watch.calls < MAX_CALLS).then_some(next);
        true
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;

    const T0: Time = Time::ZERO;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 9))
    }

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// A path at whose home a packet with number 10 from address 1 has cast doubt; the home has
    /// 100 ms to answer.
    fn doubted() -> (Migration, ChaCha20Rng) {
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let mut migration = Migration::default();
        assert_eq!(
            migration.challenge(T0, 10, address(1), Some(ms(100)), &mut rng),
            0
        );
        (migration, rng)
    }

    /// Asks the candidate at `at` and answers for it.
    fn answer(migration: &mut Migration, now: Time, at: usize) {
        let candidate = migration.candidate(at).expect("it is there");
        let data = candidate.validation.due(now).expect("it is asked");
        candidate.validation.on_challenge_sent(now);
        assert!(migration.on_response(now, Origin::Candidate(at), data));
    }

    #[test]
    fn the_path_moves_when_the_candidate_answers_and_the_home_does_not() {
        let (mut migration, _) = doubted();
        assert!(migration.owes_home() && migration.take_home_challenge().is_some());
        assert_eq!(
            migration.destination(ms(200), true),
            None,
            "nobody has answered"
        );
        answer(&mut migration, ms(30), 0);
        assert_eq!(
            migration.destination(ms(99), true),
            None,
            "the home has time left"
        );
        assert_eq!(migration.timer(ms(99)), Some(ms(100)));
        assert_eq!(migration.destination(ms(100), true), Some(address(1)));
        let chosen = migration.take(address(1)).expect("it is there");
        assert!(chosen.validation.is_validated());
        assert_eq!(migration.candidates(), 0);
    }

    #[test]
    fn a_path_that_never_answered_need_not_be_waited_for() {
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let mut migration = Migration::default();
        migration.challenge(T0, 10, address(1), None, &mut rng);
        answer(&mut migration, ms(30), 0);
        assert_eq!(migration.destination(ms(30), false), Some(address(1)));
    }

    #[test]
    fn a_home_that_answers_keeps_the_path() {
        let (mut migration, _) = doubted();
        let home = migration.take_home_challenge().expect("it is asked");
        assert_eq!(migration.take_home_challenge(), None, "once");
        answer(&mut migration, ms(30), 0);
        assert!(!migration.on_home_response(ms(40), *b"anything"));
        assert!(migration.on_home_response(ms(40), home));
        assert_eq!(migration.destination(ms(100), true), None);
        assert!(migration.is_quiet(ms(1039)) && !migration.is_quiet(ms(1040)));
        migration.on_probe_timeout();
        assert!(
            !migration.is_quiet(ms(50)),
            "the home has become doubtful again"
        );
    }

    #[test]
    fn a_newer_packet_from_home_keeps_the_path_and_an_older_one_does_not() {
        let (mut migration, _) = doubted();
        migration.on_packet_from_home(ms(5), 9);
        assert_eq!(migration.candidates(), 1);
        migration.on_packet_from_home(ms(5), 11);
        assert_eq!(migration.candidates(), 0);
    }

    #[test]
    fn a_home_that_answers_its_first_challenge_keeps_the_path() {
        let (mut migration, _) = doubted();
        migration.on_home_validated(ms(40));
        assert_eq!(migration.candidates(), 0);
        assert!(migration.is_quiet(ms(41)));
        let mut undoubted = Migration::default();
        undoubted.on_home_validated(ms(40));
        assert!(!undoubted.is_quiet(ms(41)), "nobody asked to take over");
    }

    /// Each of the four alone keeps the path sending: the question to the home, the one to the
    /// candidate, the answer to the candidate's, and its copy of an ACK.
    #[test]
    fn what_is_owed_is_owed_by_itself() {
        let (mut migration, _) = doubted();
        let candidate = migration.candidate(0).expect("it is there");
        candidate.validation.on_challenge_sent(T0);
        assert!(migration.owes_home() && !migration.owes(T0, 0));
        migration.take_home_challenge();
        assert!(
            !migration.owes_home() && !migration.owes(T0, 0),
            "all have been asked"
        );
        assert!(migration.owes(ms(300), 0), "a challenge is repeated");
        migration.candidate(0).expect("it is there").respond = Some(*b"question");
        assert!(migration.owes(T0, 0), "the peer has asked from there");
        migration.candidate(0).expect("it is there").respond = None;
        assert!(!migration.owes(T0, 0));
        migration.copy_ack();
        assert!(migration.owes(T0, 0), "what has arrived");
        assert!(!Migration::default().owes(T0, 0));
    }

    #[test]
    fn an_answer_counts_for_the_candidate_that_was_asked() {
        let (mut migration, mut rng) = doubted();
        migration.challenge(T0, 11, address(2), Some(ms(500)), &mut rng);
        let first = migration.candidate(0).expect("it is there");
        let data = first.validation.due(T0).expect("it is asked");
        first.validation.on_challenge_sent(T0);
        assert!(
            !migration.on_response(ms(9), Origin::Candidate(1), data),
            "from another address"
        );
        assert!(
            !migration.on_response(ms(9), Origin::Home, data)
                && !migration.on_response(ms(9), Origin::Stray, data)
        );
        assert_eq!(migration.destination(ms(400), true), None);
        assert!(migration.on_response(ms(9), Origin::Candidate(0), data));
        assert_eq!(migration.destination(ms(400), true), Some(address(1)));
    }

    #[test]
    fn candidates_are_bounded_and_those_that_answered_stay() {
        let (mut migration, mut rng) = doubted();
        answer(&mut migration, T0, 0);
        for n in 2..100 {
            migration.challenge(T0, 10 + u64::from(n), address(n), None, &mut rng);
            assert!(migration.candidates() <= MAX_CANDIDATES);
        }
        assert_eq!(migration.on_packet_from(0, address(1)), Some(0));
        assert_eq!(migration.on_packet_from(0, address(99)), Some(3));
        assert_eq!(migration.on_packet_from(0, address(2)), None);
    }

    #[test]
    fn where_the_handshake_was_answered_an_answer_counts_from_anywhere() {
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let mut migration = Migration::default();
        migration.suspect(T0, address(1), (1200, 300), &mut rng);
        for n in 2..100 {
            migration.challenge(T0, u64::from(n), address(n), None, &mut rng);
        }
        let kept = migration.candidate(0).expect("others give way to it");
        assert_eq!(
            (kept.remote, kept.validation.allowance(false)),
            (address(1), 3300)
        );
        let data = kept.validation.due(T0).expect("it is asked");
        kept.validation.on_challenge_sent(T0);
        assert!(!migration.on_response(T0, Origin::Candidate(2), *b"whatever"));
        assert!(migration.on_response(T0, Origin::Candidate(2), data));
        assert_eq!(migration.destination(T0, false), Some(address(1)));
    }

    #[test]
    fn acks_of_what_went_elsewhere_say_nothing() {
        let mut migration = Migration::default();
        for number in [3, 7, 9, 20] {
            migration.note_elsewhere(number);
        }
        let mut ranges: Ranges = vec![5..=9, 3..=3, 0..=1];
        migration.without_elsewhere(&mut ranges);
        assert_eq!(ranges, [8..=8, 5..=6, 0..=1]);
        for number in 0..1000 {
            migration.note_elsewhere(number);
        }
        assert_eq!(migration.elsewhere.len(), MAX_ELSEWHERE);
    }

    /// As long as packets come, a receiver is silent; it calls when none has come for the time.
    #[test]
    fn a_receiver_that_hears_something_does_not_call() {
        let mut migration = Migration::default();
        assert!(!migration.call(ms(1000), T0, SILENCE), "no data, no watch");
        migration.note_data(T0, SILENCE);
        assert!(!migration.call(ms(299), T0, SILENCE), "too soon");
        for heard in [200, 450] {
            let at = migration.timer(T0).expect("it watches");
            assert!(!migration.call(at, ms(heard), SILENCE), "heard at {heard}");
            assert_eq!(migration.timer(at), Some(ms(heard) + SILENCE));
        }
        assert!(migration.call(ms(750), ms(450), SILENCE));
    }

    #[test]
    fn a_receiver_in_silence_calls_five_times() {
        let mut migration = Migration::default();
        migration.note_data(T0, SILENCE);
        let mut now = T0;
        let mut pauses = Vec::new();
        while let Some(at) = migration.timer(now) {
            pauses.push(at.since(now).as_millis());
            now = at;
            assert!(migration.call(now, T0, SILENCE));
        }
        assert_eq!(pauses, [300, 600, 1200, 2400, 4800]);
        // One that is answered ends it.
        migration.note_data(now, SILENCE);
        let at = migration.timer(now).expect("a new watch");
        assert!(migration.call(at, now, SILENCE));
        let next = migration.timer(at).expect("it is repeated");
        assert!(!migration.call(next, next, SILENCE));
        assert_eq!(migration.timer(next), None);
    }
}

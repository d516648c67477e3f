//! Mailboxes for one-time codes. The registry passes on what the two ends leave there, and learns
//! neither the words of a code nor what they protect.
//!
//! A mailbox serves one exchange: the host leaves its offer, one guest takes it and answers once,
//! the host replies once. After that, or after any of these fails, the mailbox only says how it
//! ended, until its number is free again.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use rand::{Rng, RngExt};

use crate::Problem;

/// How long a host that doesn't ask keeps its mailbox.
pub(crate) const HOST_LIFE: Duration = Duration::from_secs(60);
/// The time for each further step of an exchange: the guest's answer, the host's reply, its
/// delivery.
pub(crate) const STEP: Duration = Duration::from_secs(30);
/// How long a mailbox says how it ended.
pub(crate) const MEMORY: Duration = Duration::from_secs(600);
/// Between two sweeps.
const SWEEP: Duration = Duration::from_secs(5);

/// The most mailboxes, ended ones included.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) all: usize,
    pub(crate) per_account: usize,
    pub(crate) per_source: usize,
    /// How long an offer waits for a guest.
    pub(crate) life: Duration,
}

/// A host's offer.
pub(crate) struct Opening<'a> {
    pub(crate) owner: [u8; 16],
    pub(crate) account: [u8; 8],
    pub(crate) source: [u8; 8],
    pub(crate) offer: &'a str,
}

/// A hash, so that the memory doesn't contain the secret itself.
#[derive(Copy, Clone)]
struct Hashed([u8; 32]);

impl Hashed {
    fn of(secret: &[u8; 16]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, secret).as_ref());
        Self(bytes)
    }

    fn is_of(&self, secret: &[u8; 16]) -> bool {
        self.is(&Self::of(secret))
    }

    fn is(&self, other: &Self) -> bool {
        verify_slices_are_equal(&self.0, &other.0).is_ok()
    }
}

enum State {
    Open {
        offer: Box<str>,
        until: Duration,
        /// When the host has asked last.
        seen: Duration,
    },
    Taken {
        guest: Hashed,
        offer: Box<str>,
        since: Duration,
    },
    Answered {
        guest: Hashed,
        answer: Box<str>,
        since: Duration,
    },
    Replied {
        guest: Hashed,
        parcel: Box<str>,
        since: Duration,
    },
    Ended {
        how: Problem,
        since: Duration,
    },
}

impl State {
    /// When this state ends by itself, and how the mailbox then ended.
    fn end(&self) -> Option<(Duration, Problem)> {
        match self {
            Self::Open { until, seen, .. } => match *until <= *seen + HOST_LIFE {
                true => Some((*until, Problem::CodeExpired)),
                false => Some((*seen + HOST_LIFE, Problem::CodeGone)),
            },
            Self::Taken { since, .. } => Some((*since + STEP, Problem::CodeAbandoned)),
            Self::Answered { since, .. } => Some((*since + STEP, Problem::CodeGone)),
            Self::Replied { since, .. } => Some((*since + STEP, Problem::CodeUsed)),
            Self::Ended { .. } => None,
        }
    }
}

struct Mailbox {
    owner: Hashed,
    account: [u8; 8],
    source: [u8; 8],
    state: State,
}

impl Mailbox {
    fn settle(&mut self, now: Duration) {
        if let Some((since, how)) = self.state.end()
            && since <= now
        {
            self.state = State::Ended { how, since };
        }
    }

    fn is_forgotten(&self, now: Duration) -> bool {
        matches!(self.state, State::Ended { since, .. } if since + MEMORY <= now)
    }
}

/// All mailboxes.
#[derive(Default)]
pub(crate) struct Mailboxes {
    boxes: BTreeMap<u32, Mailbox>,
    next_sweep: Duration,
}

impl Mailboxes {
    /// Leaves an offer; returns the mailbox's number. A host that repeats it gets the same number.
    pub(crate) fn open(
        &mut self,
        now: Duration,
        new: &Opening<'_>,
        bounds: Bounds,
        rng: &mut impl Rng,
    ) -> Result<u32, Problem> {
        self.clean(now);
        let owner = Hashed::of(&new.owner);
        let (mut of_account, mut of_source) = (0, 0);
        for (number, mailbox) in &self.boxes {
            of_account += usize::from(mailbox.account == new.account);
            of_source += usize::from(mailbox.source == new.source);
            if mailbox.owner.is(&owner) {
                return Ok(*number);
            }
        }
        if self.boxes.len() >= bounds.all
            || of_account >= bounds.per_account
            || of_source >= bounds.per_source
        {
            return Err(Problem::Full { what: "codes" });
        }
        let number = self.free_number(rng);
        let mailbox = Mailbox {
            owner,
            account: new.account,
            source: new.source,
            state: State::Open {
                offer: new.offer.into(),
                until: now.saturating_add(bounds.life),
                seen: now,
            },
        };
        self.boxes.insert(number, mailbox);
        Ok(number)
    }

    /// The mailboxes, with those that are remembered.
    pub(crate) fn len(&self) -> usize {
        self.boxes.len()
    }

    /// Forgets now and then what has ended: first the messages, later that there was a mailbox.
    pub(crate) fn sweep(&mut self, now: Duration) {
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP;
            self.clean(now);
        }
    }

    fn clean(&mut self, now: Duration) {
        self.boxes.retain(|_, mailbox| {
            mailbox.settle(now);
            !mailbox.is_forgotten(now)
        });
    }

    /// A random free number with as few digits as leave half of the numbers free.
    fn free_number(&self, rng: &mut impl Rng) -> u32 {
        let mut end = 10;
        while self.boxes.range(..end).count() >= end as usize / 2 {
            end *= 10;
        }
        loop {
            let number = rng.random_range(1..end);
            if !self.boxes.contains_key(&number) {
                return number;
            }
        }
    }

    fn find(&mut self, now: Duration, number: u32) -> Result<&mut Mailbox, Problem> {
        let mailbox = self.boxes.get_mut(&number).ok_or(Problem::NoCode)?;
        mailbox.settle(now);
        match mailbox.is_forgotten(now) {
            true => Err(Problem::NoCode),
            false => Ok(mailbox),
        }
    }

    /// As the guest: takes the offer, which nobody else gets from then on.
    pub(crate) fn take(
        &mut self,
        now: Duration,
        number: u32,
        guest: &[u8; 16],
    ) -> Result<String, Problem> {
        let mailbox = self.find(now, number)?;
        match &mailbox.state {
            State::Open { offer, .. } => {
                let offer = offer.clone();
                mailbox.state = State::Taken {
                    guest: Hashed::of(guest),
                    offer: offer.clone(),
                    since: now,
                };
                Ok(offer.into())
            }
            State::Taken {
                guest: known,
                offer,
                ..
            } if known.is_of(guest) => Ok(offer.to_string()),
            State::Ended { how, .. } => Err(how.clone()),
            _ => Err(Problem::CodeUsed),
        }
    }

    /// As the guest that has taken the offer: leaves the answer, if it hasn't yet; returns the
    /// parcel once it is there.
    pub(crate) fn answer(
        &mut self,
        now: Duration,
        number: u32,
        guest: &[u8; 16],
        answer: &str,
    ) -> Result<Option<String>, Problem> {
        let mailbox = self.find(now, number)?;
        match &mailbox.state {
            State::Taken { guest: known, .. } if known.is_of(guest) => {
                mailbox.state = State::Answered {
                    guest: *known,
                    answer: answer.into(),
                    since: now,
                };
                Ok(None)
            }
            State::Answered { guest: known, .. } if known.is_of(guest) => Ok(None),
            State::Replied {
                guest: known,
                parcel,
                ..
            } if known.is_of(guest) => Ok(Some(parcel.to_string())),
            State::Ended { how, .. } => Err(how.clone()),
            _ => Err(Problem::CodeUsed),
        }
    }

    /// As the host: the guest's answer, once it is there. Shows that the host still waits.
    pub(crate) fn watch(
        &mut self,
        now: Duration,
        number: u32,
        owner: &[u8; 16],
    ) -> Result<Option<String>, Problem> {
        let mailbox = self.owned(now, number, owner)?;
        match &mut mailbox.state {
            State::Open { seen, .. } => {
                *seen = now;
                Ok(None)
            }
            State::Taken { .. } => Ok(None),
            State::Answered { answer, .. } => Ok(Some(answer.to_string())),
            State::Replied { .. } => Err(Problem::CodeUsed),
            State::Ended { how, .. } => Err(how.clone()),
        }
    }

    /// As the host: leaves the parcel for the guest that has answered. Without one, the code is no
    /// longer valid: the guest's words were wrong, or the host leaves before a guest has answered.
    pub(crate) fn reply(
        &mut self,
        now: Duration,
        number: u32,
        owner: &[u8; 16],
        parcel: Option<&str>,
    ) -> Result<(), Problem> {
        let mailbox = self.owned(now, number, owner)?;
        match (&mailbox.state, parcel) {
            (State::Answered { guest, .. }, Some(parcel)) => {
                mailbox.state = State::Replied {
                    guest: *guest,
                    parcel: parcel.into(),
                    since: now,
                };
                Ok(())
            }
            (State::Answered { .. }, None) => {
                mailbox.state = State::Ended {
                    how: Problem::CodeWrong,
                    since: now,
                };
                Ok(())
            }
            (State::Open { .. } | State::Taken { .. }, None) => {
                mailbox.state = State::Ended {
                    how: Problem::CodeGone,
                    since: now,
                };
                Ok(())
            }
            // It was said before.
            (State::Replied { .. }, Some(_)) => Ok(()),
            (State::Ended { how, .. }, Some(_)) if *how == Problem::CodeUsed => Ok(()),
            (
                State::Ended {
                    how: Problem::CodeWrong | Problem::CodeGone,
                    ..
                },
                None,
            ) => Ok(()),
            (State::Ended { how, .. }, _) => Err(how.clone()),
            _ => Err(Problem::CodeGone),
        }
    }

    fn owned(
        &mut self,
        now: Duration,
        number: u32,
        owner: &[u8; 16],
    ) -> Result<&mut Mailbox, Problem> {
        let mailbox = self.find(now, number)?;
        match mailbox.owner.is_of(owner) {
            true => Ok(mailbox),
            false => Err(Problem::NoCode),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;

    const BOUNDS: Bounds = Bounds {
        all: 60,
        per_account: 20,
        per_source: 10,
        life: Duration::from_secs(3600),
    };
    const TICK: Duration = Duration::from_nanos(1);
    const HOST: [u8; 16] = [1; 16];
    const GUEST: [u8; 16] = [2; 16];

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn opening(owner: [u8; 16], account: u8, source: u8) -> Opening<'static> {
        Opening {
            owner,
            account: [account; 8],
            source: [source; 8],
            offer: "offer",
        }
    }

    fn opened() -> (Mailboxes, u32) {
        let mut boxes = Mailboxes::default();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let number = boxes.open(at(0), &opening(HOST, 1, 1), BOUNDS, &mut rng);
        (boxes, number.unwrap())
    }

    #[test]
    fn one_guest_gets_one_parcel_and_repeats_change_nothing() {
        let (mut boxes, n) = opened();
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let again = boxes.open(at(1), &opening(HOST, 1, 1), BOUNDS, &mut rng);
        assert_eq!(again, Ok(n), "a repeated opening");
        assert_eq!(boxes.watch(at(1), n, &HOST), Ok(None));
        for _ in 0..2 {
            assert_eq!(boxes.take(at(2), n, &GUEST).as_deref(), Ok("offer"));
        }
        assert_eq!(boxes.watch(at(2), n, &HOST), Ok(None));
        for _ in 0..2 {
            assert_eq!(boxes.answer(at(3), n, &GUEST, "answer"), Ok(None));
            let heard = boxes.watch(at(3), n, &HOST);
            assert_eq!(heard, Ok(Some("answer".to_owned())));
        }
        // An answer can't be replaced: that would be a second try.
        assert_eq!(boxes.answer(at(3), n, &GUEST, "second"), Ok(None));
        let heard = boxes.watch(at(3), n, &HOST);
        assert_eq!(heard, Ok(Some("answer".to_owned())));
        for _ in 0..2 {
            assert_eq!(boxes.reply(at(4), n, &HOST, Some("parcel")), Ok(()));
            let parcel = boxes.answer(at(5), n, &GUEST, "answer");
            assert_eq!(parcel, Ok(Some("parcel".to_owned())));
        }
        assert_eq!(boxes.take(at(6), n, &[9; 16]), Err(Problem::CodeUsed));
        let late = boxes.answer(at(4) + STEP, n, &GUEST, "answer");
        assert_eq!(late, Err(Problem::CodeUsed));
        // Nor is a host told otherwise whose first reply got no answer.
        let again = boxes.reply(at(4) + STEP, n, &HOST, Some("parcel"));
        assert_eq!(again, Ok(()));
    }

    #[test]
    fn two_guests_of_one_code_dont_share_it() {
        let (mut boxes, n) = opened();
        let other = [3; 16];
        boxes.take(at(1), n, &GUEST).unwrap();
        assert_eq!(boxes.take(at(1), n, &other), Err(Problem::CodeUsed));
        let answer = boxes.answer(at(1), n, &other, "answer");
        assert_eq!(answer, Err(Problem::CodeUsed));
        boxes.answer(at(1), n, &GUEST, "answer").unwrap();
        assert_eq!(boxes.take(at(1), n, &other), Err(Problem::CodeUsed));
        boxes.reply(at(1), n, &HOST, Some("parcel")).unwrap();
        let answer = boxes.answer(at(1), n, &other, "answer");
        assert_eq!(answer, Err(Problem::CodeUsed));
        // Nobody else plays the host.
        for stranger in [other, GUEST] {
            assert_eq!(boxes.watch(at(1), n, &stranger), Err(Problem::NoCode));
            let reply = boxes.reply(at(1), n, &stranger, Some("x"));
            assert_eq!(reply, Err(Problem::NoCode));
        }
    }

    #[test]
    fn a_wrong_guess_ends_a_code_and_a_hundred_more_get_no_try() {
        let (mut boxes, n) = opened();
        boxes.take(at(1), n, &GUEST).unwrap();
        boxes.answer(at(1), n, &GUEST, "wrong").unwrap();
        for _ in 0..2 {
            assert_eq!(boxes.reply(at(2), n, &HOST, None), Ok(()));
        }
        let told = boxes.answer(at(2), n, &GUEST, "wrong");
        assert_eq!(told, Err(Problem::CodeWrong));
        for guess in 0..100 {
            let guest = [guess; 16];
            assert_eq!(boxes.take(at(3), n, &guest), Err(Problem::CodeWrong));
            let answer = boxes.answer(at(3), n, &guest, "right");
            assert_eq!(answer, Err(Problem::CodeWrong));
        }
        assert_eq!(boxes.watch(at(3), n, &HOST), Err(Problem::CodeWrong));
        let reply = boxes.reply(at(3), n, &HOST, Some("parcel"));
        assert_eq!(reply, Err(Problem::CodeWrong));
    }

    #[test]
    fn every_step_has_its_time_to_the_tick() {
        // The host asks each 25 s, for an hour.
        let (mut boxes, n) = opened();
        for second in (0..3600).step_by(25) {
            assert_eq!(boxes.watch(at(second), n, &HOST), Ok(None));
        }
        boxes.watch(at(3600) - TICK, n, &HOST).unwrap();
        assert_eq!(boxes.watch(at(3600), n, &HOST), Err(Problem::CodeExpired));
        assert_eq!(boxes.take(at(3600), n, &GUEST), Err(Problem::CodeExpired));
        let known = at(3600) + MEMORY;
        let told = boxes.take(known - TICK, n, &GUEST);
        assert_eq!(told, Err(Problem::CodeExpired));
        assert_eq!(boxes.take(known, n, &GUEST), Err(Problem::NoCode));
        // A host that is gone.
        let (mut boxes, n) = opened();
        boxes.take(HOST_LIFE - TICK, n, &GUEST).unwrap();
        let (mut boxes, n) = opened();
        assert_eq!(boxes.take(HOST_LIFE, n, &GUEST), Err(Problem::CodeGone));
        // A host that says so.
        let (mut boxes, n) = opened();
        for _ in 0..2 {
            assert_eq!(boxes.reply(at(1), n, &HOST, None), Ok(()));
            assert_eq!(boxes.take(at(1), n, &GUEST), Err(Problem::CodeGone));
        }
        // A guest that doesn't go on.
        let (mut boxes, n) = opened();
        boxes.take(at(1), n, &GUEST).unwrap();
        assert_eq!(boxes.watch(at(1) + STEP - TICK, n, &HOST), Ok(None));
        let ended = boxes.watch(at(1) + STEP, n, &HOST);
        assert_eq!(ended, Err(Problem::CodeAbandoned));
        let late = boxes.answer(at(1) + STEP, n, &GUEST, "answer");
        assert_eq!(late, Err(Problem::CodeAbandoned));
        // A host that doesn't reply.
        let (mut boxes, n) = opened();
        boxes.take(at(1), n, &GUEST).unwrap();
        boxes.answer(at(1), n, &GUEST, "answer").unwrap();
        let waits = boxes.answer(at(1) + STEP - TICK, n, &GUEST, "answer");
        assert_eq!(waits, Ok(None));
        let ended = boxes.answer(at(1) + STEP, n, &GUEST, "answer");
        assert_eq!(ended, Err(Problem::CodeGone));
        // A host that replies before there is an answer.
        let (mut boxes, n) = opened();
        let early = boxes.reply(at(1), n, &HOST, Some("parcel"));
        assert_eq!(early, Err(Problem::CodeGone));
    }

    #[test]
    fn floods_are_bounded_by_account_by_source_and_altogether_and_pass() {
        let mut boxes = Mailboxes::default();
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let full = Err(Problem::Full { what: "codes" });
        let mut n = 0_u8;
        let mut open = |boxes: &mut Mailboxes, now, account, source| {
            n += 1;
            boxes.open(now, &opening([n; 16], account, source), BOUNDS, &mut rng)
        };
        for _ in 0..10 {
            open(&mut boxes, at(0), 1, 1).unwrap();
        }
        assert_eq!(open(&mut boxes, at(0), 2, 1), full, "of one source");
        for source in 2..12 {
            open(&mut boxes, at(0), 1, source).unwrap();
        }
        assert_eq!(open(&mut boxes, at(0), 1, 12), full, "of one account");
        for other in 0..40 {
            open(&mut boxes, at(0), 100 + other, 100 + other).unwrap();
        }
        assert_eq!(open(&mut boxes, at(0), 200, 200), full, "altogether");
        assert!(boxes.boxes.keys().all(|number| (1..1000).contains(number)));
        let forgotten = HOST_LIFE + MEMORY;
        assert_eq!(open(&mut boxes, forgotten - TICK, 200, 200), full);
        let number = open(&mut boxes, forgotten, 200, 200).unwrap();
        assert_eq!((boxes.boxes.len(), number < 10), (1, true));
    }
}

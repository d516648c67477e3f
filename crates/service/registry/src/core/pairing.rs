//! The requests of both ends of a one-time code.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Core, WEIGHT_MEETING, bounded, secret, source};
use crate::mailboxes::{Bounds, Opening};
use crate::{Problem, api};

/// What a guest's first request weighs beside the 1 of [`Core::admit`]: trying numbers is
/// expensive, whether one is there or not.
const WEIGHT_TAKE: u64 = 29;

impl Core {
    /// Opens a mailbox with a host's offer. Returns its number.
    ///
    /// # Errors
    /// What is wrong.
    pub fn open_mailbox(
        &mut self,
        now: Duration,
        from: SocketAddr,
        credential: &str,
        request: &api::OpenMailbox,
    ) -> Result<u32, Problem> {
        self.charge(now, from, WEIGHT_MEETING)?;
        let credential = self.credential(now, from, credential)?;
        let opening = Opening {
            owner: secret(&request.owner, "owner")?,
            account: credential.account,
            source: source(from),
            offer: step(&request.offer, "offer")?,
        };
        let bounds = Bounds {
            all: self.limits.codes,
            per_account: self.limits.codes_per_account,
            per_source: self.limits.codes_per_source,
            life: self.limits.code_life,
        };
        let opened = self.mailboxes.open(now, &opening, bounds, &mut self.rng);
        self.counted(&credential, opened, |used, _| used.codes += 1)
    }

    /// How long a mailbox waits for a guest.
    pub(crate) fn code_life(&self) -> Duration {
        self.limits.code_life
    }

    /// Gives a guest the offer, and nobody else from then on.
    ///
    /// # Errors
    /// What is wrong.
    pub fn take_offer(
        &mut self,
        now: Duration,
        from: SocketAddr,
        number: u32,
        request: &api::TakeOffer,
    ) -> Result<String, Problem> {
        self.charge(now, from, WEIGHT_TAKE)?;
        let guest = secret(&request.guest, "guest")?;
        self.mailboxes.take(now, number, &guest)
    }

    /// Stores a guest's answer. [`Core::parcel`] says what the host replies.
    ///
    /// # Errors
    /// What is wrong.
    pub fn answer_offer(
        &mut self,
        now: Duration,
        from: SocketAddr,
        number: u32,
        request: &api::AnswerOffer,
    ) -> Result<(), Problem> {
        self.charge(now, from, WEIGHT_MEETING)?;
        let known = self.parcel(now, number, request);
        known
            .map(drop)
            .map_err(|problem| self.failed(now, from, problem))
    }

    /// The parcel for a guest, once it is there.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parcel(
        &mut self,
        now: Duration,
        number: u32,
        request: &api::AnswerOffer,
    ) -> Result<Option<String>, Problem> {
        let guest = secret(&request.guest, "guest")?;
        let answer = step(&request.answer, "answer")?;
        self.mailboxes.answer(now, number, &guest, answer)
    }

    /// Admits a mailbox's host. [`Core::answer`] says what the guest has left.
    ///
    /// # Errors
    /// What is wrong.
    pub fn admit_host(
        &mut self,
        now: Duration,
        from: SocketAddr,
        number: u32,
        request: &api::WatchMailbox,
    ) -> Result<(), Problem> {
        self.charge(now, from, WEIGHT_MEETING)?;
        self.answer(now, number, request).map(drop)
    }

    /// The answer for a host, once it is there.
    ///
    /// # Errors
    /// What is wrong.
    pub fn answer(
        &mut self,
        now: Duration,
        number: u32,
        request: &api::WatchMailbox,
    ) -> Result<Option<String>, Problem> {
        let owner = secret(&request.owner, "owner")?;
        self.mailboxes.watch(now, number, &owner)
    }

    /// Stores a host's reply.
    ///
    /// # Errors
    /// What is wrong.
    pub fn reply(
        &mut self,
        now: Duration,
        from: SocketAddr,
        number: u32,
        request: &api::SendParcel,
    ) -> Result<(), Problem> {
        self.charge(now, from, WEIGHT_MEETING)?;
        let owner = secret(&request.owner, "owner")?;
        let parcel = request.parcel.as_deref();
        let parcel = parcel.map(|text| {
            bounded(text, api::MAX_PARCEL).ok_or(Problem::Field {
                field: "parcel",
                expected: "1 to 8192 ASCII characters",
            })
        });
        self.mailboxes
            .reply(now, number, &owner, parcel.transpose()?)
    }
}

fn step<'a>(text: &'a str, field: &'static str) -> Result<&'a str, Problem> {
    bounded(text, api::MAX_STEP).ok_or(Problem::Field {
        field,
        expected: "1 to 128 ASCII characters",
    })
}

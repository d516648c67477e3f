//! The requests of listeners and of those who call them.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Core, WEIGHT_MEETING, bounded, secret};
use crate::meetings::{Bounds, Name, Publication};
use crate::{Problem, api};

impl Core {
    /// Stores what a listener has sealed for its callers.
    ///
    /// # Errors
    /// What is wrong.
    pub fn listen(
        &mut self,
        now: Duration,
        from: SocketAddr,
        credential: &str,
        name: &str,
        request: &api::Listen,
    ) -> Result<Name, Problem> {
        self.charge(now, from, WEIGHT_MEETING)?;
        let credential = self.credential(now, from, credential)?;
        let name = meeting_name(name)?;
        let owner = secret(&request.owner, "owner")?;
        let publication = Publication {
            name,
            owner,
            account: credential.account,
            sealed: sealed(&request.sealed)?,
        };
        let bounds = Bounds {
            all: self.limits.listeners,
            per_account: self.limits.listeners_per_account,
        };
        let published = self.meetings.publish(now, publication, bounds);
        self.counted(&credential, published, |_, ()| {})?;
        Ok(name)
    }

    /// The callers since the last time, for the meeting that [`Core::listen`] has named.
    pub fn callers(&mut self, now: Duration, name: &Name) -> Vec<String> {
        self.meetings.callers(now, name)
    }

    /// Stores a call. Returns the meeting's name and what the listener has left.
    ///
    /// # Errors
    /// What is wrong.
    pub fn call(
        &mut self,
        now: Duration,
        from: SocketAddr,
        name: &str,
        request: &api::Call,
    ) -> Result<(Name, String), Problem> {
        self.charge(now, from, WEIGHT_MEETING)?;
        let name = meeting_name(name)?;
        let found = self.meetings.call(now, &name, sealed(&request.sealed)?);
        match found {
            Ok(listener) => Ok((name, listener)),
            // Guessing names is expensive.
            Err(problem) => Err(self.failed(now, from, problem)),
        }
    }
}

fn meeting_name(text: &str) -> Result<Name, Problem> {
    api::decode(text).ok_or(Problem::Field {
        field: "name",
        expected: "16 bytes in base64url without padding",
    })
}

pub(super) fn sealed(text: &str) -> Result<&str, Problem> {
    bounded(text, api::MAX_SEALED).ok_or(Problem::Field {
        field: "sealed",
        expected: "1 to 2048 ASCII characters",
    })
}

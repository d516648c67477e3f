//! Datagrams in, up to the frames: told apart from copies, and opened.
//!
//! It owns the opening keys and counts what doesn't open. It never looks into a packet, and never
//! changes a path: whoever asked records the packet when its frames were handled.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::Time;
use manyway_wire::{DATA_HEADER_LEN, DataHeader, PathId, expand_pn};

use crate::carrier::Facts;
use crate::crypto::{OpenError, Opener};
use crate::driver::{Ecn, Local};

use super::paths::Path;

/// A datagram for this connection, as the endpoint found it by its connection id.
pub(crate) struct Arrival<'a> {
    pub(crate) path: PathId,
    pub(crate) header: DataHeader,
    pub(crate) local: &'a Local,
    pub(crate) remote: SocketAddr,
    /// Of what it came on.
    pub(crate) facts: Facts,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) data: &'a mut [u8],
}

/// A packet that has opened.
pub(crate) struct Opened<'a> {
    pub(crate) number: u64,
    /// Length of the datagram, in bytes.
    pub(crate) len: usize,
    pub(crate) local: &'a Local,
    pub(crate) remote: SocketAddr,
    pub(crate) ecn: Option<Ecn>,
    pub(crate) plain: &'a [u8],
}

/// Why a datagram has nothing to say.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A copy, a forgery or damaged: it changes nothing.
    Rejected,
    /// As many failed to open as the cipher allows: the connection can't go on.
    TooMany,
}

/// The receiving side's keys.
#[derive(Debug)]
pub(super) struct Receiver {
    opener: Opener,
    rejected: u64,
}

impl Receiver {
    pub(super) fn new(opener: Opener) -> Self {
        Self {
            opener,
            rejected: 0,
        }
    }

    /// Datagrams that didn't open, or were copies.
    pub(super) fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Opens a datagram in place, of a path that may be known already. Old keys are kept for `pto`
    /// times three.
    pub(super) fn open<'a>(
        &mut self,
        now: Time,
        pto: Duration,
        arrival: Arrival<'a>,
        known: Option<&Path>,
    ) -> Result<Opened<'a>, Refused> {
        let header = arrival.header;
        let number = expand_pn(header.pn_low, known.and_then(Path::largest_received));
        if known.is_some_and(|path| !path.is_fresh(number)) {
            self.rejected += 1;
            return Err(Refused::Rejected);
        }
        let len = arrival.data.len();
        let opened = self.opener.open(
            now,
            pto,
            arrival.path.0,
            number,
            header.epoch,
            arrival.data,
            DATA_HEADER_LEN,
        );
        match opened {
            Ok(plain) => Ok(Opened {
                number,
                len,
                local: arrival.local,
                remote: arrival.remote,
                ecn: arrival.ecn,
                plain,
            }),
            Err(OpenError::IntegrityLimit { .. }) => Err(Refused::TooMany),
            Err(_) => {
                self.rejected += 1;
                Err(Refused::Rejected)
            }
        }
    }
}

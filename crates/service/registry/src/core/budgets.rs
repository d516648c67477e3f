//! The budgets of hosts: for what they ask, and for what the registry sends them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use manyway_relay::bucket::Allowance;

use super::Core;
use crate::Problem;

/// What a wrong secret weighs beside its request.
const WEIGHT_FAILED: u64 = 20;
/// HELLOs over UDP that are answered per second altogether: anybody can forge senders.
const OBSERVATIONS: u64 = 50_000;

impl Core {
    /// Counts a request against its source's budget, before anything is done for it.
    ///
    /// # Errors
    /// The source has sent too many.
    pub fn admit(&mut self, now: Duration, from: SocketAddr) -> Result<(), Problem> {
        self.charge(now, from, 1)
    }

    /// Counts a HELLO over UDP, whose sender may be forged. Returns whether to answer it.
    pub(crate) fn observe(&mut self, now: Duration, from: SocketAddr) -> bool {
        let cells = self.observers.cells(&source(from));
        let allowance = Allowance::events(1, self.limits.rate.max(1));
        let admitted = self.observers.take(cells, now, allowance)
            && self
                .observations
                .take(now, Allowance::events(1, OBSERVATIONS));
        self.observed += u64::from(admitted);
        admitted
    }

    pub(crate) fn charge(
        &mut self,
        now: Duration,
        from: SocketAddr,
        weight: u64,
    ) -> Result<(), Problem> {
        let cells = self.sources.cells(&source(from));
        let allowance = Allowance::events(weight, self.limits.rate.max(1));
        match self.sources.take(cells, now, allowance) {
            true => Ok(()),
            false => Err(Problem::Rate),
        }
    }

    /// A wrong secret costs its source more.
    pub(super) fn failed(&mut self, now: Duration, from: SocketAddr, problem: Problem) -> Problem {
        self.charge(now, from, WEIGHT_FAILED).ok();
        problem
    }

    /// Counts the first HELLOs to these addresses, one over TCP included.
    pub(super) fn probe(
        &mut self,
        now: Duration,
        addresses: &[SocketAddr],
        tcp: bool,
    ) -> Result<(), Problem> {
        let hellos = 1 + u64::from(tcp);
        match addresses.iter().all(|to| self.hello(now, *to, hellos)) {
            true => Ok(()),
            false => Err(Problem::Rate),
        }
    }

    /// Counts HELLOs to an address against the budgets of its host and of all hosts: nobody must be
    /// able to use the registry as a weapon. Returns whether they may be sent.
    pub(crate) fn hello(&mut self, now: Duration, to: SocketAddr, hellos: u64) -> bool {
        let cells = self.targets.cells(&source(to));
        // Many relays may share one address, and each may restart often.
        let host = Allowance::events(hellos, self.limits.rate.max(1));
        let all = Allowance::events(hellos, self.limits.probes.max(1));
        self.targets.take(cells, now, host) && self.probes.take(now, all)
    }
}

/// The unit of a rate limit: an IPv4 address, or an IPv6 network of 64 bits.
pub(crate) fn source(from: SocketAddr) -> [u8; 8] {
    match from.ip().to_canonical() {
        IpAddr::V4(ip) => (0xffff << 32 | u64::from(ip.to_bits())).to_be_bytes(),
        IpAddr::V6(ip) => ((ip.to_bits() >> 64) as u64).to_be_bytes(),
    }
}

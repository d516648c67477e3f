//! One-time codes at a registry. The listener makes one and passes its ticket on to whoever knows
//! it; the initiator gets the ticket, the listener's relays and access to the registry.

use std::time::Duration;

use anyhow::Context;
use manyway::Ticket;
use manyway::relay::{MAX_TICKET_RELAYS, RelayTicket};
use manyway_registry::client::{Hosted, Parcel, redeem};
use manyway_registry::{Code, RegistryUrl, Role};
use rand::SeedableRng;
use rand::rngs::{ChaCha20Rng, SysRng};

use super::RelaySources;
use crate::exit::{Interrupted, Stop, usage};
use crate::state::token;

/// A code that waits for somebody to use it.
pub(crate) struct OfferedCode {
    hosted: Hosted,
    /// The registry at which it waits.
    pub(crate) registry: RegistryUrl,
}

impl OfferedCode {
    pub(crate) fn code(&self) -> Code {
        self.hosted.code()
    }

    /// How long it waits.
    pub(crate) fn life(&self) -> Duration {
        self.hosted.life()
    }

    /// Waits until somebody has used it and got the ticket.
    ///
    /// # Errors
    /// It is over: wrong words, nobody came, the registry is away.
    pub(crate) async fn used(self, stop: &Stop) -> anyhow::Result<()> {
        tokio::select! {
            served = self.hosted.serve() => Ok(served?),
            () = stop.requested() => Err(Interrupted.into()),
        }
    }
}

impl RelaySources {
    /// Makes a code that leads to this ticket.
    pub(crate) async fn offer_code(
        &self,
        ticket: &Ticket,
        stop: &Stop,
    ) -> anyhow::Result<OfferedCode> {
        let (Some(url), Some(file)) = (self.args.registry.first(), &self.args.token_file) else {
            return Err(usage(
                "`--code` needs a registry, at which the code waits: name one with `--registry`, \
                 and your token with `--token-file`",
            ));
        };
        let token = token(file, Role::Client)?;
        let with_access = self.via.iter().filter(|relay| relay.access.is_some());
        let relays: Vec<RelayTicket> = with_access.take(MAX_TICKET_RELAYS).cloned().collect();
        let mut rng = rng()?;
        let opened = Hosted::open(
            &self.args.registry,
            token,
            (ticket.clone(), relays),
            &mut rng,
        );
        let hosted = tokio::select! {
            opened = opened => opened?,
            () = stop.requested() => return Err(Interrupted.into()),
        };
        Ok(OfferedCode {
            hosted,
            registry: url.clone(),
        })
    }

    /// Uses a code up. From then on these relays have what came with it.
    pub(super) async fn redeem(&mut self, code: &Code, stop: &Stop) -> anyhow::Result<Ticket> {
        if self.args.registry.is_empty() {
            return Err(usage(
                "a code leads to a ticket at a registry: name the other side's with `--registry` \
                 (or MANYWAY_REGISTRY)",
            ));
        }
        let mut rng = rng()?;
        let parcel: Parcel = tokio::select! {
            parcel = redeem(&self.args.registry, code, &mut rng) => parcel?,
            () = stop.requested() => return Err(Interrupted.into()),
        };
        self.via.extend(parcel.relays);
        self.grant = Some(parcel.grant);
        Ok(parcel.ticket)
    }
}

fn rng() -> anyhow::Result<ChaCha20Rng> {
    ChaCha20Rng::try_from_rng(&mut SysRng).context("the system provides no random numbers")
}

//! One-time codes at a registry. The listener makes one and passes its ticket on to whoever knows
//! it.

use std::time::Duration;

use manyway::Ticket;
use manyway_registry::client::{Hosted, redeem};
use manyway_registry::{Code, RegistryUrl, Role};

use super::{RelaySources, rng};
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
    /// It is over: wrong words, nobody came, the registry is away; or `over` came before.
    pub(crate) async fn used(
        self,
        over: impl Future<Output = anyhow::Error>,
    ) -> anyhow::Result<()> {
        match self.hosted.serve(over).await? {
            None => Ok(()),
            Some(over) => Err(over),
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
        let mut rng = rng()?;
        let opened = Hosted::open(&self.args.registry, token, ticket, &mut rng);
        let hosted = tokio::select! {
            opened = opened => opened?,
            () = stop.requested() => return Err(Interrupted.into()),
        };
        Ok(OfferedCode {
            hosted,
            registry: url.clone(),
        })
    }

    /// Uses a code up.
    pub(super) async fn redeem(&self, code: &Code, stop: &Stop) -> anyhow::Result<Ticket> {
        if self.args.registry.is_empty() {
            return Err(usage(
                "a code leads to a ticket at a registry: name the other side's with `--registry` \
                 (or MANYWAY_REGISTRY)",
            ));
        }
        let mut rng = rng()?;
        tokio::select! {
            ticket = redeem(&self.args.registry, code, &mut rng) => Ok(ticket?),
            () = stop.requested() => Err(Interrupted.into()),
        }
    }
}

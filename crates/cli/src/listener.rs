//! The side that waits: it says how to reach it, by a ticket or a code, and takes the first
//! transfer.

use std::cell::Cell;
use std::time::Duration;

use manyway::Endpoint;
use manyway_units::format_duration;
use tokio::time::sleep;

use crate::args::{NetworkArgs, TicketArgs};
use crate::exit::{Interrupted, NeverCame, Stop};
use crate::relays::{BackgroundTasks, OfferedCode, RelaySources};
use crate::reports::Reports;
use crate::screen::Screen;
use crate::{options, ticket};

/// How long whoever has used a code may take to begin a transfer. Only with `--retry`, it may try
/// again later.
const GUEST: Duration = Duration::from_secs(120);

/// A command that waits.
pub(crate) struct Listener<'a> {
    pub(crate) screen: &'a Screen,
    pub(crate) stop: &'a Stop,
    pub(crate) reports: &'a Reports,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) network: &'a NetworkArgs,
    pub(crate) ticket: &'a TicketArgs,
    /// Whether a code says how to reach it.
    pub(crate) code: bool,
    pub(crate) retry: Option<Duration>,
    /// Whether somebody has begun something.
    pub(crate) begun: Cell<bool>,
    /// What to do on the other host. It takes what to add behind "On the other host", and the
    /// ticket or the code.
    pub(crate) instructions: &'a dyn Fn(&str, &str) -> String,
}

impl Listener<'_> {
    /// Listens, and says how. If that is by a code, it has been used when this returns. The tasks
    /// wait for callers.
    pub(crate) async fn announce(
        &self,
        relays: &mut RelaySources,
    ) -> anyhow::Result<BackgroundTasks> {
        let named = relays.for_own_ticket().await?;
        options::listen_tcp(self.endpoint, self.network)?;
        let ticket = ticket::listen(self.endpoint, self.ticket, &named)?;
        if self.code {
            let tasks = relays.await_callers(self.endpoint, &ticket)?;
            let offered = relays.offer_code(&ticket, self.stop).await?;
            self.show(&offered);
            offered.used(self.stop).await?;
            return Ok(tasks);
        }
        ticket::publish(self.screen, &ticket, self.ticket, |ticket| {
            (self.instructions)("", &ticket.to_string())
        })?;
        self.reports.listening(&ticket, self.ticket);
        relays.await_callers(self.endpoint, &ticket)
    }

    fn show(&self, offered: &OfferedCode) {
        let (code, registry, life) = (offered.code(), &offered.registry, offered.life());
        match self.screen.is_quiet() {
            true => self.screen.error(&code.to_string()),
            false => {
                let with = format!(", with MANYWAY_REGISTRY={registry}");
                self.screen.say(&format!(
                    "{}\nThe code works once, within {}.",
                    (self.instructions)(&with, &code.to_string()),
                    format_duration(life)
                ));
            }
        }
        self.reports.offering(&code, registry, life);
    }

    /// What `arrival` makes of the first connection that begins something.
    pub(crate) async fn first<T>(
        &self,
        arrival: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let limit = GUEST.max(self.retry.unwrap_or_default());
        let again = self.begun.get();
        tokio::select! {
            first = arrival => {
                self.begun.set(true);
                first
            }
            () = self.stop.requested() => Err(Interrupted.into()),
            () = sleep(limit), if self.code => Err(NeverCame { limit, again }.into()),
        }
    }
}

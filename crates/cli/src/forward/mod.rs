//! Pipes and TCP connections over a connection's streams: `send -` and `recv -`, `connect`,
//! `forward` and `serve`.
//!
//! Each pipe or TCP connection has a stream of its own, which begins with a request
//! (`docs/forward.md`). Streams take turns, and each has its own flow control.

pub(crate) mod connect;
pub(crate) mod error;
pub(crate) mod local;
pub(crate) mod pipe;
pub(crate) mod rules;
pub(crate) mod serve;
mod socks;
pub(crate) mod spec;
mod stdio;
pub(crate) mod stream;
mod tcp;

use std::pin::pin;

use manyway::{Connection, Endpoint};

use crate::args::NetworkArgs;
use crate::close::{DONE, FAILED, INTERRUPTED};
use crate::events::PathNews;
use crate::exit::{Interrupted, Stop, words};
use crate::metered::{self, Metered};
use crate::publish::{self, Doing};
use crate::reports::Reports;
use crate::retry::Retrying;
use crate::screen::Screen;

/// What the connections of a command have in common.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) screen: Screen,
    pub(crate) stop: Stop,
    /// Whether the user named the interfaces to use.
    pub(crate) named: bool,
    pub(crate) reports: Reports,
    metered: Option<Metered>,
    doing: Doing,
}

impl Setup {
    /// `doing` is what the command's connections are for.
    pub(crate) fn new(
        screen: &Screen,
        endpoint: &Endpoint,
        network: &NetworkArgs,
        doing: Doing,
    ) -> Self {
        Self {
            screen: screen.clone(),
            reports: Reports::silent(screen),
            stop: Stop::listen(false),
            named: !network.interfaces.is_empty(),
            metered: Metered::new(screen, endpoint, network.limit.as_ref(), &[]),
            doing,
        }
    }

    pub(crate) fn retrying(&self) -> Retrying<'_> {
        Retrying {
            screen: &self.screen,
            stop: &self.stop,
            reports: &self.reports,
        }
    }

    /// Does `work` on a connection, and closes it with the reason.
    pub(crate) async fn run<T>(
        &self,
        connection: &Connection,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let reporter = self.reports.begin();
        let _listed = publish::list(self.doing, connection, None);
        let mut news = PathNews::new(&self.screen, &reporter, connection, self.named);
        let mut work = pin!(work);
        let result = tokio::select! {
            result = &mut work => result,
            () = self.stop.requested() => Err(Interrupted.into()),
            used = metered::hold(self.metered.as_ref(), connection) => Err(used.into()),
            never = news.follow() => match never {},
        };
        let (code, reason) = match &result {
            Ok(_) => (DONE, String::new()),
            Err(error) if error.is::<Interrupted>() => (INTERRUPTED, "its user stopped it".into()),
            Err(error) => (FAILED, words(error)),
        };
        // Before the streams of work that is interrupted: its reset says less.
        connection.close(code, &reason);
        result
    }
}

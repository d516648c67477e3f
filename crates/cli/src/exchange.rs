//! One transfer over one connection, whoever dialled and whichever way the files go.

use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use manyway::files::{self, Progress, ReceiveOptions, Sources, TransferError};
use manyway::{CloseReason, Connection, ConnectionLost, Endpoint, RecvStream, SendStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::events;
use crate::exit::{Interrupted, Stop, words};
use crate::live::Live;
use crate::meter::Direction;
use crate::screen::Screen;
use crate::summary::{Outcome, Summary};

/// The side that hears the last word closes the connection; the other waits this long for that
/// before it closes by itself.
const GOODBYE: Duration = Duration::from_secs(3);
/// Application codes of CLOSE.
const DONE: u64 = 0x100;
const FAILED: u64 = 0x101;
const INTERRUPTED: u64 = 0x102;

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) enum Job {
    /// Send these files and directories.
    Send(Sources),
    /// Receive into this directory.
    Receive(PathBuf, ReceiveOptions),
}

impl Job {
    fn direction(&self) -> Direction {
        match self {
            Job::Send(_) => Direction::Sending,
            Job::Receive(..) => Direction::Receiving,
        }
    }
}

/// Who opens the stream: the side that dialled.
#[derive(Debug)]
pub(crate) enum Side {
    /// We dialled.
    Dialled,
    /// We were dialled, and this is the stream.
    Answered(SendStream, RecvStream),
}

impl Side {
    /// Waits for the other side's stream. `None` if the connection ends without one: somebody has
    /// measured the paths, or thought better of it.
    pub(crate) async fn answer(connection: &Connection) -> Option<Self> {
        match connection.accept_bi().await {
            Ok((send, receive)) => Some(Self::Answered(send, receive)),
            Err(error) => {
                tracing::info!(%error, "a connection ended before a transfer began");
                None
            }
        }
    }
}

/// The first connection on which a transfer begins. Others may come, look and go meanwhile.
pub(crate) async fn first(endpoint: &Endpoint) -> anyhow::Result<(Connection, Side)> {
    let mut arriving = JoinSet::new();
    loop {
        tokio::select! {
            accepted = endpoint.accept() => {
                let connection = accepted.context("the sockets are gone")?;
                arriving.spawn(async move {
                    let side = Side::answer(&connection).await?;
                    Some((connection, side))
                });
            }
            Some(arrived) = arriving.join_next() => {
                if let Ok(Some(arrived)) = arrived {
                    return Ok(arrived);
                }
            }
        }
    }
}

/// A transfer about to happen.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(crate) screen: &'a Screen,
    pub(crate) stop: &'a Stop,
    pub(crate) connection: Connection,
    pub(crate) side: Side,
    /// Whether the user named the interfaces to use.
    pub(crate) named: bool,
}

impl Exchange<'_> {
    /// Carries it through and closes the connection, whatever comes of it.
    pub(crate) async fn run(mut self, job: Job) -> anyhow::Result<Summary> {
        let side = std::mem::replace(&mut self.side, Side::Dialled);
        let direction = job.direction();
        let progress = Progress::new();
        let live = Live::new(
            self.screen,
            direction,
            progress.clone(),
            self.connection.clone(),
        );
        let mut transfer = pin!(self.transfer(side, job, progress));
        let result = tokio::select! {
            result = &mut transfer => result,
            () = self.stop.requested() => Err(Interrupted.into()),
            never = live.run() => match never {},
            never = events::follow(self.screen, &self.connection, self.named) => match never {},
        };
        let stats = self.connection.stats();
        self.close(&result).await;
        if interrupted(&result) {
            // With the connection closed it fails, and takes its incomplete files with it.
            timeout(GOODBYE, transfer).await.ok();
        }
        Ok(Summary::new(result?, &stats))
    }

    async fn transfer(
        &self,
        side: Side,
        job: Job,
        progress: Arc<Progress>,
    ) -> anyhow::Result<Outcome> {
        let (send, receive) = self.streams(side).await?;
        let streams = (receive, send);
        Ok(match job {
            Job::Send(sources) => {
                let sent = files::send(streams, sources, progress).await;
                Outcome::Sent(sent.map_err(explain)?)
            }
            Job::Receive(dir, options) => {
                let received = files::receive(streams, dir, options, progress).await;
                Outcome::Received(received.map_err(explain)?)
            }
        })
    }

    async fn streams(&self, side: Side) -> anyhow::Result<(SendStream, RecvStream)> {
        let opened = match side {
            Side::Dialled => self.connection.open_bi().await,
            Side::Answered(send, receive) => Ok((send, receive)),
        };
        opened.context("the connection ended before the transfer began")
    }

    async fn close(&self, result: &anyhow::Result<Outcome>) {
        let (code, reason) = match result {
            Ok(_) => (DONE, String::new()),
            Err(_) if interrupted(result) => (INTERRUPTED, "it was stopped by its user".to_owned()),
            Err(error) => (FAILED, words(error)),
        };
        if spoke_last(result) {
            timeout(GOODBYE, self.connection.closed()).await.ok();
        }
        self.connection.close(code, &reason);
    }
}

fn interrupted(result: &anyhow::Result<Outcome>) -> bool {
    result
        .as_ref()
        .is_err_and(|error| error.is::<Interrupted>())
}

/// The other side's reason for closing the connection says more than the stream's error.
fn explain(error: TransferError) -> anyhow::Error {
    if let TransferError::Stream { doing, source } = &error
        && let Some(ConnectionLost(CloseReason::Peer { reason, .. })) = lost(source)
        && !reason.is_empty()
    {
        return anyhow!("the other side closed the connection {doing}: {reason}");
    }
    error.into()
}

fn lost(error: &io::Error) -> Option<&ConnectionLost> {
    error.get_ref()?.downcast_ref()
}

/// Whether the transfer's last message was ours.
fn spoke_last(result: &anyhow::Result<Outcome>) -> bool {
    match result {
        Ok(outcome) => matches!(outcome, Outcome::Sent(_)),
        Err(error) => matches!(error.downcast_ref(), Some(TransferError::Here(_))),
    }
}

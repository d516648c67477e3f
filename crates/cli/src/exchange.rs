//! One transfer over one connection, whichever side dialled and whichever way the files go.
//!
//! Owns the connection's last steps: who closes it, when, and with which code. It doesn't dial.

use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use manyway::files::{self, Hello, Policy, Progress, ReceiveOptions, Sources, Talk, TransferError};
use manyway::{Connection, ConnectionLost, Endpoint, RecvStream, SendStream};
use manyway_units::format_duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::args::{NetworkArgs, QuotaArgs, RetryArgs};
use crate::close::{ClosedByPeer, DONE, FAILED, INTERRUPTED, TIMED_OUT};
use crate::door::Door;
use crate::events::PathNews;
use crate::exit::{Class, Interrupted, Stop, TimedOut, is_the_networks};
use crate::live::Live;
use crate::meter::Direction;
use crate::metered::{self, Metered, QuotaUsed};
use crate::progress::Report;
use crate::publish::{self, Doing};
use crate::reports::{Reporter, Reports};
use crate::retry::Retrying;
use crate::screen::Screen;
use crate::stall;
use crate::summary::{Outcome, Summary};

/// The side that receives the last message closes the connection. The other side waits this long
/// for that before it closes the connection itself.
pub(crate) const CLOSE_WAIT: Duration = Duration::from_secs(3);
/// A peer that opens a stream says hello on it within this time, and a sender within this time
/// after that what it sends.
const BEGIN_WAIT: Duration = Duration::from_secs(15);

/// The direction of a transfer, with its files.
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

    fn hello(&self) -> Hello {
        match self {
            Job::Send(sources) => sources.hello(),
            Job::Receive(_, options) => options.hello(),
        }
    }

    /// Can a later transfer go on where this one ends? The sender doesn't know otherwise.
    fn resumes(&self) -> bool {
        match self {
            Job::Send(_) => true,
            Job::Receive(_, options) => {
                options.policy != Policy::Rename && !options.keep_parts.is_zero()
            }
        }
    }
}

/// Our side of the connection: the initiator opens the stream.
#[derive(Debug)]
pub(crate) enum Role {
    /// We dialled.
    Initiator,
    /// The peer dialled, opened this stream and began a transfer on it.
    Responder(Talk<RecvStream, SendStream>),
}

impl Role {
    /// Waits for the peer's stream and the beginning of a transfer on it, in which `job` is ours.
    /// `None` if the connection ends without: the peer only measured the paths, changed its
    /// mind, or has no transfer in mind.
    pub(crate) async fn answer(connection: &Connection, job: &Job) -> Option<Self> {
        let (send, receive) = match connection.accept_bi().await {
            Ok(streams) => streams,
            Err(error) => {
                tracing::info!(%error, "a connection ended before a transfer began");
                return None;
            }
        };
        match files::begin((receive, send), job.hello(), BEGIN_WAIT).await {
            Ok(talk) => Some(Self::Responder(talk)),
            Err(error) => {
                tracing::info!(%error, "a peer has no transfer in mind");
                connection.close(FAILED, &for_peer(&error.into()));
                None
            }
        }
    }
}

/// The first connection on which a transfer begins. Others may come and go meanwhile.
pub(crate) async fn first(door: &Door, job: &Job) -> anyhow::Result<(Connection, Role)> {
    let answer = |connection: Connection| {
        let job = job.clone();
        async move {
            let role = Role::answer(&connection, &job).await?;
            Some((connection, role))
        }
    };
    first_that(door, answer).await
}

/// The first connection of which `answer` makes something.
pub(crate) async fn first_that<T, F>(
    door: &Door,
    answer: impl Fn(Connection) -> F,
) -> anyhow::Result<T>
where
    T: Send + 'static,
    F: Future<Output = Option<T>> + Send + 'static,
{
    let mut arriving = JoinSet::new();
    let mut shut = None;
    loop {
        tokio::select! {
            accepted = door.accept(), if shut.is_none() => match accepted {
                Ok(connection) => {
                    arriving.spawn(answer(connection));
                }
                Err(why) => shut = Some(why),
            },
            Some(arrived) = arriving.join_next() => {
                if let Ok(Some(arrived)) = arrived {
                    return Ok(arrived);
                }
            }
            // Nobody else comes.
            else => return Err(shut.unwrap_or_else(|| anyhow!("nobody can connect"))),
        }
    }
}

/// What all transfers of a command have in common.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) screen: Screen,
    pub(crate) stop: Stop,
    pub(crate) endpoint: Endpoint,
    /// Whether the user named the interfaces to use.
    pub(crate) named: bool,
    /// Whether this side goes on by itself if the network fails.
    pub(crate) goes_on: bool,
    pub(crate) metered: Option<Metered>,
    /// A transfer ends when nothing moves for this long.
    pub(crate) timeout: Option<Duration>,
    pub(crate) reports: Reports,
}

impl Setup {
    pub(crate) fn retrying(&self) -> Retrying<'_> {
        Retrying {
            screen: &self.screen,
            stop: &self.stop,
            reports: &self.reports,
        }
    }

    /// That of a command with these options.
    pub(crate) fn new(
        screen: &Screen,
        stop: Stop,
        endpoint: &Endpoint,
        (network, quota, retry): (&NetworkArgs, &QuotaArgs, &RetryArgs),
        reports: &Reports,
    ) -> Self {
        let limit = network.limit.as_ref();
        Self {
            screen: screen.clone(),
            stop,
            endpoint: endpoint.clone(),
            named: !network.interfaces.is_empty(),
            goes_on: retry.retry.is_some(),
            metered: Metered::new(screen, endpoint, limit, &quota.quota),
            timeout: retry.timeout,
            reports: reports.clone(),
        }
    }

    /// Runs a transfer and closes the connection, whatever the result.
    pub(crate) async fn run(
        &self,
        reporter: &Reporter,
        connection: Connection,
        role: Role,
        job: Job,
    ) -> anyhow::Result<Summary> {
        let exchange = Exchange {
            setup: self,
            reporter,
            connection,
        };
        exchange.run(role, job).await
    }
}

/// A transfer.
#[derive(Debug)]
struct Exchange<'a> {
    setup: &'a Setup,
    reporter: &'a Reporter,
    connection: Connection,
}

impl Exchange<'_> {
    async fn run(self, role: Role, job: Job) -> anyhow::Result<Summary> {
        let Setup {
            screen,
            stop,
            named,
            metered,
            timeout: limit,
            ..
        } = self.setup;
        let direction = job.direction();
        let reporter = self.reporter;
        reporter.report(|transfer| Some(Report::connected(transfer, direction)));
        let progress = Progress::new();
        let active = reporter.count(&self.connection, &progress);
        let doing = Doing::Transfer(direction);
        let _listed = publish::list(doing, &self.connection, Some(progress.clone()));
        let live = Live::new(screen, direction, progress.clone(), self.connection.clone())
            .reporting(reporter.clone());
        let resumes = job.resumes();
        let mut news = PathNews::new(screen, reporter, &self.connection, *named);
        let mut transfer = pin!(self.transfer(role, job, progress.clone()));
        let result = tokio::select! {
            result = &mut transfer => result,
            () = stop.requested() => Err(Interrupted.into()),
            used = metered::hold(metered.as_ref(), &self.connection) => Err(used.into()),
            late = stall::noticed(&self.connection, &progress, direction, *limit) => {
                Err(late.into())
            }
            never = live.run() => match never {},
            never = news.follow() => match never {},
        };
        let stats = self.connection.stats();
        if result.is_ok() {
            news.explain_unused(&self.setup.endpoint, &stats).await;
        }
        if let Some(active) = active {
            active.end(match &result {
                Ok(_) => "done",
                Err(error) => Class::of(error).name(),
            });
        }
        self.close(&result).await;
        if ended_here(&result).is_some() {
            // With the connection closed, the transfer fails and puts its incomplete files aside.
            timeout(CLOSE_WAIT, transfer).await.ok();
        }
        // What is refused now is refused again.
        let stays = |error: &anyhow::Error| {
            Class::of(error) != Class::Refused && !(self.setup.goes_on && is_the_networks(error))
        };
        if result.as_ref().is_err_and(stays) && resumes && progress.bytes_done() > 0 {
            screen.say("The same commands resume this transfer.");
        }
        Ok(Summary::new(result?, progress.bytes_done(), &stats))
    }

    async fn transfer(
        &self,
        role: Role,
        job: Job,
        progress: Arc<Progress>,
    ) -> anyhow::Result<Outcome> {
        let talk = self.talk(role).await?;
        Ok(match job {
            Job::Send(sources) => match files::send(talk, sources, progress).await {
                Ok(sent) => Outcome::Sent(sent),
                Err(error) => return Err(self.explain(error).await),
            },
            Job::Receive(dir, options) => {
                match files::receive(talk, dir, options, progress).await {
                    Ok(received) => Outcome::Received(received),
                    Err(error) => return Err(self.explain(error).await),
                }
            }
        })
    }

    async fn talk(&self, role: Role) -> anyhow::Result<Talk<RecvStream, SendStream>> {
        match role {
            Role::Initiator => {
                let opened = self.connection.open_bi().await;
                let (send, receive) = opened.map_err(ended_early)?;
                Ok((receive, send).into())
            }
            Role::Responder(talk) => Ok(talk),
        }
    }

    /// The peer's reason for closing the connection says more than the stream's error. A reset of
    /// the stream may come before it.
    async fn explain(&self, error: TransferError) -> anyhow::Error {
        if let TransferError::Stream { doing, source } = &error {
            let reason = match lost(source) {
                Some(ConnectionLost(reason)) => Some(reason.clone()),
                None if is_reset(source) => {
                    timeout(CLOSE_WAIT, self.connection.closed()).await.ok()
                }
                None => None,
            };
            if let Some(closed) = reason.and_then(|reason| ClosedByPeer::of(&reason, doing)) {
                return closed.into();
            }
        }
        error.into()
    }

    async fn close(&self, result: &anyhow::Result<Outcome>) {
        let (code, reason) = match result {
            Ok(_) => (DONE, String::new()),
            Err(error) => ended_here(result).unwrap_or_else(|| (FAILED, for_peer(error))),
        };
        if spoke_last(result) {
            timeout(CLOSE_WAIT, self.connection.closed()).await.ok();
        }
        self.connection.close(code, &reason);
    }
}

/// Code and reason for the peer if we end the transfer while it runs.
fn ended_here(result: &anyhow::Result<Outcome>) -> Option<(u64, String)> {
    let error = result.as_ref().err()?;
    if let Some(TimedOut { limit, .. }) = error.downcast_ref() {
        let limit = format_duration(*limit);
        return Some((TIMED_OUT, format!("no progress for {limit}")));
    }
    if error.is::<QuotaUsed>() {
        return Some((
            INTERRUPTED,
            "the quotas of its paths are used up".to_owned(),
        ));
    }
    let stopped = error.is::<Interrupted>();
    stopped.then(|| (INTERRUPTED, "its user stopped it".to_owned()))
}

/// What the peer may know of an error: not where files are here.
fn for_peer(error: &anyhow::Error) -> String {
    match error.downcast_ref() {
        Some(TransferError::Here(failure)) => failure.for_peer().to_string(),
        _ => "the transfer failed there".to_owned(),
    }
}

/// The connection was over before the transfer began.
fn ended_early(lost: ConnectionLost) -> anyhow::Error {
    match ClosedByPeer::of(&lost.0, "before the transfer began") {
        Some(closed) => closed.into(),
        None => anyhow::Error::new(lost).context("the connection ended before the transfer began"),
    }
}

fn lost(error: &io::Error) -> Option<&ConnectionLost> {
    error.get_ref()?.downcast_ref()
}

/// Whether the peer has given the stream up, in one direction or the other.
fn is_reset(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), ConnectionReset | BrokenPipe)
}

/// Whether the transfer's last message was ours.
fn spoke_last(result: &anyhow::Result<Outcome>) -> bool {
    match result {
        Ok(outcome) => matches!(outcome, Outcome::Sent(_)),
        Err(error) => matches!(error.downcast_ref(), Some(TransferError::Here(_))),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::Ipv4Addr;

    use manyway::{EndpointOptions, PathSelector};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    pub(crate) async fn endpoint() -> Endpoint {
        let options = EndpointOptions {
            paths: vec![PathSelector::Address(Ipv4Addr::LOCALHOST.into())],
            ..EndpointOptions::default()
        };
        Endpoint::bind(options).await.unwrap()
    }

    /// Peers that open a stream and say nothing, nonsense, or hello and no more don't hold a
    /// receiver of one transfer.
    #[tokio::test]
    async fn the_first_to_offer_is_the_first() {
        let (receiver, idle, honest) = (endpoint().await, endpoint().await, endpoint().await);
        let ticket = receiver.listen().unwrap();
        let mute = idle.connect(&ticket).await.unwrap();
        let (mut polite, mut greeting) = mute.open_bi().await.unwrap();
        polite
            .write_all(b"\x01\x00\x00\x07mwft\x04\x00\x00")
            .await
            .unwrap();
        let stalled = idle.connect(&ticket).await.unwrap();
        let (mut silent, _receive) = stalled.open_bi().await.unwrap();
        silent.write_all(&[1]).await.unwrap();
        let garbage = idle.connect(&ticket).await.unwrap();
        let (mut loud, _receive_too) = garbage.open_bi().await.unwrap();
        loud.write_all(&[0xff; 100]).await.unwrap();

        let job = Job::Receive(PathBuf::new(), ReceiveOptions::default());
        let door = Door::open(&receiver);
        let (first, ()) = tokio::join!(first(&door, &job), async {
            // Answered with a hello of the same length.
            greeting.read_exact(&mut [0; 11]).await.unwrap();
            // Refused as soon as it has said what it has to say.
            garbage.closed().await;
            let connection = honest.connect(&ticket).await.unwrap();
            let (send, receive) = connection.open_bi().await.unwrap();
            let sources = Sources::new([concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
            let sources = sources.unwrap();
            tokio::spawn(async move {
                let _connection = connection;
                let _ = files::send((receive, send), sources, Progress::new()).await;
            });
        });
        let (_connection, role) = first.unwrap();
        assert!(matches!(role, Role::Responder(_)));
        assert!(stalled.close_reason().is_none() && mute.close_reason().is_none());
    }
}

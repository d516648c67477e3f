//! How the program ends: classes of errors with their exit statuses, and signals.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use std::{fmt, io, thread};

use manyway::files::{FailureCode, Skipped, TransferError};
use manyway::{CloseReason, ConnectError, ConnectionLost};
use manyway_registry::client::{ClientError, PairingError};
use manyway_units::format_duration;
use manyway_wire::forward::Code;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::children;
use crate::close::{ClosedByPeer, FAILED, INTERRUPTED, NOT_ALLOWED, TIMED_OUT};
use crate::diagnosis::NoAnswer;
use crate::forward::error::PortHeld;
use crate::forward::error::{Cut, DiskFailed, Refusal};
use crate::metered::QuotaUsed;
use crate::screen::Screen;

/// Classes of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// None of the others.
    Failed,
    /// The command line is wrong; clap's own errors have the same status.
    Usage,
    /// Nobody answered.
    Unreachable,
    /// A side doesn't want the transfer: a name exists or is unsafe, or there is too much of it.
    Refused,
    /// A user stopped it, or the connection was lost.
    Interrupted,
    /// It was interrupted because nothing moved for `--timeout`.
    Timeout,
    /// Something was left out, or changed meanwhile.
    Incomplete,
    /// A disk is full or fails, or files may not be read or written.
    Disk,
    /// What arrived isn't what was sent.
    Verification,
}

impl Class {
    /// The exit status; 0 is success.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Refused => 4,
            Self::Interrupted | Self::Timeout => 5,
            Self::Incomplete => 6,
            Self::Disk => 7,
            Self::Verification => 8,
        }
    }

    /// Its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Interrupted => "interrupted",
            Self::Timeout => "timeout",
            Self::Incomplete => "incomplete",
            Self::Disk => "disk",
            Self::Verification => "verification",
        }
    }

    /// That of an error.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let classes = error.chain().filter_map(Self::of_cause);
        classes.last().unwrap_or(Self::Failed)
    }

    fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Self> {
        if let Some(error) = cause.downcast_ref::<TransferError>() {
            return Some(error.code().map_or(Self::Interrupted, Self::of_failure));
        }
        if let Some(refusal) = cause.downcast_ref::<Refusal>() {
            return Some(Self::of_refusal(refusal.code));
        }
        if let Some(problems) = cause.downcast_ref::<Problems>() {
            return problems.unreachable.then_some(Self::Unreachable);
        }
        if let Some(closed) = cause.downcast_ref::<ClosedByPeer>() {
            return Some(match closed.code {
                NOT_ALLOWED | CloseReason::REFUSED | CloseReason::OVERLOADED => Self::Refused,
                FAILED => Self::Failed,
                _ => Self::Interrupted,
            });
        }
        let code = cause.downcast_ref::<PairingError>();
        let registry = cause.downcast_ref::<ClientError>();
        let is_one = [
            (registry.is_some_and(ClientError::is_refusal), Self::Refused),
            (
                registry.is_some_and(ClientError::is_outage),
                Self::Unreachable,
            ),
            (code.is_some_and(PairingError::is_refusal), Self::Refused),
            (code.is_some_and(PairingError::is_outage), Self::Unreachable),
            (cause.is::<NeverCame>(), Self::Unreachable),
            (cause.is::<Expired>(), Self::Unreachable),
            (cause.is::<NoAnswer>(), Self::Unreachable),
            (cause.is::<SshFailed>(), Self::Unreachable),
            (cause.is::<CantFill>(), Self::Disk),
            (cause.is::<DiskFailed>(), Self::Disk),
            (cause.is::<Usage>(), Self::Usage),
            (cause.is::<Interrupted>(), Self::Interrupted),
            (cause.is::<NotNeeded>(), Self::Interrupted),
            (cause.is::<NobodyCame>(), Self::Interrupted),
            (cause.is::<QuotaUsed>(), Self::Interrupted),
            (cause.is::<TimedOut>(), Self::Timeout),
            (cause.is::<LeftOut>(), Self::Incomplete),
            (cause.is::<ConnectError>(), Self::Unreachable),
            (cause.is::<ConnectionLost>(), Self::Interrupted),
            (cause.is::<Cut>(), Self::Interrupted),
        ];
        let found = is_one.into_iter().find(|(is_one, _)| *is_one);
        found.map(|(_, class)| class)
    }

    fn of_refusal(code: Code) -> Self {
        match code {
            Code::NotAllowed => Self::Refused,
            Code::NetworkUnreachable | Code::HostUnreachable | Code::Refused => Self::Unreachable,
            Code::Done | Code::Failed | Code::Unsupported => Self::Failed,
        }
    }

    fn of_failure(code: FailureCode) -> Self {
        match code {
            FailureCode::UnsafeName | FailureCode::Conflict | FailureCode::Refused => Self::Refused,
            FailureCode::DiskFull
            | FailureCode::Permission
            | FailureCode::Read
            | FailureCode::Write => Self::Disk,
            FailureCode::Changed | FailureCode::Vanished => Self::Incomplete,
            FailureCode::Mismatch => Self::Verification,
            FailureCode::Cancelled => Self::Interrupted,
            // Other, Protocol, and what may come.
            _ => Self::Failed,
        }
    }
}

/// All that can travel has arrived, but there was more.
#[derive(Debug)]
pub(crate) struct LeftOut {
    /// What the sender has left out.
    pub(crate) skipped: Skipped,
    /// What the receiver has left out or changed.
    pub(crate) altered: Skipped,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { skipped, altered } = self;
        list(f, skipped, "left out")?;
        if skipped.count > 0 && altered.count > 0 {
            f.write_str("\n")?;
        }
        list(f, altered, "left out or changed at the receiver")
    }
}

/// The names with what happened to them, if there are any.
fn list(f: &mut fmt::Formatter<'_>, these: &Skipped, what: &str) -> fmt::Result {
    let Skipped { count, examples } = these;
    if *count == 0 {
        return Ok(());
    }
    let names = if *count == 1 { "name" } else { "names" };
    write!(f, "{count} {names} {what}")?;
    if examples.is_empty() {
        return f.write_str("; the other side lists them");
    }
    f.write_str(":")?;
    examples
        .iter()
        .try_for_each(|name| write!(f, "\n  {name}"))?;
    match count - examples.len() as u64 {
        0 => Ok(()),
        more => write!(f, "\n  … and {more} more"),
    }
}

impl std::error::Error for LeftOut {}

/// An error in the command line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(String);

/// An error that says how to correct the command line.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// The user stopped the program while a transfer was under way.
#[derive(Debug, thiserror::Error)]
#[error("stopped before the transfer was complete")]
pub(crate) struct Interrupted;

/// A program that is another one's connection was stopped, as ssh does at its own end.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub(crate) struct NotNeeded;

/// The user stopped the program before a transfer began.
#[derive(Debug, thiserror::Error)]
#[error("stopped before anybody came")]
pub(crate) struct NobodyCame;

/// Somebody has got the ticket for a code, and doesn't begin a transfer.
#[derive(Debug)]
pub(crate) struct NeverCame {
    pub(crate) limit: Duration,
    /// Whether a transfer broke off before.
    pub(crate) again: bool,
}

impl fmt::Display for NeverCame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = format_duration(self.limit);
        if self.again {
            return write!(
                f,
                "the transfer broke off, and the other side didn't try again within {limit}: run \
                 the same commands again, with a new code"
            );
        }
        write!(
            f,
            "the code was used, but no transfer began within {limit}: see what the other side \
             says, and make a new code"
        )
    }
}

impl std::error::Error for NeverCame {}

/// Nobody came in time.
#[derive(Debug)]
pub(crate) struct Expired {
    pub(crate) life: Duration,
}

impl fmt::Display for Expired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let life = format_duration(self.life);
        write!(
            f,
            "nobody came within {life} (`--expire`): start this again"
        )
    }
}

impl std::error::Error for Expired {}

/// ssh hasn't reached the host, or has lost it.
#[derive(Debug)]
pub(crate) struct SshFailed(pub(crate) String);

impl fmt::Display for SshFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SshFailed {}

/// The directory to receive into can't be created or written to.
#[derive(Debug)]
pub(crate) struct CantFill {
    /// `create` or `write into`.
    pub(crate) doing: &'static str,
    pub(crate) dir: PathBuf,
    pub(crate) error: io::Error,
}

impl fmt::Display for CantFill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { doing, dir, error } = self;
        write!(f, "can't {doing} {}: {error}", dir.display())
    }
}

impl std::error::Error for CantFill {}

/// `manyway doctor` found something wrong.
#[derive(Debug)]
pub(crate) struct Problems {
    pub(crate) count: usize,
    /// The listener of the ticket doesn't answer.
    pub(crate) unreachable: bool,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => f.write_str("one problem found"),
            count => write!(f, "{count} problems found"),
        }
    }
}

impl std::error::Error for Problems {}

/// Nothing of a transfer has moved for `--timeout`.
#[derive(Debug)]
pub(crate) struct TimedOut {
    pub(crate) limit: Duration,
    pub(crate) waiting_for: String,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = format_duration(self.limit);
        let what = &self.waiting_for;
        write!(
            f,
            "no progress for {limit} (`--timeout`); manyway waited for {what}"
        )
    }
}

impl std::error::Error for TimedOut {}

/// A request to stop: Ctrl-C, SIGTERM, SIGHUP, or the end of standard input for a receiver over
/// ssh.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Starts to listen. A second signal ends the program at once, and a hook that runs.
    pub(crate) fn listen(while_stdin: bool) -> Self {
        let (asked, stop) = watch::channel(false);
        // Here and not in the task, which may start late: from now on no signal kills the program.
        let mut signals = Signals::listen();
        tokio::spawn(async move {
            tokio::select! {
                () = signals.next() => {}
                () = stdin_ended(), if while_stdin => {}
            }
            asked.send(true).ok();
            signals.next().await;
            children::kill();
            std::process::exit(Class::Interrupted.status().into());
        });
        Self(stop)
    }

    /// Resolves after the first request, however long ago it was.
    pub(crate) async fn requested(&self) {
        // The sender lives as long as the program, so this doesn't fail.
        if self.0.clone().wait_for(|asked| *asked).await.is_err() {
            std::future::pending().await
        }
    }
}

/// Ctrl-C, SIGTERM and SIGHUP, unless the system refuses to report them.
struct Signals([Option<Signal>; 3]);

impl Signals {
    fn listen() -> Self {
        let listen = |kind| signal(kind).ok();
        // ssh ends its ProxyCommand by it, and a terminal what runs in it. `nohup` forbids that.
        let hangup = (!manyway_os::ignores_hangup()).then(SignalKind::hangup);
        Self([
            listen(SignalKind::interrupt()),
            listen(SignalKind::terminate()),
            hangup.and_then(listen),
        ])
    }

    async fn next(&mut self) {
        async fn one(signal: &mut Option<Signal>) {
            match signal {
                Some(signal) => {
                    signal.recv().await;
                }
                None => std::future::pending().await,
            }
        }
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            () = one(interrupt) => {}
            () = one(terminate) => {}
            () = one(hangup) => {}
        }
    }
}

/// Uses its own thread: a read that never returns must not keep the runtime from ending.
async fn stdin_ended() {
    let (ended, end) = oneshot::channel();
    thread::spawn(move || {
        io::copy(&mut io::stdin(), &mut io::sink()).ok();
        ended.send(()).ok();
    });
    end.await.ok();
}

/// Nobody answered, the connection was lost, nothing moved for one side's `--timeout`, or the other
/// side had no room. What it has ended otherwise stays ended.
pub(crate) fn is_the_networks(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<ConnectError>()
            || cause.is::<NoAnswer>()
            || cause.is::<PortHeld>()
            || cause.is::<Restarts>()
            || cause.is::<SshFailed>()
            || cause.is::<TimedOut>()
            || matches!(cause.downcast_ref(), Some(TransferError::Stream { .. }))
            || matches!(
                cause.downcast_ref(),
                Some(ConnectionLost(CloseReason::TimedOut { .. }))
            )
            || cause.downcast_ref().is_some_and(|closed: &ClosedByPeer| {
                [TIMED_OUT, CloseReason::OVERLOADED].contains(&closed.code)
            })
    })
}

/// The other side was stopped, and may be started again: a service's host that boots anew.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Restarts(#[source] ClosedByPeer);

/// For what lasts: that the other side was stopped is no more of an end than that the network
/// fails.
pub(crate) fn lasting(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<ClosedByPeer>() {
        Ok(closed) if closed.code == INTERRUPTED => Restarts(closed).into(),
        Ok(closed) => closed.into(),
        Err(error) => error,
    }
}

/// An error and its causes in one line, each cause once: some errors repeat their cause.
pub(crate) fn words(error: &anyhow::Error) -> String {
    let mut words = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    // What comes before it has said so.
    words.replace(": the connection is over: ", ": ")
}

/// Prints the error and chooses the exit status.
pub(crate) fn report(screen: &Screen, error: &anyhow::Error) -> ExitCode {
    // To whoever stopped it, that is no news.
    if !error.is::<NotNeeded>() {
        screen.error(&format!("manyway: {}", words(error)));
    }
    ExitCode::from(Class::of(error).status())
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn every_failure_has_its_class() {
        use manyway::files::Failure;
        let of = |code| TransferError::Here(Failure::new(code, "x"));
        for (code, class) in [
            (FailureCode::Other, Class::Failed),
            (FailureCode::Conflict, Class::Refused),
            (FailureCode::UnsafeName, Class::Refused),
            (FailureCode::DiskFull, Class::Disk),
            (FailureCode::Permission, Class::Disk),
            (FailureCode::Changed, Class::Incomplete),
            (FailureCode::Mismatch, Class::Verification),
            (FailureCode::Cancelled, Class::Interrupted),
        ] {
            assert_eq!(Class::of(&of(code).into()), class);
            let wrapped = anyhow::Error::new(of(code)).context("while it was said");
            assert_eq!(Class::of(&wrapped), class);
        }
        let lost = TransferError::Stream {
            doing: "while sending x".to_owned(),
            source: io::ErrorKind::TimedOut.into(),
        };
        let not_created = CantFill {
            doing: "create",
            dir: "x".into(),
            error: io::ErrorKind::PermissionDenied.into(),
        };
        let closed = |code| ClosedByPeer {
            doing: String::new(),
            reason: "x".to_owned(),
            code,
        };
        for (error, class) in [
            (lost.into(), Class::Interrupted),
            (usage("x"), Class::Usage),
            (Interrupted.into(), Class::Interrupted),
            (NobodyCame.into(), Class::Interrupted),
            (anyhow::anyhow!("x"), Class::Failed),
            (ConnectError::Closed.into(), Class::Unreachable),
            (SshFailed("x".to_owned()).into(), Class::Unreachable),
            (not_created.into(), Class::Disk),
            (closed(CloseReason::REFUSED).into(), Class::Refused),
            (closed(INTERRUPTED).into(), Class::Interrupted),
            (closed(CloseReason::OVERLOADED).into(), Class::Refused),
        ] {
            assert_eq!(Class::of(&error), class);
        }
        let out = TimedOut {
            limit: Duration::from_secs(30),
            waiting_for: "an answer".to_owned(),
        };
        let class = Class::of(&out.into());
        assert_eq!((class.name(), class.status()), ("timeout", 5));
    }

    #[test]
    fn what_was_left_out_is_listed() {
        let these = |count: u64, shown: usize| Skipped {
            count,
            examples: vec!["a: a symbolic link".to_owned(); shown],
        };
        let left_out = |skipped, altered| LeftOut { skipped, altered }.to_string();
        insta::assert_snapshot!(left_out(these(1, 1), these(0, 0)), @r"
        1 name left out:
          a: a symbolic link
        ");
        insta::assert_snapshot!(left_out(these(102, 1), these(2, 0)), @r"
        102 names left out:
          a: a symbolic link
          … and 101 more
        2 names left out or changed at the receiver; the other side lists them
        ");
        insta::assert_snapshot!(left_out(these(0, 0), these(1, 1)), @r"
        1 name left out or changed at the receiver:
          a: a symbolic link
        ");
    }

    #[test]
    fn a_cause_appears_once() {
        let cause = || io::Error::other("disk full");
        let repeats = anyhow::Error::new(cause()).context("can't write a: disk full");
        assert_eq!(words(&repeats), "can't write a: disk full");
        let plain = Err::<(), _>(cause()).context("can't write a").unwrap_err();
        assert_eq!(words(&plain), "can't write a: disk full");
        let lost = TransferError::Stream {
            doing: "while sending a".to_owned(),
            source: ConnectionLost(CloseReason::Local).into(),
        };
        assert_eq!(
            words(&lost.into()),
            "the connection was lost while sending a: closed on this side"
        );
    }
}

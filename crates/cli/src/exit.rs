//! How the program ends: 0 done, 1 failed, 2 wrong usage.

use std::process::ExitCode;
use std::{fmt, io, thread};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::screen::Screen;

/// The command line asked for something that can't be: exit status 2, as with clap's own errors.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An error that says how the command line should have been.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// The user asked us to stop while something was under way.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped before the transfer was complete")
    }
}

impl std::error::Error for Interrupted {}

/// Whether somebody asked us to stop: Ctrl-C, SIGTERM, or the end of standard input where that
/// matters.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Listens from now on; a second Ctrl-C ends the program at once.
    pub(crate) fn listen(while_stdin: bool) -> Self {
        let (asked, stop) = watch::channel(false);
        // Here and not in the task, which may be long in coming: from now on no signal ends the
        // program by itself.
        let mut signals = Signals::listen();
        tokio::spawn(async move {
            tokio::select! {
                () = signals.next() => {}
                () = stdin_ended(), if while_stdin => {}
            }
            asked.send(true).ok();
            signals.next().await;
            std::process::exit(1);
        });
        Self(stop)
    }

    /// Resolves once somebody has asked, however long ago.
    pub(crate) async fn requested(&self) {
        // The sender lives as long as the program; were it gone, nobody could ask any more.
        if self.0.clone().wait_for(|asked| *asked).await.is_err() {
            std::future::pending().await
        }
    }
}

/// Ctrl-C and SIGTERM, as far as they can be listened to.
struct Signals([Option<Signal>; 2]);

impl Signals {
    fn listen() -> Self {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        Self(kinds.map(|kind| signal(kind).ok()))
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
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            () = one(interrupt) => {}
            () = one(terminate) => {}
        }
    }
}

/// A thread of its own: a read that never returns must not keep the runtime from ending.
async fn stdin_ended() {
    let (ended, end) = oneshot::channel();
    thread::spawn(move || {
        io::copy(&mut io::stdin(), &mut io::sink()).ok();
        ended.send(()).ok();
    });
    end.await.ok();
}

/// An error and its causes in one line, each said once: some errors repeat their cause.
pub(crate) fn words(error: &anyhow::Error) -> String {
    let mut words = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    words
}

/// Says what went wrong and chooses the exit status.
pub(crate) fn report(screen: &Screen, error: &anyhow::Error) -> ExitCode {
    screen.error(&format!("manyway: {}", words(error)));
    match error.downcast_ref::<Usage>() {
        Some(_) => ExitCode::from(2),
        None => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let cause = || io::Error::other("disk full");
        let repeats = anyhow::Error::new(cause()).context("can't write a: disk full");
        assert_eq!(words(&repeats), "can't write a: disk full");
        let plain = Err::<(), _>(cause()).context("can't write a").unwrap_err();
        assert_eq!(words(&plain), "can't write a: disk full");
    }
}

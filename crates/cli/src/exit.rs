//! How the program ends: exit status 0 for success, 1 for failure, 2 for wrong usage; signals.

use std::process::ExitCode;
use std::{fmt, io, thread};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::screen::Screen;

/// An error in the command line: exit status 2, as with clap's own errors.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An error that says how to correct the command line.
pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}

/// The user stopped the program while a transfer was under way.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped before the transfer was complete")
    }
}

impl std::error::Error for Interrupted {}

/// A request to stop: Ctrl-C, SIGTERM, or the end of standard input for a receiver over ssh.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Starts to listen. A second signal ends the program at once.
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
            std::process::exit(1);
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

/// Ctrl-C and SIGTERM, unless the system refuses to report them.
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

/// Uses its own thread: a read that never returns must not keep the runtime from ending.
async fn stdin_ended() {
    let (ended, end) = oneshot::channel();
    thread::spawn(move || {
        io::copy(&mut io::stdin(), &mut io::sink()).ok();
        ended.send(()).ok();
    });
    end.await.ok();
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
    words
}

/// Prints the error and chooses the exit status.
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
    fn a_cause_appears_once() {
        let cause = || io::Error::other("disk full");
        let repeats = anyhow::Error::new(cause()).context("can't write a: disk full");
        assert_eq!(words(&repeats), "can't write a: disk full");
        let plain = Err::<(), _>(cause()).context("can't write a").unwrap_err();
        assert_eq!(words(&plain), "can't write a: disk full");
    }
}

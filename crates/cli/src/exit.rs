//! How the program ends: 0 done, 1 failed, 2 wrong usage.

use std::fmt;
use std::process::ExitCode;

use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

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

/// Whether somebody asked us to stop: Ctrl-C, SIGTERM, or the end of standard input where that matters.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Listens from now on; a second Ctrl-C ends the program at once.
    pub(crate) fn listen(while_stdin: bool) -> Self {
        let (asked, stop) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                () = signalled() => {}
                () = stdin_ended(), if while_stdin => {}
            }
            asked.send(true).ok();
            signalled().await;
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

async fn signalled() {
    let mut terminate = signal(SignalKind::terminate()).ok();
    let terminated = async {
        match &mut terminate {
            Some(signal) => signal.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
    }
}

async fn stdin_ended() {
    let mut stdin = tokio::io::stdin();
    let mut ignored = [0; 256];
    while stdin.read(&mut ignored).await.is_ok_and(|n| n > 0) {}
}

/// Says what went wrong and chooses the exit status.
pub(crate) fn report(screen: &Screen, error: &anyhow::Error) -> ExitCode {
    screen.error(&format!("manyway: {error:#}"));
    match error.downcast_ref::<Usage>() {
        Some(_) => ExitCode::from(2),
        None => ExitCode::FAILURE,
    }
}

//! News of paths, while a transfer runs.

use std::convert::Infallible;

use manyway::{Connection, Event, PathDownReason};
use tokio::sync::broadcast::error::RecvError;
use tracing::{debug, info};

use crate::screen::Screen;

/// Tells what happens to paths for as long as it is polled. A path that doesn't work is worth a line
/// when the user named its interface; when all interfaces are tried, that some don't work is normal.
pub(crate) async fn follow(screen: &Screen, connection: &Connection, named: bool) -> Infallible {
    let mut events = connection.events();
    loop {
        match events.recv().await {
            Ok(event) => tell(screen, &event, named),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

fn tell(screen: &Screen, event: &Event, named: bool) {
    match event {
        Event::PathUp { name, remote, .. } => info!("path {name} → {remote} is up"),
        Event::PathMoved {
            name,
            remote,
            previous,
            ..
        } => info!(
            "path {name} → {previous} leads to {remote} now: the other side's address changed"
        ),
        Event::PathDown {
            name,
            remote,
            reason,
            ..
        } => {
            screen.say(&format!(
                "path {name} → {remote} is down: {}; the others carry on",
                why(*reason)
            ));
        }
        Event::PathProblem(problem) if named => screen.say(&problem.to_string()),
        Event::PathProblem(problem) => info!("{problem}"),
        Event::LocalAdded { name, addr } => info!("{name} has come up with {addr}"),
        Event::LocalRemoved { name, addr } => screen.say(&format!("{name} ({addr}) has gone away")),
        other => debug!("{other:?}"),
    }
}

fn why(reason: PathDownReason) -> &'static str {
    match reason {
        PathDownReason::Stalled => "no answers (it is still probed)",
        PathDownReason::TimedOut => "no answers",
        PathDownReason::LocalGone => "its interface has gone",
        PathDownReason::Abandoned => "the other side gave it up",
        PathDownReason::NoRoute => "no route any more",
        PathDownReason::RelayGone => "the relay doesn't let us through any more",
        PathDownReason::Dropped => "it was of little use",
        PathDownReason::CarrierClosed => "its TCP connection has ended",
    }
}

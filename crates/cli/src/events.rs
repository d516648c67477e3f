//! News of paths, while a transfer runs.

use std::convert::Infallible;
use std::net::SocketAddr;

use manyway::{Connection, Event, PathDownReason, PathEvent, PickReason, Rate};
use tokio::sync::broadcast::error::RecvError;
use tracing::{debug, info};

use crate::screen::Screen;

/// Tells what happens to paths for as long as it is polled. A path that doesn't work is worth a
/// line when the user named its interface; when all interfaces are tried, that some don't work is
/// normal.
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
        Event::Path(PathEvent::Up { name, remote, .. }) => info!("path {name} → {remote} is up"),
        Event::Path(PathEvent::Moved {
            name,
            remote,
            previous,
            ..
        }) => info!(
            "path {name} → {previous} leads to {remote} now: the other side's address changed"
        ),
        Event::Path(PathEvent::Down {
            name,
            remote,
            reason: PathDownReason::Reselected,
            ..
        }) => info!("path {name} → {remote} is closed: other relays were picked"),
        Event::Path(PathEvent::RelaysPicked { relays, reason }) => {
            info!("{}", picked(relays, *reason))
        }
        Event::Path(PathEvent::FewRelays {
            alive,
            known,
            wanted,
        }) => screen.say(&format!(
            "{alive} of {known} relays work, fewer than --pick {wanted}: going on with these"
        )),
        Event::Path(PathEvent::Down {
            name,
            remote,
            reason,
            ..
        }) => {
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
        PathDownReason::Reselected => "other relays were picked",
    }
}

/// Which relays are used from now on, and why.
fn picked(relays: &[SocketAddr], reason: PickReason) -> String {
    let names: Vec<String> = relays.iter().map(SocketAddr::to_string).collect();
    let names = names.join(", ");
    match reason {
        PickReason::First => format!("relays picked: {names}"),
        PickReason::Vacancy => format!("relays picked, since one was lost or has come: {names}"),
        PickReason::Unsatisfied { rate, demand } => {
            let [rate, demand] = [rate, demand].map(|bits| Rate::from_bits_per_sec(bits as f64));
            format!("{rate:.1} of {demand:.1}: relays picked anew: {names}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_picked_is_told_with_the_reason() {
        let relays = ["192.0.2.1:443", "192.0.2.2:443"].map(|text| text.parse().unwrap());
        let unsatisfied = PickReason::Unsatisfied {
            rate: 4_100_000,
            demand: 10_000_000,
        };
        insta::assert_snapshot!(picked(&relays, PickReason::First), @"relays picked: 192.0.2.1:443, 192.0.2.2:443");
        insta::assert_snapshot!(picked(&relays[..1], PickReason::Vacancy), @"relays picked, since one was lost or has come: 192.0.2.1:443");
        insta::assert_snapshot!(picked(&relays[1..], unsatisfied), @"4.1 Mbps of 10.0 Mbps: relays picked anew: 192.0.2.2:443");
    }
}

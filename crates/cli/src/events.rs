//! Reports path events to the user and to programs while a transfer runs.

use std::convert::Infallible;
use std::net::SocketAddr;

use manyway::{Connection, Event, PathDownReason, PathEvent, PickReason, Rate};
use tracing::{debug, info};

use crate::progress::Report;
use crate::reports::Reporter;
use crate::screen::Screen;

/// Reports path events for as long as it is polled. A path that fails is worth a line if the user
/// named its interface. With all interfaces in use, some failures are normal.
pub(crate) async fn follow(
    screen: &Screen,
    reporter: &Reporter,
    connection: &Connection,
    named: bool,
) -> Infallible {
    let mut events = connection.events();
    loop {
        match events.recv().await {
            Some(event) => {
                reporter.report(|transfer| Report::of_path(transfer, &event));
                tell(screen, &event, named);
            }
            None => std::future::pending().await,
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
        }) => info!("path {name} → {previous} now leads to {remote}: the peer's address changed"),
        Event::Path(PathEvent::Down {
            name,
            remote,
            reason: PathDownReason::Reselected,
            ..
        }) => info!("path {name} → {remote} is closed: manyway picked other relays"),
        Event::Path(PathEvent::RelaysPicked { relays, reason }) => {
            info!("{}", picked(relays, *reason))
        }
        Event::Path(PathEvent::FewRelays {
            alive,
            known,
            wanted,
        }) => screen.say(&format!(
            "only {alive} of {known} relays work, fewer than `--pick {wanted}`: manyway continues \
             with these"
        )),
        Event::Path(PathEvent::Down {
            name,
            remote,
            reason,
            ..
        }) => {
            screen.say(&format!(
                "path {name} → {remote} is down: {}; the other paths continue",
                why(*reason)
            ));
        }
        Event::PathProblem(problem) if named => screen.say(&problem.to_string()),
        Event::PathProblem(problem) => info!("{problem}"),
        Event::LocalAdded { name, addr } => info!("{name} is up with {addr}"),
        Event::LocalRemoved { name, addr } => screen.say(&format!("{name} ({addr}) is gone")),
        other => debug!("{other:?}"),
    }
}

fn why(reason: PathDownReason) -> &'static str {
    match reason {
        PathDownReason::Stalled => "no answer (manyway still probes it)",
        PathDownReason::TimedOut => "no answer",
        PathDownReason::LocalGone => "its interface is gone",
        PathDownReason::Abandoned => "the peer abandoned it",
        PathDownReason::NoRoute => "there is no route any more",
        PathDownReason::RelayGone => "the relay no longer forwards for us",
        PathDownReason::Dropped => "it contributed little",
        PathDownReason::CarrierClosed => "its TCP connection ended",
        PathDownReason::Reselected => "manyway picked other relays",
    }
}

/// Which relays are in use from now on, and why.
fn picked(relays: &[SocketAddr], reason: PickReason) -> String {
    let names: Vec<String> = relays.iter().map(SocketAddr::to_string).collect();
    let names = names.join(", ");
    match reason {
        PickReason::First => format!("relays picked: {names}"),
        PickReason::Vacancy => format!("relays picked after one was lost or found: {names}"),
        PickReason::Unsatisfied { rate, demand } => {
            let [rate, demand] = [rate, demand].map(|bits| Rate::from_bits_per_sec(bits as f64));
            format!("only {rate:.1} of {demand:.1}; relays picked: {names}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_reported_with_its_reason() {
        let relays = ["192.0.2.1:443", "192.0.2.2:443"].map(|text| text.parse().unwrap());
        let unsatisfied = PickReason::Unsatisfied {
            rate: 4_100_000,
            demand: 10_000_000,
        };
        insta::assert_snapshot!(
            picked(&relays, PickReason::First),
            @"relays picked: 192.0.2.1:443, 192.0.2.2:443"
        );
        insta::assert_snapshot!(
            picked(&relays[..1], PickReason::Vacancy),
            @"relays picked after one was lost or found: 192.0.2.1:443"
        );
        insta::assert_snapshot!(
            picked(&relays[1..], unsatisfied),
            @"only 4.1 Mbps of 10.0 Mbps; relays picked: 192.0.2.2:443"
        );
    }
}

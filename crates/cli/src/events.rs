//! Reports path events to the user and to programs while a transfer runs.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use manyway::{Connection, Event, PathDownReason, PathEvent, PathId, PathState, PickReason, Rate};
use tokio::time::sleep;
use tracing::{debug, info};

use crate::progress::Report;
use crate::reports::Reporter;
use crate::screen::Screen;

/// How long to wait for something to come in over other paths.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 10;

/// Paths that have stopped working and haven't come back, by interface and remote address.
type Down = BTreeSet<(String, SocketAddr)>;

/// Reports path events for as long as it is polled. An interface that carries nothing is worth a
/// line, unless it is a tunnel that the user didn't name: many of these lead elsewhere.
pub(crate) async fn follow(
    screen: &Screen,
    reporter: &Reporter,
    connection: &Connection,
    named: bool,
) -> Infallible {
    let mut events = connection.events();
    let mut down = Down::new();
    loop {
        match events.recv().await {
            Some(event) => {
                reporter.report(|transfer| Report::of_path(transfer, &event));
                match &event {
                    Event::Path(event) => {
                        let others = match event {
                            PathEvent::Down { path, .. } => others(connection, *path).await,
                            _ => Others::Unknown,
                        };
                        match of_path(&mut down, event, others) {
                            Some(text) => screen.say(&text),
                            None => tell_more(screen, event),
                        }
                    }
                    event => tell(screen, event, named),
                }
            }
            None => std::future::pending().await,
        }
    }
}

/// How the other paths are when one has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// Something comes in over them.
    Continue,
    /// There may be nothing to come.
    Unknown,
    /// There is none in use.
    None,
}

/// Looks whether something comes in over other paths than this one.
async fn others(connection: &Connection, failed: PathId) -> Others {
    let received = || {
        let paths = connection.stats().paths;
        let others = paths.into_iter();
        let others = others.filter(|p| p.id != failed && p.state == PathState::Active);
        let each: Vec<u64> = others.map(|path| path.bytes_received).collect();
        (!each.is_empty()).then(|| each.iter().sum::<u64>())
    };
    let Some(before) = received() else {
        return Others::None;
    };
    for _ in 0..LOOKS {
        sleep(LOOK).await;
        match received() {
            Some(now) if now > before => return Others::Continue,
            Some(_) => {}
            None => return Others::None,
        }
    }
    Others::Unknown
}

/// What the user reads of a path that fails or comes back.
fn of_path(down: &mut Down, event: &PathEvent, others: Others) -> Option<String> {
    match event {
        PathEvent::Up { name, remote, .. } => {
            let came_back = down.remove(&(name.clone(), *remote));
            came_back.then(|| format!("path {name} → {remote} is up again"))
        }
        PathEvent::Down {
            name,
            remote,
            reason,
            ..
        } if *reason != PathDownReason::Reselected => {
            // One that stalled and is given up was told before.
            let news = down.insert((name.clone(), *remote));
            let others = match others {
                Others::Continue => "; the other paths continue",
                Others::Unknown => "",
                Others::None => "; no other path works",
            };
            let why = why(*reason);
            news.then(|| format!("path {name} → {remote} is down: {why}{others}"))
        }
        _ => None,
    }
}

fn tell_more(screen: &Screen, event: &PathEvent) {
    match event {
        PathEvent::Up { name, remote, .. } => info!("path {name} → {remote} is up"),
        PathEvent::Moved {
            name,
            remote,
            previous,
            ..
        } => info!("path {name} → {previous} now leads to {remote}: the peer's address changed"),
        PathEvent::Down {
            name,
            remote,
            reason,
            ..
        } => info!("path {name} → {remote} is closed: {}", why(*reason)),
        PathEvent::RelaysPicked { relays, reason } => info!("{}", picked(relays, *reason)),
        PathEvent::FewRelays {
            alive,
            known,
            wanted,
        } => screen.say(&format!(
            "only {alive} of {known} relays work, fewer than `--pick {wanted}`: manyway continues \
             with these"
        )),
        other => debug!("{other:?}"),
    }
}

fn tell(screen: &Screen, event: &Event, named: bool) {
    match event {
        Event::PathProblem(problem) if named || !problem.tunnel => {
            screen.say(&problem.to_string());
        }
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
    fn a_path_that_fails_is_told_once_and_when_it_is_back() {
        let (path, name) = (PathId(1), "wlan0".to_owned());
        let remote = "203.0.113.5:4433".parse().unwrap();
        let up = PathEvent::Up {
            path,
            name: name.clone(),
            remote,
        };
        let falls = |reason| PathEvent::Down {
            path,
            name: name.clone(),
            remote,
            reason,
        };
        let mut down = Down::new();
        let mut said = Vec::new();
        for (event, others) in [
            (&up, Others::Continue),
            (&falls(PathDownReason::Stalled), Others::Continue),
            (&falls(PathDownReason::TimedOut), Others::Continue),
            (&up, Others::Continue),
            (&falls(PathDownReason::LocalGone), Others::None),
            (&up, Others::Continue),
            (&falls(PathDownReason::CarrierClosed), Others::Unknown),
            (&falls(PathDownReason::Reselected), Others::Continue),
        ] {
            said.extend(of_path(&mut down, event, others));
        }
        insta::assert_snapshot!("falls_and_returns", said.join("\n"));
    }

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

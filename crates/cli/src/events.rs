//! Reports path events to the user and to programs while a transfer runs.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::SocketAddr;

use manyway::{
    Connection, ConnectionStats, Endpoint, Event, PathDownReason, PathEvent, PathId, PathProblem,
    PathStats, PickReason, ProblemKind, Rate,
};
use tokio::time::Instant;
use tracing::{debug, info};

use crate::diagnosis::Diagnosis;
use crate::meter::SETTLE;
use crate::progress::Report;
use crate::reports::Reporter;
use crate::screen::Screen;

/// Most failed paths that are remembered: a peer may change its addresses as often as it likes.
const MOST_TOLD: usize = 1000;

/// Tells the user and programs what becomes of a connection's paths.
#[derive(Debug)]
pub(crate) struct PathNews<'a> {
    screen: &'a Screen,
    reporter: &'a Reporter,
    connection: &'a Connection,
    /// Whether the user has named the interfaces.
    named: bool,
    /// Interfaces of which the user knows why they carry nothing.
    explained: BTreeSet<String>,
}

impl<'a> PathNews<'a> {
    pub(crate) fn new(
        screen: &'a Screen,
        reporter: &'a Reporter,
        connection: &'a Connection,
        named: bool,
    ) -> Self {
        Self {
            screen,
            reporter,
            connection,
            named,
            explained: BTreeSet::new(),
        }
    }

    /// Reports path events for as long as it is polled.
    pub(crate) async fn follow(&mut self) -> Infallible {
        let connection = self.connection;
        let mut events = connection.events();
        let mut lost = Lost::default();
        let mut stalls = Stalls::default();
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                event = stalls.settled() => {
                    self.report(&event);
                    continue;
                }
                () = lost.settle() => {
                    let words = lost.settled(&working(connection));
                    words.iter().for_each(|words| self.screen.say(words));
                    continue;
                }
            };
            let Some(event) = event else {
                return std::future::pending().await;
            };
            if stalls.take(&event) {
                self.report(&event);
            }
            match lost.take(&event, || working(connection)) {
                Some(words) if words.is_empty() => {}
                Some(words) => self.screen.say(&words),
                None => match &event {
                    Event::PathProblem(problem) => self.explain(problem),
                    event => tell(self.screen, event),
                },
            }
        }
    }

    /// Tells programs.
    fn report(&self, event: &Event) {
        self.reporter
            .report(|transfer| Report::of_path(transfer, event));
    }

    /// An interface that carries nothing is worth a line, unless it is a tunnel that the user
    /// hasn't named: many of these lead elsewhere.
    fn explain(&mut self, problem: &PathProblem) {
        self.explained.insert(problem.name.clone());
        let paths = self.connection.stats().paths;
        let relay = |path: &PathStats| path.relay && path.remote == problem.remote;
        let words = explanation(problem, paths.iter().any(relay));
        match self.named || !problem.tunnel {
            true => self.screen.say(&words),
            false => info!("{words}"),
        }
    }

    /// At the end of a transfer, perhaps too soon for events to tell: says of interfaces without
    /// any answer what this host's tables have against them.
    pub(crate) async fn explain_unused(&mut self, endpoint: &Endpoint, stats: &ConnectionStats) {
        let direct = || stats.paths.iter().filter(|path| !path.relay);
        let answered = direct().filter(|path| path.bytes_received > 0);
        // With IPv4 at work, an interface needs no IPv6.
        let used: BTreeSet<&str> = answered.map(|path| path.name.as_str()).collect();
        let mute = direct().filter(|path| !used.contains(path.name.as_str()));
        let mute: Vec<_> = mute.map(|path| (path.name.as_str(), path.remote)).collect();
        if mute.is_empty() {
            return;
        }
        let remotes: BTreeSet<SocketAddr> = mute.iter().map(|(_, remote)| *remote).collect();
        let remotes: Vec<SocketAddr> = remotes.into_iter().collect();
        let Ok(pairs) = endpoint.foresee(&remotes).await else {
            return;
        };
        for problem in pairs.into_iter().filter_map(|(_, problem)| problem) {
            let is_mute = mute.contains(&(problem.name.as_str(), problem.remote));
            if is_mute && !self.explained.contains(&problem.name) {
                self.explain(&problem);
            }
        }
    }
}

/// Why a path of a connection doesn't work. The other side has been there, so whoever reads this
/// needn't start a listener: it may be the listener.
fn explanation(problem: &PathProblem, relay: bool) -> String {
    let (name, remote) = (&problem.name, problem.remote);
    match problem.kind {
        ProblemKind::Refused if relay => {
            format!("the relay isn't at {remote} any more: check that it runs")
        }
        ProblemKind::Refused => {
            format!("{name} is unused: the other side isn't at {remote} any more")
        }
        _ => problem.to_string(),
    }
}

/// The paths in use by interface and address, and what has come on them.
type Working = BTreeMap<PathId, ((String, SocketAddr), u64)>;

fn working(connection: &Connection) -> Working {
    let paths = connection.stats().paths.into_iter();
    paths
        .filter(|path| path.state.works())
        .map(|path| (path.id, ((path.name, path.remote), path.bytes_received)))
        .collect()
}

/// Paths that have stalled for a moment: programs are told so if it lasts. Of a path that loses
/// much, they would hear nothing else.
#[derive(Debug, Default)]
struct Stalls(Vec<(Instant, PathId, Event)>);

impl Stalls {
    /// Takes an event. Whether to tell it at once.
    fn take(&mut self, event: &Event) -> bool {
        let Event::Path(PathEvent::Down { path, .. } | PathEvent::Up { path, .. }) = event else {
            return true;
        };
        let before = self.0.len();
        self.0.retain(|(_, stalled, _)| stalled != path);
        let untold = self.0.len() < before;
        match event {
            Event::Path(PathEvent::Down {
                reason: PathDownReason::Stalled,
                ..
            }) => {
                self.0.push((Instant::now(), *path, event.clone()));
                false
            }
            Event::Path(PathEvent::Up { .. }) => !untold,
            _ => true,
        }
    }

    /// Waits for the next stall that lasts.
    async fn settled(&mut self) -> Event {
        let Some((since, ..)) = self.0.first() else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(*since + SETTLE).await;
        self.0.remove(0).2
    }
}

/// What is down: the user is told so if it lasts, and then also when it works again.
#[derive(Debug, Default)]
struct Lost {
    down: Vec<Down>,
    /// Those that the user was told of, by interface and address: a path that is opened anew has
    /// another id.
    told: BTreeSet<(String, SocketAddr)>,
    interfaces: BTreeSet<String>,
}

/// A path that has been down for a moment.
#[derive(Debug)]
struct Down {
    since: Instant,
    path: PathId,
    of: (String, SocketAddr),
    reason: PathDownReason,
    /// What had come on the others by then.
    others: Working,
}

impl Lost {
    /// Takes an event of something that fails or recovers. Returns what to say, which may be
    /// nothing; `None` if this is not its event.
    fn take(&mut self, event: &Event, working: impl FnOnce() -> Working) -> Option<String> {
        match event {
            Event::Path(PathEvent::Up { name, remote, .. }) => {
                let of = (name.clone(), *remote);
                self.down.retain(|down| down.of != of);
                let told = self.told.remove(&of);
                told.then(|| format!("path {name} → {remote} is up again"))
            }
            // The new address has answered.
            Event::Path(PathEvent::Moved {
                name,
                remote,
                previous,
                ..
            }) => {
                let of = (name.clone(), *previous);
                self.down.retain(|down| down.of != of);
                let told = self.told.remove(&of);
                told.then(|| format!("path {name} → {previous} is up again, now at {remote}"))
            }
            Event::Path(PathEvent::Down {
                path,
                name,
                remote,
                reason,
            }) if *reason != PathDownReason::Reselected => {
                let of = (name.clone(), *remote);
                // One that has stalled and is then given up is down once.
                if !self.told.contains(&of) && self.down.iter().all(|down| down.of != of) {
                    self.down.push(Down {
                        since: Instant::now(),
                        path: *path,
                        of,
                        reason: *reason,
                        others: working(),
                    });
                }
                Some(String::new())
            }
            Event::LocalRemoved { name, addr } => {
                self.interfaces.insert(name.clone());
                Some(format!("{name} ({addr}) is gone"))
            }
            Event::LocalAdded { name, addr } => {
                let told = self.interfaces.remove(name);
                told.then(|| format!("{name} is up again with {addr}"))
            }
            _ => None,
        }
    }

    /// Waits until a path has been down for long enough.
    async fn settle(&self) {
        match self.down.first() {
            Some(down) => tokio::time::sleep_until(down.since + SETTLE).await,
            None => std::future::pending().await,
        }
    }

    /// What to say of paths that have been down for long enough.
    fn settled(&mut self, working: &Working) -> Vec<String> {
        let now = Instant::now();
        let is_over = |down: &Down| down.since + SETTLE <= now;
        let over = self.down.iter().take_while(|down| is_over(down)).count();
        let mut over: Vec<Down> = self.down.drain(..over).collect();
        // Another carrier goes on there.
        over.retain(|down| working.values().all(|(of, _)| *of != down.of));
        for down in &mut over {
            if self.interfaces.contains(&down.of.0) {
                down.reason = PathDownReason::LocalGone;
            }
        }
        let lines = over.iter().map(|down| down.words(working)).collect();
        let room = MOST_TOLD.saturating_sub(self.told.len());
        self.told
            .extend(over.into_iter().map(|down| down.of).take(room));
        lines
    }
}

impl Down {
    fn words(&self, working: &Working) -> String {
        let (name, remote) = &self.of;
        let why = why(self.reason);
        let others = || working.iter().filter(|(path, _)| **path != self.path);
        let heard = others().filter(|(path, now)| self.others.get(path) != Some(now));
        let others = match (others().count(), heard.count()) {
            (0, _) => "; no other path works now",
            // They may work, or not.
            (_, 0) => "",
            (_, 1) => "; another path continues",
            (_, _) => "; the other paths continue",
        };
        format!("path {name} → {remote} is down: {why}{others}")
    }
}

fn tell(screen: &Screen, event: &Event) {
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
        Event::Path(PathEvent::RelayRefused { relay, reason }) => {
            screen.say(&Diagnosis::RelayRefuses(*relay, reason.clone()).to_string());
        }
        Event::Path(PathEvent::FewRelays {
            alive,
            known,
            wanted,
        }) => screen.say(&format!(
            "only {alive} of {known} relays work, fewer than `--pick {wanted}`: manyway continues \
             with these"
        )),
        Event::LocalAdded { name, addr } => info!("{name} is up with {addr}"),
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

    const PATH: PathId = PathId(1);

    fn up() -> Event {
        Event::Path(PathEvent::Up {
            path: PATH,
            name: "eth0".to_owned(),
            remote: "192.0.2.1:443".parse().unwrap(),
        })
    }

    fn down(reason: PathDownReason) -> Event {
        Event::Path(PathEvent::Down {
            path: PATH,
            name: "eth0".to_owned(),
            remote: "192.0.2.1:443".parse().unwrap(),
            reason,
        })
    }

    fn paths<const N: usize>(paths: [(u32, u64); N]) -> Working {
        let paths = paths.into_iter();
        let with = |(id, bytes)| {
            let remote = SocketAddr::from(([192, 0, 2, id as u8], 443));
            (PathId(id), (("eth0".to_owned(), remote), bytes))
        };
        paths.map(with).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_path_is_told_as_it_is() {
        let mut lost = Lost::default();
        let before = || paths([(2, 10), (3, 10)]);
        assert_eq!(lost.take(&up(), before), None);
        for (after, others) in [
            (paths([]), "; no other path works now"),
            (paths([(2, 10), (3, 10)]), ""),
            (paths([(2, 10), (3, 11)]), "; another path continues"),
            (paths([(2, 11), (4, 1)]), "; the other paths continue"),
        ] {
            let began = Instant::now();
            let taken = lost.take(&down(PathDownReason::NoRoute), before);
            assert_eq!(taken, Some(String::new()));
            assert_eq!(lost.settled(&after), [""; 0]);
            lost.settle().await;
            assert_eq!(began.elapsed(), SETTLE);
            let words = "path eth0 → 192.0.2.1:443 is down: there is no route any more";
            assert_eq!(lost.settled(&after), [format!("{words}{others}")]);
            let again = lost.take(&up(), before).unwrap();
            assert_eq!(again, "path eth0 → 192.0.2.1:443 is up again");
            assert_eq!(lost.take(&up(), before), None);
        }
        let picked = lost.take(&down(PathDownReason::Reselected), before);
        assert_eq!(picked, None);
    }

    #[tokio::test(start_paused = true)]
    async fn programs_hear_of_stalls_that_last() {
        let mut stalls = Stalls::default();
        assert!(stalls.take(&up()), "it is there");
        // For a moment.
        assert!(!stalls.take(&down(PathDownReason::Stalled)));
        assert!(!stalls.take(&up()));
        let silent = tokio::time::timeout(2 * SETTLE, stalls.settled()).await;
        assert!(silent.is_err());
        // For longer.
        assert!(!stalls.take(&down(PathDownReason::Stalled)));
        let began = Instant::now();
        assert_eq!(stalls.settled().await, down(PathDownReason::Stalled));
        assert_eq!(began.elapsed(), SETTLE);
        assert!(stalls.take(&up()));
        // One that is given up is told once.
        assert!(!stalls.take(&down(PathDownReason::Stalled)));
        assert!(stalls.take(&down(PathDownReason::TimedOut)));
        let silent = tokio::time::timeout(2 * SETTLE, stalls.settled()).await;
        assert!(silent.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_path_that_stalls_and_is_given_up_is_told_once() {
        let mut lost = Lost::default();
        lost.take(&down(PathDownReason::Stalled), Working::new);
        lost.take(&down(PathDownReason::TimedOut), Working::new);
        lost.settle().await;
        assert_eq!(lost.settled(&Working::new()).len(), 1);
        lost.take(&down(PathDownReason::TimedOut), Working::new);
        tokio::time::sleep(2 * SETTLE).await;
        assert_eq!(lost.settled(&Working::new()), [""; 0]);
        assert!(lost.take(&up(), Working::new).unwrap().contains("up again"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_path_that_is_back_at_once_is_not_told() {
        let mut lost = Lost::default();
        lost.take(&down(PathDownReason::Stalled), Working::new);
        assert_eq!(lost.take(&up(), Working::new), None);
        tokio::time::sleep(2 * SETTLE).await;
        assert_eq!(lost.settled(&Working::new()), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_path_that_is_back_from_another_address_is_up_again() {
        let moved = Event::Path(PathEvent::Moved {
            path: PathId(0),
            name: "eth0".to_owned(),
            remote: "192.0.2.1:9".parse().unwrap(),
            previous: "192.0.2.1:443".parse().unwrap(),
        });
        let mut lost = Lost::default();
        lost.take(&down(PathDownReason::Stalled), Working::new);
        assert_eq!(lost.take(&moved, Working::new), None);
        assert_eq!(lost.settled(&Working::new()), [""; 0]);
        lost.take(&down(PathDownReason::Stalled), Working::new);
        lost.settle().await;
        lost.settled(&Working::new());
        let again = lost.take(&moved, Working::new).unwrap();
        assert_eq!(
            again,
            "path eth0 → 192.0.2.1:443 is up again, now at 192.0.2.1:9"
        );
    }

    #[test]
    fn a_listener_is_not_told_to_start_the_listener() {
        let problem = |kind| PathProblem {
            name: "eth0".to_owned(),
            local: "192.0.2.7".parse().unwrap(),
            remote: "192.0.2.1:443".parse().unwrap(),
            kind,
            tunnel: false,
        };
        let refused = explanation(&problem(ProblemKind::Refused), false);
        let gone = "eth0 is unused: the other side isn't at 192.0.2.1:443 any more";
        assert_eq!(refused, gone);
        let refused = explanation(&problem(ProblemKind::Refused), true);
        let gone = "the relay isn't at 192.0.2.1:443 any more: check that it runs";
        assert_eq!(refused, gone);
        let other = problem(ProblemKind::NoRoute);
        assert_eq!(explanation(&other, false), other.to_string());
    }

    /// Datagrams get through again, so the TCP connection in their place isn't needed.
    #[tokio::test(start_paused = true)]
    async fn a_carrier_that_ends_where_another_goes_on_is_not_told() {
        let mut lost = Lost::default();
        lost.take(&down(PathDownReason::CarrierClosed), Working::new);
        lost.settle().await;
        assert_eq!(lost.settled(&paths([(1, 5)])), [""; 0]);
    }

    /// The last path waits for its interface, and is probed.
    #[tokio::test(start_paused = true)]
    async fn what_is_down_with_its_interface_says_so() {
        let mut lost = Lost::default();
        let (name, addr) = ("eth0".to_owned(), "192.0.2.7:5".parse().unwrap());
        lost.take(&Event::LocalRemoved { name, addr }, Working::new);
        lost.take(&down(PathDownReason::Stalled), Working::new);
        lost.settle().await;
        let words = lost.settled(&Working::new()).concat();
        assert!(words.contains("its interface is gone"), "{words}");
    }

    #[test]
    fn an_interface_that_was_gone_is_up_again() {
        let (name, addr) = (|| "eth0".to_owned(), "192.0.2.7:5".parse().unwrap());
        let mut lost = Lost::default();
        let added = Event::LocalAdded { name: name(), addr };
        assert_eq!(lost.take(&added, Working::new), None);
        let removed = Event::LocalRemoved { name: name(), addr };
        let gone = lost.take(&removed, Working::new).unwrap();
        assert_eq!(gone, "eth0 (192.0.2.7:5) is gone");
        let again = lost.take(&added, Working::new).unwrap();
        assert_eq!(again, "eth0 is up again with 192.0.2.7:5");
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

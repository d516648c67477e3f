//! What all processes have said of their connections, and the rates that follow from it. It reads
//! no clock: counters come with the time of the process that counts.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use manyway_units::{Rate, printable};
use serde::Serialize;

use crate::meter::Recent;
use crate::publish::moment::{ConnectionMoment, Moment, PathMoment};

/// Rates that are kept of a path: those of about a minute.
pub(super) const KEPT: usize = 120;
/// Most characters of a label, a peer's name and the like.
const MOST_TEXT: usize = 100;
/// Most paths of a connection.
const MOST_PATHS: usize = 1000;
/// Most connections of a process.
const MOST_CONNECTIONS: usize = 1000;

/// All connections of all processes, by the processes' ids.
#[derive(Debug, Default)]
pub(super) struct Board(BTreeMap<u32, Process>);

#[derive(Debug, Default)]
struct Process {
    connections: Vec<Connection>,
    left_out: usize,
}

/// A connection. Serialised, this is an object of `--json`; fields are added, never changed.
#[derive(Debug, Serialize)]
pub(super) struct Connection {
    pub(super) process: u32,
    #[serde(flatten)]
    pub(super) moment: ConnectionMoment,
    #[serde(rename = "paths")]
    pub(super) lanes: Vec<Lane>,
}

/// A path, with its rates in bit/s.
#[derive(Debug, Serialize)]
pub(super) struct Lane {
    #[serde(flatten)]
    pub(super) moment: PathMoment,
    #[serde(rename = "sent_bps", serialize_with = "bits")]
    pub(super) sent: Rate,
    #[serde(rename = "received_bps", serialize_with = "bits")]
    pub(super) received: Rate,
    /// When the bytes were counted last, and how many had gone both ways by then.
    #[serde(skip)]
    last: Option<(Duration, u64)>,
    /// Of what was sent, and of what was received.
    #[serde(skip)]
    recent: [Recent; 2],
    /// Bit/s both ways between two moments, the newest last.
    #[serde(skip)]
    pub(super) history: VecDeque<f64>,
}

fn bits<S: serde::Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(rate.bits_per_sec())
}

impl Board {
    /// A process has said something.
    pub(super) fn take(&mut self, process: u32, moment: Moment) {
        let mut before = self.0.remove(&process).unwrap_or_default().connections;
        let mut connections = moment.connections;
        let more = connections.len().saturating_sub(MOST_CONNECTIONS);
        connections.truncate(MOST_CONNECTIONS);
        let connections = connections.into_iter().map(|connection| {
            let same = |old: &Connection| old.moment.connection == connection.connection;
            let old = before.iter().position(same);
            let old = old.map_or_else(Vec::new, |at| before.swap_remove(at).lanes);
            Connection::new(process, moment.seconds, connection, old)
        });
        let process_now = Process {
            connections: connections.collect(),
            left_out: moment.connections_left_out.saturating_add(more),
        };
        self.0.insert(process, process_now);
    }

    /// A process has no connections any more.
    pub(super) fn remove(&mut self, process: u32) {
        self.0.remove(&process);
    }

    pub(super) fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.0.values().flat_map(|process| &process.connections)
    }

    /// How many connections the processes have left out.
    pub(super) fn left_out(&self) -> usize {
        let left_out = self.0.values().map(|process| process.left_out);
        left_out.fold(0, usize::saturating_add)
    }
}

impl Connection {
    /// `old` are its paths as they were before.
    fn new(process: u32, at: f64, mut moment: ConnectionMoment, mut old: Vec<Lane>) -> Self {
        moment.doing = clean(&moment.doing);
        moment.peer = moment.peer.as_deref().map(clean);
        let mut paths = std::mem::take(&mut moment.paths);
        let more = paths.len().saturating_sub(MOST_PATHS);
        paths.truncate(MOST_PATHS);
        moment.paths_left_out = moment.paths_left_out.saturating_add(more);
        let lanes = paths.into_iter().map(|path| {
            let same = |old: &Lane| old.moment.path == path.path;
            let old = old.iter().position(same).map(|at| old.swap_remove(at));
            Lane::new(at, path, old)
        });
        Self {
            process,
            lanes: lanes.collect(),
            moment,
        }
    }
}

impl Lane {
    fn new(at: f64, mut moment: PathMoment, old: Option<Self>) -> Self {
        moment.label = clean(&moment.label);
        moment.carrier = clean(&moment.carrier);
        moment.state = clean(&moment.state);
        let kept = |it: Self| (it.last, it.recent, it.history);
        let (last, recent, history) = old.map_or_else(Default::default, kept);
        let mut lane = Self {
            moment,
            sent: Rate::ZERO,
            received: Rate::ZERO,
            last,
            recent,
            history,
        };
        lane.count(Duration::try_from_secs_f64(at).unwrap_or_default());
        lane
    }

    fn count(&mut self, at: Duration) {
        let (sent, received) = (self.moment.bytes_sent, self.moment.bytes_received);
        let both = sent.saturating_add(received);
        match self.last {
            Some((before, count)) if before < at => {
                let rate = Rate::of(both.saturating_sub(count), at - before);
                self.history.push_back(rate.bits_per_sec());
            }
            // A process that begins anew has another clock.
            Some(_) => self.recent = Default::default(),
            None => {}
        }
        while self.history.len() > KEPT {
            self.history.pop_front();
        }
        self.last = Some((at, both));
        self.sent = self.recent[0].rate(at, sent);
        self.received = self.recent[1].rate(at, received);
    }
}

/// What a terminal can show: other processes have written it.
fn clean(text: &str) -> String {
    printable(text, MOST_TEXT)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn path(number: u32, label: &str) -> PathMoment {
        PathMoment {
            path: number,
            label: label.to_owned(),
            relay: false,
            carrier: "udp".to_owned(),
            state: "active".to_owned(),
            bytes_sent: 0,
            bytes_received: 0,
            rtt_ms: Some(23.0),
            min_rtt_ms: Some(20.0),
            window: Some(50.0),
            loss: Some(0.0),
            group: Some(0),
        }
    }

    pub(crate) fn connection(number: u64, paths: Vec<PathMoment>) -> ConnectionMoment {
        ConnectionMoment {
            connection: number,
            doing: "sending".to_owned(),
            peer: None,
            seconds: 10.0,
            bytes: Some(31_000_000),
            bytes_total: Some(100_000_000),
            paths,
            paths_left_out: 0,
        }
    }

    pub(crate) fn moment(seconds: f64, connections: Vec<ConnectionMoment>) -> Moment {
        Moment {
            seconds,
            connections,
            connections_left_out: 0,
        }
    }

    #[test]
    fn rates_follow_from_the_processs_own_clock() {
        let mut board = Board::default();
        let rates = |board: &Board| {
            let lane = &board.connections().next().unwrap().lanes[0];
            [lane.sent.mbps(), lane.received.mbps()]
        };
        for half in 0..=20_u32 {
            let mut path = path(1, "eth0");
            // 1 Mbyte/s for five seconds, nothing after that.
            path.bytes_sent = 500_000 * u64::from(half.min(10));
            path.bytes_received = path.bytes_sent / 10;
            let at = f64::from(half) / 2.0;
            board.take(7, moment(at, vec![connection(1, vec![path])]));
            let expected = match half {
                0 | 14.. => [0.0, 0.0],
                1..=10 => [8.0, 0.8],
                _ => continue,
            };
            let off = |(now, then): (f64, f64)| (now - then).abs() > 1e-9;
            let now = rates(&board);
            assert!(!now.into_iter().zip(expected).any(off), "{half}: {now:?}");
        }
        let history = &board.connections().next().unwrap().lanes[0].history;
        assert_eq!(history.len(), 20);
        assert!((history[0] - 8.8e6).abs() < 1.0 && history[19] == 0.0);
        // Another process with the same id, whose clock began anew.
        for (at, sent) in [(0.5, 0), (1.0, 500_000)] {
            let mut path = path(1, "eth0");
            path.bytes_sent = sent;
            board.take(7, moment(at, vec![connection(1, vec![path])]));
        }
        assert!((rates(&board)[0] - 8.0).abs() < 1e-9);
    }

    #[test]
    fn processes_come_and_go() {
        let mut board = Board::default();
        for process in [9, 7] {
            board.take(process, moment(0.0, vec![connection(1, vec![])]));
        }
        let ids = |board: &Board| board.connections().map(|it| it.process).collect::<Vec<_>>();
        assert_eq!(ids(&board), [7, 9]);
        board.remove(7);
        assert_eq!(ids(&board), [9]);
        board.take(9, moment(0.5, vec![]));
        assert_eq!(ids(&board), [0; 0]);
    }

    #[test]
    fn what_others_say_costs_bounded_memory_and_stays_text() {
        let mut board = Board::default();
        for at in [f64::MAX, -1.0, 0.0, 1e-300, 1.0]
            .into_iter()
            .cycle()
            .take(500)
        {
            let mut path = path(1, &"\x1b[2J\u{202e}".repeat(1000));
            (path.bytes_sent, path.bytes_received) = (u64::MAX, at.abs() as u64);
            let mut connections = vec![connection(1, vec![path; 3000]); 2];
            connections[0].peer = Some("a\nb".to_owned());
            board.take(1, moment(at, connections));
        }
        let shown = board.connections().next().unwrap();
        assert_eq!(
            (shown.lanes.len(), shown.moment.paths_left_out),
            (1000, 2000)
        );
        assert_eq!(shown.moment.peer.as_deref(), Some("a\\nb"));
        for lane in &shown.lanes {
            assert!(lane.history.len() <= KEPT);
            let label = &lane.moment.label;
            assert!(label.chars().count() <= MOST_TEXT + 1, "{label}");
            assert!(
                label.chars().all(|c| c.is_ascii_graphic() || c == '…'),
                "{label}"
            );
            assert!(lane.sent.bits_per_sec().is_finite());
        }
    }

    #[test]
    fn objects() {
        let mut board = Board::default();
        for at in [0.0, 1.0] {
            let mut path = path(1, "eth0 → 203.0.113.5");
            path.bytes_sent = (at * 1e6) as u64;
            let mut tcp = self::path(2, "wlan0 → 203.0.113.5 (tcp)");
            tcp.carrier = "tcp".to_owned();
            (tcp.window, tcp.loss, tcp.group) = (None, None, None);
            board.take(4711, moment(at, vec![connection(1, vec![path, tcp])]));
        }
        let all: Vec<_> = board.connections().collect();
        insta::assert_snapshot!("objects", serde_json::to_string_pretty(&all).unwrap());
    }
}

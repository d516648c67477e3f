//! Path rates over the last two seconds, and which paths answer, from a connection's counters.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use manyway::{CarrierKind, ConnectionStats, PathId, PathState, PathStats};
use manyway_units::Rate;

/// Rates are means over this span.
const SPAN: Duration = Duration::from_secs(2);
/// Most samples of a rate.
const MOST_SAMPLES: usize = 120;
/// How long a path has to be down before users are told, and what goes on meanwhile shows.
pub(crate) const SETTLE: Duration = Duration::from_secs(2);
/// How long a path that works again says so.
const AGAIN: Duration = Duration::from_secs(10);

/// Which way the files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Away from us.
    Sending,
    /// To us.
    Receiving,
}

impl Direction {
    /// Its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Direction::Sending => "sending",
            Direction::Receiving => "receiving",
        }
    }

    /// Stream bytes that went this way on a path.
    fn bytes(self, path: &PathStats) -> u64 {
        match self {
            Direction::Sending => path.stream_bytes_sent,
            Direction::Receiving => path.stream_bytes_received,
        }
    }
}

/// Whether a path works, as far as this side can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The other side hasn't answered on it yet.
    Trying,
    Up,
    /// It had stopped working, and has worked again for a few seconds.
    UpAgain,
    Down,
}

/// A path as the live view shows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) id: PathId,
    /// The interface or local address.
    pub(crate) name: String,
    /// The other side's address, or the relay's.
    pub(crate) remote: SocketAddr,
    pub(crate) carrier: CarrierKind,
    /// `wlan0 → 203.0.113.5`.
    pub(crate) label: String,
    /// Through a relay.
    pub(crate) relay: bool,
    pub(crate) state: PathState,
    pub(crate) condition: Condition,
    /// How long ago something came on it, or how long it is down if that is longer.
    pub(crate) silent: Duration,
    pub(crate) rate: Rate,
    pub(crate) rtt: Duration,
    /// In packets; only a sender has one.
    pub(crate) window: Option<f64>,
    /// Bytes of a full packet.
    pub(crate) packet: usize,
    /// Share of the packets sent that were lost; only a sender knows.
    pub(crate) loss: Option<f64>,
}

/// Names of paths by remote address, where interface and address would say little.
pub(crate) type Labels = BTreeMap<SocketAddr, String>;

/// Turns successive statistics into rates.
#[derive(Debug)]
pub(crate) struct Meter {
    direction: Direction,
    labels: Labels,
    tracks: BTreeMap<PathId, Track>,
}

/// A counter's mean rate over the last two seconds.
#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<(Duration, u64)>);

impl Recent {
    /// The rate, now that the counter stands here, later than the last time.
    pub(crate) fn rate(&mut self, at: Duration, count: u64) -> Rate {
        let samples = &mut self.0;
        samples.push_back((at, count));
        // One older sample stays, so that the mean covers the whole span.
        let covered = |samples: &VecDeque<(Duration, u64)>| {
            samples.len() > 2 && at.saturating_sub(samples[1].0) >= SPAN
        };
        while samples.len() > MOST_SAMPLES || covered(samples) {
            samples.pop_front();
        }
        let (since, before) = samples[0];
        Rate::of(count.saturating_sub(before), at.saturating_sub(since))
    }
}

/// What is remembered of a path.
#[derive(Debug)]
struct Track {
    recent: Recent,
    /// When something came on it last, and how much had come by then.
    heard: (Duration, u64),
    /// Since when it is down.
    down: Option<Duration>,
    /// Since when it works again, if it was down for so long that users heard of it.
    again: Option<Duration>,
}

impl Track {
    fn new(at: Duration) -> Self {
        Self {
            recent: Recent::default(),
            heard: (at, 0),
            down: None,
            again: None,
        }
    }

    fn condition(&mut self, at: Duration, path: &PathStats) -> Condition {
        if path.bytes_received != self.heard.1 {
            self.heard = (at, path.bytes_received);
        }
        match path.state {
            PathState::Validating => Condition::Trying,
            PathState::Active | PathState::Standby => {
                let within = |since: Duration, span| at.saturating_sub(since) < span;
                let down = self.down.take();
                if down.is_some_and(|since| !within(since, SETTLE)) {
                    self.again = Some(at);
                }
                match self.again {
                    Some(again) if within(again, AGAIN) => Condition::UpAgain,
                    _ => Condition::Up,
                }
            }
            PathState::Stalled | PathState::Closed => {
                self.down.get_or_insert(at);
                self.again = None;
                Condition::Down
            }
        }
    }
}

impl Meter {
    pub(crate) fn new(direction: Direction, labels: Labels) -> Self {
        Self {
            direction,
            labels,
            tracks: BTreeMap::new(),
        }
    }

    /// Rows of the open paths in the order of their ids, `at` this time since the start.
    pub(crate) fn sample(&mut self, at: Duration, stats: &ConnectionStats) -> Vec<Row> {
        let open = || {
            stats
                .paths
                .iter()
                .filter(|path| path.state != PathState::Closed)
        };
        self.tracks
            .retain(|id, _| open().any(|path| path.id == *id));
        open().map(|path| self.row(at, path)).collect()
    }

    fn row(&mut self, at: Duration, path: &PathStats) -> Row {
        let new = || Track::new(at);
        let track = self.tracks.entry(path.id).or_insert_with(new);
        let condition = track.condition(at, path);
        // What the peer sends may arrive, and its answers not.
        let heard = track
            .down
            .map_or(track.heard.0, |down| down.min(track.heard.0));
        let silent = at.saturating_sub(heard);
        let rate = track.recent.rate(at, self.direction.bytes(path));
        let sending = self.direction == Direction::Sending;
        // Over TCP, only the kernel knows window and losses.
        let kernel = path.carrier == CarrierKind::Tcp;
        Row {
            id: path.id,
            name: path.name.clone(),
            remote: path.remote,
            carrier: path.carrier,
            label: match self.labels.get(&path.remote) {
                Some(label) => label.clone(),
                None => label(path),
            },
            relay: path.relay,
            state: path.state,
            condition,
            silent,
            rate,
            rtt: path.rtt,
            window: (sending && !kernel).then_some(path.window),
            packet: path.packet_size,
            loss: (sending && !kernel).then(|| loss(path)),
        }
    }
}

/// What a path is called: `wlan0 → 203.0.113.5`.
pub(crate) fn label(path: &PathStats) -> String {
    let (name, remote) = (&path.name, path.remote);
    match (path.carrier, path.relay) {
        (CarrierKind::Tcp, _) => format!("{name} → {} (tcp)", remote.ip()),
        (_, true) => format!("{name} → relay {remote}"),
        (_, false) => format!("{name} → {}", remote.ip()),
    }
}

/// Packets lost per packet sent, 0 to 1.
pub(crate) fn loss(path: &PathStats) -> f64 {
    path.packets_lost as f64 / path.packets_sent.max(1) as f64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn path(id: u32, state: PathState, sent: u64) -> PathStats {
        PathStats {
            id: PathId(id),
            name: "eth0".to_owned(),
            local: "192.0.2.7:1".parse().unwrap(),
            remote: SocketAddr::from(([203, 0, 113, 5], 4000 + id as u16)),
            relay: false,
            carrier: CarrierKind::Udp,
            target: None,
            delivers: None,
            state,
            rtt: Duration::from_millis(20),
            min_rtt: Duration::from_millis(19),
            window: 10.0,
            packet_size: 1472,
            datagram: None,
            bytes_in_flight: 0,
            bytes_sent: 2 * sent,
            bytes_received: 0,
            stream_bytes_sent: sent,
            stream_bytes_received: sent / 2,
            packets_sent: 200,
            packets_lost: 1,
            loss_events: 0,
            timeouts: 0,
            group: None,
        }
    }

    fn stats(paths: Vec<PathStats>) -> ConnectionStats {
        ConnectionStats {
            paths,
            ..ConnectionStats::default()
        }
    }

    #[test]
    fn rates_cover_the_last_seconds_only() {
        let mut meter = Meter::new(Direction::Sending, Labels::new());
        let mut rate = Rate::ZERO;
        for step in 0..=40_u64 {
            // 1 Mbyte/s for five seconds, nothing after that.
            let sent = 250_000 * step.min(20);
            let rows = meter.sample(
                Duration::from_millis(250 * step),
                &stats(vec![path(1, PathState::Active, sent)]),
            );
            rate = rows[0].rate;
            if (1..=20).contains(&step) {
                assert!((rate.mbps() - 8.0).abs() < 1e-9, "{step}: {rate}");
            }
        }
        assert_eq!(rate, Rate::ZERO);
    }

    #[test]
    fn so_many_samples_are_kept() {
        let mut recent = Recent::default();
        let samples = 1..10 * MOST_SAMPLES as u64;
        let rate = samples.fold(Rate::ZERO, |_, n| {
            recent.rate(Duration::from_millis(n), 1000 * n)
        });
        assert_eq!((recent.0.len(), rate.mbps()), (MOST_SAMPLES, 8.0));
    }

    #[test]
    fn closed_paths_vanish() {
        let mut meter = Meter::new(Direction::Sending, Labels::new());
        let both = vec![
            path(1, PathState::Active, 0),
            path(2, PathState::Validating, 0),
        ];
        assert_eq!(meter.sample(Duration::ZERO, &stats(both)).len(), 2);
        let one = vec![path(1, PathState::Closed, 0), path(2, PathState::Active, 9)];
        let rows = meter.sample(Duration::from_secs(1), &stats(one));
        assert_eq!(
            (rows.len(), rows[0].label.as_str()),
            (1, "eth0 → 203.0.113.5")
        );
        assert_eq!(meter.tracks.len(), 1);
    }

    #[test]
    fn a_path_that_works_again_says_so_for_a_while() {
        let mut meter = Meter::new(Direction::Sending, Labels::new());
        let mut at = Duration::ZERO;
        let mut seconds = |n: u32, state, received| {
            let mut last = None;
            for _ in 0..n {
                let mut path = path(1, state, 0);
                path.bytes_received = received;
                let row = meter.sample(at, &stats(vec![path])).remove(0);
                last = Some((row.condition, row.silent.as_secs()));
                at += Duration::from_secs(1);
            }
            last.unwrap()
        };
        use Condition::{Down, Trying, Up, UpAgain};
        use PathState::{Active, Stalled, Validating};
        assert_eq!(seconds(9, Validating, 0), (Trying, 8));
        assert_eq!(seconds(1, Active, 100), (Up, 0));
        assert_eq!(seconds(20, Active, 100), (Up, 20));
        // So short that no line tells of it.
        assert_eq!(seconds(1, Stalled, 100), (Down, 21));
        assert_eq!(seconds(1, Active, 100), (Up, 22));
        assert_eq!(seconds(2, Stalled, 100), (Down, 24));
        assert_eq!(seconds(1, Active, 200), (UpAgain, 0));
        assert_eq!(seconds(9, Active, 200), (UpAgain, 9));
        assert_eq!(seconds(1, Active, 200), (Up, 10));
        assert_eq!(seconds(2, Stalled, 200), (Down, 12));
        assert_eq!(seconds(1, Active, 300), (UpAgain, 0));
    }

    #[test]
    fn over_tcp_the_window_and_the_losses_are_the_kernels() {
        let mut meter = Meter::new(Direction::Sending, Labels::new());
        let mut tcp = path(1, PathState::Active, 0);
        tcp.carrier = CarrierKind::Tcp;
        let rows = meter.sample(Duration::ZERO, &stats(vec![tcp]));
        assert_eq!(rows[0].label, "eth0 → 203.0.113.5 (tcp)");
        assert_eq!((rows[0].window, rows[0].loss), (None, None));
    }

    #[test]
    fn a_receiver_knows_neither_window_nor_loss() {
        let labels = Labels::from([("203.0.113.5:4001".parse().unwrap(), "slow link".to_owned())]);
        let mut meter = Meter::new(Direction::Receiving, labels);
        meter.sample(Duration::ZERO, &stats(vec![path(1, PathState::Active, 0)]));
        let rows = meter.sample(
            Duration::from_secs(1),
            &stats(vec![path(1, PathState::Active, 1000)]),
        );
        assert_eq!((rows[0].window, rows[0].loss), (None, None));
        assert_eq!(
            (rows[0].rate, rows[0].label.as_str()),
            (Rate::from_bits_per_sec(4000.0), "slow link")
        );
    }
}

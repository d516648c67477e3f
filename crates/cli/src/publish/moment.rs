//! What a process publishes of its connections: objects of JSON, one in a line. Nothing in them is
//! secret, and fields are added, never changed.

use std::cmp::Reverse;
use std::time::Duration;

use manyway::{CarrierKind, ConnectionStats, PathState, PathStats};
use serde::{Deserialize, Serialize};

use crate::meter::{label, loss};
use crate::progress::state;
use crate::summary::carrier;

/// All connections of a process at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moment {
    /// By the process's clock, to which its counters belong.
    pub(crate) seconds: f64,
    pub(crate) connections: Vec<ConnectionMoment>,
    /// Connections that `connections` leaves out: the newest.
    #[serde(default)]
    pub(crate) connections_left_out: usize,
}

/// A connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ConnectionMoment {
    /// Its number within the process.
    pub(crate) connection: u64,
    /// What the process does with it.
    pub(crate) doing: String,
    /// The peer's name or id, if it has proven who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<String>,
    /// Since the process has used it.
    pub(crate) seconds: f64,
    /// Of a transfer of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_total: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) paths: Vec<PathMoment>,
    /// Open paths that `paths` leaves out: those that have carried least.
    #[serde(default)]
    pub(crate) paths_left_out: usize,
}

/// An open path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PathMoment {
    pub(crate) path: u32,
    pub(crate) label: String,
    pub(crate) relay: bool,
    pub(crate) carrier: String,
    pub(crate) state: String,
    /// Bytes that went over it, with headers and what was sent again.
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    /// Once it has been measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rtt_ms: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min_rtt_ms: Option<f64>,
    /// Congestion window in packets, and the share of packets lost; only a sender over UDP knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) window: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loss: Option<f64>,
    /// Congestion control treats paths of the connection with the same number as sharing a
    /// bottleneck; only a sender over UDP knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<u64>,
}

/// The open paths that have carried most, `most` of them, in the order of their ids, and how many
/// there are besides. `sends` says whether this side sends more than acknowledgements.
pub(super) fn paths(stats: &ConnectionStats, sends: bool, most: usize) -> (Vec<PathMoment>, usize) {
    let open = |path: &&PathStats| path.state != PathState::Closed;
    let mut paths: Vec<&PathStats> = stats.paths.iter().filter(open).collect();
    let left_out = paths.len().saturating_sub(most);
    if left_out > 0 {
        paths.sort_by_key(|path| Reverse(path.bytes_sent + path.bytes_received));
        paths.truncate(most);
        paths.sort_by_key(|path| path.id);
    }
    let paths = paths.into_iter().map(|path| PathMoment::new(path, sends));
    (paths.collect(), left_out)
}

impl PathMoment {
    fn new(path: &PathStats, sends: bool) -> Self {
        let measured = path.state != PathState::Validating;
        let knows = measured && sends && path.carrier == CarrierKind::Udp;
        let millis = |time: Duration| measured.then_some(time.as_secs_f64() * 1e3);
        Self {
            path: path.id.0,
            label: label(path),
            relay: path.relay,
            carrier: carrier(path.carrier).to_owned(),
            state: state(path.state).to_owned(),
            bytes_sent: path.bytes_sent,
            bytes_received: path.bytes_received,
            rtt_ms: millis(path.rtt),
            min_rtt_ms: millis(path.min_rtt),
            window: knows.then_some(path.window),
            loss: knows.then(|| loss(path)),
            group: (path.group.filter(|_| knows)).map(|group| group as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::tests::path;

    #[test]
    fn the_paths_that_have_carried_most_are_told() {
        use PathState::{Active, Closed, Validating};
        let carried = [
            (1, Active, 5),
            (2, Closed, 9),
            (3, Active, 7),
            (4, Validating, 1),
        ];
        let stats = ConnectionStats {
            paths: carried
                .map(|(id, state, bytes)| path(id, state, bytes))
                .into(),
            ..ConnectionStats::default()
        };
        let told = |sends, most| {
            let (paths, left_out) = paths(&stats, sends, most);
            let ids: Vec<u32> = paths.iter().map(|path| path.path).collect();
            (ids, left_out)
        };
        assert_eq!(told(true, 3), (vec![1, 3, 4], 0));
        assert_eq!(told(true, 2), (vec![1, 3], 1));
        assert_eq!(told(true, 1), (vec![3], 2));
        // What isn't known yet, and what only a sender knows.
        let known = |sends| {
            let (paths, _) = paths(&stats, sends, 3);
            let known = |path: &PathMoment| (path.rtt_ms.is_some(), path.loss.is_some());
            [0, 2].map(|at| known(&paths[at]))
        };
        assert_eq!(known(true), [(true, true), (false, false)]);
        assert_eq!(known(false), [(true, false), (false, false)]);
    }
}

//! The objects of `--progress json`, except for the last one, which is `--json`'s.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use manyway::files::Phase;
use manyway::{Event, PathDownReason, PathEvent, PathState};
use serde::Serialize;

use crate::meter::{Direction, Row};
use crate::summary::{ErrorRecord, carrier};

/// One object. Fields are added, never changed.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Report {
    /// The listener waits.
    Ticket {
        /// A secret; left out where the file has it and `-q` was given.
        #[serde(skip_serializing_if = "Option::is_none")]
        ticket: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ticket_file: Option<PathBuf>,
    },
    /// The listener waits for whoever uses its code.
    Code {
        /// A secret until it has been used.
        code: String,
        registry: String,
        valid_seconds: u64,
    },
    /// There is a connection, and a transfer begins on it.
    Connected {
        transfer: u64,
        direction: &'static str,
    },
    PathUp {
        transfer: u64,
        path: u32,
        name: String,
        remote: SocketAddr,
    },
    PathMoved {
        transfer: u64,
        path: u32,
        name: String,
        remote: SocketAddr,
        previous: SocketAddr,
    },
    PathDown {
        transfer: u64,
        path: u32,
        name: String,
        remote: SocketAddr,
        reason: &'static str,
    },
    Progress(Progress),
    /// The network failed, and manyway tries again.
    Retry {
        pause_seconds: f64,
        error: ErrorRecord,
    },
}

/// How far a transfer is.
#[derive(Debug, Serialize)]
pub(crate) struct Progress {
    pub(crate) transfer: u64,
    /// Since `connected`.
    pub(crate) seconds: f64,
    pub(crate) phase: &'static str,
    /// Without those that the receiver has already.
    pub(crate) bytes: u64,
    pub(crate) bytes_total: u64,
    /// On the receiver's disk.
    pub(crate) files: u64,
    pub(crate) files_total: u64,
    /// Name of the file that is being read or written, as it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) file: String,
    pub(crate) rate_bps: f64,
    /// Unless the transfer stands still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) eta_seconds: Option<f64>,
    pub(crate) paths: Vec<PathProgress>,
    /// Paths through relays that `paths` leaves out: the slowest.
    pub(crate) paths_left_out: usize,
}

/// A path that is open.
#[derive(Debug, Serialize)]
pub(crate) struct PathProgress {
    path: u32,
    name: String,
    remote: SocketAddr,
    relay: bool,
    carrier: &'static str,
    state: &'static str,
    rate_bps: f64,
    rtt_ms: f64,
    /// Congestion window in packets, and the share of packets lost; only a sender over UDP knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
}

impl From<&Row> for PathProgress {
    fn from(row: &Row) -> Self {
        Self {
            path: row.id.0,
            name: row.name.clone(),
            remote: row.remote,
            relay: row.relay,
            carrier: carrier(row.carrier),
            state: state(row.state),
            rate_bps: row.rate.bits_per_sec(),
            rtt_ms: row.rtt.as_secs_f64() * 1e3,
            window: row.window,
            loss: row.loss,
        }
    }
}

impl Report {
    pub(crate) fn connected(transfer: u64, direction: Direction) -> Self {
        Self::Connected {
            transfer,
            direction: direction.name(),
        }
    }

    /// What happened to a path.
    pub(crate) fn of_path(transfer: u64, event: &Event) -> Option<Self> {
        let Event::Path(event) = event else {
            return None;
        };
        Some(match event.clone() {
            PathEvent::Up { path, name, remote } => Self::PathUp {
                transfer,
                path: path.0,
                name,
                remote,
            },
            PathEvent::Moved {
                path,
                name,
                remote,
                previous,
            } => Self::PathMoved {
                transfer,
                path: path.0,
                name,
                remote,
                previous,
            },
            PathEvent::Down {
                path,
                name,
                remote,
                reason,
            } => Self::PathDown {
                transfer,
                path: path.0,
                name,
                remote,
                reason: down(reason),
            },
            _ => return None,
        })
    }

    pub(crate) fn retry(pause: Duration, error: &anyhow::Error) -> Self {
        Self::Retry {
            pause_seconds: pause.as_secs_f64(),
            error: ErrorRecord::of(error),
        }
    }
}

/// A phase's name in JSON.
pub(crate) fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Greeting => "greeting",
        Phase::Listing => "listing",
        Phase::Transferring => "transferring",
        Phase::Syncing => "syncing",
        Phase::Done => "done",
    }
}

/// A path's state in JSON.
pub(crate) fn state(state: PathState) -> &'static str {
    match state {
        PathState::Validating => "validating",
        PathState::Active => "active",
        PathState::Standby => "standby",
        PathState::Stalled => "stalled",
        PathState::Closed => "closed",
    }
}

fn down(reason: PathDownReason) -> &'static str {
    match reason {
        PathDownReason::Stalled => "stalled",
        PathDownReason::TimedOut => "timed_out",
        PathDownReason::LocalGone => "local_gone",
        PathDownReason::Abandoned => "abandoned",
        PathDownReason::NoRoute => "no_route",
        PathDownReason::RelayGone => "relay_gone",
        PathDownReason::Dropped => "dropped",
        PathDownReason::CarrierClosed => "carrier_closed",
        PathDownReason::Reselected => "reselected",
    }
}

#[cfg(test)]
mod tests {
    use manyway::PathId;

    use super::*;

    /// Fields are added, never changed: what docs/guide.md says.
    #[test]
    fn objects() {
        let remote: SocketAddr = "203.0.113.5:4433".parse().unwrap();
        let name = || "eth0".to_owned();
        let path = PathId(3);
        let of_path = |event: PathEvent| Report::of_path(1, &Event::Path(event)).unwrap();
        let lost = anyhow::Error::from(crate::exit::Interrupted);
        let reports = [
            Report::Ticket {
                ticket: Some("mw1…".to_owned()),
                ticket_file: None,
            },
            Report::Ticket {
                ticket: None,
                ticket_file: Some("ticket".into()),
            },
            Report::connected(1, Direction::Sending),
            Report::connected(2, Direction::Receiving),
            of_path(PathEvent::Up {
                path,
                name: name(),
                remote,
            }),
            of_path(PathEvent::Moved {
                path,
                name: name(),
                remote,
                previous: "203.0.113.5:1".parse().unwrap(),
            }),
            of_path(PathEvent::Down {
                path,
                name: name(),
                remote,
                reason: PathDownReason::LocalGone,
            }),
            Report::retry(Duration::from_secs(4), &lost),
        ];
        let lines = reports.map(|report| serde_json::to_string(&report).unwrap());
        insta::assert_snapshot!("objects", lines.join("\n"));
    }
}

//! Limits of the network that change while a transfer runs: `--limit` by the time of day, and
//! `--quota` of interfaces that cost money.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{Local, Timelike};
use manyway::{Config, Connection, ConnectionStats, Endpoint, PathId, PathSelector, Rate};
use manyway_units::{ByteSize, ParseQuantityError};
use tokio::time::sleep;

use crate::screen::Screen;

/// How often to look at the bytes and at the clock.
const LOOK: Duration = Duration::from_millis(100);
const DAY: u32 = 24 * 60;

/// `--limit`: a rate, or one for each time of day.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Limit {
    /// From a minute of the day on, until the next; ascending. The last one holds until the first
    /// of the next day.
    changes: Vec<(u32, Option<Rate>)>,
}

impl Limit {
    /// The rate now; `None`: no limit.
    pub(crate) fn now(&self) -> Option<Rate> {
        let now = Local::now();
        self.at(now.hour() * 60 + now.minute())
    }

    fn at(&self, minute: u32) -> Option<Rate> {
        let begun = self.changes.iter().rfind(|(from, _)| *from <= minute);
        begun.or(self.changes.last()).and_then(|(_, rate)| *rate)
    }
}

/// What is wrong with a limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LimitError {
    Rate(ParseQuantityError),
    Time(String),
    Twice(String),
    Low(String),
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(error) => error.fmt(f),
            Self::Time(text) => write!(
                f,
                "`{text}` isn't a time and a rate: write for example `08:00=2Mbps,18:00=off`"
            ),
            Self::Twice(time) => write!(f, "{time} is given twice"),
            Self::Low(rate) => write!(f, "`{rate}` is out of range: choose 8 kbps or more, or off"),
        }
    }
}

impl std::error::Error for LimitError {}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        if !text.contains('=') {
            let rate = text.parse().map_err(LimitError::Rate)?;
            let changes = vec![(0, Some(rate))];
            return Ok(Self { changes });
        }
        let mut changes: Vec<(u32, Option<Rate>)> = Vec::new();
        for change in text.split(',') {
            let none = || LimitError::Time(change.to_owned());
            let (time, rate) = change.split_once('=').ok_or_else(none)?;
            let minute = minute(time.trim()).ok_or_else(none)?;
            let rate = match rate.trim() {
                "off" => None,
                text => {
                    let rate: Rate = text.parse().map_err(LimitError::Rate)?;
                    if rate.bits_per_sec() < Config::LOWEST_LIMIT {
                        return Err(LimitError::Low(text.to_owned()));
                    }
                    Some(rate)
                }
            };
            if changes.iter().any(|(other, _)| *other == minute) {
                return Err(LimitError::Twice(time.trim().to_owned()));
            }
            changes.push((minute, rate));
        }
        changes.sort_by_key(|(minute, _)| *minute);
        Ok(Self { changes })
    }
}

/// `HH:MM`.
fn minute(time: &str) -> Option<u32> {
    let (hours, minutes) = time.split_once(':')?;
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(hours) || !digits(minutes) {
        return None;
    }
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (minutes < 60)
        .then_some(hours * 60 + minutes)
        .filter(|minute| *minute < DAY)
}

/// `--quota`: what an interface or address may carry, both ways together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quota {
    of: PathSelector,
    size: ByteSize,
}

impl FromStr for Quota {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (of, size) = text
            .rsplit_once('=')
            .ok_or_else(|| format!("`{text}` has no size: write for example `wwan0=2GB`"))?;
        Ok(Self {
            of: of.parse().map_err(|error| format!("{error}"))?,
            size: size.trim().parse().map_err(|error| format!("{error}"))?,
        })
    }
}

impl Quota {
    /// Is it that of a socket with this name and address?
    fn is_of(&self, name: &str, address: IpAddr) -> bool {
        match &self.of {
            PathSelector::Interface(of) => of == name,
            PathSelector::Address(of) => *of == address,
        }
    }
}

/// No path may carry anything more.
#[derive(Debug)]
pub(crate) struct QuotaUsed(String);

impl fmt::Display for QuotaUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no path is left: the quota of {} is used up; raise `--quota`, or add another path",
            self.0
        )
    }
}

impl std::error::Error for QuotaUsed {}

/// The limits of a command, for all of its transfers together.
#[derive(Debug, Clone)]
pub(crate) struct Metered {
    screen: Screen,
    endpoint: Endpoint,
    limit: Option<Limit>,
    used: Arc<Mutex<Used>>,
}

/// What all transfers together have used.
#[derive(Debug)]
struct Used {
    counters: Vec<Counter>,
    /// The sockets, as of the last look at which there were any.
    locals: Vec<(String, SocketAddr)>,
}

/// What a path has carried, both ways.
struct Carried<'a> {
    path: PathId,
    name: &'a str,
    local: IpAddr,
    bytes: u64,
}

/// A quota and the bytes that count against it.
#[derive(Debug)]
struct Counter {
    quota: Quota,
    used: u64,
}

impl Counter {
    fn is_full(&self) -> bool {
        self.used >= self.quota.size.bytes()
    }
}

impl Metered {
    /// `None`: nothing changes.
    pub(crate) fn new(
        screen: &Screen,
        endpoint: &Endpoint,
        limit: Option<&Limit>,
        quotas: &[Quota],
    ) -> Option<Self> {
        let limit = limit.filter(|limit| limit.changes.len() > 1).cloned();
        if limit.is_none() && quotas.is_empty() {
            return None;
        }
        let locals = endpoint.locals();
        for Quota { of, .. } in unused(quotas, &locals) {
            // Also with `-q`: a name that is mistyped costs money.
            screen.error(&format!(
                "manyway: {of} isn't in use, so its `--quota` limits nothing now: check the name"
            ));
        }
        let counter = |quota: &Quota| Counter {
            quota: quota.clone(),
            used: 0,
        };
        Some(Self {
            screen: screen.clone(),
            endpoint: endpoint.clone(),
            limit,
            used: Arc::new(Mutex::new(Used {
                counters: quotas.iter().map(counter).collect(),
                locals: Vec::new(),
            })),
        })
    }

    async fn hold(&self, connection: &Connection) -> QuotaUsed {
        let mut rate = None;
        let mut counted = HashMap::new();
        loop {
            let now = self.limit.as_ref().map(Limit::now);
            if let Some(limit) = now
                && now != rate
            {
                // A timetable has none that is refused.
                let _ = connection.set_limit(limit);
                rate = now;
            }
            if let Some(used) = self.check(&connection.stats(), &mut counted) {
                return used;
            }
            sleep(LOOK).await;
        }
    }

    /// Stops the use of what has had its quota.
    fn check(
        &self,
        stats: &ConnectionStats,
        counted: &mut HashMap<PathId, u64>,
    ) -> Option<QuotaUsed> {
        // Before any of them goes: an interface that is only gone for a while comes back.
        let locals = self.endpoint.locals();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.see(locals);
        let paths = stats.paths.iter().map(|path| Carried {
            path: path.id,
            name: &path.name,
            local: path.local.ip(),
            bytes: path.bytes_sent + path.bytes_received,
        });
        for Quota { of, size } in count(&mut used.counters, paths, counted) {
            self.screen.say(&format!(
                "{of}: its quota of {size} is used up; manyway no longer uses it"
            ));
            self.endpoint.remove_path(of);
        }
        used.exhausted()
    }
}

/// The quotas of interfaces and addresses that aren't there; they may come later.
fn unused<'a>(quotas: &'a [Quota], locals: &[(String, SocketAddr)]) -> Vec<&'a Quota> {
    let is_used = |quota: &Quota| {
        locals
            .iter()
            .any(|(name, address)| quota.is_of(name, address.ip()))
    };
    quotas.iter().filter(|quota| !is_used(quota)).collect()
}

/// Holds a connection to the limits; ends when no path may carry anything more.
pub(crate) async fn hold(metered: Option<&Metered>, connection: &Connection) -> QuotaUsed {
    match metered {
        Some(metered) => metered.hold(connection).await,
        None => std::future::pending().await,
    }
}

/// Counts what a connection has carried since the last time, path by path; the quotas that are full
/// now.
fn count<'a, 'b>(
    counters: &'a mut [Counter],
    paths: impl Iterator<Item = Carried<'b>>,
    counted: &mut HashMap<PathId, u64>,
) -> Vec<&'a Quota> {
    let before: Vec<bool> = counters.iter().map(Counter::is_full).collect();
    for path in paths {
        let new = path.bytes - counted.insert(path.path, path.bytes).unwrap_or(0);
        for counter in &mut *counters {
            if counter.quota.is_of(path.name, path.local) {
                counter.used += new;
            }
        }
    }
    let full = counters.iter().zip(before);
    let full = full.filter(|(counter, before)| counter.is_full() && !before);
    full.map(|(counter, _)| &counter.quota).collect()
}

impl Used {
    /// Notes which sockets there are. If there are none, another transfer may have removed the last
    /// ones just now: these decide.
    fn see(&mut self, locals: Vec<(String, SocketAddr)>) {
        if !locals.is_empty() {
            self.locals = locals;
        }
    }

    /// Have all quotas of what there is been used up?
    fn exhausted(&self) -> Option<QuotaUsed> {
        let full = || self.counters.iter().filter(|counter| counter.is_full());
        let is_full = |(name, address): &(String, SocketAddr)| {
            full().any(|counter| counter.quota.is_of(name, address.ip()))
        };
        if self.locals.is_empty() || !self.locals.iter().all(is_full) {
            return None;
        }
        let all: Vec<String> = full().map(|counter| counter.quota.of.to_string()).collect();
        Some(QuotaUsed(all.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_of_what_is_not_there_is_found() {
        let locals = [("wwan0".to_owned(), "192.0.2.1:5".parse().unwrap())];
        let quotas = ["wwan0=1MB", "wwan1=1MB", "192.0.2.1=1MB", "192.0.2.2=1MB"];
        let quotas = quotas.map(|text| text.parse().unwrap());
        let unused = unused(&quotas, &locals);
        let of: Vec<String> = unused.iter().map(|quota| quota.of.to_string()).collect();
        assert_eq!(of, ["wwan1", "192.0.2.2"]);
    }

    #[test]
    fn a_limit_is_a_rate_or_a_timetable() {
        let rate = |text: &str| Some(text.parse::<Rate>().unwrap());
        let at = |limit: &str, minute| limit.parse::<Limit>().unwrap().at(minute);
        for minute in [0, 700, DAY - 1] {
            assert_eq!(at("20Mbps", minute), rate("20Mbps"));
        }
        let table = "18:00=off,08:00=2Mbps, 12:30=5Mbps";
        for (minute, expected) in [
            (0, None),
            (8 * 60 - 1, None),
            (8 * 60, rate("2Mbps")),
            (12 * 60 + 29, rate("2Mbps")),
            (12 * 60 + 30, rate("5Mbps")),
            (18 * 60, None),
            (DAY - 1, None),
        ] {
            assert_eq!(at(table, minute), expected, "{minute}");
        }
        for (wrong, told) in [
            ("8:00=2Mbps", "`8:00=2Mbps` isn't a time"),
            ("08:60=off", "isn't a time"),
            ("24:00=off", "isn't a time"),
            ("08:00=off,", "`` isn't a time"),
            ("08:00=off,08:00=1Mbps", "08:00 is given twice"),
            ("08:00=1Mbps,22:00=0bps", "`0bps` is out of range"),
        ] {
            let error = wrong.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains(told), "{wrong}: {error}");
        }
        assert!("fast".parse::<Limit>().is_err() && "08:00=x".parse::<Limit>().is_err());
    }

    fn carried(path: u32, name: &str, local: [u8; 4], bytes: u64) -> Carried<'_> {
        Carried {
            path: PathId(path),
            name,
            local: local.into(),
            bytes,
        }
    }

    #[test]
    fn a_quota_counts_both_ways_and_all_connections() {
        let quota = |text: &str| Counter {
            quota: text.parse().unwrap(),
            used: 0,
        };
        let mut counters = [quota("wwan0=1MB"), quota("192.0.2.7=5kB")];
        let of = |wwan, eth| {
            let wwan = carried(0, "wwan0", [198, 51, 100, 7], wwan);
            [wwan, carried(1, "eth0", [192, 0, 2, 7], eth)]
        };
        let (mut first, mut second) = (HashMap::new(), HashMap::new());
        let mut full = |paths: [Carried<'_>; 2], counted: &mut HashMap<PathId, u64>| {
            let full = count(&mut counters, paths.into_iter(), counted);
            let names = full.into_iter().map(|quota| quota.of.to_string());
            names.collect::<Vec<_>>()
        };
        assert_eq!(full(of(500_000, 4999), &mut first), [""; 0]);
        assert_eq!(full(of(500_000, 4999), &mut first), [""; 0]);
        assert_eq!(full(of(499_999, 0), &mut second), [""; 0]);
        assert_eq!(full(of(500_001, 5000), &mut first), ["wwan0", "192.0.2.7"]);
        assert_eq!(full(of(900_000, 6000), &mut first), [""; 0]);

        let locals = |names: &[(&str, &str)]| {
            let local = |(name, address): &(&str, &str)| {
                ((*name).to_owned(), format!("{address}:9").parse().unwrap())
            };
            names.iter().map(local).collect::<Vec<_>>()
        };
        let both = locals(&[("wwan0", "198.51.100.7"), ("eth0", "192.0.2.7")]);
        let mut used = Used {
            counters: counters.into(),
            locals: Vec::new(),
        };
        assert!(used.exhausted().is_none());
        used.see(both);
        // The first transfer that notices removes them, and the others are to end, too.
        used.see(Vec::new());
        let told = used.exhausted().unwrap().to_string();
        assert!(
            told.contains("the quota of wwan0, 192.0.2.7 is used up"),
            "{told}"
        );
        let more = locals(&[("wwan0", "198.51.100.7"), ("eth0", "192.0.2.8")]);
        used.see(more);
        assert!(used.exhausted().is_none());
        // The other interface may come back.
        used.see(Vec::new());
        assert!(used.exhausted().is_none());
    }
}

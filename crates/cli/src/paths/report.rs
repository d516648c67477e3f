//! The result of `manyway paths`: a table for people, one JSON object for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::Duration;

use anyhow::Context;
use manyway::{PathSurvey, RelayState, RelayStats};
use manyway_report::{Column, Table};
use manyway_units::{ByteSize, Rate, format_duration};
use serde::Serialize;

use crate::screen::Screen;

/// The gain from which several paths pay off. A smaller one is within the measurement's error.
const MIN_GAIN: f64 = 1.1;
/// What an interface that shares a bottleneck with another one gets at least without it, in times
/// of what it got beside it.
const RISE: f64 = 1.2;

/// A finished measurement. Serialised, this is `--json`'s object; fields are added, never changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Report {
    /// Duration of the measurement after the warm-up.
    pub(crate) seconds: f64,
    /// Bytes sent in all.
    pub(crate) bytes: u64,
    /// What ended the measurement.
    pub(crate) ended: Ended,
    pub(crate) paths: Vec<Path>,
    pub(crate) groups: Vec<Group>,
    /// Relays that no path leads through.
    pub(crate) unused_relays: Vec<Unused>,
    /// The highest rate of a group: the best path would have that alone.
    pub(crate) best_bps: f64,
    /// The rate of all groups together.
    pub(crate) all_bps: f64,
    /// `all_bps` / `best_bps`; none if nothing arrived.
    pub(crate) gain: Option<f64>,
    pub(crate) multipath_pays: bool,
}

/// What ended a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ended {
    /// `--time` was over.
    Time,
    /// `--size` was used up.
    Size,
}

/// A measured path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Path {
    pub(crate) name: String,
    pub(crate) local: String,
    pub(crate) remote: String,
    pub(crate) relay: bool,
    pub(crate) rtt_ms: f64,
    pub(crate) min_rtt_ms: f64,
    /// Share of the bytes that were lost, 0 to 1.
    pub(crate) loss: f64,
    pub(crate) loss_events: u64,
    /// UDP payload that arrived per second while all paths were in use.
    pub(crate) rate_bps: f64,
    /// What its interface carried alone, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) alone_bps: Option<f64>,
    /// Index into `groups`.
    pub(crate) group: usize,
    /// Whether queueing or losses indicate a bottleneck.
    pub(crate) congested: bool,
    /// The statistics of RFC 8382; none with too few samples.
    pub(crate) skewness: Option<f64>,
    pub(crate) variability_ms: Option<f64>,
    pub(crate) frequency: Option<f64>,
}

/// Paths that share a bottleneck, or a single path that shares none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Group {
    /// Indices into `paths`.
    pub(crate) paths: Vec<usize>,
    pub(crate) rate_bps: f64,
}

/// A relay that carries no path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Unused {
    pub(crate) address: String,
    pub(crate) why: String,
}

impl Report {
    pub(crate) fn new(
        surveys: &[PathSurvey],
        relays: &[RelayStats],
        bytes: u64,
        ended: Ended,
    ) -> Self {
        let unused = relays
            .iter()
            .filter(|relay| relay.state != RelayState::InUse);
        let mut report = Self {
            seconds: surveys.first().map_or(0.0, |s| s.span.as_secs_f64()),
            bytes,
            ended,
            multipath_pays: false,
            unused_relays: unused.map(Unused::of).collect(),
            paths: surveys.iter().map(Path::of).collect(),
            groups: Vec::new(),
            best_bps: 0.0,
            all_bps: 0.0,
            gain: None,
        };
        report.add_up();
        report
    }

    /// Groups and sums, from each path's rate and group.
    fn add_up(&mut self) {
        let paths = &self.paths;
        let count = paths.iter().map(|path| path.group + 1).max().unwrap_or(0);
        let mut groups = vec![
            Group {
                paths: Vec::new(),
                rate_bps: 0.0,
            };
            count
        ];
        for (index, path) in paths.iter().enumerate() {
            groups[path.group].paths.push(index);
            groups[path.group].rate_bps += path.rate_bps;
        }
        let rates = || groups.iter().map(|group| group.rate_bps);
        (self.best_bps, self.all_bps) = (rates().fold(0.0, f64::max), rates().sum::<f64>());
        self.gain = (self.best_bps > 0.0).then(|| self.all_bps / self.best_bps);
        self.multipath_pays = self.gain.is_some_and(|gain| gain >= MIN_GAIN);
        self.groups = groups;
    }

    /// The interfaces that share a bottleneck with another one, as it seems. Two links that are
    /// alike look like one: their queues rise and fall together.
    pub(super) fn alike(&self) -> Vec<String> {
        let names = |group: &Group| -> BTreeSet<&str> {
            let names = group.paths.iter().map(|path| &*self.paths[*path].name);
            names.collect()
        };
        let groups = self.groups.iter().map(names);
        let several: BTreeSet<&str> = groups.filter(|names| names.len() > 1).flatten().collect();
        several.into_iter().map(str::to_owned).collect()
    }

    /// Takes what interfaces carried alone. Those that got no more shared no bottleneck with
    /// another one. Where only one got more, it shares the fastest other one's.
    pub(super) fn take_alone(&mut self, alone: &BTreeMap<String, f64>) {
        let together = |paths: &[Path], name: &str| -> f64 {
            let of = paths.iter().filter(|path| path.name == name);
            of.map(|path| path.rate_bps).sum()
        };
        let mut own: Vec<&String> = Vec::new();
        for (name, rate) in alone {
            if *rate <= RISE * together(&self.paths, name) {
                own.push(name);
            }
            let paths = self.paths.iter_mut().filter(|path| path.name == *name);
            paths.for_each(|path| path.alone_bps = Some(*rate));
        }
        if own.len() + 1 == alone.len() {
            let rate = |name: &&String| together(&self.paths, name);
            let fastest = (0..own.len()).max_by(|a, b| rate(&own[*a]).total_cmp(&rate(&own[*b])));
            fastest.map(|fastest| own.swap_remove(fastest));
        }
        // Each interface's paths keep together as far as they were.
        let mut moved: BTreeMap<(usize, &String), usize> = BTreeMap::new();
        let mut next = self.groups.len();
        for path in &mut self.paths {
            if let Some(name) = own.iter().find(|name| path.name == ***name) {
                path.group = *moved.entry((path.group, name)).or_insert_with(|| {
                    next += 1;
                    next - 1
                });
            }
        }
        let used: BTreeSet<usize> = self.paths.iter().map(|path| path.group).collect();
        for path in &mut self.paths {
            path.group = used.range(..path.group).count();
        }
        self.add_up();
    }

    /// The text for people.
    pub(crate) fn text(&self) -> String {
        let mut table = Table::new([
            Column::left("path"),
            Column::right("rtt"),
            Column::right("min rtt"),
            Column::right("lost"),
            Column::right("rate"),
            Column::left("bottleneck"),
        ]);
        for path in &self.paths {
            table.row([
                match path.relay {
                    true => format!("{} → relay {}", path.name, path.remote),
                    false => format!("{} → {}", path.name, path.remote),
                },
                format!("{:.1} ms", path.rtt_ms),
                format!("{:.1} ms", path.min_rtt_ms),
                format!("{:.2} %", 100.0 * path.loss),
                Rate::from_bits_per_sec(path.rate_bps).to_string(),
                self.bottleneck(path),
            ]);
        }
        let mut text = table.to_string();
        for relay in &self.unused_relays {
            text += &format!("relay {}: {}\n", relay.address, relay.why);
        }
        text + &self.verdict()
    }

    /// A letter for a shared bottleneck, "own" for a congested path that shares none.
    fn bottleneck(&self, path: &Path) -> String {
        let shared = |group: &Group| group.paths.len() > 1;
        if shared(&self.groups[path.group]) {
            let before = self.groups[..path.group].iter().filter(|g| shared(g));
            let number = before.count();
            return match u8::try_from(number).ok().filter(|n| *n < 26) {
                Some(n) => format!("shared {}", char::from(b'A' + n)),
                None => format!("shared {}", number + 1),
            };
        }
        match path.congested {
            true => "own".to_owned(),
            false => "none seen".to_owned(),
        }
    }

    fn verdict(&self) -> String {
        let rate = Rate::from_bits_per_sec;
        let Some(gain) = self.gain else {
            return "Nothing arrived on any path\n".to_owned();
        };
        let measured = format!(
            "{} sent; measured for {} after the warm-up{}",
            ByteSize::new(self.bytes),
            match self.seconds < 1.0 {
                true => format_duration(Duration::from_secs_f64(self.seconds)),
                false => format!("{:.1} s", self.seconds),
            },
            match self.ended {
                Ended::Time => "",
                Ended::Size => ", until `--size` was used up",
            }
        );
        let best = rate(self.best_bps);
        match self.multipath_pays {
            true => format!(
                "Several paths pay off: {} together, {gain:.2} times the {best} of the best one \
                 ({measured})\n",
                rate(self.all_bps),
            ),
            false if self.groups.len() == 1 && self.paths.len() > 1 => format!(
                "Several paths don't pay off: they share a bottleneck of {best} ({measured})\n"
            ),
            false => format!(
                "Several paths don't pay off: the best one has {best}, all together have {} \
                 ({measured})\n",
                rate(self.all_bps),
            ),
        }
    }

    /// Prints the table on standard error, or JSON on standard output.
    pub(crate) fn show(&self, screen: &Screen, json: bool) -> anyhow::Result<()> {
        let text = match json {
            true => serde_json::to_string(self)? + "\n",
            false => self.text(),
        };
        if !json {
            screen.error(text.trim_end());
            return Ok(());
        }
        let written = io::stdout().write_all(text.as_bytes());
        written.context("can't write to standard output")
    }
}

impl Path {
    fn of(survey: &PathSurvey) -> Self {
        let PathSurvey {
            path,
            span,
            bytes_acked,
            bytes_lost,
            loss_events,
            estimate,
            group,
        } = survey;
        Self {
            name: path.name.clone(),
            local: path.local.to_string(),
            remote: path.remote.to_string(),
            relay: path.relay,
            rtt_ms: path.rtt.as_secs_f64() * 1e3,
            min_rtt_ms: path.min_rtt.as_secs_f64() * 1e3,
            loss: *bytes_lost as f64 / (bytes_acked + bytes_lost).max(1) as f64,
            loss_events: *loss_events,
            rate_bps: Rate::of(*bytes_acked, *span).bits_per_sec(),
            alone_bps: None,
            group: *group,
            congested: estimate.is_some_and(|e| e.congested),
            skewness: estimate.map(|e| e.skewness),
            variability_ms: estimate.map(|e| e.variability * 1e3),
            frequency: estimate.and_then(|e| e.frequency),
        }
    }
}

impl Unused {
    fn of(relay: &RelayStats) -> Self {
        let why = match (&relay.refused, relay.state) {
            (Some(why), _) => why.clone(),
            (None, RelayState::Waiting) => "no answer".to_owned(),
            (None, _) => "no path through it came up".to_owned(),
        };
        Self {
            address: relay.address.to_string(),
            why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(remote: &str, rate: f64, group: usize) -> Path {
        Path {
            name: "eth0".to_owned(),
            local: "192.0.2.1:4433".to_owned(),
            remote: remote.to_owned(),
            relay: remote.starts_with("198"),
            rtt_ms: 42.25,
            min_rtt_ms: 20.0,
            loss: 0.0123,
            loss_events: 7,
            rate_bps: rate,
            alone_bps: None,
            group,
            congested: rate > 3e6,
            skewness: Some(-0.25),
            variability_ms: Some(4.5),
            frequency: (group < 2).then_some(0.2),
        }
    }

    fn report(paths: Vec<Path>, groups: Vec<Group>, ended: Ended) -> Report {
        let all: f64 = groups.iter().map(|g| g.rate_bps).sum();
        let best = groups.iter().map(|g| g.rate_bps).fold(0.0, f64::max);
        Report {
            seconds: 8.0,
            bytes: 40_000_000,
            ended,
            paths,
            groups,
            unused_relays: vec![Unused {
                address: "198.51.100.9:45170".to_owned(),
                why: "no answer".to_owned(),
            }],
            best_bps: best,
            all_bps: all,
            gain: (best > 0.0).then(|| all / best),
            multipath_pays: all / best >= MIN_GAIN,
        }
    }

    fn several() -> Report {
        let paths = vec![
            path("203.0.113.5:4433", 12e6, 0),
            path("198.51.100.1:45170", 8e6, 0),
            path("198.51.100.2:45170", 15e6, 1),
            path("198.51.100.3:45170", 2e6, 2),
        ];
        let group = |paths: &[usize], rate_bps| Group {
            paths: paths.to_vec(),
            rate_bps,
        };
        let groups = vec![group(&[0, 1], 20e6), group(&[2], 15e6), group(&[3], 2e6)];
        report(paths, groups, Ended::Time)
    }

    #[test]
    fn a_table_for_people() {
        insta::assert_snapshot!("several", several().text());
        let one = Group {
            paths: vec![0],
            rate_bps: 12e6,
        };
        let alone = report(
            vec![path("203.0.113.5:4433", 12e6, 0)],
            vec![one],
            Ended::Size,
        );
        insta::assert_snapshot!("alone", alone.text());
        let nothing = report(Vec::new(), Vec::new(), Ended::Time);
        insta::assert_snapshot!("nothing", nothing.text());
    }

    /// Its measurement takes two uplinks and 20 s; what it prints of these values doesn't.
    #[test]
    fn the_guide_shows_this_table() {
        let measured = [
            ("eth0", "203.0.113.5:4433", 34.7, 0.03, 7.238e6, 0),
            ("wlan0", "203.0.113.5:4433", 30.4, 0.04, 3.934e6, 1),
            ("eth0", "198.51.100.4:45170", 35.1, 0.01, 12.21e6, 0),
            ("wlan0", "198.51.100.4:45170", 30.3, 0.04, 5.789e6, 1),
        ];
        let paths = measured.map(|(name, remote, rtt_ms, percent, rate, group)| Path {
            name: name.to_owned(),
            rtt_ms,
            min_rtt_ms: 0.1,
            loss: percent / 100.0,
            ..path(remote, rate, group)
        });
        let group = |a: usize, b: usize| Group {
            paths: vec![a, b],
            rate_bps: paths[a].rate_bps + paths[b].rate_bps,
        };
        let groups = vec![group(0, 2), group(1, 3)];
        let report = Report {
            seconds: 16.0,
            bytes: 70_660_000,
            unused_relays: Vec::new(),
            ..report(paths.to_vec(), groups, Ended::Time)
        };
        let guide = include_str!("../../../../docs/guide.md");
        let shown = report.text();
        assert!(
            guide.contains(&shown),
            "docs/guide.md shows another table:\n{shown}"
        );
    }

    /// `(interface, rate together, rate alone)` in Mbps, all in one group as it seems; the groups
    /// after the measurements alone.
    fn groups_of(measured: &[(&str, f64, f64)]) -> Vec<usize> {
        let paths = measured.iter().map(|(name, rate, _)| Path {
            name: (*name).to_owned(),
            ..path("203.0.113.5:4433", rate * 1e6, 0)
        });
        let paths: Vec<Path> = paths.collect();
        let all = Group {
            paths: (0..paths.len()).collect(),
            rate_bps: paths.iter().map(|path| path.rate_bps).sum(),
        };
        let mut report = report(paths, vec![all], Ended::Time);
        let names: BTreeSet<&str> = measured.iter().map(|(name, ..)| *name).collect();
        let several = names.len() > 1;
        assert_eq!(report.alike().len(), if several { names.len() } else { 0 });
        let alone = measured
            .iter()
            .map(|(name, _, alone)| ((*name).to_owned(), alone * 1e6));
        report.take_alone(&alone.collect());
        report.paths.iter().map(|path| path.group).collect()
    }

    #[test]
    fn what_an_interface_carries_alone_decides() {
        // Two links that are alike, and one that both lead to.
        assert_eq!(groups_of(&[("a", 8.0, 8.1), ("b", 8.0, 7.9)]), [0, 1]);
        assert_eq!(groups_of(&[("a", 5.0, 9.7), ("b", 4.8, 9.8)]), [0, 0]);
        // Shared unevenly: the first one gains little by being alone.
        assert_eq!(groups_of(&[("a", 9.0, 9.9), ("b", 1.0, 9.9)]), [0, 0]);
        // Two of three.
        let three = [("a", 5.0, 9.9), ("b", 5.0, 9.9), ("c", 7.0, 7.0)];
        assert_eq!(groups_of(&three), [0, 0, 1]);
        let three = [("a", 5.0, 5.0), ("b", 9.0, 9.9), ("c", 1.0, 9.9)];
        assert_eq!(groups_of(&three), [1, 0, 0]);
        // Of one interface, direct and through a relay.
        assert_eq!(groups_of(&[("a", 5.0, 9.9), ("a", 5.0, 9.9)]), [0, 0]);
    }

    #[test]
    fn one_object_for_programs() {
        let json = serde_json::to_string_pretty(&several()).unwrap();
        insta::assert_snapshot!("json", json);
    }
}

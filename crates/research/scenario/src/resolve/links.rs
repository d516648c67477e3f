//! Links become `LinkConfig`s, and paths lists of indices.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use manyway_network::{
    Change, InvalidLink, Late, Limit, LinkConfig, Loss, NamedLink, Outages, PathSpec, Policer,
    Queue, Timetable, Trace, Varying,
};
use manyway_units::Rate;

use super::{Checks, MAX_PARTS, Names, named, shown, time};
use crate::file::{self, File};
use crate::tree::Key;

/// The largest trace that is read, in bytes.
const MAX_TRACE: u64 = 64 << 20;

/// Room in front of an access link: what a network interface has.
const ACCESS_QUEUE: Queue = Queue::DropTail(Limit::Packets(1000));

impl Checks {
    pub(super) fn links(&mut self, file: &File) -> Option<Vec<NamedLink>> {
        let key = Key::of(["links"]);
        let links = self.required(
            &file.links,
            &key,
            "[links.wifi] with rate = \"50 Mbps\" and delay = \"10 ms\"",
        )?;
        if links.is_empty() || links.len() as u64 > MAX_PARTS {
            let count = links.len();
            self.report(
                &key,
                format!("{count} links: a scenario has 1 to {MAX_PARTS}"),
            );
            return None;
        }
        let resolved: Vec<_> = links
            .iter()
            .map(|(name, link)| {
                let key = named("links", name);
                self.required(&link.delay, &key.join("delay"), "delay = \"10 ms\"");
                Some(NamedLink {
                    name: name.to_string(),
                    config: self.link(&key, link)?,
                })
            })
            .collect();
        resolved.into_iter().collect()
    }

    /// A flow's private link.
    pub(super) fn access(&mut self, key: &Key, link: &file::Link) -> Option<LinkConfig> {
        let mut config = self.link(key, link)?;
        if link.queue.is_none() {
            config.queue = ACCESS_QUEUE;
        }
        if config.queue.decides_late() {
            let message = "a private link has a size, red or pie: the other queues decide about \
                           packets when they leave, and belong in [links]";
            self.report(&key.join("queue"), message);
        }
        Some(config)
    }

    fn link(&mut self, key: &Key, link: &file::Link) -> Option<LinkConfig> {
        let before = self.faults.len();
        let (rate, timetable) = self.rate(key, link)?;
        let delay = link.delay.map_or(Duration::ZERO, |delay| delay.0);
        let queue = match &link.queue {
            Some(queue) => self.queue(&key.join("queue"), queue, rate)?,
            None => Queue::bandwidth_delay(rate, delay),
        };
        let config = LinkConfig {
            policer: self.policer(&key.join("policer"), link.policer.as_ref())?,
            queue,
            loss: self.loss(&key.join("loss"), link.loss.as_ref())?,
            jitter: link.jitter.map_or(Duration::ZERO, |jitter| jitter.0),
            overtaking: link.overtaking.unwrap_or(false),
            late: self.late(&key.join("late"), link.late.as_ref())?,
            timetable,
            ..LinkConfig::new(rate, delay)
        };
        if self.faults.len() > before {
            return None;
        }
        if let Err(error) = config.validate() {
            self.invalid(key, &error);
            return None;
        }
        Some(config)
    }

    /// Its rate, which is the mean of its trace if it has one, and how it changes.
    fn rate(&mut self, key: &Key, link: &file::Link) -> Option<(Rate, Timetable)> {
        let Some(name) = &link.trace else {
            let rate = self.required(&link.rate, &key.join("rate"), "rate = \"50 Mbps\"");
            let rate = rate.map(|rate| rate.0);
            if let Some(varying) = &link.varying {
                return self.varying(key, varying, link, rate?);
            }
            let timetable = self.timetable(key, link);
            return rate.map(|rate| (rate, timetable));
        };
        let key = key.join("trace");
        if link.rate.is_some() || link.varying.is_some() || link.timetable.is_some() {
            self.report(
                &key,
                "replaces `rate`, `varying` and `timetable`: leave them out",
            );
        }
        let path = self.folder.join(name);
        let is_table = path.extension().is_some_and(|extension| extension == "csv");
        let period = link.timetable_period.map(|period| period.0);
        if period.is_some() && !is_table {
            let message = "the last line of a trace in Mahimahi's format is its period: leave \
                           timetable_period out";
            self.report(&key, message);
        }
        match read_trace(&path, is_table) {
            Ok(trace) => {
                let trace = match period {
                    Some(period) => trace.repeating(period),
                    None => trace,
                };
                Some((trace.mean(), trace.into_timetable()))
            }
            Err(message) => {
                self.report(&key, format!("{}: {message}", path.display()));
                None
            }
        }
    }

    fn varying(
        &mut self,
        link_key: &Key,
        varying: &file::Varying,
        link: &file::Link,
        mean: Rate,
    ) -> Option<(Rate, Timetable)> {
        let key = link_key.join("varying");
        if has_timetable(link) {
            self.report(&key, "replaces `timetable`: leave one of them out");
        }
        let interval = &varying.interval;
        let interval = self.required(interval, &key.join("interval"), "interval = \"50 ms\"");
        let deviation = &varying.deviation;
        let deviation = self.required(deviation, &key.join("deviation"), "deviation = 0.4");
        let outages = match &varying.outages {
            None => None,
            Some(outages) => {
                let key = key.join("outages");
                let every = self.required(&outages.every, &key.join("every"), "every = \"20 s\"");
                let lasting = &outages.lasting;
                let lasting = self.required(lasting, &key.join("lasting"), "lasting = \"300 ms\"");
                Some(Outages {
                    every: every?.0,
                    lasting: lasting?.0,
                })
            }
        };
        let varying = Varying {
            interval: interval?.0,
            deviation: deviation?.0,
            memory: varying.memory.map_or(0.0, |memory| memory.0),
            outages,
            seed: varying.seed.unwrap_or(1) ^ hash(&key.to_string()),
        };
        match varying.timetable(mean) {
            Ok(timetable) => Some((mean, timetable)),
            Err(error) => {
                self.invalid(link_key, &error);
                None
            }
        }
    }

    fn timetable(&mut self, key: &Key, link: &file::Link) -> Timetable {
        let list = key.join("timetable");
        if link.timetable_period.is_some() && link.timetable.is_none() {
            self.report(
                &key.join("timetable_period"),
                "a period needs a `timetable` to repeat",
            );
        }
        let mut earlier = None;
        let changes = link
            .timetable
            .iter()
            .flatten()
            .enumerate()
            .filter_map(|(n, change)| {
                let key = list.at(n);
                let at = self.required(&change.at, &key.join("at"), "at = \"20 s\"")?;
                if let Some(earlier) = earlier.replace(at.0)
                    && at.0 <= earlier
                {
                    let message = format!(
                        "changes must be in the order of time, and the previous one is at {}",
                        shown(earlier)
                    );
                    self.report(&key.join("at"), message);
                }
                if change.rate.is_none() && change.delay.is_none() && change.up.is_none() {
                    self.report(&key, "changes nothing: give it a `rate`, a `delay` or `up`");
                }
                Some(Change {
                    at: time(at.0),
                    rate: change.rate.map(|rate| rate.0),
                    delay: change.delay.map(|delay| delay.0),
                    up: change.up,
                })
            });
        Timetable {
            changes: changes.collect(),
            period: link.timetable_period.map(|period| period.0),
        }
    }

    fn policer(&mut self, key: &Key, policer: Option<&file::Policer>) -> Option<Option<Policer>> {
        let Some(policer) = policer else {
            return Some(None);
        };
        let rate = self.required(&policer.rate, &key.join("rate"), "rate = \"20 Mbps\"");
        let burst = self.required(&policer.burst, &key.join("burst"), "burst = \"64 kB\"");
        Some(Some(Policer {
            rate: rate?.0,
            burst: burst?.0.bytes(),
        }))
    }

    fn loss(&mut self, key: &Key, loss: Option<&file::Loss>) -> Option<Loss> {
        let bursts = match loss {
            None => return Some(Loss::None),
            Some(file::Loss::Bernoulli(p)) if p.0 == 0.0 => return Some(Loss::None),
            Some(file::Loss::Bernoulli(p)) => return Some(Loss::Bernoulli(p.0)),
            Some(file::Loss::Periodic(every)) => return Some(Loss::Periodic { every: every.0 }),
            Some(file::Loss::GilbertElliott(bursts)) => bursts,
        };
        let good_to_bad = self.required(
            &bursts.good_to_bad,
            &key.join("good_to_bad"),
            "good_to_bad = 0.001",
        );
        let bad_to_good = self.required(
            &bursts.bad_to_good,
            &key.join("bad_to_good"),
            "bad_to_good = 0.3",
        );
        Some(Loss::GilbertElliott {
            good_to_bad: good_to_bad?.0,
            bad_to_good: bad_to_good?.0,
            good: bursts.good.map_or(0.0, |p| p.0),
            bad: bursts.bad.map_or(1.0, |p| p.0),
        })
    }

    fn late(&mut self, key: &Key, late: Option<&file::Late>) -> Option<Late> {
        let Some(late) = late else {
            return Some(Late::default());
        };
        let share = self.required(&late.share, &key.join("share"), "share = 0.01");
        let by = self.required(&late.by, &key.join("by"), "by = \"10 ms\"");
        Some(Late {
            share: share?.0,
            by: by?.0,
        })
    }

    /// Reports what the link model finds wrong; its settings are called as the file's keys.
    fn invalid(&mut self, link: &Key, error: &InvalidLink) {
        let InvalidLink { value, allowed, .. } = error;
        let setting = Key::parse(&error.field).unwrap_or_default();
        let place = link.joined(setting.segments());
        self.report(&place, format!("{value} is not possible: {allowed}"));
    }

    pub(super) fn paths(
        &mut self,
        file: &File,
        links: Option<&[NamedLink]>,
    ) -> Option<Vec<PathSpec>> {
        let key = Key::of(["paths"]);
        let paths = self.required(&file.paths, &key, "[paths.p1] with links = [\"wifi\"]")?;
        if paths.is_empty() || paths.len() as u64 > MAX_PARTS {
            let count = paths.len();
            self.report(
                &key,
                format!("{count} paths: a scenario has 1 to {MAX_PARTS}"),
            );
            return None;
        }
        // Paths can be checked against the names even if a link has something wrong.
        let names = Names::new(
            "link",
            file.links.iter().flatten().map(|(name, _)| name.as_str()),
        );
        let resolved: Vec<_> = paths
            .iter()
            .map(|(name, path)| {
                self.path(&named("paths", name), name.as_str(), path, &names, links)
            })
            .collect();
        resolved.into_iter().collect()
    }

    fn path(
        &mut self,
        key: &Key,
        name: &str,
        path: &file::Path,
        names: &Names<'_>,
        links: Option<&[NamedLink]>,
    ) -> Option<PathSpec> {
        let there = key.join("links");
        let forward = self.required(&path.links, &there, "links = [\"wifi\"]")?;
        if forward.is_empty() {
            self.report(&there, "a path needs at least one link");
            return None;
        }
        let forward = self.way(&there, forward, names);
        let reverse = self.way(
            &key.join("reverse"),
            path.reverse.as_deref().unwrap_or_default(),
            names,
        );
        let (forward, reverse, links) = (forward?, reverse?, links?);
        let default = || match reverse.is_empty() {
            true => forward.iter().map(|link| links[*link].config.delay).sum(),
            false => Duration::ZERO,
        };
        Some(PathSpec {
            name: name.to_owned(),
            return_delay: path.return_delay.map_or_else(default, |delay| delay.0),
            links: forward,
            reverse,
        })
    }

    fn way(
        &mut self,
        key: &Key,
        links: &[crate::quantity::Name],
        names: &Names<'_>,
    ) -> Option<Vec<usize>> {
        let with_keys = links
            .iter()
            .enumerate()
            .map(|(n, link)| (key.at(n), link.as_str()));
        let indices = self.look_up(with_keys, names)?;
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = (0..indices.len()).find(|n| !seen.insert(indices[*n])) {
            self.report(
                &key.at(twice),
                format!("the path passes {} twice: leave the loop out", links[twice]),
            );
            return None;
        }
        Some(indices)
    }
}

fn has_timetable(link: &file::Link) -> bool {
    link.timetable.is_some() || link.timetable_period.is_some()
}

/// FNV-1a, so that links with different names don't vary alike.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn read_trace(path: &Path, is_table: bool) -> Result<Trace, String> {
    // Opening a pipe would wait for somebody who writes.
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Err("is no file: write the trace into one".to_owned());
    }
    let mut text = String::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(MAX_TRACE + 1).read_to_string(&mut text));
    read.map_err(|error| format!("can't be read: {error}"))?;
    if text.len() as u64 > MAX_TRACE {
        let most = MAX_TRACE >> 20;
        return Err(format!(
            "is larger than {most} MiB, the most that a trace may have"
        ));
    }
    let trace = match is_table {
        true => Trace::csv(&text),
        false => Trace::mahimahi(&text),
    };
    trace.map_err(|error| error.to_string())
}

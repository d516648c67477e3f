//! What the demo with relays found: tables, a picture, an object.

use std::time::Duration;

use manyway::control::LawSpec;
use manyway_report::{Column, Kind, Mark, Plot, PlotError, Series, Table};
use manyway_units::{ByteSize, Rate, format_duration};
use serde::Serialize;

use super::super::show::{Show, mbps, rates};
use super::super::trial::Trial;
use super::shares::{epochs_reached, shares};
use super::topology::{ACCESS, BEHIND, CORE, LINES, Line, USELESS, round_trip};
use crate::meter::loss;

/// The end of the transfer, in which the useless relay should have little.
pub(super) const END: Duration = Duration::from_secs(10);
/// What comes to the first this many loss epochs of the direct path is no judgement yet.
pub(super) const EPOCHS: u64 = 200;
/// Relays should bring this many times what the direct path has alone,
pub(super) const GAIN: f64 = 1.7;
/// and the useless one have less than this part in the end.
pub(super) const LITTLE: f64 = 0.1;
/// Spans of the transfer in the table.
const SPANS: u32 = 4;

/// Both transfers.
#[derive(Debug)]
pub(crate) struct Demo {
    pub(super) single: Part,
    pub(super) all: Part,
    /// Packets that each relay sent on, both ways.
    pub(super) forwarded: Vec<u64>,
}

/// A transfer of a file.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) law: LawSpec,
    pub(super) size: u64,
    /// Of the file as it was written.
    pub(super) digest: blake3::Hash,
    pub(super) trial: Trial,
}

impl Part {
    fn goodput(&self) -> Rate {
        Rate::of(self.size, self.trial.took)
    }

    fn verified(&self) -> bool {
        self.trial.digest == self.digest
    }

    fn json(&self) -> PartJson {
        PartJson {
            cc: self.law.to_string(),
            bytes: self.size,
            blake3: self.digest.to_string(),
            seconds: self.trial.took.as_secs_f64(),
            goodput_bps: self.goodput().bits_per_sec(),
        }
    }

    /// Shares of the ways between two parts of the transfer's time.
    fn shares(&self, from: f64, to: f64) -> Vec<f64> {
        let took = self.trial.took;
        shares(&self.trial.samples, took.mul_f64(from), took.mul_f64(to))
    }

    fn shares_at_the_end(&self) -> Vec<f64> {
        let took = self.trial.took;
        shares(&self.trial.samples, took.saturating_sub(END), took)
    }

    fn loss_epochs(&self, way: usize) -> u64 {
        let last = self.trial.samples.last();
        last.and_then(|sample| sample.loss_events.get(way).copied())
            .unwrap_or(0)
    }
}

/// `--json`'s object; fields are added, never changed.
#[derive(Debug, Serialize)]
pub(crate) struct Json {
    verified: bool,
    /// Without queues, of the direct path and of each relay's.
    rtt_ms: f64,
    relay_rtt_ms: [f64; 3],
    links: Vec<LinkJson>,
    single: PartJson,
    with_relays: PartJson,
    gain: f64,
    /// Of the direct path, in the transfer with relays.
    loss_epochs: u64,
    useless_relay: Useless,
    paths: Vec<PathJson>,
    /// Every ten seconds.
    shares: Vec<SharesJson>,
}

#[derive(Debug, Serialize)]
struct LinkJson {
    name: &'static str,
    bps: f64,
    delay_ms: f64,
    queue_packets: u32,
}

#[derive(Debug, Serialize)]
struct PartJson {
    cc: String,
    bytes: u64,
    blake3: String,
    seconds: f64,
    goodput_bps: f64,
}

#[derive(Debug, Serialize)]
struct Useless {
    name: String,
    /// Its share of what was sent in the first half, and in the last 10 s.
    share_first_half: f64,
    share_last_10_s: f64,
    /// When the direct path had met 200 loss epochs.
    epochs_reached_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct PathJson {
    name: String,
    bytes_sent: u64,
    share: f64,
    share_last_10_s: f64,
    loss_epochs: u64,
    min_rtt_ms: Option<f64>,
    /// By a relay, both ways.
    packets_forwarded: Option<u64>,
}

#[derive(Debug, Serialize)]
struct SharesJson {
    seconds: f64,
    shares: Vec<f64>,
}

impl Show for Demo {
    type Json = Json;

    fn verified(&self) -> bool {
        self.single.verified() && self.all.verified()
    }

    fn json(&self) -> Json {
        let link = |line: &Line| LinkJson {
            name: line.name,
            bps: line.mbps * 1e6,
            delay_ms: ms(line.delay),
            queue_packets: line.queue,
        };
        let useless = 1 + USELESS;
        Json {
            verified: self.verified(),
            rtt_ms: ms(round_trip(CORE)),
            relay_rtt_ms: BEHIND.map(|line| ms(round_trip(line))),
            links: LINES.iter().map(link).collect(),
            single: self.single.json(),
            with_relays: self.all.json(),
            gain: self.gain(),
            loss_epochs: self.all.loss_epochs(0),
            useless_relay: Useless {
                name: way_name(useless),
                share_first_half: part(&self.all.shares(0.0, 0.5), useless),
                share_last_10_s: part(&self.all.shares_at_the_end(), useless),
                epochs_reached_s: self.epochs_reached().map(|at| at.as_secs_f64()),
            },
            paths: (0..=BEHIND.len()).map(|way| self.path_json(way)).collect(),
            shares: self.shares_over_time(),
        }
    }

    fn text(&self) -> String {
        let verified = match self.verified() {
            true => "BLAKE3 of both copies verified.",
            false => "BLAKE3 of a copy DIFFERS from its original's.",
        };
        format!(
            "\n{}\n{}\n{}\n{verified}",
            self.comparison(),
            self.usage(),
            self.verdicts().join("\n"),
        )
    }

    /// One transfer after the other on one axis of time, each way a band.
    fn svg(&self) -> Result<String, PlotError> {
        let mut plot = Plot::new(
            format!(
                "manyway demo --relays: the direct path alone ({}), then with three relays ({})",
                self.single.law, self.all.law
            ),
            Kind::Stacked,
        );
        plot.x_label = "seconds".to_owned();
        plot.y_label = "Mbps".to_owned();
        let end = self.single.trial.took.as_secs_f64();
        let second = end + 1.0;
        let mark = |x, name: &str, part: &Part| Mark {
            x,
            label: format!("{name}: {:.1} Mbps", mbps(part.goodput())),
        };
        plot.marks = vec![
            mark(0.0, "direct", &self.single),
            mark(second, "with relays", &self.all),
        ];
        let alone = rates(&self.single.trial.samples);
        let together = rates(&self.all.trial.samples);
        let series = |way: usize| {
            let first = alone
                .iter()
                .map(|(at, rates)| (*at, rates.get(way).copied().unwrap_or(0.0)));
            let then = together.iter().map(|(at, rates)| (second + at, rates[way]));
            Series {
                name: way_name(way),
                points: first
                    .chain([(end, 0.0), (second, 0.0)])
                    .chain(then)
                    .collect(),
            }
        };
        plot.series = (0..=BEHIND.len()).map(series).collect();
        plot.svg()
    }
}

impl Demo {
    fn gain(&self) -> f64 {
        self.all.goodput().bits_per_sec() / self.single.goodput().bits_per_sec()
    }

    fn epochs_reached(&self) -> Option<Duration> {
        epochs_reached(&self.all.trial.samples, 0, EPOCHS)
    }

    fn comparison(&self) -> Table {
        let mut table = Table::new([
            Column::left("transfer"),
            Column::left("law"),
            Column::right("size"),
            Column::right("seconds"),
            Column::right("goodput"),
        ]);
        for (name, part) in [
            ("direct path alone", &self.single),
            ("with relays", &self.all),
        ] {
            table.row([
                name.to_owned(),
                part.law.to_string(),
                ByteSize::new(part.size).to_string(),
                format!("{:.1}", part.trial.took.as_secs_f64()),
                format!("{:.2}", part.goodput()),
            ]);
        }
        table
    }

    /// What each way did when all were used; shares of what was sent in each quarter of the time.
    fn usage(&self) -> Table {
        let quarters = (1..=SPANS).map(|n| Column::right(format!("{n}. quarter")));
        let columns = [Column::left("path"), Column::right("sent")]
            .into_iter()
            .chain(quarters)
            .chain(["last 10 s", "loss epochs", "lost", "least rtt"].map(Column::right));
        let mut table = Table::new(columns.collect::<Vec<_>>());
        let quarter = |n: u32| {
            let at = |n: u32| f64::from(n) / f64::from(SPANS);
            self.all.shares(at(n), at(n + 1))
        };
        let mut spans: Vec<Vec<f64>> = (0..SPANS).map(quarter).collect();
        spans.push(self.all.shares_at_the_end());
        for way in 0..=BEHIND.len() {
            let path = self.all.trial.paths.get(way).and_then(Option::as_ref);
            let sent = ByteSize::new(self.sent(way)).to_string();
            let percent = |part: f64| format!("{:.1} %", 100.0 * part);
            let shares = spans.iter().map(|shares| percent(part(shares, way)));
            table.row([way_name(way), sent].into_iter().chain(shares).chain([
                self.all.loss_epochs(way).to_string(),
                path.map_or(String::new(), |path| percent(loss(path))),
                path.map_or(String::new(), |path| format!("{:.1} ms", ms(path.min_rtt))),
            ]));
        }
        table
    }

    fn sent(&self, way: usize) -> u64 {
        let last = self.all.trial.samples.last();
        last.and_then(|sample| sample.bytes.get(way).copied())
            .unwrap_or(0)
    }

    /// What should come out, and what has.
    fn verdicts(&self) -> Vec<String> {
        let holds = |good: bool| {
            if good {
                "as it should"
            } else {
                "NOT as it should"
            }
        };
        let useless = 1 + USELESS;
        let before = part(&self.all.shares(0.0, 0.5), useless);
        let after = part(&self.all.shares_at_the_end(), useless);
        let falls = after < LITTLE && (after < before || after == 0.0);
        let gain = format!(
            "{:.2} times the goodput of the direct path alone, {}: at least {GAIN}.",
            self.gain(),
            holds(self.gain() >= GAIN),
        );
        let epochs = self.all.loss_epochs(0);
        let share = match self.epochs_reached() {
            Some(at) => format!(
                "After {EPOCHS} loss epochs of the direct path at {:.0} s ({epochs} in all) the \
                 useless relay's share went from {:.1} % in the first half to {:.1} % in the last \
                 10 s, {}: less, and under {:.0} %.",
                at.as_secs_f64(),
                100.0 * before,
                100.0 * after,
                holds(falls),
                100.0 * LITTLE,
            ),
            None => format!(
                "The direct path met only {epochs} loss epochs: too few to tell whether the \
                 useless relay is left ({:.1} % in the first half, {:.1} % in the last 10 s).",
                100.0 * before,
                100.0 * after,
            ),
        };
        vec![gain, share]
    }

    fn path_json(&self, way: usize) -> PathJson {
        let path = self.all.trial.paths.get(way).and_then(Option::as_ref);
        PathJson {
            name: way_name(way),
            bytes_sent: self.sent(way),
            share: part(&self.all.shares(0.0, 1.0), way),
            share_last_10_s: part(&self.all.shares_at_the_end(), way),
            loss_epochs: self.all.loss_epochs(way),
            min_rtt_ms: path.map(|path| ms(path.min_rtt)),
            packets_forwarded: way
                .checked_sub(1)
                .and_then(|relay| self.forwarded.get(relay).copied()),
        }
    }

    fn shares_over_time(&self) -> Vec<SharesJson> {
        let samples = &self.all.trial.samples;
        let ends = (1..)
            .map(|n| n * END)
            .take_while(|end| *end <= self.all.trial.took);
        ends.map(|end| SharesJson {
            seconds: end.as_secs_f64(),
            shares: shares(samples, end - END, end),
        })
        .collect()
    }
}

/// What is set up, in words.
pub(super) fn introduction() -> String {
    let describe = |line: &Line| {
        format!(
            "{} {}",
            Rate::from_mbps(line.mbps),
            format_duration(line.delay)
        )
    };
    let behind = |relay: usize| describe(&LINES[BEHIND[relay]]);
    let trip = |relay: usize| format_duration(round_trip(BEHIND[relay]));
    format!(
        "The access link of all paths: {}. Behind it the direct path over a core link of {}, and \
         three relays: relay 1 over the same core link, so that it adds nothing, relay 2 over {}, \
         relay 3 over {}. Queues of {}, {}, {} and {} packets. Without them, a round trip takes {} \
         over the core link, {} and {} over the other two.",
        describe(&LINES[ACCESS]),
        behind(USELESS),
        behind(1),
        behind(2),
        LINES[ACCESS].queue,
        LINES[BEHIND[USELESS]].queue,
        LINES[BEHIND[1]].queue,
        LINES[BEHIND[2]].queue,
        trip(USELESS),
        trip(1),
        trip(2),
    )
}

fn way_name(way: usize) -> String {
    match way {
        0 => "direct".to_owned(),
        n if n == 1 + USELESS => format!("relay {n} (useless)"),
        n => format!("relay {n}"),
    }
}

fn part(shares: &[f64], way: usize) -> f64 {
    shares.get(way).copied().unwrap_or(0.0)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::super::super::trial::Sample;
    use super::*;

    fn part(law: &str, size: u64, ways: &[u64], useless_until: u64) -> Part {
        let seconds = size / 1_000_000;
        let sample = |n: u64| Sample {
            at: Duration::from_secs(n),
            bytes: (0..)
                .zip(ways)
                .map(|(way, rate)| rate * if way == 1 { n.min(useless_until) } else { n })
                .collect(),
            loss_events: ways.iter().map(|_| 2 * n).collect(),
        };
        let digest = blake3::hash(law.as_bytes());
        Part {
            law: law.parse().unwrap(),
            size,
            digest,
            trial: Trial {
                took: Duration::from_secs(seconds),
                digest,
                paths: vec![None; ways.len()],
                samples: (0..=seconds).map(sample).collect(),
            },
        }
    }

    fn demo(useless_until: u64) -> Demo {
        let mut single = part("reno", 20_000_000, &[550_000], 0);
        single.trial.took = Duration::from_secs(40);
        Demo {
            single,
            all: part(
                "mpath",
                120_000_000,
                &[500_000, 100_000, 300_000, 200_000],
                useless_until,
            ),
            forwarded: vec![9, 8, 7],
        }
    }

    #[test]
    fn for_people() {
        insta::assert_snapshot!("text", demo(60).text());
        let stays = demo(120).text();
        assert!(stays.contains("NOT as it should"), "{stays}");
    }

    #[test]
    fn for_programs() {
        let json = serde_json::to_string_pretty(&demo(60).json()).unwrap();
        insta::assert_snapshot!("json", json);
    }

    #[test]
    fn a_damaged_copy_is_said_to_be_one() {
        let mut demo = demo(60);
        demo.all.trial.digest = blake3::hash(b"something else");
        assert!(!demo.verified());
        assert!(demo.text().contains("DIFFERS"));
    }
}

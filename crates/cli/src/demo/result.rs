//! What the demo found: a table, a picture, an object.

use manyway::control::LawSpec;
use manyway_report::{Column, Kind, Mark, Plot, PlotError, Series, Table};
use manyway_units::{ByteSize, Rate};
use serde::Serialize;

use super::show::{Show, mbps, rates};
use super::trial::Trial;
use crate::link::LinkSpec;
use crate::meter::loss;

/// Both trials.
#[derive(Debug)]
pub(super) struct Demo {
    pub(super) size: u64,
    /// Of the file as it was written.
    pub(super) digest: blake3::Hash,
    pub(super) cc: LawSpec,
    pub(super) links: Vec<LinkSpec>,
    /// Index of the link that the first trial had to itself.
    pub(super) best: usize,
    pub(super) single: Over,
    pub(super) all: Over,
}

/// A trial over some links.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) links: Vec<LinkSpec>,
    pub(super) trial: Trial,
}

/// `--json`'s object; fields are added, never changed.
#[derive(Debug, Serialize)]
pub(super) struct Json {
    bytes: u64,
    blake3: String,
    cc: String,
    best_single_bps: f64,
    all_paths_bps: f64,
    gain: f64,
    verified: bool,
    seconds: Seconds,
    paths: Vec<PathJson>,
}

#[derive(Debug, Serialize)]
struct Seconds {
    best_single: f64,
    all_paths: f64,
}

/// A path of the second trial, over all links.
#[derive(Debug, Serialize)]
struct PathJson {
    name: String,
    link_bps: f64,
    link_delay_ms: f64,
    bytes_sent: u64,
    packets_sent: u64,
    packets_lost: u64,
    rtt_ms: f64,
    min_rtt_ms: f64,
}

impl Show for Demo {
    type Json = Json;

    fn verified(&self) -> bool {
        self.single.trial.digest == self.digest && self.all.trial.digest == self.digest
    }

    fn json(&self) -> Json {
        Json {
            bytes: self.size,
            blake3: self.digest.to_string(),
            cc: self.cc.to_string(),
            best_single_bps: self.goodput(&self.single).bits_per_sec(),
            all_paths_bps: self.goodput(&self.all).bits_per_sec(),
            gain: self.gain(),
            verified: self.verified(),
            seconds: Seconds {
                best_single: self.single.trial.took.as_secs_f64(),
                all_paths: self.all.trial.took.as_secs_f64(),
            },
            paths: self
                .all
                .links
                .iter()
                .zip(&self.all.trial.paths)
                .map(path_json)
                .collect(),
        }
    }

    fn text(&self) -> String {
        let verified = match self.verified() {
            true => format!("BLAKE3 of both copies verified: {}", self.digest.to_hex()),
            false => "BLAKE3 of the copies DIFFERS from the original's".to_owned(),
        };
        format!(
            "\n{}\n{}\n{:.2} times the best link alone, for {}. {verified}",
            self.comparison(),
            self.usage(),
            self.gain(),
            ByteSize::new(self.size),
        )
    }

    /// One trial after the other on one axis of time, each link a band.
    fn svg(&self) -> Result<String, PlotError> {
        let mut plot = Plot::new(
            format!(
                "manyway demo: {} over one link, then over all ({})",
                ByteSize::new(self.size),
                self.cc
            ),
            Kind::Stacked,
        );
        plot.x_label = "seconds".to_owned();
        plot.y_label = "Mbps".to_owned();
        let second = self.single.trial.took.as_secs_f64() + 1.0;
        plot.marks = vec![
            self.mark(0.0, "best link alone", &self.single),
            self.mark(second, "all links", &self.all),
        ];
        let alone = rates(&self.single.trial.samples);
        let together = rates(&self.all.trial.samples);
        let gap = [self.single.trial.took.as_secs_f64(), second];
        plot.series = (0..self.links.len())
            .map(|index| {
                let first = alone
                    .iter()
                    .map(|(at, rates)| (*at, if index == self.best { rates[0] } else { 0.0 }));
                let then = together
                    .iter()
                    .map(|(at, rates)| (second + at, rates[index]));
                let points = first.chain(gap.map(|at| (at, 0.0))).chain(then).collect();
                Series {
                    name: self.links[index].to_string(),
                    points,
                }
            })
            .collect();
        plot.svg()
    }
}

impl Demo {
    fn comparison(&self) -> Table {
        let mut table = Table::new([
            Column::left("transfer"),
            Column::right("seconds"),
            Column::right("goodput"),
            Column::right("of the links' sum"),
        ]);
        for (name, over) in [("best link alone", &self.single), ("all links", &self.all)] {
            let sum: f64 = over.links.iter().map(LinkSpec::rate).sum();
            let goodput = self.goodput(over);
            table.row([
                name.to_owned(),
                format!("{:.1}", over.trial.took.as_secs_f64()),
                format!("{goodput:.1}"),
                format!("{:.0} %", 100.0 * goodput.bits_per_sec() / sum),
            ]);
        }
        table
    }

    /// What each link did when all were used.
    fn usage(&self) -> Table {
        let mut table = Table::new([
            Column::left("link"),
            Column::right("sent"),
            Column::right("mean rate"),
            Column::right("lost"),
            Column::right("least rtt"),
        ]);
        for (link, path) in self.all.links.iter().zip(&self.all.trial.paths) {
            let Some(path) = path else {
                table.row([link.to_string(), "never used".to_owned()]);
                continue;
            };
            table.row([
                link.to_string(),
                ByteSize::new(path.bytes_sent).to_string(),
                format!("{:.1}", Rate::of(path.bytes_sent, self.all.trial.took)),
                format!("{:.2} %", 100.0 * loss(path)),
                format!("{:.1} ms", path.min_rtt.as_secs_f64() * 1e3),
            ]);
        }
        table
    }

    fn mark(&self, x: f64, name: &str, over: &Over) -> Mark {
        Mark {
            x,
            label: format!("{name}: {:.1} Mbps", mbps(self.goodput(over))),
        }
    }

    fn goodput(&self, over: &Over) -> Rate {
        Rate::of(self.size, over.trial.took)
    }

    fn gain(&self) -> f64 {
        self.single.trial.took.as_secs_f64() / self.all.trial.took.as_secs_f64()
    }
}

fn path_json((link, path): (&LinkSpec, &Option<manyway::PathStats>)) -> PathJson {
    let path = path.as_ref();
    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    PathJson {
        name: link.to_string(),
        link_bps: link.rate(),
        link_delay_ms: ms(link.delay),
        bytes_sent: path.map_or(0, |path| path.bytes_sent),
        packets_sent: path.map_or(0, |path| path.packets_sent),
        packets_lost: path.map_or(0, |path| path.packets_lost),
        rtt_ms: path.map_or(0.0, |path| ms(path.rtt)),
        min_rtt_ms: path.map_or(0.0, |path| ms(path.min_rtt)),
    }
}

//! The files of `--out`: each appears under its name when all are complete.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use csv::Writer;
use manyway_fluid::run::{FluidRun, Quantity, Series};
use manyway_scenario::Point;
use manyway_simulate::batch::Object;
use manyway_simulate::packet;
use tempfile::NamedTempFile;

use super::report::Report;
use crate::exit::usage;
use crate::run::files::{Created, temporary};
use crate::run::{plots, setting};

const SUBFLOWS: [&str; 8] = [
    "point",
    "flow",
    "path",
    "goodput_bps",
    "window_mean_packets",
    "rtt_mean_s",
    "price",
    "rest_bps",
];
const LINKS: [&str; 5] = ["point", "link", "utilisation", "load_bps", "price"];
const SERIES: [&str; 6] = ["point", "kind", "of", "path", "time_s", "value"];

/// A folder and what is to be written into it.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
    subflows: Writer<NamedTempFile>,
    links: Writer<NamedTempFile>,
    series: Writer<NamedTempFile>,
    plots: Vec<(String, NamedTempFile)>,
    /// Last, so that it goes when the files are gone.
    _created: Created,
}

impl Files {
    /// Creates what is missing.
    ///
    /// # Errors
    ///
    /// Wrong usage if it can't be.
    pub(super) fn create(dir: &Path) -> anyhow::Result<Self> {
        let open = || -> io::Result<Self> {
            let created = Created::make(dir)?;
            let sheet = |columns: &[&str]| -> io::Result<Writer<NamedTempFile>> {
                let mut sheet = Writer::from_writer(temporary(dir)?);
                sheet.write_record(columns)?;
                Ok(sheet)
            };
            Ok(Files {
                dir: dir.to_owned(),
                subflows: sheet(&SUBFLOWS)?,
                links: sheet(&LINKS)?,
                series: sheet(&SERIES)?,
                plots: Vec::new(),
                _created: created,
            })
        };
        open().map_err(|error| {
            let dir = dir.display();
            usage(format!(
                "can't write into {dir}: {error}; --out DIR names another folder"
            ))
        })
    }

    /// Adds a point's rows and plots; `number` is which of how many it is, if there are several.
    pub(super) fn take(
        &mut self,
        number: Option<(usize, usize)>,
        point: &Point,
        run: &FluidRun,
    ) -> anyhow::Result<()> {
        let name = match number {
            Some((index, _)) => (index + 1).to_string(),
            None => "1".to_owned(),
        };
        self.rows(&name, run)
            .with_context(|| cant_write(&self.dir))?;
        let series: Vec<packet::Series> = run
            .series
            .iter()
            .map(|series| as_recorded(run, series))
            .collect();
        let of = format!("{}, {}as a fluid", point.experiment.name, setting(point));
        for picture in plots::draw(&point.experiment, &series, &of)? {
            let mut file = temporary(&self.dir).with_context(|| cant_write(&self.dir))?;
            file.write_all(picture.svg.as_bytes())?;
            let name = match number {
                Some((index, of)) => {
                    let width = of.to_string().len();
                    format!("{}-{:0width$}.svg", picture.name, index + 1)
                }
                None => format!("{}.svg", picture.name),
            };
            self.plots.push((name, file));
        }
        Ok(())
    }

    fn rows(&mut self, point: &str, run: &FluidRun) -> csv::Result<()> {
        let last = run
            .epochs
            .iter()
            .rev()
            .find_map(|epoch| Some((epoch, epoch.rest.as_ref()?)));
        for (index, flow) in run.flows.iter().enumerate() {
            for (n, subflow) in flow.subflows.iter().enumerate() {
                let rest = last.and_then(|(epoch, rest)| {
                    let own = epoch
                        .subflows
                        .iter()
                        .position(|&known| known == (index, n))?;
                    rest.rates_bps.get(own).copied()
                });
                let numbers = [
                    subflow.goodput_bps,
                    subflow.window_mean_packets,
                    subflow.rtt_mean_s,
                    subflow.price_mean,
                    rest.unwrap_or(f64::NAN),
                ];
                let names = [point.to_owned(), flow.name.clone(), subflow.path.clone()];
                self.subflows
                    .write_record(names.into_iter().chain(numbers.map(number)))?;
            }
        }
        for link in &run.links {
            let numbers = [link.utilisation, link.load_bps, link.price_mean].map(number);
            let names = [point.to_owned(), link.name.clone()];
            self.links.write_record(names.into_iter().chain(numbers))?;
        }
        for series in &run.series {
            let mut names = series.of.iter().map(String::as_str);
            let (of, path) = (names.next().unwrap_or(""), names.next().unwrap_or(""));
            let values = (1_u32..)
                .zip(&series.values)
                .filter(|(_, value)| value.is_finite());
            for (n, value) in values {
                let time = number(f64::from(n) * series.interval_s);
                let kind = series.quantity.name();
                self.series
                    .write_record([point, kind, of, path, &time, &number(*value)])?;
            }
        }
        Ok(())
    }

    /// Gives the files their names, and tells about them.
    pub(super) fn finish(self, report: &Report) -> anyhow::Result<String> {
        let dir = self.dir.clone();
        let plots = self.plots.len();
        self.put_in_place(report)
            .with_context(|| cant_write(&dir))?;
        Ok(format!(
            "\nIn {}: result.json, subflows.csv, links.csv, series.csv and {plots} plots",
            dir.display()
        ))
    }

    fn put_in_place(self, report: &Report) -> io::Result<()> {
        let mut result = BufWriter::new(temporary(&self.dir)?);
        serde_json::to_writer(&mut result, &Object::new(report))?;
        result.write_all(b"\n")?;
        let result = result
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        let sheets = [
            ("subflows.csv", self.subflows),
            ("links.csv", self.links),
            ("series.csv", self.series),
        ];
        let mut files = vec![("result.json".to_owned(), result)];
        for (name, sheet) in sheets {
            let file = sheet
                .into_inner()
                .map_err(|error| io::Error::other(error.to_string()))?;
            files.push((name.to_owned(), file));
        }
        for (name, file) in files.into_iter().chain(self.plots) {
            file.persist(self.dir.join(name))
                .map_err(|error| error.error)?;
        }
        Ok(())
    }
}

fn cant_write(dir: &Path) -> String {
    format!("can't write the results into {}", dir.display())
}

/// As the packet level records it, for the same plots.
fn as_recorded(run: &FluidRun, series: &Series) -> packet::Series {
    let kind = match series.quantity {
        Quantity::Price if run.prices_are_delays => "delay",
        Quantity::Price => "loss",
        quantity => quantity.name(),
    };
    packet::Series {
        kind: kind.to_owned(),
        of: series.of.clone(),
        interval_s: series.interval_s,
        values: series.values.clone(),
    }
}

/// The shortest text that reads as the same number; nothing where there is nothing to say.
fn number(value: f64) -> String {
    match value.is_finite() {
        true => value.to_string(),
        false => String::new(),
    }
}

//! The files of `--out`: each appears under its name when all are complete.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use csv::Writer;
use manyway_scenario::OverlayPoint;
use manyway_simulate::batch::{Object, OverlayDone, OverlayReport};
use tempfile::NamedTempFile;

use super::plots;
use crate::exit::usage;
use crate::run::files::{Created, temporary};

const RUNS: [&str; 10] = [
    "point",
    "seed",
    "rate",
    "optimum",
    "deviation",
    "settled_intervals",
    "iterations",
    "found",
    "first_rate",
    "sharing",
];
const RATES: [&str; 4] = ["point", "seed", "interval", "rate"];

/// A folder that results go to.
#[derive(Debug)]
pub(super) struct Files {
    dir: PathBuf,
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
            temporary(dir)?;
            Ok(Files {
                dir: dir.to_owned(),
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

    /// Writes all files, and tells about them.
    pub(super) fn finish(
        self,
        points: &[OverlayPoint],
        report: &OverlayReport,
        done: &[OverlayDone],
    ) -> anyhow::Result<String> {
        let plots = plots::draw(points, report, done)?;
        let told = match plots.len() {
            1 => "a plot".to_owned(),
            n => format!("{n} plots"),
        };
        let dir = self.dir.display().to_string();
        self.write(report, done, plots)
            .with_context(|| format!("can't write the results into {dir}"))?;
        Ok(format!(
            "\nIn {dir}: result.json, runs.csv, rates.csv and {told}"
        ))
    }

    fn write(
        &self,
        report: &OverlayReport,
        done: &[OverlayDone],
        plots: Vec<(String, String)>,
    ) -> io::Result<()> {
        let mut files = Vec::new();
        let mut result = temporary(&self.dir)?;
        serde_json::to_writer(&mut result, &Object::new(report))?;
        result.write_all(b"\n")?;
        files.push(("result.json".to_owned(), result));
        files.push((
            "runs.csv".to_owned(),
            self.sheet(&RUNS, |sheet| runs(report, done, sheet))?,
        ));
        files.push((
            "rates.csv".to_owned(),
            self.sheet(&RATES, |sheet| rates(done, sheet))?,
        ));
        for (name, svg) in plots {
            let mut file = temporary(&self.dir)?;
            file.write_all(svg.as_bytes())?;
            files.push((name, file));
        }
        for (name, file) in files {
            file.persist(self.dir.join(name))
                .map_err(|error| error.error)?;
        }
        Ok(())
    }

    fn sheet(
        &self,
        columns: &[&str],
        rows: impl FnOnce(&mut Writer<NamedTempFile>) -> csv::Result<()>,
    ) -> io::Result<NamedTempFile> {
        let mut sheet = Writer::from_writer(temporary(&self.dir)?);
        sheet.write_record(columns)?;
        rows(&mut sheet)?;
        sheet
            .into_inner()
            .map_err(|error| io::Error::other(error.to_string()))
    }
}

fn runs(
    report: &OverlayReport,
    done: &[OverlayDone],
    sheet: &mut Writer<NamedTempFile>,
) -> csv::Result<()> {
    for OverlayDone { job, run, optimum } in done {
        let point = report
            .points
            .iter()
            .find(|point| point.point == job.point + 1);
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let control = run.search.is_none();
        sheet.write_record([
            (job.point + 1).to_string(),
            job.seed.to_string(),
            run.rate.to_string(),
            number(*optimum),
            number(control.then_some(run.deviation)),
            number(control.then_some(run.settled as f64)),
            number(run.search.map(|search| search.iterations as f64)),
            run.search
                .map_or_else(String::new, |search| search.found.to_string()),
            number(run.search.map(|search| search.first)),
            point
                .and_then(|point| point.sharing)
                .unwrap_or("")
                .to_owned(),
        ])?;
    }
    Ok(())
}

fn rates(done: &[OverlayDone], sheet: &mut Writer<NamedTempFile>) -> csv::Result<()> {
    for OverlayDone { job, run, .. } in done {
        for (interval, rate) in (1_usize..).zip(&run.series) {
            sheet.write_record([
                (job.point + 1).to_string(),
                job.seed.to_string(),
                interval.to_string(),
                rate.to_string(),
            ])?;
        }
    }
    Ok(())
}

//! `manyway run` of a scenario with an `[overlay]`: at the flow level, or over TCP connections
//! packet by packet. This module hands the runs to the simulator's [`OverlayPlan`] with the linear
//! programme's optimum, and the results to tables, plots and text.

mod plots;
mod text;

use manyway_results::{Sheet, overlay};
use manyway_scenario::{OverlayPoint, Scenario};
use manyway_simulate::batch::{
    BatchError, Control, OverlayLevel, OverlayPlan, OverlayReport, Shard,
};

use super::folder::Folder;
use super::level::{Level, Report, Request};
use crate::args;
use crate::exit::usage;

/// A checked request.
#[derive(Debug)]
pub(super) struct Overlay {
    scenario: Scenario,
    points: Vec<OverlayPoint>,
    level: OverlayLevel,
    threads: usize,
    keep_series: bool,
}

impl Level for Overlay {
    type Report = OverlayReport;

    fn prepare(request: Request<'_>) -> anyhow::Result<Self> {
        let points = request.scenario.overlay_points();
        let points = points.map_err(|error| usage(error.to_string()))?;
        let level = match request.levels.contains(&args::Level::Flow) {
            true => OverlayLevel::Flow,
            false => OverlayLevel::Packet,
        };
        let without = |point: &OverlayPoint| point.experiment.packets.is_none();
        if level == OverlayLevel::Packet && points.iter().any(without) {
            return Err(usage(format!(
                "{}: the packet level needs [overlay.packets] with the rtt: add it, or use --level \
                 flow",
                request.file.display()
            )));
        }
        Ok(Self {
            points,
            level,
            threads: request.threads(),
            keep_series: request.keep_series,
            scenario: request.scenario,
        })
    }

    fn sheets(&self) -> Vec<Sheet> {
        overlay::sheets()
    }

    fn run(self, control: &Control, folder: Option<&mut Folder>) -> anyhow::Result<OverlayReport> {
        let plan = OverlayPlan {
            scenario: self.scenario.name(),
            level: self.level,
            points: &self.points,
            seed: self.scenario.seed(),
            repeat: self.scenario.repeat(),
            threads: self.threads,
            keep_series: self.keep_series,
            shard: Shard::default(),
        };
        let done = plan.run(overlay::optimum, control);
        let done = done.map_err(|error| match error {
            BatchError::Threads(error) => error.into(),
            error => anyhow::anyhow!("{error}"),
        })?;
        let report = plan.report(&done);
        if let Some(folder) = folder {
            overlay::add(folder, &report, &done)?;
            plots::draw(folder, &self.points, &report, &done)?;
        }
        Ok(report)
    }
}

impl Report for OverlayReport {
    fn summary(&self) -> String {
        text::summary(self)
    }

    fn unfinished(&self) -> u64 {
        self.unfinished
    }
}

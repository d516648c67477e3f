//! The results of single runs of overlays as rows of tables, their rates over time, and the optimum
//! beside them.

use manyway_fluid::optimum::over_relays;
use manyway_simulate::batch::{OverlayDone, OverlayReport};
use manyway_simulate::overlay::Setting;

use crate::tables::{Sheet, Tables};

const RUNS: &str = "runs.csv";
const RATES: &str = "rates.csv";

/// The tables with their headings.
pub fn sheets() -> Vec<Sheet> {
    vec![
        Sheet::new(
            RUNS,
            &[
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
            ],
        ),
        Sheet::new(RATES, &["point", "seed", "interval", "rate"]),
    ]
}

/// Adds the rows of all runs.
///
/// # Errors
/// If a row can't be taken.
pub fn add<T: Tables>(
    tables: &mut T,
    report: &OverlayReport,
    done: &[OverlayDone],
) -> Result<(), T::Error> {
    for OverlayDone { job, run, optimum } in done {
        let mut points = report.points.iter();
        let point = points.find(|point| point.point == job.point + 1);
        let sharing = point.and_then(|point| point.sharing).unwrap_or("");
        let (number, seed) = ((job.point + 1).to_string(), job.seed.to_string());
        let cell = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let control = run.search.is_none();
        let cells = [
            number.clone(),
            seed.clone(),
            run.rate.to_string(),
            cell(*optimum),
            cell(control.then_some(run.deviation)),
            cell(control.then_some(run.settled as f64)),
            cell(run.search.map(|search| search.iterations as f64)),
            run.search
                .map_or_else(String::new, |search| search.found.to_string()),
            cell(run.search.map(|search| search.first)),
            sharing.to_owned(),
        ];
        tables.row(RUNS, cells)?;
        for (interval, rate) in (1_usize..).zip(&run.series) {
            let cells = [
                number.clone(),
                seed.clone(),
                interval.to_string(),
                rate.to_string(),
            ];
            tables.row(RATES, cells)?;
        }
    }
    Ok(())
}

/// The linear programme's value, bits/s.
///
/// # Errors
/// Why there is none.
pub fn optimum(setting: &Setting) -> Result<f64, String> {
    let Setting { overlay, selection } = setting;
    let best = over_relays(&overlay.relays, &overlay.demands, selection);
    let best = best.map_err(|error| error.to_string())?;
    Ok(best.rates.iter().sum())
}

//! The fluid's results as rows of tables, and its series as the packet level records them.

use manyway_fluid::run::{FluidRun, Quantity};
use manyway_simulate::packet;

use crate::tables::{Sheet, Tables, number};

const SUBFLOWS: &str = "subflows.csv";
const LINKS: &str = "links.csv";
const SERIES: &str = "series.csv";

/// The tables with their headings.
pub fn sheets() -> Vec<Sheet> {
    vec![
        Sheet::new(
            SUBFLOWS,
            &[
                "point",
                "flow",
                "path",
                "goodput_bps",
                "window_mean_packets",
                "rtt_mean_s",
                "price",
                "rest_bps",
            ],
        ),
        Sheet::new(
            LINKS,
            &["point", "link", "utilisation", "load_bps", "price"],
        ),
        Sheet::new(SERIES, &["point", "kind", "of", "path", "time_s", "value"]),
    ]
}

/// Adds the rows of the point with this index.
///
/// # Errors
/// If a row can't be taken.
pub fn add<T: Tables>(tables: &mut T, index: usize, run: &FluidRun) -> Result<(), T::Error> {
    let point = (index + 1).to_string();
    let epochs = run.epochs.iter().rev();
    let mut at_rest = epochs.filter_map(|epoch| Some((epoch, epoch.rest.as_ref()?)));
    let last = at_rest.next();
    for (index, flow) in run.flows.iter().enumerate() {
        for (n, subflow) in flow.subflows.iter().enumerate() {
            let rest = last.and_then(|(epoch, rest)| {
                let mut subflows = epoch.subflows.iter();
                let own = subflows.position(|&known| known == (index, n))?;
                rest.rates_bps.get(own).copied()
            });
            let numbers = [
                subflow.goodput_bps,
                subflow.window_mean_packets,
                subflow.rtt_mean_s,
                subflow.price_mean,
                rest.unwrap_or(f64::NAN),
            ];
            let names = [point.clone(), flow.name.clone(), subflow.path.clone()];
            tables.row(SUBFLOWS, names.into_iter().chain(numbers.map(number)))?;
        }
    }
    for link in &run.links {
        let numbers = [link.utilisation, link.load_bps, link.price_mean].map(number);
        let names = [point.clone(), link.name.clone()];
        tables.row(LINKS, names.into_iter().chain(numbers))?;
    }
    for series in &run.series {
        let mut names = series.of.iter().map(String::as_str);
        let (of, path) = (names.next().unwrap_or(""), names.next().unwrap_or(""));
        let head = [&point, series.quantity.name(), of, path];
        tables.series(SERIES, &head, series.interval_s, &series.values)?;
    }
    Ok(())
}

/// The series as the packet level records them, for the same plots.
pub fn as_recorded(run: &FluidRun) -> Vec<packet::Series> {
    let recorded = run.series.iter().map(|series| packet::Series {
        kind: match series.quantity {
            Quantity::Price if run.prices_are_delays => "delay",
            Quantity::Price => "loss",
            quantity => quantity.name(),
        }
        .to_owned(),
        of: series.of.clone(),
        interval_s: series.interval_s,
        values: series.values.clone(),
    });
    recorded.collect()
}

//! What is measured, and when.

use std::collections::HashSet;
use std::time::Duration;

use super::{Checks, shown, time};
use crate::experiment::{Measure, Percentiles, SeriesKind, Span};
use crate::file::{self, File, What};
use crate::quantity::TimeSpan;
use crate::tree::Key;

/// The most samples of all series of a run.
const MAX_SAMPLES: u128 = 10_000_000;

/// The most spans.
const MAX_SPANS: usize = 1000;

impl Checks {
    pub(super) fn measure(
        &mut self,
        file: &File,
        duration: Duration,
        subflows: usize,
        links: usize,
    ) -> Option<Measure> {
        let before = self.faults.len();
        let key = Key::of(["measure"]);
        let nothing = file::Measure {
            from: None,
            until: None,
            interval: None,
            series: None,
            percentiles: None,
            spans: None,
        };
        let measure = file.measure.as_ref().unwrap_or(&nothing);
        let from = measure.from.map_or(Duration::ZERO, |from| from.0);
        let until = measure.until.map_or(duration, |until| until.0);
        if until > duration {
            self.report(&key.join("until"), beyond(until, duration));
        } else if from >= until {
            let message = format!(
                "nothing is left to measure: it must be before {}",
                shown(until)
            );
            self.report(&key.join("from"), message);
        }
        let series = measure.series.clone().unwrap_or_default();
        let interval = self.interval(measure, &series, duration, subflows, links);
        let spans = self.spans(
            &key.join("spans"),
            measure.spans.as_deref().unwrap_or_default(),
            duration,
        );
        let percentiles = self.percentiles(measure.percentiles.as_deref().unwrap_or_default());
        (self.faults.len() == before).then(|| Measure {
            from: time(from),
            until: time(until),
            spans,
            interval,
            series: series.into_iter().map(SeriesKind::from).collect(),
            percentiles,
        })
    }

    fn interval(
        &mut self,
        measure: &file::Measure,
        series: &[What],
        duration: Duration,
        subflows: usize,
        links: usize,
    ) -> Duration {
        let key = Key::of(["measure"]);
        let mut seen = HashSet::new();
        for (n, what) in series.iter().enumerate() {
            if !seen.insert(SeriesKind::from(*what)) {
                self.report(&key.join("series").at(n), "listed twice: once is enough");
            }
        }
        let interval = measure
            .interval
            .map_or(Duration::from_millis(100), |interval| interval.0);
        if interval < Duration::from_micros(1) {
            self.report(&key.join("interval"), "too short: choose at least 1 us");
            return interval;
        }
        let of_each = |what: &What| match what {
            What::Rate | What::Window | What::Rtt => subflows as u128,
            What::Queue | What::Load | What::Drops => links as u128,
        };
        let steps = duration.as_nanos().div_ceil(interval.as_nanos());
        let samples = series
            .iter()
            .map(of_each)
            .sum::<u128>()
            .saturating_mul(steps);
        if samples > MAX_SAMPLES {
            let place = if measure.interval.is_some() {
                "interval"
            } else {
                "series"
            };
            let message = format!(
                "{samples} samples are too many: choose a longer interval or fewer series (at most \
                 {MAX_SAMPLES})"
            );
            self.report(&key.join(place), message);
        }
        interval
    }

    fn percentiles(&mut self, written: &[file::Percentiles]) -> Percentiles {
        let key = Key::of(["measure", "percentiles"]);
        let mut percentiles = Percentiles::default();
        for (n, what) in written.iter().enumerate() {
            let chosen = match what {
                file::Percentiles::Rtt => &mut percentiles.rtt,
                file::Percentiles::Queue => &mut percentiles.queue,
            };
            if std::mem::replace(chosen, true) {
                self.report(&key.at(n), "listed twice: once is enough");
            }
        }
        percentiles
    }

    fn spans(&mut self, key: &Key, spans: &[file::Span], duration: Duration) -> Vec<Span> {
        if spans.len() > MAX_SPANS {
            self.report(
                key,
                format!(
                    "{} spans are too many: at most {MAX_SPANS} are possible",
                    spans.len()
                ),
            );
            return Vec::new();
        }
        let mut seen = HashSet::new();
        let resolved = spans.iter().enumerate().filter_map(|(n, span)| {
            let key = key.at(n);
            let name = self.required(&span.name, &key.join("name"), "name = \"first\"");
            let from = self.required(&span.from, &key.join("from"), "from = \"0 s\"");
            let until = self.required(&span.until, &key.join("until"), "until = \"10 s\"");
            let (name, from, until): (_, &TimeSpan, &TimeSpan) = (name?, from?, until?);
            if !seen.insert(name.as_str()) {
                self.report(
                    &key.join("name"),
                    format!("another span is called {name} already"),
                );
            }
            if until.0 > duration {
                self.report(&key.join("until"), beyond(until.0, duration));
            } else if from.0 >= until.0 {
                let message = format!(
                    "the span is over before it begins: it must be before {}",
                    shown(until.0)
                );
                self.report(&key.join("from"), message);
            }
            Some(Span {
                name: name.to_string(),
                from: time(from.0),
                until: time(until.0),
            })
        });
        resolved.collect()
    }
}

fn beyond(until: Duration, duration: Duration) -> String {
    let (until, end) = (shown(until), shown(duration));
    format!("{until} is after the end of the run, {end}")
}

//! How much a flow sends, when it comes and when it pauses.

use std::fs;
use std::io::Read;
use std::path::Path;

use super::flows::Context;
use crate::distribution::{Distribution, pareto_scale};
use crate::file::{self, Published, Random};
use crate::quantity::{Bytes, TimeSpan};
use crate::tree::Key;

/// The largest file with a distribution that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Sizes in bytes and the shares of flows up to them, as [`Published`] says.
const WEB_SEARCH: [(f64, f64); 12] = [
    (0.0, 0.0),
    (10e3, 0.15),
    (20e3, 0.2),
    (30e3, 0.3),
    (50e3, 0.4),
    (80e3, 0.53),
    (200e3, 0.6),
    (1e6, 0.7),
    (2e6, 0.8),
    (5e6, 0.9),
    (10e6, 0.97),
    (30e6, 1.0),
];
const DATA_MINING: [(f64, f64); 13] = [
    (0.0, 0.0),
    (180.0, 0.1),
    (216.0, 0.2),
    (560.0, 0.3),
    (900.0, 0.4),
    (1100.0, 0.5),
    (1870.0, 0.6),
    (3160.0, 0.7),
    (10e3, 0.8),
    (400e3, 0.9),
    (3.16e6, 0.95),
    (100e6, 0.98),
    (1e9, 1.0),
];

impl Context<'_> {
    /// Payload bytes of a transfer.
    pub(super) fn size(&mut self) -> Option<Distribution> {
        let size = self.flow.size.as_ref()?;
        let key = self.key.join("size");
        if size.fixed().is_some_and(|size| size.0.bytes() == 0) {
            let message =
                "nothing to transfer: choose at least 1 B, or leave it out for an endless flow";
            self.checks.report(&key, message);
        }
        self.distribution(&key, size, |size: Bytes| size.0.bytes())
    }

    /// Nanoseconds between two transfers.
    pub(super) fn pause(&mut self) -> Option<Distribution> {
        let pause = self.flow.pause.as_ref()?;
        let key = self.key.join("pause");
        if self.flow.size.is_none() {
            let message = "an endless flow doesn't pause: give it a `size`";
            self.checks.report(&key, message);
        }
        let paths = self.flow.paths.as_ref().map_or(0, Vec::len);
        if paths > 1 && self.flow.law.as_ref().is_some_and(file::Law::is_managed) {
            let message = "this law's path manager watches one transfer: choose another law, or \
                           leave pause out";
            self.checks.report(&key, message);
        }
        self.distribution(&key, pause, nanoseconds)
    }

    /// Nanoseconds from one start to the next, if they are random.
    pub(super) fn random_stagger(&mut self) -> Option<Distribution> {
        let stagger = self.flow.stagger.as_ref();
        let stagger = stagger.filter(|stagger| stagger.fixed().is_none())?;
        self.distribution(&self.key.join("stagger"), stagger, nanoseconds)
    }

    fn distribution<T: Copy>(
        &mut self,
        key: &Key,
        random: &Random<T>,
        whole: impl Fn(T) -> u64,
    ) -> Option<Distribution> {
        match random {
            Random::Fixed(value) => Some(Distribution::Fixed(whole(*value))),
            Random::Exponential(mean) => {
                let mean = self.mean(&key.join("exponential"), whole(*mean))?;
                Some(Distribution::Exponential { mean })
            }
            Random::Pareto(pareto) => {
                let key = key.join("pareto");
                let (mean, shape) = (key.join("mean"), key.join("shape"));
                let example = "pareto = { mean = …, shape = 1.5 }";
                let value = self.checks.required(&pareto.mean, &mean, example).copied();
                let shape_value = self.checks.required(&pareto.shape, &shape, example)?.0;
                if !(shape_value > 1.0 && shape_value <= 100.0) {
                    let message = format!(
                        "{shape_value} is out of range: choose more than 1, where the mean is \
                         finite, and at most 100"
                    );
                    self.checks.report(&shape, message);
                    return None;
                }
                let scale = pareto_scale(self.mean(&mean, whole(value?))?, shape_value);
                Some(Distribution::Pareto {
                    scale,
                    shape: shape_value,
                })
            }
            Random::Published(published) => {
                let points = match published {
                    Published::WebSearch => WEB_SEARCH.as_slice(),
                    Published::DataMining => DATA_MINING.as_slice(),
                };
                Some(Distribution::Measured(points.into()))
            }
            Random::File(name) => {
                let path = self.checks.folder.join(name);
                match read(&path) {
                    Ok(points) => Some(Distribution::Measured(points.into())),
                    Err(message) => {
                        let message = format!("{}: {message}", path.display());
                        self.checks.report(&key.join("file"), message);
                        None
                    }
                }
            }
        }
    }

    fn mean(&mut self, key: &Key, mean: u64) -> Option<f64> {
        if mean == 0 {
            self.checks.report(key, "the mean has to be above 0");
        }
        (mean > 0).then_some(mean as f64)
    }
}

fn nanoseconds(time: TimeSpan) -> u64 {
    u64::try_from(time.0.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads values and their cumulative shares.
fn read(path: &Path) -> Result<Vec<(f64, f64)>, String> {
    let mut text = String::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text));
    read.map_err(|error| format!("can't be read: {error}"))?;
    if text.len() as u64 > MAX_FILE {
        return Err("is larger than 1 MiB, the most that a distribution may have".to_owned());
    }
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<(f64, f64)>, String> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let mut fields = line
            .split([' ', '\t', ','])
            .filter(|field| !field.is_empty());
        let mut next = || fields.next().and_then(|field| field.parse::<f64>().ok());
        let (value, share) = (next(), next());
        let (Some(value), Some(share), None) = (value, share, fields.next()) else {
            return Err(format!(
                "line {number}: write a size in bytes and the share of sizes up to it, like \
                 10000 0.15"
            ));
        };
        let (low, below) = points.last().copied().unwrap_or((0.0, 0.0));
        if !(low..=1e15).contains(&value) || !(below..=1.0).contains(&share) {
            return Err(format!(
                "line {number}: sizes up to 1e15 and shares up to 1 rise from line to line"
            ));
        }
        points.push((value, share));
    }
    match points.last() {
        Some((_, 1.0)) => Ok(points),
        Some((value, share)) => Err(format!(
            "the last share is {share}, of sizes up to {value}: it has to be 1"
        )),
        None => Err("has no line with a size and a share, like 10000 0.15".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn published_sizes_have_the_means_that_the_docs_say() {
        let mean = |points: &[(f64, f64)]| Distribution::Measured(points.into()).mean();
        assert_eq!(mean(&WEB_SEARCH).round(), 1_711_250.0);
        assert_eq!(mean(&DATA_MINING).round(), 12_658_199.0);
    }

    #[test]
    fn a_file_has_sizes_and_shares() {
        let points = parse("# bytes share\n100 0.5\n\n200,\t0.9 # most\n3000 1\n");
        assert_eq!(points, Ok(vec![(100.0, 0.5), (200.0, 0.9), (3000.0, 1.0)]));
    }

    #[test]
    fn a_wrong_file_is_told_by_its_line() {
        for (text, message) in [
            ("", "has no line"),
            ("100 0.5\n50 1", "line 2: sizes"),
            ("100 0.5\n200 0.4\n300 1", "line 2: sizes"),
            ("100 0.5\n200 50", "line 2: sizes"),
            ("100 0.5 7", "line 1: write"),
            ("100", "line 1: write"),
            ("NaN 1", "line 1: sizes"),
            ("1 NaN", "line 1: sizes"),
            ("100 0.5", "the last share is 0.5"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(message), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_refused(text in "([0-9.eE# ,-]{0,8}[\n ]){0,6}") {
            if let Ok(points) = parse(&text) {
                let drawn = Distribution::Measured(points.into());
                prop_assert!(drawn.mean().is_finite());
                for share in [0.0, 0.3, 0.999, 1.0] {
                    prop_assert!(drawn.at(share) >= 1);
                }
            }
        }
    }
}

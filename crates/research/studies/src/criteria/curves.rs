//! The trade-offs of Table II over β, n and η.

use manyway_fluid::criteria::{Tradeoff, tradeoff};
use manyway_report::{Kind, Plot, Series};
use serde_json::{Value, json};

use super::subject;
use crate::failure::Failure;
use crate::gate::{Gate, GateRow, gate};

/// Curves and their plots.
pub(crate) struct Curves {
    sweeps: Vec<Sweep>,
    pub(crate) laws: Vec<(&'static str, Tradeoff)>,
    /// Names and plots.
    pub(crate) plots: Vec<(&'static str, Plot)>,
}

/// One parameter, with the others held.
struct Sweep {
    parameter: &'static str,
    /// What is held.
    held: String,
    points: Vec<(f64, Tradeoff)>,
}

/// A quantity of Table II.
type Quantity = fn(&Tradeoff) -> f64;

const LAWS: [&str; 8] = [
    "reno",
    "ewtcp:a=0.25",
    "semicoupled",
    "max",
    "balia",
    "generalized",
    "generalized:eta=0",
    "coupled",
];

impl Curves {
    pub(crate) fn draw() -> Result<Self, Failure> {
        let mut sweeps = Vec::new();
        for n in ["1", "2", "4", "inf"] {
            sweeps.push(Sweep::over("beta", &format!("n={n},eta=0.5"))?);
        }
        for beta in ["0.2", "0.5", "1"] {
            sweeps.push(Sweep::over("n", &format!("beta={beta},eta=0.5"))?);
        }
        for beta in ["0.05", "0.2", "0.5", "1"] {
            sweeps.push(Sweep::over("eta", &format!("beta={beta},n=inf"))?);
        }
        let laws = LAWS.into_iter().map(|law| Ok((law, of(law)?)));
        let mut curves = Curves {
            laws: laws.collect::<Result<_, Failure>>()?,
            sweeps,
            plots: Vec::new(),
        };
        curves.plots = curves.plots()?;
        Ok(curves)
    }

    fn plots(&self) -> Result<Vec<(&'static str, Plot)>, Failure> {
        let shared: Quantity = |found| found.shared;
        let beside: Quantity = |found| found.beside;
        let correction: Quantity = |found| found.correction;
        let convergence: Quantity = |found| found.convergence;
        let oscillation: Quantity = |found| found.oscillation;
        let (over_reno, per_s) = ("times a Reno flow's rate", "1/s");
        let plots = [
            (
                "friendliness-beta",
                "Friendliness: two paths through one bottleneck (Fig. 1)",
                "beta",
                over_reno,
                shared,
            ),
            (
                "friendliness-beside",
                "Friendliness: the path beside a Reno flow (Fig. 2)",
                "beta",
                over_reno,
                beside,
            ),
            (
                "friendliness-n",
                "Friendliness: the path beside a Reno flow (Fig. 2)",
                "n",
                over_reno,
                beside,
            ),
            (
                "responsiveness-beta",
                "Responsiveness: correction at fixed prices",
                "beta",
                per_s,
                correction,
            ),
            (
                "responsiveness-n",
                "Responsiveness: correction at fixed prices",
                "n",
                per_s,
                correction,
            ),
            (
                "responsiveness-eta",
                "Responsiveness: correction at fixed prices",
                "eta",
                per_s,
                correction,
            ),
            (
                "convergence-beta",
                "Convergence: minus the spectral abscissa of J*",
                "beta",
                per_s,
                convergence,
            ),
            (
                "convergence-eta",
                "Convergence: minus the spectral abscissa of J*",
                "eta",
                per_s,
                convergence,
            ),
            (
                "oscillation-eta",
                "Window oscillation: what a loss takes",
                "eta",
                "part of the rate",
                oscillation,
            ),
            (
                "oscillation-beta",
                "Window oscillation: what a loss takes",
                "beta",
                "part of the rate",
                oscillation,
            ),
        ];
        let drawn = plots
            .into_iter()
            .map(|(name, title, parameter, unit, quantity)| {
                (name, self.plot(title, parameter, unit, quantity))
            });
        let mut drawn: Vec<(&'static str, Plot)> = drawn.collect();
        drawn.push(("tradeoff", self.tradeoff()?));
        Ok(drawn)
    }

    fn plot(&self, title: &str, parameter: &str, unit: &str, quantity: Quantity) -> Plot {
        let mut plot = Plot::new(title, Kind::Lines);
        plot.x_label = greek(parameter).to_owned();
        plot.y_label = unit.to_owned();
        let sweeps = self
            .sweeps
            .iter()
            .filter(|sweep| sweep.parameter == parameter);
        plot.series = sweeps
            .map(|sweep| sweep.series(|x, found| (x, quantity(found))))
            .collect();
        plot
    }

    /// Friendliness against responsiveness: along β, and along η.
    fn tradeoff(&self) -> Result<Plot, Failure> {
        let mut plot = Plot::new(
            "What responsiveness costs (Fig. 2; along β and along η)",
            Kind::Lines,
        );
        plot.x_label = "rate beside a Reno flow over the Reno flow's".to_owned();
        plot.y_label = "correction at fixed prices (1/s)".to_owned();
        let drawn = [
            "n=1,eta=0.5",
            "n=inf,eta=0.5",
            "beta=0.05,n=inf",
            "beta=0.2,n=inf",
            "beta=0.5,n=inf",
            "beta=1,n=inf",
        ];
        for held in drawn {
            let sweep = self.sweeps.iter().find(|sweep| sweep.held == held);
            let sweep = sweep.ok_or("there is a curve of this name")?;
            plot.series
                .push(sweep.series(|_, found| (found.beside, found.correction)));
        }
        Ok(plot)
    }

    pub(crate) fn gates(&self) -> Vec<Gate> {
        let rises = |parameter: &str, quantity: Quantity, sign: f64| {
            let sweeps = self
                .sweeps
                .iter()
                .filter(|sweep| sweep.parameter == parameter);
            let mut sweeps = sweeps.peekable();
            sweeps.peek().is_some()
                && sweeps.all(|sweep| {
                    let values = sweep.points.iter().map(|(_, found)| sign * quantity(found));
                    // Equilibria are known to about this.
                    let values: Vec<f64> = values.collect();
                    values
                        .windows(2)
                        .all(|pair| pair[0] <= pair[1] + 1e-8 * pair[1].abs())
                })
        };
        let word = |holds: bool| if holds { "yes" } else { "no" };
        let judged = |row: GateRow, parts: &[(&str, bool)]| {
            let found = parts
                .iter()
                .map(|(part, holds)| format!("{part} {}", word(*holds)));
            let broken = parts.iter().filter(|(_, holds)| !*holds).count();
            row.value(broken as f64, found.collect::<Vec<_>>().join(", "))
        };
        vec![
            judged(
                gate("balia/table-2-friendliness"),
                &[
                    ("shared bottleneck, β", rises("beta", |f| f.shared, 1.0)),
                    ("shared bottleneck, n", rises("n", |f| f.shared, -1.0)),
                    ("beside Reno, β", rises("beta", |f| f.beside, 1.0)),
                    ("beside Reno, n", rises("n", |f| f.beside, -1.0)),
                ],
            ),
            judged(
                gate("balia/table-2-responsiveness"),
                &[
                    ("β", rises("beta", |f| f.correction, 1.0)),
                    ("η", rises("eta", |f| f.correction, 1.0)),
                ],
            ),
            self.smaller_norms(),
            judged(
                gate("balia/table-2-oscillation"),
                &[("η", rises("eta", |f| f.oscillation, 1.0))],
            ),
        ]
    }

    /// The part of Table II that isn't so.
    fn smaller_norms(&self) -> Gate {
        let corrections = |held: &str| {
            let sweep = self.sweeps.iter().find(|sweep| sweep.held == held);
            let points = sweep.map(|sweep| sweep.points.iter()).into_iter().flatten();
            let values: Vec<f64> = points.map(|(_, found)| found.correction).collect();
            (values.first().copied(), values.last().copied())
        };
        let (one, fifth) = (
            corrections("beta=1,eta=0.5"),
            corrections("beta=0.2,eta=0.5"),
        );
        let told = |(first, last): (Option<f64>, Option<f64>)| {
            let number = |value: Option<f64>| format!("{:.4}", value.unwrap_or(f64::NAN));
            format!("{} and {} 1/s", number(first), number(last))
        };
        let wrong = [one, fifth]
            .into_iter()
            .filter(|(first, last)| first <= last);
        gate("balia/table-2-norm").value(
            wrong.count() as f64,
            format!("β = 1: {}, β = 0.2: {}", told(one), told(fifth)),
        )
    }

    pub(crate) fn json(&self) -> Value {
        let sweeps: Vec<Value> = self
            .sweeps
            .iter()
            .map(|sweep| {
                let points: Vec<Value> = sweep
                    .points
                    .iter()
                    .map(|(x, found)| point(*x, found))
                    .collect();
                json!({"over": sweep.parameter, "held": sweep.held, "points": points})
            })
            .collect();
        let laws: Vec<Value> = self
            .laws
            .iter()
            .map(|(law, found)| json!({"law": law, "at": point(0.0, found)}))
            .collect();
        json!({"sweeps": sweeps, "laws": laws})
    }
}

fn point(x: f64, found: &Tradeoff) -> Value {
    let Tradeoff {
        shared,
        beside,
        convergence,
        correction,
        oscillation,
    } = found;
    json!({
        "at": x, "shared": shared, "beside": beside, "convergence": convergence,
        "correction": correction, "oscillation": oscillation,
    })
}

impl Sweep {
    fn over(parameter: &'static str, held: &str) -> Result<Self, Failure> {
        let values: Vec<f64> = match parameter {
            "beta" => (1..=40).map(|n| f64::from(n) / 40.0).collect(),
            "n" => (0..=36).map(|n| 1.0 + f64::from(n) / 4.0).collect(),
            _ => (0..=40).map(|n| f64::from(n) / 20.0).collect(),
        };
        let points = values.into_iter().map(|value| {
            Ok((
                value,
                of(&format!("generalized:{parameter}={value},{held}"))?,
            ))
        });
        Ok(Sweep {
            parameter,
            held: held.to_owned(),
            points: points.collect::<Result<_, Failure>>()?,
        })
    }

    fn series(&self, at: impl Fn(f64, &Tradeoff) -> (f64, f64)) -> Series {
        let name = self.held.split(',').map(|part| match part.split_once('=') {
            Some((key, "inf")) => format!("{} = ∞", greek(key)),
            Some((key, value)) => format!("{} = {value}", greek(key)),
            None => part.to_owned(),
        });
        Series {
            name: name.collect::<Vec<_>>().join(", "),
            points: self.points.iter().map(|(x, found)| at(*x, found)).collect(),
        }
    }
}

fn greek(parameter: &str) -> &str {
    match parameter {
        "beta" => "β",
        "eta" => "η",
        other => other,
    }
}

fn of(law: &str) -> Result<Tradeoff, Failure> {
    let subject = subject(law)?;
    let law_itself = *subject.laws().next().ok_or("a law is one law")?;
    tradeoff(law_itself).ok_or_else(|| format!("{law}: no equilibrium was found").into())
}

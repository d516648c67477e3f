//! Fig. 3.3: how much weight the proportion manager takes, by the rule that runs.

use manyway_control::laws::Manager;
use manyway_report::{Kind, Plot, Series};

use crate::claims::number;
use crate::gate::{Gate, gate};
use crate::ours::Ours;
use crate::statistics::largest;
use crate::study::Figure;

const CLAIM: &str = "bmc/figure-3-3";
/// The thesis' two examples, with K = 1.
const EXAMPLES: [(&str, f64); 2] = [("what is left of 1/2", 0.5), ("what is left of 4/5", 0.8)];
/// From 2 on a weight of 1/2 gives all that it has.
const FACTORS: [f64; 4] = [0.25, 0.5, 1.0, 2.0];
/// Weights from 0 to 1 that are tried, at even distances.
const STEPS: u32 = 200;

fn weights() -> impl Iterator<Item = f64> {
    (1..STEPS).map(|n| f64::from(n) / f64::from(STEPS))
}

fn given(weight: f64, k: f64) -> f64 {
    weight - Manager::reduced(weight, k)
}

pub(super) fn gates() -> Vec<Gate> {
    let left = EXAMPLES.map(|(name, weight)| (name, Manager::reduced(weight, 1.0)));
    let off = left.map(|(name, left)| (name, (left - number(CLAIM, name)).abs()));
    let case = |k: f64| format!("K = {k}");
    let most = FACTORS.map(|k| {
        let most = weights().max_by(|a, b| given(*a, k).total_cmp(&given(*b, k)));
        (case(k), most.unwrap_or(f64::NAN))
    });
    let proportional = FACTORS.map(|k| {
        let off = weights().map(|weight| (given(weight, k) - k * given(weight, 1.0)).abs());
        (case(k), largest(&off.collect::<Vec<_>>()))
    });
    let listed = |values: &[f64]| {
        let values = values.iter().map(|value| format!("{value:.3}"));
        values.collect::<Vec<_>>().join(", ")
    };
    let furthest = largest(&proportional.clone().map(|(_, off)| off));
    vec![
        gate("bmc/figure-3-3-left").cases(off, listed(&left.map(|(_, left)| left))),
        gate("bmc/figure-3-3-half").cases(most.clone(), listed(&most.map(|(_, most)| most))),
        gate("bmc/figure-3-3-proportional").cases(proportional, format!("at most {furthest:.0e}")),
    ]
}

/// What stands beside the thesis' numbers.
pub(super) fn ours() -> [Ours; 2] {
    EXAMPLES.map(|(name, weight)| Ours::exact(CLAIM, name, Manager::reduced(weight, 1.0)))
}

pub(super) fn figure() -> Figure {
    let mut plot = Plot::new("Fig. 3.3: the weight that a subflow gives", Kind::Lines);
    plot.x_label = "weight before".to_owned();
    plot.y_label = "weight given".to_owned();
    plot.size = (900, 400);
    plot.series = FACTORS
        .map(|k| Series {
            name: format!("K = {k}"),
            points: weights().map(|weight| (weight, given(weight, k))).collect(),
        })
        .into();
    Figure::new("bmc-fig3-3", plot)
}

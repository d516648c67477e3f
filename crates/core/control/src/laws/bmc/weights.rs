//! BMC's policy for weights: which shares were given, and whether they fit together. It knows no
//! path's present weight.

use crate::parameter::{Parameter, Range};

/// BMC's `p`.
pub(crate) const TOTAL: Parameter = Parameter::new(
    "p",
    1.0,
    Range::above(0.0, 1000.0),
    "flow shares of the whole connection: what the weights sum to",
);

/// BMC's `d1` to `d8`.
pub(crate) const WEIGHTS: [Parameter; MAX_GIVEN] = [
    weight("d1"),
    weight("d2"),
    weight("d3"),
    weight("d4"),
    weight("d5"),
    weight("d6"),
    weight("d7"),
    weight("d8"),
];

const fn weight(key: &'static str) -> Parameter {
    Parameter::new(
        key,
        0.0,
        Range::between(0.0, 1000.0),
        "the first to eighth path's weight, in flow shares: give one for each path, or none for \
         equal weights",
    )
}

/// How many weights may be given: d1 to d8 in the registry.
const MAX_GIVEN: usize = 8;

/// The policy for BMC's weights: `P` flow shares (eq. 3.1), split equally or as given.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Weights {
    total: f64,
    /// In the order of slots; all 0 where nothing is given.
    given: [f64; MAX_GIVEN],
    /// What a path counts for that has no weight given.
    other: f64,
}

impl Weights {
    /// `P` flow shares, equally split over the paths.
    ///
    /// # Errors
    /// What is wrong, if `total` is not a positive number.
    pub fn equal(total: f64) -> Result<Self, String> {
        Self::given(total, [0.0; MAX_GIVEN])
    }

    /// `P` flow shares split as `weights` say, in the order in which paths are added (of their
    /// slots, to be exact); zeros at the end are weights not given, and with all of them zero the
    /// split is equal.
    ///
    /// While some of these paths are missing, those present share `P` in proportion. A path beyond
    /// those with a weight counts for as much as the mean of the given ones.
    ///
    /// # Errors
    /// What is wrong and how to mend it, if weights don't sum to `total` (to a thousandth), if one
    /// is missing between others, or if anything is negative or no number.
    pub fn given(total: f64, weights: [f64; MAX_GIVEN]) -> Result<Self, String> {
        if !(total > 0.0 && total.is_finite()) {
            return Err(format!(
                "p = {total} flow shares can't be split; give a positive number"
            ));
        }
        if let Some(i) = weights.iter().position(|d| !(*d >= 0.0 && d.is_finite())) {
            return Err(format!(
                "the weight d{} = {} is not a positive number; give one",
                i + 1,
                weights[i]
            ));
        }
        let count = weights.iter().rposition(|&d| d > 0.0).map_or(0, |i| i + 1);
        if count == 0 {
            return Ok(Weights {
                total,
                given: weights,
                other: 1.0,
            });
        }
        if let Some(i) = weights[..count].iter().position(|&d| d == 0.0) {
            return Err(format!(
                "the weight d{} is missing, but d{count} is given; give all from d1 to d{count}",
                i + 1
            ));
        }
        let sum: f64 = weights.iter().sum();
        if (sum / total - 1.0).abs() > 1e-3 {
            let which = match count {
                1 => "the weight d1 is".to_owned(),
                _ => format!("the weights d1 to d{count} sum to"),
            };
            return Err(format!(
                "{which} {sum}, but weights must sum to p = {total}: change one, or set p={sum}"
            ));
        }
        Ok(Weights {
            total,
            given: weights,
            other: sum / count as f64,
        })
    }

    /// `P`, in flow shares.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// Whether there is a weight for each of so many paths, or an equal split.
    ///
    /// # Errors
    /// What is wrong and how to mend it, if there are more paths than weights given.
    pub fn check(&self, paths: usize) -> Result<(), String> {
        let count = self.given.iter().filter(|&&d| d > 0.0).count();
        if count == 0 || paths <= count {
            return Ok(());
        }
        let all = match count {
            1 => "only d1 is".to_owned(),
            _ => format!("only d1 to d{count} are"),
        };
        let more = if paths <= MAX_GIVEN {
            format!("give d1 to d{paths}, or none for equal weights")
        } else {
            format!("give none for equal weights; more than {MAX_GIVEN} can't be given")
        };
        Err(format!(
            "{paths} paths need a weight each, but {all} given: {more}"
        ))
    }

    /// What the path of this slot counts for, in relation to the others.
    pub(super) fn of(&self, slot: usize) -> f64 {
        match self.given.get(slot) {
            Some(&given) if given > 0.0 => given,
            _ => self.other,
        }
    }
}

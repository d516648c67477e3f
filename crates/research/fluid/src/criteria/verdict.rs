//! Criteria, verdicts about them, and witnesses.

use std::fmt;

use serde::Serialize;

use super::domain::{Domain, Point};

/// The design criteria of Peng et al., section III.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Criterion {
    /// The Jacobian of Φ is continuous and symmetric: a utility exists that the equilibrium
    /// maximises.
    C0,
    /// A solution of (8) exists for all positive prices; a link's traffic from the source falls
    /// with the link's own price, and vanishes with it.
    C1,
    /// The symmetric part of the Jacobian is negative definite.
    C2,
    /// A path's φ is infinite if and only if it carries nothing. That the routing matrix has full
    /// row rank is up to the network.
    C3,
    /// Column sums of the Jacobian's inverse aren't positive: the source's total falls with any of
    /// its prices.
    C4,
    /// A path's φ vanishes as its rate grows.
    C5,
}

impl Criterion {
    /// All of them.
    pub const ALL: [Criterion; 6] = [
        Criterion::C0,
        Criterion::C1,
        Criterion::C2,
        Criterion::C3,
        Criterion::C4,
        Criterion::C5,
    ];

    /// What it says, in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Criterion::C0 => "the Jacobian is symmetric",
            Criterion::C1 => "a link's traffic falls with its price",
            Criterion::C2 => "the Jacobian is negative definite",
            Criterion::C3 => "an empty path has an infinite φ, no other",
            Criterion::C4 => "the total falls with each path's price",
            Criterion::C5 => "φ vanishes as the path's rate grows",
        }
    }

    /// Values above this are violations: of a part of something (C0, C1, C4), of an eigenvalue (C2,
    /// which must be below 0), of a power of ten (C3, C5).
    pub(super) fn tolerance(self) -> f64 {
        match self {
            Criterion::C0 | Criterion::C1 | Criterion::C4 => 1e-9,
            Criterion::C2 => -1e-9,
            Criterion::C3 | Criterion::C5 => 0.0,
        }
    }
}

impl fmt::Display for Criterion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What was found about one criterion.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Which.
    #[serde(skip)]
    pub criterion: Criterion,
    /// Whether it held at all points; `None` where it is undefined.
    pub holds: Option<bool>,
    /// A point where it doesn't hold.
    pub witness: Option<Witness>,
    /// The point that was nearest to a violation, if there was none.
    pub nearest: Option<Witness>,
    /// Why it is undefined.
    pub undefined: Option<String>,
    /// Where it is proved for all points of the domain.
    pub theorem: Option<&'static str>,
    /// Points at which it was evaluated, those of the search included.
    pub points: usize,
    /// Points at which it had no value, such as no inverse.
    pub points_without_value: usize,
}

/// A point with numbers that anyone can check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Witness {
    /// The law, with its parameters.
    pub law: String,
    /// The source's state.
    #[serde(flatten)]
    pub point: Point,
    /// How far it is from the edge, without dimension: above the tolerance is a violation.
    pub value: f64,
    /// What is seen there.
    #[serde(flatten)]
    pub evidence: Evidence,
}

/// What is seen at a point. Paths count from 1; rates are in packets/s, prices and φ are loss
/// probabilities.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Evidence {
    /// C0: `∂φ_r/∂x_j` and `∂φ_j/∂x_r`.
    Entries {
        /// r and j.
        of: (usize, usize),
        /// `∂φ_r/∂x_j`.
        entry: f64,
        /// `∂φ_j/∂x_r`.
        transposed: f64,
    },
    /// C2: a change of rates and what it does, `Δxᵀ (∂Φ/∂x) Δx`, which should be negative.
    Change {
        /// Δx.
        change: Vec<f64>,
        /// `Δxᵀ (∂Φ/∂x) Δx`.
        product: f64,
    },
    /// An order of two Jacobians: a change of rates and `Δxᵀ (∂Φ̂/∂x − ∂Φ̃/∂x) Δx`, which shouldn't
    /// be positive.
    Difference {
        /// Δx.
        change: Vec<f64>,
        /// `Δxᵀ (∂Φ̂/∂x − ∂Φ̃/∂x) Δx`.
        difference: f64,
    },
    /// An order of two laws' φ on one path.
    Phis {
        /// Whose φ.
        path: usize,
        /// The one that should be the larger.
        above: f64,
        /// The other.
        below: f64,
    },
    /// C4: the sum of a column of the inverse, `∂‖x‖₁/∂q_r`.
    Column {
        /// r.
        path: usize,
        /// The sum.
        sum: f64,
    },
    /// C1: a link's own price and its traffic from this source, `∂y_l/∂p_l`.
    OwnPrice {
        /// The paths that the link carries.
        link_carries: Vec<usize>,
        /// `∂y_l/∂p_l`.
        slope: f64,
    },
    /// C1: a link's traffic from this source at two prices of the link's paths.
    Traffic {
        /// The paths that the link carries.
        link_carries: Vec<usize>,
        /// The paths' prices at the point.
        prices: Vec<f64>,
        /// What the prices of those paths are multiplied by, first and then.
        factors: (f64, f64),
        /// The link's traffic, first and then.
        traffic: (f64, f64),
    },
    /// C3 and C5: φ far from the point.
    Limit {
        /// Whose φ.
        path: usize,
        /// What changes by 10⁶ and 10¹².
        when: &'static str,
        /// φ after 6 decades.
        phi_after_1e6: f64,
        /// φ after 12.
        phi_after_1e12: f64,
    },
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Entries {
                of: (r, j),
                entry,
                transposed,
            } => write!(
                f,
                "∂φ{r}/∂x{j} = {}, ∂φ{j}/∂x{r} = {}",
                number(*entry),
                number(*transposed)
            ),
            Evidence::Change { change, product } => {
                write!(
                    f,
                    "Δx = {}, Δxᵀ(∂Φ/∂x)Δx = {}",
                    list(change),
                    number(*product)
                )
            }
            Evidence::Difference { change, difference } => write!(
                f,
                "Δx = {}, Δxᵀ(∂Φ̂/∂x − ∂Φ̃/∂x)Δx = {}",
                list(change),
                number(*difference)
            ),
            Evidence::Phis { path, above, below } => {
                write!(f, "φ{path} = {} and {}", number(*above), number(*below))
            }
            Evidence::Column { path, sum } => {
                write!(f, "∂‖x‖₁/∂q{path} = {} packets/s", number(*sum))
            }
            Evidence::OwnPrice {
                link_carries,
                slope,
            } => write!(
                f,
                "a link with {}: ∂y/∂p = {} packets/s",
                paths(link_carries),
                number(*slope)
            ),
            Evidence::Traffic {
                link_carries,
                prices,
                factors,
                traffic,
            } => write!(
                f,
                "q = {}, a link with {}: at {} times its price it carries {} packets/s, at {} \
                 times {}",
                list(prices),
                paths(link_carries),
                factors.0,
                number(traffic.0),
                factors.1,
                number(traffic.1)
            ),
            Evidence::Limit {
                path,
                when,
                phi_after_1e6,
                phi_after_1e12,
            } => write!(
                f,
                "φ{path} {when}: {} after 10⁶, {} after 10¹²",
                number(*phi_after_1e6),
                number(*phi_after_1e12)
            ),
        }
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x = {} packets/s", list(&self.point.rates))?;
        let rtts = &self.point.rtts;
        if rtts.iter().all(|rtt| *rtt == rtts[0]) {
            write!(f, ", τ = {} s", number(rtts[0]))?;
        } else {
            write!(f, ", τ = {} s", list(rtts))?;
        }
        write!(f, ": {}", self.evidence)
    }
}

/// Everything about one law.
#[derive(Clone, Debug, PartialEq)]
pub struct Criteria {
    /// The law.
    pub law: String,
    /// Where it was looked at.
    pub domain: Domain,
    /// C0 to C5.
    pub verdicts: [Verdict; 6],
    /// By how much the Jacobian jumps where the largest rates tie, as a part of its largest entry:
    /// with more than 0 it isn't continuous there, which C0 and C2 ask for.
    pub jump_at_ties: f64,
}

impl Criteria {
    /// About one of them.
    pub fn of(&self, criterion: Criterion) -> &Verdict {
        &self.verdicts[criterion as usize]
    }
}

/// A number as short as a reader needs it to check.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if (0.001..1e6).contains(&size) {
        let digits = (5 - size.log10().floor() as i32).clamp(0, 8) as usize;
        let text = format!("{value:.digits$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    format!("{value:.3e}")
}

/// The first of many.
fn list(values: &[f64]) -> String {
    let shown = if values.len() > MOST_SHOWN {
        MOST_SHOWN / 2
    } else {
        values.len()
    };
    let texts: Vec<String> = values[..shown].iter().map(|value| number(*value)).collect();
    match shown < values.len() {
        true => format!("({}, … {} in all)", texts.join(", "), values.len()),
        false => format!("({})", texts.join(", ")),
    }
}

/// Numbers that fit on a line or two.
const MOST_SHOWN: usize = 12;

fn paths(paths: &[usize]) -> String {
    let texts: Vec<String> = paths.iter().map(usize::to_string).collect();
    match texts.len() {
        1 => format!("path {}", texts[0]),
        _ => format!("paths {}", texts.join(", ")),
    }
}

//! What can be seen of a criterion at one point, by the exact Jacobian there.

use nalgebra::{DMatrix, DVector, SymmetricEigen};

use super::domain::Point;
use super::verdict::Evidence;
use crate::law::FluidLaw;

/// How near a point is to a violation, without dimension: more than the criterion's tolerance is
/// one.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) value: f64,
    pub(super) evidence: Evidence,
}

/// A Jacobian whose singular values differ by more than this has no inverse to compute with.
const SINGULAR: f64 = 1e-10;

/// A source with up to so many paths has all its subsets of paths tried as what a link carries.
const ALL_SUBSETS: usize = 10;

/// C0: entries that should be equal and aren't, as a part of the larger. `None` for one path.
pub(super) fn symmetry(law: &FluidLaw, point: &Point) -> Option<Seen> {
    let jacobian = law.jacobian(&point.rates, &point.rtts);
    let n = jacobian.nrows();
    let mut seen: Option<Seen> = None;
    for r in 0..n {
        for j in 0..r {
            let (one, other) = (jacobian[(r, j)], jacobian[(j, r)]);
            // Entries that are nothing beside the diagonal are rounding.
            let noise = 1e-12 * jacobian[(r, r)].abs().min(jacobian[(j, j)].abs());
            let value = (one - other).abs() / one.abs().max(other.abs()).max(noise);
            let value = if value.is_nan() { 0.0 } else { value };
            if seen.as_ref().is_none_or(|seen| value > seen.value) {
                seen = Some(Seen {
                    value,
                    evidence: Evidence::Entries {
                        of: (r + 1, j + 1),
                        entry: one,
                        transposed: other,
                    },
                });
            }
        }
    }
    seen
}

/// C2: the negative of the least eigenvalue of `−[∂Φ/∂x]⁺`, scaled to entries of at most 1. A
/// negative definite symmetric part has a negative one, with a rank of 1 it is 0.
pub(super) fn definiteness(law: &FluidLaw, point: &Point) -> Option<Seen> {
    let jacobian = law.jacobian(&point.rates, &point.rtts);
    let (value, change) = least_negative(&jacobian, &point.rates)?;
    // What is left of a sum that cancels is rounding.
    let product = match value.abs() < 1e-12 {
        true => 0.0,
        false => change.dot(&(&jacobian * &change)),
    };
    Some(Seen {
        value,
        evidence: Evidence::Change {
            change: change.as_slice().to_vec(),
            product,
        },
    })
}

/// The largest eigenvalue of a matrix' symmetric part, scaled, and a change of rates that has it:
/// as large as 1 % of a rate, so that a reader can try it.
///
/// The scale is a congruence, so that signs stay: `d_r² = 1/max_j(|M_rj| x_j/x_r)`.
pub(super) fn least_negative(matrix: &DMatrix<f64>, rates: &[f64]) -> Option<(f64, DVector<f64>)> {
    let symmetric = (matrix + matrix.transpose()) * 0.5;
    let n = rates.len();
    let scale = DVector::from_fn(n, |r, _| {
        let sizes = (0..n).map(|j| symmetric[(r, j)].abs() * rates[j] / rates[r]);
        let largest = sizes.fold(0.0, f64::max);
        if largest == 0.0 {
            1.0
        } else {
            largest.sqrt().recip()
        }
    });
    let scaled = DMatrix::from_fn(n, n, |r, j| scale[r] * symmetric[(r, j)] * scale[j]);
    if !scaled.iter().all(|entry| entry.is_finite()) {
        return None;
    }
    let eigen = SymmetricEigen::new(scaled);
    let (largest, value) = eigen.eigenvalues.argmax();
    let direction = eigen.eigenvectors.column(largest).component_mul(&scale);
    let parts = direction.iter().zip(rates);
    let part = parts.map(|(z, x)| z.abs() / x).fold(0.0, f64::max);
    Some((value, direction * (0.01 / part)))
}

/// C4: the largest sum of a column of `[∂Φ/∂x]⁻¹`, as a part of its entries' sizes. `None` where
/// there is no inverse.
pub(super) fn columns(law: &FluidLaw, point: &Point) -> Option<Seen> {
    let inverse = inverse(law, point)?;
    let sums = inverse.column_iter().map(|column| {
        let sizes: f64 = column.iter().map(|entry| entry.abs()).sum();
        (column.sum(), column.sum() / sizes)
    });
    let (path, (sum, value)) = sums.enumerate().max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
    Some(Seen {
        value,
        evidence: Evidence::Column {
            path: path + 1,
            sum,
        },
    })
}

/// The local half of C1: `∂y_l/∂p_l = 1ᵀ [∂Φ/∂x]⁻¹ 1` over the paths that a link carries, as a part
/// of its terms' sizes; the largest over links. `None` where there is no inverse.
pub(super) fn own_price(law: &FluidLaw, point: &Point) -> Option<Seen> {
    let inverse = inverse(law, point)?;
    let mut worst: Option<(f64, f64, &Vec<usize>)> = None;
    let subsets = subsets(point.rates.len());
    for paths in &subsets {
        let (mut slope, mut sizes) = (0.0, 0.0);
        for &j in paths {
            for &r in paths {
                slope += inverse[(r, j)];
                sizes += inverse[(r, j)].abs();
            }
        }
        let value = slope / sizes;
        if worst.is_none_or(|(most, ..)| value > most) {
            worst = Some((value, slope, paths));
        }
    }
    worst.map(|(value, slope, paths)| Seen {
        value,
        evidence: Evidence::OwnPrice {
            link_carries: paths.iter().map(|path| path + 1).collect(),
            slope,
        },
    })
}

/// `[∂Φ/∂x]⁻¹`, by way of the elasticities `(x_j/φ_r) ∂φ_r/∂x_j`, which are around 1.
pub(super) fn inverse(law: &FluidLaw, point: &Point) -> Option<DMatrix<f64>> {
    let jacobian = law.jacobian(&point.rates, &point.rtts);
    let phis = law.phis(&point.rates, &point.rtts);
    let n = phis.len();
    let elasticities = DMatrix::from_fn(n, n, |r, j| jacobian[(r, j)] * point.rates[j] / phis[r]);
    if !elasticities.iter().all(|entry| entry.is_finite()) {
        return None;
    }
    let values = elasticities.singular_values();
    if values.min() <= SINGULAR * values.max() {
        return None;
    }
    let inverse = elasticities.try_inverse()?;
    Some(DMatrix::from_fn(n, n, |r, j| {
        inverse[(r, j)] * point.rates[r] / phis[j]
    }))
}

/// Sets of paths that a link may carry: all there are for few paths, else single paths, pairs, all
/// but one, and all.
fn subsets(paths: usize) -> Vec<Vec<usize>> {
    if paths <= ALL_SUBSETS {
        let members = |set: usize| (0..paths).filter(|r| set >> r & 1 == 1).collect();
        return (1..1usize << paths).map(members).collect();
    }
    let mut subsets = vec![(0..paths).collect::<Vec<_>>()];
    for r in 0..paths {
        subsets.push(vec![r]);
        subsets.push((0..paths).filter(|&other| other != r).collect());
        subsets.extend((0..r).map(|other| vec![other, r]));
    }
    subsets
}

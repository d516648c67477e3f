//! Symmetric positive definite systems over the links.

use std::collections::BTreeSet;

use nalgebra::{DMatrix, DVector};

/// A symmetric matrix over the links, and its Cholesky factor in the same place.
///
/// Links that meet few others are eliminated first and sparsely, those with the fewest neighbours
/// before the others. What is left is dense, and eliminated by blocks.
pub(super) struct Matrix {
    /// The row of each link.
    places: Vec<usize>,
    /// Of each sparse column, the rows below the diagonal, ascending.
    rows: Vec<Vec<usize>>,
    /// The same rows' values.
    values: Vec<Vec<f64>>,
    diagonal: Vec<f64>,
    /// The lower triangle of what is left.
    dense: DMatrix<f64>,
}

/// A column is sparse while it has less than this part of what is left: dense entries are so much
/// faster.
const SPARSE: usize = 5;

/// Columns that are eliminated at a time.
const BLOCK: usize = 48;

/// So many pairs of links are kept at most, of which each takes some ten bytes: more would fill the
/// memory of many machines.
pub(super) const MOST_PAIRS: usize = 100_000_000;

/// Pivots below this part of their diagonal are rounding.
const ROUNDING: f64 = 1e-15;

impl Matrix {
    /// With zeros, and room for all pairs of links in one of the `groups`, and for those that come
    /// by eliminating; `None` if there are more than `most`.
    pub(super) fn of(
        links: usize,
        groups: impl Iterator<Item = Vec<usize>>,
        most: usize,
    ) -> Option<Self> {
        let mut near = vec![BTreeSet::new(); links];
        let mut pairs = 0;
        for group in groups {
            for &link in &group {
                let others = group.iter().copied().filter(|&other| other != link);
                pairs += grow(&mut near[link], others);
            }
            if pairs > most {
                return None;
            }
        }
        let mut queue: BTreeSet<(usize, usize)> = near
            .iter()
            .enumerate()
            .map(|(link, near)| (near.len(), link))
            .collect();
        let mut places = vec![usize::MAX; links];
        let mut columns = Vec::new();
        while let Some(&(degree, link)) = queue.first() {
            if degree * SPARSE >= queue.len() {
                break;
            }
            queue.pop_first();
            places[link] = columns.len();
            let around = std::mem::take(&mut near[link]);
            for &other in &around {
                queue.remove(&(near[other].len(), other));
                let thirds = around.iter().copied().filter(|&third| third != other);
                pairs += grow(&mut near[other], thirds);
                near[other].remove(&link);
                queue.insert((near[other].len(), other));
            }
            columns.push(around);
            if pairs > most {
                return None;
            }
        }
        let sparse = columns.len();
        if (links - sparse).pow(2) > most {
            return None;
        }
        let rest = places.iter_mut().filter(|place| **place == usize::MAX);
        rest.enumerate().for_each(|(n, place)| *place = sparse + n);
        let rows = columns.into_iter().map(|column| {
            let mut rows: Vec<usize> = column.into_iter().map(|link| places[link]).collect();
            rows.sort_unstable();
            rows
        });
        let rows: Vec<Vec<usize>> = rows.collect();
        Some(Matrix {
            values: rows.iter().map(|rows| vec![0.0; rows.len()]).collect(),
            diagonal: vec![0.0; sparse],
            dense: DMatrix::zeros(links - sparse, links - sparse),
            rows,
            places,
        })
    }

    /// Sets all to 0.
    pub(super) fn clear(&mut self) {
        self.values.iter_mut().for_each(|values| values.fill(0.0));
        self.diagonal.fill(0.0);
        self.dense.fill(0.0);
    }

    /// Adds `weight · vector · vectorᵀ` for a vector of few links.
    pub(super) fn add(&mut self, weight: f64, vector: &[(usize, f64)]) {
        for &(first, a) in vector {
            let i = self.places[first];
            for &(second, b) in vector {
                let j = self.places[second];
                if j <= i {
                    *self.entry(i, j) += weight * a * b;
                }
            }
        }
    }

    /// In the lower triangle.
    fn entry(&mut self, i: usize, j: usize) -> &mut f64 {
        let sparse = self.rows.len();
        if j >= sparse {
            return &mut self.dense[(i - sparse, j - sparse)];
        }
        if i == j {
            return &mut self.diagonal[j];
        }
        let n = self.rows[j].partition_point(|&row| row < i);
        &mut self.values[j][n]
    }

    /// Replaces the matrix by its factor. A pivot that is only rounding takes its row out.
    pub(super) fn factorise(&mut self) {
        let whole = self.diagonal.clone();
        for (j, &whole) in whole.iter().enumerate() {
            let root = root(self.diagonal[j], whole);
            self.diagonal[j] = root;
            let rows = std::mem::take(&mut self.rows[j]);
            let mut values = std::mem::take(&mut self.values[j]);
            values.iter_mut().for_each(|value| *value /= root);
            for (n, (&k, &b)) in rows.iter().zip(&values).enumerate() {
                for (&i, &a) in rows[n..].iter().zip(&values[n..]) {
                    *self.entry(i, k) -= a * b;
                }
            }
            self.rows[j] = rows;
            self.values[j] = values;
        }
        factorise(&mut self.dense);
    }

    /// Solves it for a right-hand side, once it is factorised.
    pub(super) fn solve(&self, right: &[f64]) -> Vec<f64> {
        let sparse = self.rows.len();
        let mut found = DVector::zeros(right.len());
        for (&place, &value) in self.places.iter().zip(right) {
            found[place] = value;
        }
        for j in 0..sparse {
            found[j] /= self.diagonal[j];
            for (&i, &value) in self.rows[j].iter().zip(&self.values[j]) {
                found[i] -= value * found[j];
            }
        }
        let mut rest = found.rows_mut(sparse, right.len() - sparse);
        self.dense.solve_lower_triangular_unchecked_mut(&mut rest);
        self.dense
            .tr_solve_lower_triangular_unchecked_mut(&mut rest);
        for j in (0..sparse).rev() {
            for (&i, &value) in self.rows[j].iter().zip(&self.values[j]) {
                found[j] -= value * found[i];
            }
            found[j] /= self.diagonal[j];
        }
        self.places.iter().map(|&place| found[place]).collect()
    }
}

/// By how much the set grows.
fn grow(set: &mut BTreeSet<usize>, by: impl Iterator<Item = usize>) -> usize {
    let before = set.len();
    set.extend(by);
    set.len() - before
}

fn root(pivot: f64, whole: f64) -> f64 {
    if pivot > ROUNDING * whole {
        pivot.sqrt()
    } else {
        1e100
    }
}

/// By block columns from left to right.
fn factorise(matrix: &mut DMatrix<f64>) {
    let size = matrix.nrows();
    let whole = matrix.diagonal();
    for from in (0..size).step_by(BLOCK) {
        let to = (from + BLOCK).min(size);
        for j in from..to {
            let root = root(matrix[(j, j)], whole[j]);
            let (left, mut right) = matrix.columns_range_pair_mut(j, j + 1..to);
            let mut column = left;
            column[j] = root;
            column.rows_mut(j + 1, size - j - 1).scale_mut(1.0 / root);
            for k in j + 1..to {
                let below = column.rows(k, size - k);
                let mut target = right.column_mut(k - j - 1);
                target.rows_mut(k, size - k).axpy(-column[k], &below, 1.0);
            }
        }
        let (panel, mut rest) = matrix.columns_range_pair_mut(from..to, to..size);
        for next in (to..size).step_by(BLOCK) {
            let end = (next + BLOCK).min(size);
            let below = panel.rows(next, size - next);
            let across = panel.rows(next, end - next).transpose();
            rest.view_mut((next, next - to), (size - next, end - next))
                .gemm(-1.0, &below, &across, 1.0);
        }
    }
}

#[cfg(test)]
mod tests;

//! Conic programmes, as the solver takes them.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, SolverStatus, SupportedConeT};

/// A conic programme as `clarabel` takes it, written row by row: minimise `½ vᵀPv + q·v` with `b −
/// A v` in a product of cones.
pub(super) struct Program {
    cost: Vec<f64>,
    curvature: (Vec<usize>, Vec<usize>, Vec<f64>),
    rows: Vec<usize>,
    columns: Vec<usize>,
    values: Vec<f64>,
    bounds: Vec<f64>,
    cones: Vec<SupportedConeT<f64>>,
}

/// What any programme is solved to.
pub(super) const TOLERANCE: f64 = 1e-10;

/// What a quadratic programme of numbers around 1 can be solved to.
pub(super) const FINE: f64 = 1e-14;

/// What the solver found.
pub(super) struct Solved {
    /// The variables.
    pub(super) variables: Vec<f64>,
    /// The dual of each row.
    pub(super) duals: Vec<f64>,
    /// `Solved`, or what stopped it.
    pub(super) status: SolverStatus,
    /// Primal minus dual objective, absolute.
    pub(super) gap: f64,
}

impl Program {
    /// Over as many variables as there are costs.
    pub(super) fn minimise(cost: Vec<f64>) -> Self {
        Program {
            cost,
            curvature: Default::default(),
            rows: Vec::new(),
            columns: Vec::new(),
            values: Vec::new(),
            bounds: Vec::new(),
            cones: Vec::new(),
        }
    }

    /// Adds `½ curvature (Σ variables)²` to what is minimised.
    pub(super) fn bend(&mut self, variables: &[(usize, f64)], curvature: f64) {
        let (rows, columns, values) = &mut self.curvature;
        for (n, &(column, _)) in variables.iter().enumerate() {
            // The upper triangle is all that is asked for.
            for &(row, _) in &variables[..=n] {
                rows.push(row);
                columns.push(column);
                values.push(curvature);
            }
        }
    }

    /// `Σ terms ≤ bound`; the row's number.
    pub(super) fn at_most(
        &mut self,
        terms: impl IntoIterator<Item = (usize, f64)>,
        bound: f64,
    ) -> usize {
        if let Some(SupportedConeT::NonnegativeConeT(rows)) = self.cones.last_mut() {
            *rows += 1;
        } else {
            self.cones.push(SupportedConeT::NonnegativeConeT(1));
        }
        self.row(terms, bound)
    }

    /// The three rows `(constant + Σ terms)` lie in the cone.
    pub(super) fn in_cone<T: IntoIterator<Item = (usize, f64)>>(
        &mut self,
        cone: SupportedConeT<f64>,
        rows: [(T, f64); 3],
    ) {
        self.cones.push(cone);
        for (terms, constant) in rows {
            let terms = terms.into_iter().map(|(column, value)| (column, -value));
            self.row(terms, constant);
        }
    }

    fn row(&mut self, terms: impl IntoIterator<Item = (usize, f64)>, bound: f64) -> usize {
        let row = self.bounds.len();
        self.bounds.push(bound);
        for (column, value) in terms {
            self.rows.push(row);
            self.columns.push(column);
            self.values.push(value);
        }
        row
    }

    /// Solves it to a tolerance, or as far as the solver gets.
    ///
    /// # Errors
    /// What the solver says of a programme that it doesn't take.
    pub(super) fn solve(self, tolerance: f64) -> Result<Solved, String> {
        let (m, n) = (self.bounds.len(), self.cost.len());
        let matrix = CscMatrix::new_from_triplets(m, n, self.rows, self.columns, self.values);
        let settings = DefaultSettings {
            verbose: false,
            max_iter: 200,
            tol_gap_abs: tolerance,
            tol_gap_rel: tolerance,
            tol_feas: tolerance,
            ..DefaultSettings::default()
        };
        let (rows, columns, values) = self.curvature;
        let quadratic = CscMatrix::new_from_triplets(n, n, rows, columns, values);
        let mut solver = DefaultSolver::new(
            &quadratic,
            &self.cost,
            &matrix,
            &self.bounds,
            &self.cones,
            settings,
        )
        .map_err(|error| error.to_string())?;
        solver.solve();
        let found = solver.solution;
        Ok(Solved {
            gap: (found.obj_val - found.obj_val_dual).abs(),
            variables: found.x,
            duals: found.z,
            status: found.status,
        })
    }
}

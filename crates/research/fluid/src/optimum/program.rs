//! Linear programmes, as the solver takes them.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, SolverStatus, SupportedConeT};

/// A linear programme as `clarabel` takes it, written row by row: minimise `q·v` with `A v ≤ b`.
pub(super) struct Program {
    cost: Vec<f64>,
    rows: Vec<usize>,
    columns: Vec<usize>,
    values: Vec<f64>,
    bounds: Vec<f64>,
}

/// What any programme is solved to.
const TOLERANCE: f64 = 1e-10;

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
            rows: Vec::new(),
            columns: Vec::new(),
            values: Vec::new(),
            bounds: Vec::new(),
        }
    }

    /// `Σ terms ≤ bound`; the row's number.
    pub(super) fn at_most(
        &mut self,
        terms: impl IntoIterator<Item = (usize, f64)>,
        bound: f64,
    ) -> usize {
        let row = self.bounds.len();
        self.bounds.push(bound);
        for (column, value) in terms {
            self.rows.push(row);
            self.columns.push(column);
            self.values.push(value);
        }
        row
    }

    /// Solves it to [`TOLERANCE`], or as far as the solver gets.
    ///
    /// # Errors
    /// What the solver says of a programme that it doesn't take.
    pub(super) fn solve(self) -> Result<Solved, String> {
        let (m, n) = (self.bounds.len(), self.cost.len());
        let matrix = CscMatrix::new_from_triplets(m, n, self.rows, self.columns, self.values);
        let settings = DefaultSettings {
            verbose: false,
            max_iter: 200,
            tol_gap_abs: TOLERANCE,
            tol_gap_rel: TOLERANCE,
            tol_feas: TOLERANCE,
            ..DefaultSettings::default()
        };
        let mut solver = DefaultSolver::new(
            &CscMatrix::zeros((n, n)),
            &self.cost,
            &matrix,
            &self.bounds,
            &[SupportedConeT::NonnegativeConeT(m)],
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

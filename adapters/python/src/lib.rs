//! The native part of the Python package `manyway`: scenarios in, reports as JSON and tables as CSV
//! out, as `manyway run --json --out` writes them. The Python part makes frames of them.
//!
//! This crate only passes on: it computes nothing and defines no format. It never holds Python's
//! lock while it runs a scenario, unless a law is written in Python.

mod laws;
mod own;
mod run;
mod scenario;
mod tables;
mod theory;
mod work;

use pyo3::prelude::*;

pyo3::create_exception!(
    manyway,
    ScenarioError,
    pyo3::exceptions::PyValueError,
    "A scenario that can't be run: the text names file, line and key, and says how to mend it."
);

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::ScenarioError;
    #[pymodule_export]
    use super::laws::{FluidLaw, laws};
    #[pymodule_export]
    use super::own::add_law;
    #[pymodule_export]
    use super::run::{is_part, run};
    #[pymodule_export]
    use super::theory::{criteria, optimum};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// A wrong argument.
fn wrong(error: impl ToString) -> PyErr {
    pyo3::exceptions::PyValueError::new_err(error.to_string())
}

/// A failure that is nobody's argument.
fn failed(error: impl ToString) -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err(error.to_string())
}

/// A wrong scenario.
fn unfit(error: impl ToString) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

/// An object as JSON.
fn json(object: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(object).map_err(failed)
}

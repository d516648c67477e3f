//! Scenarios from files or texts, with assignments.

use std::path::Path;

use manyway_scenario::{Scenario, ScenarioError};
use pyo3::prelude::*;

use crate::unfit;

/// Where a scenario is from.
#[derive(Debug, FromPyObject)]
pub(crate) struct Source {
    /// The file's name; of a text, the name that its errors and the files beside it are told by.
    file: String,
    /// `None` if the file is to be read.
    text: Option<String>,
    /// `KEY=VALUE`, as of `--set`.
    assignments: Vec<String>,
}

impl Source {
    /// The file's name.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The scenario with the assignments made to it.
    pub(crate) fn load(&self) -> PyResult<Scenario> {
        self.read().map_err(unfit)
    }

    fn read(&self) -> Result<Scenario, ScenarioError> {
        let mut scenario = match &self.text {
            Some(text) => Scenario::parse(text, &self.file)?,
            None => Scenario::load(Path::new(&self.file))?,
        };
        for assignment in &self.assignments {
            scenario.set(assignment)?;
        }
        Ok(scenario)
    }
}

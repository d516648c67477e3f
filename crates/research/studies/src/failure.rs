//! Why a study can't be run.

use std::error::Error;

/// Why a study has no outcome.
pub type Failure = Box<dyn Error + Send + Sync>;

//! Commands that this build leaves out: they end with the feature that brings them.

use std::ffi::OsString;

use clap::Args;

use crate::exit::usage;

/// Whatever follows the command.
#[derive(Debug, Args)]
pub(crate) struct LeftOutArgs {
    #[arg(num_args = 0.., trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _rest: Vec<OsString>,
}

/// The error of a command that needs `feature`.
pub(crate) fn left_out(feature: &str) -> anyhow::Error {
    usage(format!(
        "this manyway was built without its {feature} commands: build it with `cargo build \
         --release --features {feature}`"
    ))
}

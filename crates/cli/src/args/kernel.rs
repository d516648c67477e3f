//! `kernel`: a program of its own has the options.

use std::ffi::OsString;

use clap::Args;

/// Load laws into this host's kernel, for its MPTCP (Linux, root)
///
/// `manyway kernel load balia` adds a law to the kernel's congestion controls, `list` shows the
/// loaded laws, and `unload` removes one. The command runs a separate program, `manyway-kernel`:
/// docs/kernel.md in the source tree says how to install and use it.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct KernelArgs {
    /// `load LAW`, `list`, `unload LAW` or `--help`
    #[arg(
        value_name = "COMMAND",
        num_args = 0..,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) rest: Vec<OsString>,
}

//! Commands that this build leaves out: they end with the feature that brings them.

use std::ffi::OsString;

use clap::Args;

use crate::exit::usage;

/// This manyway was built without the command
///
/// `cargo build --release --features research` builds manyway with the simulator's commands, and
/// `cargo build --release --features registry` with the registry's server.
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    #[cfg(not(feature = "research"))]
    #[test]
    fn whatever_follows_a_command_that_is_left_out_is_taken() {
        for rest in [&["a.toml", "--seed", "1"][..], &["--help"], &[]] {
            let arguments = ["manyway", "run"].iter().chain(rest);
            let cli = Cli::try_parse_from(arguments).unwrap();
            assert!(matches!(cli.command, Command::Run(_)));
        }
    }

    #[cfg(not(feature = "registry"))]
    #[test]
    fn the_registry_is_left_out_too() {
        let cli = Cli::try_parse_from(["manyway", "registry", "--listen", "x"]).unwrap();
        assert!(matches!(cli.command, Command::Registry(_)));
    }

    #[test]
    fn the_error_names_the_feature() {
        assert!(
            left_out("research")
                .to_string()
                .contains("--features research")
        );
    }
}

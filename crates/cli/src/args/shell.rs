//! `completions` and `man`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Print a script that completes manyway's commands and options in a shell
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  manyway completions bash > ~/.local/share/bash-completion/completions/manyway
  manyway completions zsh > ~/.zfunc/_manyway       with ~/.zfunc in zsh's fpath
  manyway completions fish > ~/.config/fish/completions/manyway.fish";

/// Shells for which there are completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Write manyway's man pages, one for each command
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// Directory to write them into; manyway creates it if its parent directory exists
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

const MAN_EXAMPLES: &str = "\
Examples:
  manyway man ~/.local/share/man/man1
  man manyway-send";

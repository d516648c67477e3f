//! `id` and `peers`: who this host is, and names for others.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Print this host's id, and make an identity if there is none
///
/// An identity is a key pair in a file that only you can read. Its public half is the id that this
/// command prints; it isn't a secret. A host with an identity proves it to every listener that it
/// connects to, and its tickets contain the id. A listener with `--allow-peer` admits only the ids
/// that you name.
#[derive(Debug, Args)]
#[command(after_help = ID_EXAMPLES)]
pub(crate) struct IdArgs {
    /// File of the identity [default: ~/.config/manyway/identity]
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,

    /// Make another ticket for listeners with `--allow-peer`; the identity stays
    ///
    /// Holders of the old ticket can't reach these listeners any more once they have been started
    /// again.
    #[arg(long)]
    pub(crate) new_ticket: bool,
}

const ID_EXAMPLES: &str = "\
Examples:
  manyway id
  manyway id --identity ~/backup.identity";

/// Give names to other hosts
///
/// Use a name in place of a ticket in `--to` and `--from`, and of an id in `--allow-peer`.
/// The names are in ~/.config/manyway/peers, which only you can read.
#[derive(Debug, Args)]
#[command(after_help = PEERS_EXAMPLES)]
pub(crate) struct PeersArgs {
    #[command(subcommand)]
    pub(crate) command: PeersCommand,
}

const PEERS_EXAMPLES: &str = "\
Examples:
  manyway peers add ann id1…              then: manyway recv --allow-peer ann
  manyway peers add office @ticket        then: manyway send film.mkv --to office
  manyway peers list
  manyway peers remove ann";

#[derive(Debug, Subcommand)]
pub(crate) enum PeersCommand {
    /// Give a name to an id or a ticket
    Add {
        /// Name: letters, digits, `-`, `_` and `.`, beginning with a letter
        #[arg(value_name = "NAME")]
        name: String,

        /// Id (id1…) that `manyway id` prints there, ticket (mw1…) of a listener there, or @FILE
        /// with one
        ///
        /// A ticket contains the id, and leads to the listener. A ticket of a listener with
        /// `--allow-peer` stays valid when that listener restarts.
        #[arg(value_name = "ID|TICKET")]
        who: String,
    },
    /// List the names, their ids, and whether a ticket is known
    List,
    /// Forget a name
    Remove {
        /// Name to forget
        #[arg(value_name = "NAME")]
        name: String,
    },
}

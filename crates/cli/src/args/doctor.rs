//! `doctor`: checks the network, and the way to a listener.

use clap::Args;

use super::network::{NetworkArgs, RelaySourceArgs};

/// Check this host's network, its relays and the way to a listener
///
/// manyway checks each interface, the sizes of UDP buffers, and the relays and the registry that
/// you name. With TICKET, it connects to the listener and checks each pair of addresses. It prints
/// a line for each check, with a remedy where something is wrong, and then what would make
/// transfers faster. It sends no files, and the listener then keeps waiting.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Ticket of the listener (mw1…, or @FILE with it), or the name of a peer
    #[arg(value_name = "TICKET")]
    pub(crate) ticket: Option<String>,

    /// Ticket of the listener, @FILE, or the name of a peer, as an option
    #[arg(long, value_name = "TICKET")]
    pub(crate) to: Option<String>,

    /// Print one JSON object on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) relays: RelaySourceArgs,
}

const EXAMPLES: &str = "\
Examples:
  manyway doctor
  manyway doctor @ticket
  manyway doctor mw1… --via @relays --path eth0 --path wlan0";

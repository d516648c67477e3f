//! `send` and `recv`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::network::{Network, Relays};
use super::selection::SelectionArgs;

/// Send files and directories
///
/// With --to they go to whoever printed the ticket; with HOST:DIR as the last argument, manyway is
/// started on HOST over ssh; with neither, a ticket is printed and the files wait to be fetched.
#[derive(Debug, Args)]
#[command(after_long_help = SEND_EXAMPLES)]
pub(crate) struct SendArgs {
    /// What to send; the last one may be HOST:DIR, the destination over ssh
    ///
    /// A local name with a colon in it is written ./na:me.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// The receiver's ticket, or @FILE with the ticket in it
    ///
    /// Programs of other users of this host can see a ticket on a command line; @FILE and the
    /// environment hide it.
    #[arg(long, value_name = "TICKET")]
    pub(crate) to: Option<String>,

    #[command(flatten)]
    pub(crate) conflict: ConflictArgs,
    #[command(flatten)]
    pub(crate) network: Network,
    #[command(flatten)]
    pub(crate) relays: Relays,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    #[command(flatten)]
    pub(crate) invitation: Invitation,
    #[command(flatten)]
    pub(crate) ssh: SshArgs,
}

const SEND_EXAMPLES: &str = "\
Examples:
  manyway send film.mkv --to mw1…
  manyway send photos/ notes.txt --to @ticket
  manyway send photos/
  manyway send backup.tar ann@server:backups --path eth0 --path wlan0
  manyway send big.iso --to mw1… --via mr1… --via mr1… --cc mpath
  manyway send big.iso --to mw1… --relays 50 --registry https://… --token-file token --cc mpath
  manyway send big.iso --to mw1… --via @relays --pick 3 --demand 50Mbps
  manyway send big.iso --to mw1… --cc balia --limit 80Mbps --json
  manyway send big.iso --to mw1… --carrier tcp --tcp-cc bbr";

/// Receive files and directories
///
/// Without a ticket it prints one and receives whatever is sent to it until it is stopped; with a
/// ticket it fetches what the other side offers.
#[derive(Debug, Args)]
#[command(after_long_help = RECV_EXAMPLES, override_usage = RECV_USAGE)]
pub(crate) struct RecvArgs {
    /// The sender's ticket (mw1…, or @FILE with the ticket in it) and the directory to receive into
    ///
    /// DIR is the current directory unless given; it is created if only its last part is missing. A
    /// directory whose name begins with mw1 or @ is written ./mw1…
    #[arg(value_names = ["TICKET", "DIR"], num_args = 0..=2)]
    pub(crate) what: Vec<OsString>,

    /// The sender's ticket, or @FILE, as an option
    #[arg(long, value_name = "TICKET")]
    pub(crate) from: Option<String>,

    /// End after one transfer
    #[arg(long)]
    pub(crate) once: bool,

    /// End when standard input does; how the far side over ssh notices that its caller is gone
    #[arg(long, hide = true)]
    pub(crate) while_stdin: bool,

    #[command(flatten)]
    pub(crate) conflict: ConflictArgs,
    #[command(flatten)]
    pub(crate) network: Network,
    #[command(flatten)]
    pub(crate) relays: Relays,
    #[command(flatten)]
    pub(crate) invitation: Invitation,
}

const RECV_USAGE: &str = "\
manyway recv [OPTIONS] [DIR]
       manyway recv [OPTIONS] TICKET [DIR]";

const RECV_EXAMPLES: &str = "\
Examples:
  manyway recv ~/inbox
  manyway recv --via mr1… ~/inbox         behind NAT: found at a relay
  manyway recv --once --ticket-file /run/user/1000/ticket ~/inbox
  manyway recv mw1… ~/Downloads --rename
  MANYWAY_TICKET=@ticket manyway recv";

/// What happens to names that exist already at the receiver.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Existing files")]
pub(crate) struct ConflictArgs {
    /// Replace files that exist (the default is to refuse); when sending, only with HOST:DIR
    #[arg(long, conflicts_with = "rename")]
    pub(crate) overwrite: bool,

    /// Keep both: the new one becomes "name (1).ext"; when sending, only with HOST:DIR
    #[arg(long)]
    pub(crate) rename: bool,
}

/// What a side that waits for the other needs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Ticket")]
pub(crate) struct Invitation {
    /// Write the ticket to this file, readable by you alone; with -q it is not printed then
    #[arg(long, value_name = "FILE")]
    pub(crate) ticket_file: Option<PathBuf>,

    /// Add an address to the ticket that leads to this host, e.g. a router's forwarded port;
    /// repeatable
    ///
    /// ADDR alone takes the port of our sockets. Our own interfaces' addresses are always in it.
    #[arg(long, value_name = "ADDR[:PORT]", value_delimiter = ',')]
    pub(crate) advertise: Vec<String>,
}

/// How the far side is started.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Over ssh")]
pub(crate) struct SshArgs {
    /// The ssh command and its own options
    #[arg(long, value_name = "CMD", default_value = "ssh")]
    pub(crate) ssh: String,

    /// The program on the far side
    #[arg(long, value_name = "PATH", default_value = "manyway")]
    pub(crate) remote_bin: String,

    /// UDP port of the far side's sockets, e.g. one that its firewall lets in
    #[arg(long, value_name = "PORT")]
    pub(crate) remote_port: Option<u16>,
}

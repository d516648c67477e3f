//! `send` and `recv`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use manyway::ByteSize;
use manyway::files::Links;

use super::content::ContentArgs;
use super::network::{NetworkArgs, QuotaArgs, RelaySourceArgs};
use super::report::ReportArgs;
use super::selection::SelectionArgs;

/// Send files and directories
///
/// With `--to`, manyway sends them to the host that printed the ticket. With HOST:DIR as the last
/// argument, it starts the receiver on HOST over ssh. With neither, it prints a ticket, or with
/// `--code` a code, and waits until a receiver fetches the files.
#[derive(Debug, Args)]
#[command(after_help = SEND_EXAMPLES, after_long_help = SEND_MORE_EXAMPLES)]
pub(crate) struct SendArgs {
    /// Files and directories to send; the last argument may be HOST:DIR, a destination over ssh
    ///
    /// `-` sends standard input to `manyway recv -`. Write a local name that contains a colon as
    /// ./na:me.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// The receiver's ticket or code, @FILE with it, or a peer's name
    ///
    /// Other users of this host can see a ticket on the command line, but not one from @FILE or the
    /// environment. A code is useless once it has been used.
    #[arg(long, value_name = "TICKET")]
    pub(crate) to: Option<String>,

    #[command(flatten)]
    pub(crate) content: ContentArgs,
    #[command(flatten)]
    pub(crate) arrival: ArrivalArgs,
    #[command(flatten)]
    pub(crate) retry: RetryArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) quota: QuotaArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) relays: RelaySourceArgs,
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    #[command(flatten)]
    pub(crate) code: CodeArgs,
    #[command(flatten)]
    pub(crate) ticket: TicketArgs,
    #[command(flatten)]
    pub(crate) ssh: SshArgs,
}

const SEND_EXAMPLES: &str = "\
Examples:
  manyway send film.mkv --to mw1…
  manyway send photos/ notes.txt --to @ticket
  manyway send photos/                        prints a ticket and waits
  manyway send photos/ --code --registry https://… --token-file token
  manyway send backup.tar ann@server:backups --path eth0 --path wlan0
  manyway send big.iso --to mw1… --via mr1… --via mr1…
  manyway send big.iso --to mw1… --limit 80Mbps --json
  tar c photos | manyway send - --to @ticket";

const SEND_MORE_EXAMPLES: &str = "\
Examples:
  manyway send film.mkv --to mw1…
  manyway send photos/ notes.txt --to @ticket
  manyway send photos/
  tar c photos | manyway send - --to @ticket
  manyway send photos/ --code --registry https://… --token-file token
  manyway send film.mkv --to 7-guitar-saddle-orbit --registry https://…
  manyway send backup.tar ann@server:backups --path eth0 --path wlan0
  manyway send big.iso --to mw1… --via mr1… --via mr1…
  manyway send big.iso --to mw1… --relays 50 --registry https://… --token-file token --cc mpath
  manyway send big.iso --to mw1… --via @relays --pick 3 --demand 50Mbps
  manyway send big.iso --to mw1… --cc balia --limit 80Mbps --json
  manyway send big.iso --to mw1… --carrier tcp --tcp-cc bbr";

/// Update files and directories on another host
///
/// Works like `send` with `--overwrite`: manyway sends new files, and the changed parts of existing
/// files. As in rsync, a directory with a slash at its end stands for its contents: photos/ fills
/// DIR, and photos fills DIR/photos. With `--delete`, manyway deletes files there that don't exist
/// here; use `--dry-run` first to list them. If the receiver printed the ticket, give these options
/// to the receiver: `manyway recv --overwrite --delete`.
#[derive(Debug, Args)]
#[command(after_help = SYNC_EXAMPLES, after_long_help = SYNC_EXAMPLES)]
pub(crate) struct SyncArgs {
    #[command(flatten)]
    pub(crate) send: SendArgs,
}

const SYNC_EXAMPLES: &str = "\
Examples:
  manyway sync photos/ server:photos
  manyway sync --delete --dry-run photos/ server:photos
  manyway sync --delete --exclude '*.tmp' --exclude cache/ photos notes server:backup
  manyway sync photos --to mw1…";

/// Receive files and directories
///
/// Without a ticket, manyway prints one and receives files from senders until you stop it. With a
/// ticket, it fetches the sender's files. A code (a number and three words) stands for a ticket at
/// a registry.
#[derive(Debug, Args)]
#[command(after_help = RECV_EXAMPLES, override_usage = RECV_USAGE)]
pub(crate) struct RecvArgs {
    /// Ticket or code of the sender (mw1…, 7-guitar-saddle-orbit, or @FILE with it) and the
    /// directory to receive into
    ///
    /// DIR defaults to the current directory. manyway creates it if its parent directory exists.
    /// `-` writes what `manyway send -` sends to standard output. Write a directory whose name
    /// begins with mw1 or @, or looks like a code, as ./mw1…
    // Spaces may part the number and the words of a code.
    #[arg(value_names = ["TICKET", "DIR"], num_args = 0..=5)]
    pub(crate) what: Vec<OsString>,

    /// Ticket or code of the sender, @FILE, or the name of a peer, as an option
    #[arg(long, value_name = "TICKET")]
    pub(crate) from: Option<String>,

    /// Exit after one transfer
    #[arg(long)]
    pub(crate) once: bool,

    /// Exit at the end of standard input, which tells a receiver over ssh that its caller is gone
    #[arg(long, hide = true)]
    pub(crate) while_stdin: bool,

    /// Refuse the home directory and those above it, which the caller would fill and empty
    #[arg(long, hide = true)]
    pub(crate) spare_home: bool,

    #[command(flatten)]
    pub(crate) arrival: ArrivalArgs,
    #[command(flatten)]
    pub(crate) guard: GuardArgs,
    #[command(flatten)]
    pub(crate) retry: RetryArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) quota: QuotaArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) relays: RelaySourceArgs,
    #[command(flatten)]
    pub(crate) code: CodeArgs,
    #[command(flatten)]
    pub(crate) ticket: TicketArgs,
}

const RECV_USAGE: &str = "\
manyway recv [OPTIONS] [DIR]
       manyway recv [OPTIONS] TICKET [DIR]";

const RECV_EXAMPLES: &str = "\
Examples:
  manyway recv ~/inbox
  manyway recv --via mr1… ~/inbox         behind NAT: reachable through a relay
  manyway recv --once --ticket-file /run/user/1000/ticket ~/inbox
  manyway recv mw1… ~/Downloads --rename
  manyway recv --ticket-file ticket - | tar x
  manyway recv 7-guitar-saddle-orbit --registry https://…
  manyway recv --code --registry https://… --token-file token ~/inbox
  MANYWAY_TICKET=@ticket manyway recv";

/// What happens when a lasting connection is lost.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "When the network fails")]
pub(crate) struct LastingArgs {
    /// If nobody answers or the connection is lost, try again for TIME [default: always]
    ///
    /// For the side with the ticket. manyway pauses for 1 s at first, and for at most 30 s. After a
    /// connection of a minute, TIME starts again. 0 means never.
    #[arg(long, value_name = "TIME", value_parser = time_or_never)]
    retry: Option<Duration>,
}

/// A time, or 0 without a unit.
fn time_or_never(text: &str) -> Result<Duration, manyway_units::ParseQuantityError> {
    match text {
        "0" => Ok(Duration::ZERO),
        text => manyway_units::parse_duration(text),
    }
}

impl LastingArgs {
    /// For how long to try; `None` if not at all.
    pub(crate) fn patience(self) -> Option<Duration> {
        /// Longer than any host runs.
        const ALWAYS: Duration = Duration::from_secs(100 * 365 * 86_400);
        match self.retry {
            None => Some(ALWAYS),
            Some(Duration::ZERO) => None,
            given => given,
        }
    }
}

/// What happens when the connection is lost.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "When the network fails")]
pub(crate) struct RetryArgs {
    /// If nobody answers or the connection is lost, try again for TIME, e.g. 30min
    ///
    /// The transfer resumes. manyway pauses for 1 s at first, and for at most 30 s. After an
    /// attempt that ran for a minute, TIME starts again.
    #[arg(long, value_name = "TIME", value_parser = time_or_never)]
    pub(crate) retry: Option<Duration>,

    /// End the transfer as interrupted if it makes no progress for TIME [default: never]
    ///
    /// Progress means that content moves on the network or on this host's disk, or that the list of
    /// files grows. Hashing large files and waiting for a user's answer aren't progress, so choose
    /// a TIME that is long enough. 0 means never.
    #[arg(long, value_name = "TIME", value_parser = time_or_never)]
    pub(crate) timeout: Option<Duration>,
}

/// Somebody needs a moment to come.
fn expiry(text: &str) -> Result<Duration, String> {
    let wait = manyway_units::parse_duration(text).map_err(|error| error.to_string())?;
    match wait >= Duration::from_secs(1) {
        true => Ok(wait),
        false => Err("choose 1 s or more".to_owned()),
    }
}

/// What the receiver does with what arrives.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "At the receiver")]
pub(crate) struct ArrivalArgs {
    /// Replace files that exist [default: refuse the transfer]; when sending, only with HOST:DIR
    #[arg(long, conflicts_with = "rename")]
    pub(crate) overwrite: bool,

    /// Keep files that exist and save new ones as "name (1).ext"; when sending, only with HOST:DIR
    #[arg(long)]
    pub(crate) rename: bool,

    /// Keep all permission bits [default: apply the umask]; when sending, only with HOST:DIR
    ///
    /// Setuid bits of files also need `--owner`, and setgid bits `--group`. Use these options only
    /// if you trust the sender.
    #[arg(long)]
    pub(crate) perms: bool,

    /// Delete files that the sender doesn't have from the received directories; when sending, only
    /// with HOST:DIR
    ///
    /// manyway deletes only after everything has arrived. One exception: if a file takes the place
    /// of a directory, manyway deletes the directory as soon as the file has arrived. It keeps
    /// files that `--exclude` and similar options leave out. It also keeps names at the top that
    /// begin with a dot, unless `--allow-dotfiles` is given.
    #[arg(long, conflicts_with = "rename")]
    pub(crate) delete: bool,

    /// Keep the owners [default: the receiver's user owns the files]; when sending, only with
    /// HOST:DIR
    ///
    /// The receiver looks an owner up by name, and uses the number if the name doesn't exist. It
    /// must run as root to set owners. It lists files whose owner it can't set.
    #[arg(short, long)]
    pub(crate) owner: bool,

    /// Keep the groups; when sending, only with HOST:DIR
    ///
    /// Works like `--owner`. Users other than root can set groups that they belong to.
    #[arg(short, long)]
    pub(crate) group: bool,

    /// Keep extended attributes, on both sides; only on Linux
    ///
    /// These are the attributes whose names begin with "user.", up to 32 KiB for each file.
    #[arg(short = 'X', long)]
    pub(crate) xattrs: bool,

    /// Keep POSIX ACLs, on both sides, and all permission bits; only on Linux
    ///
    /// ACLs identify users and groups by number.
    #[arg(short = 'A', long)]
    pub(crate) acls: bool,

    /// Compare the content of files of the same size [default: files with the same size and time
    /// are identical]; when sending, only with HOST:DIR
    #[arg(long)]
    pub(crate) checksum: bool,

    /// Which symbolic links to accept; when sending, only with HOST:DIR
    ///
    /// A safe link is relative and stays inside the directory that is sent. manyway lists the
    /// others, and ends with status 6. It never follows a link inside DIR.
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = LinksName::Safe)]
    pub(crate) links: LinksName,
}

/// `--links`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinksName {
    Safe,
    All,
    None,
}

impl From<LinksName> for Links {
    fn from(name: LinksName) -> Self {
        match name {
            LinksName::Safe => Links::Safe,
            LinksName::All => Links::All,
            LinksName::None => Links::None,
        }
    }
}

impl ArrivalArgs {
    /// Those that aren't as they are by default, as on a command line.
    pub(crate) fn given(self) -> Vec<&'static str> {
        let all = [
            (self.overwrite, "--overwrite"),
            (self.rename, "--rename"),
            (self.perms, "--perms"),
            (self.delete, "--delete"),
            (self.owner, "--owner"),
            (self.group, "--group"),
            (self.xattrs, "--xattrs"),
            (self.acls, "--acls"),
            (self.checksum, "--checksum"),
            (self.links == LinksName::All, "--links=all"),
            (self.links == LinksName::None, "--links=none"),
        ];
        let given = all.into_iter().filter(|(given, _)| *given);
        given.map(|(_, option)| option).collect()
    }
}

/// What the receiver takes from a sender whom its user doesn't know well.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What a sender may do")]
pub(crate) struct GuardArgs {
    /// Accept names at the top of DIR that begin with a dot, such as .ssh and .bashrc
    ///
    /// In a home directory, such files decide which programs run. By default, manyway asks you
    /// before it accepts them. If it has no terminal, it refuses the transfer. It leaves out links
    /// at the top that lead to such names.
    #[arg(long)]
    pub(crate) allow_dotfiles: bool,

    /// Receive at most SIZE of content in total while this receiver runs
    ///
    /// Before any content comes, manyway refuses a transfer that would exceed SIZE. Without this
    /// option, manyway uses the free space except a reserve: 1 % of the file system, at most 100
    /// MB.
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_total: Option<ByteSize>,

    /// How long to keep incomplete files, so that another transfer can resume them
    ///
    /// manyway removes older ones from DIR when a transfer begins. 0 keeps none.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "7 d",
        value_parser = time_or_never
    )]
    pub(crate) keep_parts: Duration,
}

/// A code in place of the ticket that a listener prints.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Ticket")]
pub(crate) struct CodeArgs {
    /// Print a one-time code, a number and three words, instead of a ticket; needs `--registry` and
    /// `--token-file`
    ///
    /// The other side enters the code in place of a ticket, and names the same registry. It needs
    /// no token and no relays: the ticket behind the code lends it both. The code
    /// works once and expires after an hour, unless the registry sets another time. A wrong word
    /// ends it. `send` and `recv` with a code exit after one transfer.
    #[arg(long, conflicts_with = "ticket_file")]
    pub(crate) code: bool,
}

/// The ticket that a listener prints.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Ticket")]
pub(crate) struct TicketArgs {
    /// Write the ticket to this file, readable by you alone; with `-q`, manyway doesn't print it
    #[arg(long, value_name = "FILE")]
    pub(crate) ticket_file: Option<PathBuf>,

    /// Stop waiting for peers after TIME, e.g. '2 h'
    ///
    /// A transfer or connection that has begun by then continues to its end. After that, the ticket
    /// is invalid, but a ticket of `--allow-peer` is valid again at the next start.
    #[arg(long, value_name = "TIME", value_parser = expiry)]
    pub(crate) expire: Option<Duration>,

    /// Show the ticket or the code as a QR code, too, if standard error is a terminal
    #[arg(long)]
    pub(crate) qr: bool,

    /// Admit only this peer, by its id (id1…) or its name in `manyway peers`; repeatable
    ///
    /// The ticket then belongs to this host's identity, and stays valid at later starts. Peers need
    /// an identity, too. manyway refuses others and shows their ids. Without this option, whoever
    /// has the ticket can connect, and each start makes a new one.
    #[arg(long, value_name = "NAME|ID", value_delimiter = ',')]
    pub(crate) allow_peer: Vec<String>,

    /// Lend no access with the ticket, which makes it shorter: the other side needs its own
    ///
    /// Otherwise, the ticket lends its holder your access to the relays of `--via`, for as long as
    /// you have it, and to the registry for a day, so the other side needs neither. What it sends
    /// through them counts as yours. A ticket of `--allow-peer` outlives that, and lends nothing.
    #[arg(long)]
    pub(crate) keep_access: bool,

    /// Additional address of this host for the ticket, e.g. a router's forwarded port; repeatable
    ///
    /// ADDR without a port gets the port of manyway's sockets. The ticket always contains the
    /// addresses of the local interfaces.
    #[arg(long, value_name = "ADDR[:PORT]", value_delimiter = ',')]
    pub(crate) advertise: Vec<String>,
}

impl TicketArgs {
    /// An option that has no effect for whoever connects to a ticket, although they rely on it. The
    /// others do no harm there, and a profile may set them for both sides.
    pub(crate) fn given_in_vain(&self) -> Option<&'static str> {
        [
            (!self.allow_peer.is_empty(), "--allow-peer"),
            (self.ticket_file.is_some(), "--ticket-file"),
        ]
        .into_iter()
        .find_map(|(given, option)| given.then_some(option))
    }
}

/// How to start the receiver on another host.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Over ssh")]
pub(crate) struct SshArgs {
    /// The ssh command with its options
    #[arg(long, value_name = "CMD", default_value = "ssh")]
    pub(crate) ssh: String,

    /// The manyway program on the remote host
    #[arg(long, value_name = "PATH", default_value = "manyway")]
    pub(crate) remote_bin: String,

    /// Port of the remote receiver, e.g. one that its firewall admits
    #[arg(long, value_name = "PORT")]
    pub(crate) remote_port: Option<u16>,
}

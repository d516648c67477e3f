//! The command line. Every option has an environment twin; the command line wins.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use manyway::{ByteSize, Carriers, Congestion, PathSelector, Rate};
use manyway_registry::RegistryUrl;

use crate::link::LinkSpec;

mod criteria;
mod environment;
mod optimum;
mod paths;
mod pick;
mod registry;
mod relay;
mod simulation;

pub(crate) use criteria::CriteriaArgs;
pub(crate) use optimum::OptimumArgs;
pub(crate) use paths::PathsArgs;
pub(crate) use pick::Pick;
#[cfg(test)]
pub(crate) use pick::{ChoiceName, ReselectName};
pub(crate) use registry::RegistryArgs;
pub(crate) use relay::{RelayArgs, Tcp};
pub(crate) use simulation::{Assignments, Level, RunArgs, ScenarioArgs, ScenarioCommand};

/// Move data over every path you have.
///
/// manyway sends files over all network paths between two hosts at once, encrypted end to end, with
/// congestion control that takes no more than its fair share where the paths meet.
#[derive(Debug, Parser)]
#[command(name = "manyway", version, after_long_help = EXAMPLES, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The command line and its environment; ends the program where these ask for help or can't be
    /// understood.
    pub(crate) fn read() -> Self {
        let mut command = Self::definition();
        let mut matches = command.get_matches_mut();
        Self::from_arg_matches_mut(&mut matches)
            .unwrap_or_else(|error| error.format(&mut command).exit())
    }

    fn definition() -> clap::Command {
        environment::with_variables(<Self as CommandFactory>::command())
    }
}

const EXAMPLES: &str = "\
Examples:
  manyway recv ~/inbox                    on the receiving host: prints a ticket
  manyway send film.mkv --to mw1…         on the sending host
  manyway send photos/                    or the other way round: prints a ticket,
  manyway recv mw1…                       and this fetches
  manyway send backup.tar server:backups  starts the far side over ssh
  manyway demo                            see it work on this host alone
  manyway run experiment.toml             simulate a network and its flows

Exit status: 0 done, 1 failed, 2 wrong usage.
The guide is docs/guide.md in the source tree.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Send(SendArgs),
    Recv(RecvArgs),
    Paths(PathsArgs),
    Demo(DemoArgs),
    Run(RunArgs),
    Scenario(ScenarioArgs),
    Optimum(OptimumArgs),
    Criteria(CriteriaArgs),
    Relay(RelayArgs),
    Registry(RegistryArgs),
}

/// How much is said, and where.
#[derive(Debug, Clone, Args)]
pub(crate) struct Output {
    /// Say nothing but errors (and a ticket that has no file to go to)
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say more: -v what happens to paths and runs, -vv what the protocol does, -vvv everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// What sending and receiving have in common.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct Network {
    /// Use this interface or local address only; repeat it for several
    ///
    /// Without it, every interface that is up is used and those that come and go are followed.
    #[arg(long = "path", value_name = "IFACE|ADDR", value_delimiter = ',')]
    pub(crate) interfaces: Vec<PathSelector>,

    /// Port of our sockets, for UDP and TCP; 0 lets the system choose
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,

    /// What carries the packets: UDP, TCP, or UDP with TCP where UDP doesn't get through
    ///
    /// A side that prints a ticket accepts TCP connections too, on the number of its UDP port,
    /// unless this is udp. With tcp, and for the paths over TCP, the kernel controls congestion;
    /// --cc has no say there.
    #[arg(long, value_name = "tcp|udp|auto", default_value = "auto")]
    pub(crate) carrier: Carriers,

    /// The kernel's congestion control for TCP connections, e.g. cubic, bbr or reno
    #[arg(long, value_name = "NAME")]
    pub(crate) tcp_cc: Option<Congestion>,

    /// Congestion-control law for what this side sends; a wrong name lists them all
    #[arg(long, value_name = "NAME", default_value = "lia")]
    pub(crate) cc: String,

    /// Send no faster than this over all paths together, e.g. 20Mbps or 2MB/s
    #[arg(long, value_name = "RATE")]
    pub(crate) limit: Option<Rate>,

    /// Most memory for data that arrived and isn't on disk yet
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub(crate) receive_window: ByteSize,

    /// Print one JSON object per transfer on standard output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
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
    pub(crate) pick: Pick,
    #[command(flatten)]
    pub(crate) invitation: Invitation,
    #[command(flatten)]
    pub(crate) ssh: SshArgs,
}

/// Detours.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Relays")]
pub(crate) struct Relays {
    /// Go through this relay too: its text (mr1…), or @FILE with one on each line; repeatable
    ///
    /// For whoever sends with --cc mpath the relays are candidates, used as they prove useful; with
    /// any other law there is a path through each. Whoever prints a ticket puts them into it, up to
    /// 8, and can be found there. Programs of other users of this host can see a text on a command
    /// line; @FILE and the environment hide it.
    #[arg(long, value_name = "RELAY", value_delimiter = ',')]
    pub(crate) via: Vec<String>,

    /// Use relays that this registry knows (https://HOST:PORT#KEY, as it prints it); several serve
    /// one fleet
    ///
    /// They are chosen at random and used as those of --via; when all have been tried, others are
    /// fetched. Whoever prints a ticket is found at some of them.
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        requires = "token_file"
    )]
    pub(crate) registry: Vec<RegistryUrl>,

    /// How many relays to take from the registry
    #[arg(
        long,
        value_name = "N",
        default_value_t = 50,
        value_parser = clap::value_parser!(u16).range(1..=200),
        requires = "registry"
    )]
    pub(crate) relays: u16,

    /// The token for clients that the registry's operator gave you, in a file that is readable by
    /// you alone
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
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

/// See it work on this host alone
///
/// A sender and a receiver in one process, real sockets, and links between them with a rate and a
/// delay. A file of random bytes goes over the best link alone, then over all of them; both copies
/// are verified. Needs no root and no configuration, takes less than a minute.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// A link as RATE/DELAY, one way; repeat it for several
    #[arg(
        long = "link",
        value_name = "RATE/DELAY",
        default_values = ["40Mbps/10ms", "20Mbps/40ms"],
        value_delimiter = ','
    )]
    pub(crate) links: Vec<LinkSpec>,

    /// Size of the file; by default what the best link carries in 15 seconds
    #[arg(long)]
    pub(crate) size: Option<ByteSize>,

    /// Through three relays, one of which shares the direct path's bottleneck (mPath's Fig. 7);
    /// takes about three minutes
    #[arg(long, conflicts_with = "links")]
    pub(crate) relays: bool,

    /// Congestion-control law [default: lia, and mpath with --relays]
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<String>,

    /// Where the plot of each path's rate goes
    #[arg(long, value_name = "FILE", default_value = "manyway-demo.svg")]
    pub(crate) svg: PathBuf,

    /// Print the result as one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(subcommands: &[&str]) -> String {
        let mut command = Cli::definition().term_width(100);
        command.build();
        let chosen = subcommands.iter().fold(&mut command, |command, name| {
            command.find_subcommand_mut(name).unwrap()
        });
        chosen.render_long_help().to_string()
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::definition().debug_assert();
    }

    #[test]
    fn help_texts() {
        insta::assert_snapshot!("help", help(&[]));
        for name in [
            "send", "recv", "paths", "demo", "run", "scenario", "criteria", "relay", "registry",
        ] {
            insta::assert_snapshot!(format!("help_{name}"), help(&[name]));
        }
        insta::assert_snapshot!("help_scenario_check", help(&["scenario", "check"]));
    }

    /// The program's own command and all below it.
    fn commands(command: clap::Command) -> Vec<clap::Command> {
        let below = command.get_subcommands().cloned().flat_map(commands);
        let below: Vec<clap::Command> = below.collect();
        [command].into_iter().chain(below).collect()
    }

    /// Scripts and service files rely on these names.
    #[test]
    fn environment_variables() {
        let mut list = Vec::new();
        for command in commands(Cli::definition()) {
            for option in command.get_opts() {
                let long = option.get_long().expect("a long name");
                let variable = option.get_env().and_then(|name| name.to_str());
                let variable = variable.unwrap_or_else(|| panic!("--{long} has no variable"));
                list.push(format!("{} --{long}: {variable}", command.get_name()));
            }
        }
        insta::assert_snapshot!("environment_variables", list.join("\n"));
    }

    #[test]
    fn tickets_never_show_up_in_help() {
        for command in commands(Cli::definition()) {
            assert!(
                command
                    .get_opts()
                    .all(|option| option.is_hide_env_values_set())
            );
        }
    }

    #[test]
    fn assignments_are_repeated_or_separated() {
        let arguments = [
            "manyway",
            "run",
            "a.toml",
            "--set",
            "law=lia;seed=2",
            "--set",
            "x=[1, 2]",
        ];
        let Command::Run(args) = Cli::try_parse_from(arguments).unwrap().command else {
            panic!("run");
        };
        assert_eq!(args.assignments.set, ["law=lia", "seed=2", "x=[1, 2]"]);
        let wrong = |arguments: &[&str]| {
            let arguments = ["manyway", "run"].iter().chain(arguments);
            assert!(Cli::try_parse_from(arguments).is_err());
        };
        wrong(&[]);
        wrong(&["a.toml", "--level", "live"]);
        wrong(&["a.toml", "--threads", "0"]);
        wrong(&["a.toml", "--seed", "-1"]);
        wrong(&["a.toml", "b.toml"]);
    }

    #[test]
    fn recv_takes_two_positionals_at_most() {
        assert!(Cli::try_parse_from(["manyway", "recv", "a", "b", "c"]).is_err());
        let Command::Recv(args) = Cli::try_parse_from(["manyway", "recv", "mw1x", "in", "--once"])
            .unwrap()
            .command
        else {
            panic!("recv");
        };
        assert_eq!(args.what, ["mw1x", "in"]);
        assert!(args.once);
    }
}

//! The command line and its help. Every option has an environment variable and may stand in a
//! profile; the command line wins over the environment, and that over the profile.
//!
//! This module owns names, defaults and help texts. It does nothing with them: each command turns
//! its options into an action.

use std::ffi::OsString;

use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

mod content;
#[cfg(feature = "research")]
mod criteria;
mod demo;
mod doctor;
mod environment;
mod forward;
mod help;
mod id;
mod kernel;
mod laws;
#[cfg(not(all(feature = "research", feature = "registry")))]
mod left_out;
mod network;
#[cfg(feature = "research")]
mod optimum;
mod paths;
mod printable;
mod profile;
#[cfg(feature = "registry")]
mod registry;
mod relay;
mod report;
#[cfg(feature = "research")]
mod reproduce;
mod selection;
mod shell;
#[cfg(feature = "research")]
mod simulation;
#[cfg(feature = "research")]
pub(crate) mod testbed;
mod top;
mod transfer;
mod tun;
#[cfg(all(test, feature = "registry"))]
mod units;
mod words;

pub(crate) use content::ContentArgs;
#[cfg(feature = "research")]
pub(crate) use criteria::CriteriaArgs;
pub(crate) use demo::DemoArgs;
pub(crate) use doctor::DoctorArgs;
pub(crate) use forward::{ConnectArgs, ForwardArgs, ServeArgs};
pub(crate) use id::{IdArgs, PeersArgs, PeersCommand};
pub(crate) use kernel::KernelArgs;
pub(crate) use laws::LawsArgs;
#[cfg(not(all(feature = "research", feature = "registry")))]
pub(crate) use left_out::{LeftOutArgs, left_out};
pub(crate) use network::{NetworkArgs, QuotaArgs, RelaySourceArgs};
#[cfg(feature = "research")]
pub(crate) use optimum::OptimumArgs;
pub(crate) use paths::PathsArgs;
pub(crate) use profile::ProfileArgs;
#[cfg(feature = "registry")]
pub(crate) use registry::RegistryArgs;
pub(crate) use relay::{RelayArgs, TcpArgs};
pub(crate) use report::ReportArgs;
#[cfg(feature = "research")]
pub(crate) use reproduce::ReproduceArgs;
pub(crate) use selection::SelectionArgs;
#[cfg(test)]
pub(crate) use selection::{ChoiceName, ReselectName};
pub(crate) use shell::{CompletionsArgs, ManArgs, Shell};
#[cfg(feature = "research")]
pub(crate) use simulation::{
    Assignments, CompareArgs, ExperimentArgs, GenerateArgs, Level, MergeArgs, PacketFormat,
    PacketLog, RunArgs, ScenarioArgs, ScenarioCommand, ShapeArgs,
};
#[cfg(feature = "research")]
pub(crate) use testbed::TestbedArgs;
pub(crate) use top::TopArgs;
#[cfg(test)]
pub(crate) use transfer::LinksName;
pub(crate) use transfer::{
    ArrivalArgs, GuardArgs, RecvArgs, RetryArgs, SendArgs, SshArgs, SyncArgs, TicketArgs,
};
pub(crate) use tun::TunArgs;

use crate::end::End;
use crate::exit::{Class, usage};
use crate::screen::Screen;

/// Transfer files over all network paths at once.
///
/// manyway sends files over all network paths between two hosts at once, encrypted end to end. Its
/// default congestion control couples paths that share a bottleneck.
#[derive(Debug, Parser)]
#[command(name = "manyway", version, after_help = EXAMPLES, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// The command line, its environment and the profile; ends the program where these ask for help
    /// or can't be understood.
    pub(crate) fn read() -> Self {
        let mut command = Self::definition();
        let line: Vec<_> = std::env::args_os().collect();
        let expanded = profile::expand(&command, line.clone());
        let expanded = expanded.unwrap_or_else(|profile::Wrong { message, json }| {
            print_json(&message, &line, json);
            Screen::quiet().error(&format!("manyway: {message}"));
            std::process::exit(Class::Usage.status().into())
        });
        let matches = command.try_get_matches_from_mut(&expanded.line);
        matches
            .and_then(|mut matches| Self::from_arg_matches_mut(&mut matches))
            .unwrap_or_else(|error| {
                let error = environment::named(error.format(&mut command), &expanded.line);
                let error = printable::error(error);
                if error.use_stderr() {
                    let text = error.render().to_string();
                    let first = text.split("\n\n").next().unwrap_or_default();
                    let message = first.strip_prefix("error: ").unwrap_or(first);
                    print_json(message, &expanded.line, false);
                }
                expanded.exit(&error)
            })
    }

    /// The program's options and commands.
    pub(crate) fn definition() -> clap::Command {
        help::with_help(environment::with_variables(
            <Self as CommandFactory>::command(),
        ))
    }
}

/// Prints what is wrong with the command line as `--json`'s object, if that or the profile asks for
/// one: it can't be parsed, so its words have to say so.
fn print_json(message: &str, line: &[OsString], profile: bool) {
    let words = line.iter().skip(1);
    let words: Vec<_> = words.take_while(|word| *word != "--").collect();
    let has = |word: &str| words.iter().any(|it| *it == word);
    let for_transfer = has("send") || has("sync") || has("recv");
    let streamed = words.windows(2).any(|two| two == ["--progress", "json"]);
    let asked = profile
        || streamed
        || has("--progress=json")
        || has("--json")
        || environment::turns_on("MANYWAY_JSON")
        || std::env::var_os("MANYWAY_PROGRESS").is_some_and(|how| how == "json");
    if for_transfer && asked {
        // Without standard output, standard error and the status say it all the same.
        let _ = crate::summary::print_json(&End::failed(None, &usage(message)));
    }
}

const EXAMPLES: &str = "\
Examples:
  manyway recv ~/inbox                    on the receiving host: prints a ticket
  manyway send film.mkv --to mw1…         on the sending host
  manyway send photos/                    prints a ticket and waits for a receiver
  manyway recv mw1…                       fetches the files of the ticket's sender
  manyway send backup.tar server:backups  starts the receiver over ssh
  manyway sync photos/ server:photos      updates a directory on the server
  manyway serve --allow localhost:80      lets the holders of its ticket connect there
  manyway forward -L 8080:localhost:80 mw1…
  manyway id                              makes an identity, by which others know this host
  manyway top                             shows all connections, path by path
  manyway doctor mw1…                     checks the network and the way to that listener
  manyway demo                            runs a demonstration on this host
  manyway run experiment.toml             simulates a network and its flows

Exit status: 0 success, 1 failure, 2 wrong usage, 3 nobody answers, 4 refused, 5 interrupted,
6 incomplete, 7 disk, 8 verification failed.
The guide is docs/guide.md in the source tree.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Send(SendArgs),
    Sync(SyncArgs),
    Recv(RecvArgs),
    Serve(ServeArgs),
    Forward(ForwardArgs),
    Connect(ConnectArgs),
    Tun(TunArgs),
    Paths(PathsArgs),
    Top(TopArgs),
    Doctor(DoctorArgs),
    Id(IdArgs),
    Peers(PeersArgs),
    Demo(DemoArgs),
    #[cfg(feature = "research")]
    Run(RunArgs),
    #[cfg(not(feature = "research"))]
    #[command(hide = true, disable_help_flag = true)]
    Run(LeftOutArgs),
    #[cfg(feature = "research")]
    Merge(MergeArgs),
    #[cfg(not(feature = "research"))]
    #[command(hide = true, disable_help_flag = true)]
    Merge(LeftOutArgs),
    #[cfg(feature = "research")]
    Compare(CompareArgs),
    #[cfg(not(feature = "research"))]
    #[command(hide = true, disable_help_flag = true)]
    Compare(LeftOutArgs),
    #[cfg(feature = "research")]
    Scenario(ScenarioArgs),
    #[cfg(not(feature = "research"))]
    #[command(hide = true, disable_help_flag = true)]
    Scenario(LeftOutArgs),
    #[cfg(feature = "research")]
    Testbed(TestbedArgs),
    #[cfg(not(feature = "research"))]
    #[command(hide = true, disable_help_flag = true)]
    Testbed(LeftOutArgs),
    #[cfg(feature = "research")]
    Optimum(OptimumArgs),
    #[cfg(not(feature = "research"))]
    #[command(hide = true, disable_help_flag = true)]
    Optimum(LeftOutArgs),
    #[cfg(feature = "research")]
    Criteria(CriteriaArgs),
    #[cfg(not(feature = "research"))]
    #[command(hide = true, disable_help_flag = true)]
    Criteria(LeftOutArgs),
    #[cfg(feature = "research")]
    Reproduce(ReproduceArgs),
    #[cfg(not(feature = "research"))]
    #[command(hide = true, disable_help_flag = true)]
    Reproduce(LeftOutArgs),
    Laws(LawsArgs),
    Kernel(KernelArgs),
    Relay(RelayArgs),
    #[cfg(feature = "registry")]
    Registry(RegistryArgs),
    #[cfg(not(feature = "registry"))]
    #[command(hide = true, disable_help_flag = true)]
    Registry(LeftOutArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// What the program prints.
#[derive(Debug, Clone, Args)]
// Behind the options of each command.
#[command(next_display_order = 900)]
pub(crate) struct OutputArgs {
    /// Print only errors, and the ticket or code of a listener
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print more: `-v` for events of paths and runs, `-vv` for protocol details, `-vvv` for
    /// everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(feature = "research", feature = "registry"))]
    fn help(subcommands: &[&str]) -> String {
        let mut command = Cli::definition().term_width(100);
        command.build();
        let chosen = subcommands.iter().fold(&mut command, |command, name| {
            command.find_subcommand_mut(name).unwrap()
        });
        chosen.render_long_help().to_string()
    }

    #[test]
    fn help_for_beginners_fits_two_screens() {
        let mut command = Cli::definition().term_width(80);
        command.build();
        for name in ["send", "sync", "recv"] {
            let command = command.find_subcommand_mut(name).unwrap();
            let help = command.render_help().to_string();
            let lines = help.lines().count();
            assert!(lines <= 2 * 50, "{name}: {lines}");
            assert!(help.contains("Examples:"), "{help}");
            // That law is for dozens of relays, which nobody begins with.
            assert!(!help.contains("mpath"), "{help}");
            insta::assert_snapshot!(format!("short_help_{name}"), help);
        }
    }

    #[cfg(feature = "research")]
    #[test]
    fn a_topology_without_a_choice_takes_none() {
        let parse = |shape, option| {
            let arguments = ["manyway", "scenario", "generate", shape, option, "3"];
            Cli::definition().try_get_matches_from(arguments)
        };
        for option in ["--flows", "--subflows", "--seed"] {
            assert!(parse("waxman", option).is_ok(), "{option}");
            for shape in ["dumbbell", "parking-lot"] {
                assert!(parse(shape, option).is_err(), "{shape} {option}");
            }
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::definition().debug_assert();
    }

    #[cfg(all(feature = "research", feature = "registry"))]
    #[test]
    fn help_texts() {
        insta::assert_snapshot!("help", help(&[]));
        for name in [
            "send",
            "sync",
            "recv",
            "serve",
            "forward",
            "connect",
            "tun",
            "paths",
            "top",
            "doctor",
            "id",
            "peers",
            "laws",
            "demo",
            "run",
            "merge",
            "compare",
            "scenario",
            "criteria",
            "reproduce",
            "relay",
            "registry",
            "completions",
            "man",
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
    #[cfg(all(feature = "research", feature = "registry"))]
    #[test]
    fn environment_variables() {
        let mut list = Vec::new();
        for command in commands(Cli::definition()) {
            // Help isn't an option in the sense of a variable.
            let options = command
                .get_opts()
                .filter(|option| option.get_id() != "help");
            for option in options {
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
                    .all(|option| option.is_hide_env_values_set() || option.get_env().is_none())
            );
        }
    }

    #[cfg(feature = "research")]
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
        assert_eq!(
            args.experiment.assignments.set,
            ["law=lia", "seed=2", "x=[1, 2]"]
        );
        let wrong = |arguments: &[&str]| {
            let arguments = ["manyway", "run"].iter().chain(arguments);
            assert!(Cli::try_parse_from(arguments).is_err());
        };
        wrong(&[]);
        wrong(&["a.toml", "--level", "real"]);
        wrong(&["a.toml", "--threads", "0"]);
        wrong(&["a.toml", "--seed", "-1"]);
        wrong(&["a.toml", "b.toml"]);
    }

    #[test]
    fn recv_takes_a_ticket_and_a_directory() {
        let Command::Recv(args) = Cli::try_parse_from(["manyway", "recv", "mw1x", "in", "--once"])
            .unwrap()
            .command
        else {
            panic!("recv");
        };
        assert_eq!(args.what, ["mw1x", "in"]);
        assert!(args.once);
    }

    #[test]
    fn background_is_a_law() {
        fn law(arguments: &[&str]) -> Result<String, clap::error::ErrorKind> {
            let arguments = ["manyway", "recv"].iter().chain(arguments);
            match Cli::try_parse_from(arguments).map(|cli| cli.command) {
                Ok(Command::Recv(args)) => Ok(args.network.law().to_string()),
                Ok(_) => panic!("recv"),
                Err(error) => Err(error.kind()),
            }
        }
        assert_eq!(law(&[]), Ok("auto".to_owned()));
        assert_eq!(law(&["--cc", "lia"]), Ok("lia".to_owned()));
        assert_eq!(law(&["--background"]), Ok("background".to_owned()));
        // A profile's options stand before those of the command line.
        assert_eq!(
            law(&["--cc", "lia", "--background"]),
            Ok("background".to_owned())
        );
        assert_eq!(law(&["--background", "--cc", "lia"]), Ok("lia".to_owned()));
    }
}

//! Two kinds of help: `--help` fits two screens; `manyway help COMMAND` and the man pages have all
//! options, with everything about them.

use clap::{Arg, ArgAction, Command};

/// Options that most people never need, or that go with another one: `--help` leaves them out.
const RARE: [&str; 30] = [
    "acls",
    "advertise",
    "checksum",
    "choice",
    "demand",
    "expire",
    "filter-from",
    "group",
    "hook-timeout",
    "identity",
    "include",
    "keep-parts",
    "links",
    "max-size",
    "max-total",
    "metrics",
    "owner",
    "pick",
    "port",
    "qlog",
    "quota",
    "receive-window",
    "relays",
    "remote-bin",
    "remote-port",
    "reselect",
    "scheduler",
    "tcp-cc",
    "timeout",
    "xattrs",
];
/// The commands whose help leaves them out: those with very many options.
const LONG: [&str; 8] = [
    "send", "sync", "recv", "paths", "serve", "forward", "connect", "tun",
];

/// Makes `-h` and `--help` print the short help of the command and of all below it.
pub(super) fn with_help(command: Command) -> Command {
    let has_rare = LONG.contains(&command.get_name());
    let command = match command.is_disable_help_flag_set() {
        // Such a command hands its words on.
        true => command,
        false => command
            .disable_help_flag(true)
            .arg(
                Arg::new("help")
                    .short('h')
                    .long("help")
                    .action(ArgAction::HelpShort)
                    .help_heading(None::<&str>)
                    .help("Print help; `manyway help` and the command's name print all of it"),
            )
            .mut_args(|option| {
                let is_rare = option.get_long().is_some_and(|long| RARE.contains(&long));
                let hides = has_rare && is_rare;
                option.hide_short_help(hides)
            }),
    };
    command.mut_subcommands(with_help)
}

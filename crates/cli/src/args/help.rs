//! Two kinds of help: `--help` fits two screens; `manyway help COMMAND` and the man pages have all
//! options, with everything about them.

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, ValueHint};

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
    let command = match command.get_name() {
        "recv" => command.mut_args(for_receiver),
        _ => command,
    };
    command.mut_args(with_hint).mut_subcommands(with_help)
}

/// What only senders need to know of an option that both sides have isn't in the receiver's help.
fn for_receiver(option: Arg) -> Arg {
    let of_receiver = |help: &StyledStr| {
        let help = help.to_string();
        help.replace("; when sending, only with HOST:DIR", "")
    };
    let short = option.get_help().map(of_receiver);
    let long = option.get_long_help().map(of_receiver);
    let option = option.help(short.unwrap_or_default());
    match long {
        Some(long) => option.long_help(long),
        None => option,
    }
}

/// Tells shells which values are names of files: their completions take all others for these.
fn with_hint(argument: Arg) -> Arg {
    let names = argument.get_value_names().unwrap_or_default();
    let hint = match names.last().map(|name| name.as_str()) {
        Some("DIR") => ValueHint::DirPath,
        Some("FILE") => ValueHint::FilePath,
        _ if argument.is_positional() || !argument.get_action().takes_values() => return argument,
        _ => ValueHint::Other,
    };
    argument.value_hint(hint)
}

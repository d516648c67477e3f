//! Variables of the environment that stand for options. This is the one place that names them.

use std::ffi::OsString;

use clap::builder::{BoolishValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command, Error};

/// Options whose variable is not called `MANYWAY_` and the option's name: subcommand, option,
/// variable.
const EXCEPTIONS: [(&str, &str, &str); 8] = [
    ("send", "to", "MANYWAY_TICKET"),
    ("sync", "to", "MANYWAY_TICKET"),
    ("paths", "to", "MANYWAY_TICKET"),
    ("doctor", "to", "MANYWAY_TICKET"),
    ("recv", "from", "MANYWAY_TICKET"),
    ("forward", "to", "MANYWAY_TICKET"),
    ("connect", "to", "MANYWAY_TICKET"),
    // `MANYWAY_RELAYS` is a number elsewhere.
    ("demo", "relays", "MANYWAY_DEMO_RELAYS"),
];

/// Gives every option of the command and its subcommands a variable. The help never shows its
/// value, which may be a secret. Flags are on with `1`, `true` or `yes` in theirs, and off with
/// `0`, `false`, `no` or nothing.
pub(super) fn with_variables(command: Command) -> Command {
    let subcommand = command.get_name().to_owned();
    command
        .mut_args(|option| match option.get_long() {
            Some(long) => {
                let variable = variable(&subcommand, long);
                with_variable(option, variable)
            }
            None => option,
        })
        .mut_subcommands(with_variables)
}

fn variable(subcommand: &str, option: &str) -> String {
    let exception = EXCEPTIONS
        .iter()
        .find(|(of, name, _)| (*of, *name) == (subcommand, option));
    match exception {
        Some((_, _, variable)) => (*variable).to_owned(),
        None => format!("MANYWAY_{}", option.replace('-', "_").to_uppercase()),
    }
}

/// Does a flag's variable turn it on?
pub(super) fn turns_on(variable: &str) -> bool {
    let parsed = |value: &_| BoolishValueParser::new().parse_ref(&Command::default(), None, value);
    std::env::var_os(variable).is_some_and(|value| parsed(&value).is_ok_and(|on| on))
}

/// The error with an option's variable in place of the option, if the value is from there: nobody
/// has written the option.
pub(super) fn named(mut error: Error, line: &[OsString]) -> Error {
    let words = || line.iter().skip(1).filter_map(|word| word.to_str());
    let options = || words().take_while(|word| *word != "--");
    for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
        let Some(ContextValue::String(option)) = error.get(kind) else {
            continue;
        };
        let mut parts = option.trim_start_matches('-').split([' ', '=', '[']);
        let long = parts.next().unwrap_or_default().to_owned();
        let written = |word: &str| {
            let word = word.strip_prefix("--").unwrap_or_default();
            word == long
                || word
                    .strip_prefix(&*long)
                    .is_some_and(|w| w.starts_with('='))
        };
        if !option.starts_with("--") || options().any(written) {
            continue;
        }
        // Where a command has another name for it, that command is on the line.
        let names = words().map(|command| variable(command, &long));
        let mut names = names.chain([variable("", &long)]);
        if let Some(name) = names.find(|name| std::env::var_os(name).is_some()) {
            error.insert(kind, ContextValue::String(name));
        }
    }
    error
}

fn with_variable(option: Arg, variable: String) -> Arg {
    let told = match option.get_long_help().or(option.get_help()) {
        Some(help) => format!("{help}\n\n[env: {variable}]"),
        None => format!("[env: {variable}]"),
    };
    // In the long help alone: the short one has a line for each option.
    let option = option.long_help(told);
    // Service files set variables to nothing where there is nothing to set.
    if std::env::var_os(&variable).is_some_and(|value| value.is_empty()) {
        return option;
    }
    let option = option.env(variable);
    let option = option.hide_env_values(true).hide_env(true);
    match option.get_action() {
        ArgAction::SetTrue => option.value_parser(BoolishValueParser::new()),
        _ => option,
    }
}

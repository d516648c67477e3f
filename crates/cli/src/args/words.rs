//! The words of a command line that a profile adds, or that take away what it would add.

use std::ffi::OsString;
use std::fmt;

use clap::{Arg, ArgAction, Command};
use toml::Value;

/// An option with its value as words of a command line.
pub(super) fn words(option: &Arg, value: &Value) -> Result<Vec<OsString>, String> {
    let long = option.get_long().expect("it was found by that");
    let many = matches!(option.get_action(), ArgAction::Append);
    match (option.get_action(), value) {
        (ArgAction::SetTrue, Value::Boolean(on)) => {
            Ok(on.then(|| format!("--{long}").into()).into_iter().collect())
        }
        (ArgAction::SetTrue, _) => Err("is a flag: write true or false".to_owned()),
        (ArgAction::Count, Value::Integer(times @ 0..=9)) => {
            Ok((0..*times).map(|_| format!("--{long}").into()).collect())
        }
        (ArgAction::Count, _) => Err("takes a number from 0 to 9".to_owned()),
        (_, Value::Array(_)) if !many => Err("takes one value, no list".to_owned()),
        (_, value) => {
            let texts = texts(value).ok_or_else(|| Wanted(many).to_string())?;
            Ok(texts
                .iter()
                .map(|text| format!("--{long}={text}").into())
                .collect())
        }
    }
}

/// What an option with a value takes: perhaps several.
struct Wanted(bool);

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            true => "takes a text or a number, or a list of them",
            false => "takes a text or a number",
        })
    }
}

/// A text, a number, or a list of these.
pub(super) fn texts(value: &Value) -> Option<Vec<String>> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    };
    match value {
        Value::Array(values) => values.iter().map(one).collect(),
        value => one(value).map(|text| vec![text]),
    }
}

/// A command line without words such as `--no-delete`, and the options that they name: switches
/// that stay off though a profile turns them on.
pub(super) fn split_off(root: &Command, line: &[OsString]) -> (Vec<OsString>, Vec<String>) {
    let end = line.iter().position(|word| word == "--");
    let (options, others) = line.split_at(end.unwrap_or(line.len()));
    let mut off = Vec::new();
    let mut rest: Vec<_> = options.to_vec();
    rest.retain(|word| match switch(root, word) {
        Some(name) => {
            off.push(name.to_owned());
            false
        }
        None => true,
    });
    rest.extend_from_slice(others);
    (rest, off)
}

/// The switch that a word turns off.
fn switch<'a>(root: &Command, word: &'a OsString) -> Option<&'a str> {
    let name = word.to_str()?.strip_prefix("--no-")?;
    let is_it = |option: &Arg| {
        let is_switch = matches!(option.get_action(), ArgAction::SetTrue);
        is_switch && option.get_long() == Some(name) && !option.is_hide_set()
    };
    let below = root.get_subcommands().flat_map(Command::get_arguments);
    root.get_arguments().chain(below).any(is_it).then_some(name)
}

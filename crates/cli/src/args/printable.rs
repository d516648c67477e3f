//! Errors about the command line, without the characters of its words that a terminal obeys.

use std::error::Error as _;

use clap::Error;
use clap::error::{ContextKind, ContextValue};
use manyway_units::printable as words;

/// Most characters of a word, and of what is said of it.
const MAX_WORD: usize = 200;
const MAX_MESSAGE: usize = 1000;

/// The same error with each word in characters that only show.
pub(super) fn error(mut error: Error) -> Error {
    let found: Vec<(ContextKind, ContextValue)> = error
        .context()
        .filter_map(|(kind, value)| Some((kind, printable(value)?)))
        .collect();
    if !found.is_empty() {
        // It repeats the words.
        error.remove(ContextKind::Suggested);
    }
    for (kind, value) in found {
        error.insert(kind, value);
    }
    // Whoever reads a word may quote it in a message.
    let Some(why) = error.source().map(ToString::to_string) else {
        return error;
    };
    let message = words(&why, MAX_MESSAGE);
    match (
        error.get(ContextKind::InvalidValue),
        error.get(ContextKind::InvalidArg),
    ) {
        (Some(value), Some(option)) if message != why => Error::raw(
            error.kind(),
            format!(
                "invalid value '{value}' for '{option}': {message}\n\nFor more information, try \
                 '--help'.\n"
            ),
        ),
        _ => error,
    }
}

/// A value in other words, if it needs them.
fn printable(value: &ContextValue) -> Option<ContextValue> {
    let words = |text: &String| words(text, MAX_WORD);
    match value {
        ContextValue::String(text) => {
            let printable = words(text);
            (printable != *text).then_some(ContextValue::String(printable))
        }
        ContextValue::Strings(texts) => {
            let printable: Vec<String> = texts.iter().map(words).collect();
            (printable != *texts).then_some(ContextValue::Strings(printable))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::args::Cli;

    /// Of every option of every command, and of what is no option or command.
    #[test]
    fn no_word_reaches_the_terminal_as_it_is() {
        const WORD: &str = "et\u{7}h\u{202e}0";
        let mut root = Cli::definition();
        root.build();
        let mut lines = vec![vec![WORD.to_owned()], vec![format!("--{WORD}")]];
        let mut commands = vec![(Vec::new(), &root)];
        while let Some((path, command)) = commands.pop() {
            for below in command.get_subcommands() {
                let path: Vec<String> = [&path[..], &[below.get_name().to_owned()]].concat();
                commands.push((path, below));
            }
            lines.push([&path[..], &[format!("--{WORD}")]].concat());
            lines.push([&path[..], &vec![WORD.to_owned(); 9]].concat());
            let options = command.get_arguments().filter_map(clap::Arg::get_long);
            lines.extend(options.map(|long| [&path[..], &[format!("--{long}={WORD}")]].concat()));
        }
        let mut wrong = 0;
        for line in lines {
            let words = ["manyway"].into_iter().map(OsString::from);
            let words = words.chain(line.iter().map(OsString::from));
            let Err(found) = Cli::definition().try_get_matches_from(words) else {
                continue;
            };
            wrong += 1;
            let text = super::error(found).render().ansi().to_string();
            let raw = text.contains(['\u{7}', '\u{202e}']);
            assert!(!raw, "{line:?}: {text:?}");
        }
        assert!(wrong > 200, "{wrong}");
    }
}

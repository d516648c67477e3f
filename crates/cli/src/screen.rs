//! Standard error, which messages, the log and the live view share.

use std::io::{self, BufRead, IsTerminal, Write};

use indicatif::{MultiProgress, ProgressDrawTarget};

/// Standard error, for people. Standard output is for `--json` only.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    bars: MultiProgress,
    terminal: bool,
    quiet: bool,
}

impl Screen {
    pub(crate) fn new(quiet: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            bars: MultiProgress::with_draw_target(target(terminal && !quiet)),
            terminal,
            quiet,
        }
    }

    /// The live view's bars.
    pub(crate) fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// Whether lines can be redrawn.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether `--quiet` was given.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// A message, unless `--quiet`.
    pub(crate) fn say(&self, message: &str) {
        if !self.quiet {
            self.error(message);
        }
    }

    /// A message that appears even with `--quiet`.
    pub(crate) fn error(&self, message: &str) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Whether the user sees a question and can answer it.
    pub(crate) fn can_ask(&self) -> bool {
        self.terminal && !self.quiet && io::stdin().is_terminal()
    }

    /// Asks a question on the terminal. The bars make room for it; other questions wait.
    pub(crate) fn confirm(&self, question: &str) -> bool {
        let mut input = io::stdin().lock();
        self.bars.clear().ok();
        self.bars.set_draw_target(ProgressDrawTarget::hidden());
        self.write(format!("{question} [y/N] ").as_bytes());
        let yes = is_yes(&mut input);
        self.bars.set_draw_target(target(true));
        yes
    }

    /// Writes above the bars. A closed standard error is no failure.
    fn write(&self, bytes: &[u8]) {
        self.bars.suspend(|| {
            let mut stderr = io::stderr().lock();
            stderr.write_all(bytes).and_then(|()| stderr.flush()).ok();
        });
    }
}

fn target(visible: bool) -> ProgressDrawTarget {
    match visible {
        true => ProgressDrawTarget::stderr_with_hz(8),
        false => ProgressDrawTarget::hidden(),
    }
}

/// Reads an answer: `y` or `yes`. Anything else, and the end of input, is no.
fn is_yes(input: &mut impl BufRead) -> bool {
    let mut answer = String::new();
    let read = input.read_line(&mut answer);
    let answer = answer.trim().to_lowercase();
    read.is_ok() && (answer == "y" || answer == "yes")
}

/// A line of the log.
pub(crate) struct LogLine(Screen);

impl Write for LogLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Screen {
    type Writer = LogLine;

    fn make_writer(&'a self) -> LogLine {
        LogLine(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for (answer, yes) in [
            ("y\n", true),
            (" YES \n", true),
            ("n\n", false),
            ("\n", false),
            ("", false),
            ("yesterday\n", false),
        ] {
            assert_eq!(is_yes(&mut answer.as_bytes()), yes, "{answer:?}");
        }
    }
}

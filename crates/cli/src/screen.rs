//! Standard error, which messages, the log and the live view share.

use std::io::{self, IsTerminal, Write};

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
        let target = match terminal && !quiet {
            true => ProgressDrawTarget::stderr_with_hz(8),
            false => ProgressDrawTarget::hidden(),
        };
        Self {
            bars: MultiProgress::with_draw_target(target),
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

    /// Writes above the bars. A closed standard error is no failure.
    fn write(&self, bytes: &[u8]) {
        self.bars.suspend(|| {
            let mut stderr = io::stderr().lock();
            stderr.write_all(bytes).and_then(|()| stderr.flush()).ok();
        });
    }
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

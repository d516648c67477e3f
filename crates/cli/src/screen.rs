//! Standard error, which messages, the log and views that are redrawn share.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anstream::{AutoStream, ColorChoice};
use manyway_units::printable;

use crate::text::Line;

/// The most bytes of messages that wait; later ones are lost.
const MAX_HELD: usize = 64 << 10;
/// The size of a terminal that doesn't tell it.
const USUAL: Size = Size {
    columns: 80,
    rows: 24,
};

/// Standard error, for people. Standard output is for `--json` only.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    painter: Arc<Mutex<Painter>>,
    terminal: bool,
    redraws: bool,
    quiet: bool,
    verbose: bool,
}

/// A terminal's size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Size {
    fn now() -> Self {
        match terminal_size::terminal_size_of(io::stderr()) {
            Some((columns, rows)) if columns.0 > 0 && rows.0 > 0 => Self {
                columns: columns.0.into(),
                rows: rows.0.into(),
            },
            _ => USUAL,
        }
    }
}

impl Screen {
    /// As with `-q`.
    pub(crate) fn quiet() -> Self {
        Self::new(true, false)
    }

    /// With `-q`, with `-v`, or without.
    pub(crate) fn new(quiet: bool, verbose: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        let moves = env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        let painter = Painter {
            // NO_COLOR and the like.
            colour: AutoStream::choice(&io::stderr()) != ColorChoice::Never,
            ..Painter::default()
        };
        Self {
            painter: Arc::new(Mutex::new(painter)),
            terminal,
            redraws: terminal && moves,
            quiet,
            verbose,
        }
    }

    /// Whether lines can be redrawn.
    pub(crate) fn redraws(&self) -> bool {
        self.redraws
    }

    /// Whether it is one that people look at.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether it shows colours, and may.
    pub(crate) fn colours(&self) -> bool {
        self.painter().colour
    }

    /// Its size now: windows are resized.
    pub(crate) fn size(&self) -> Size {
        Size::now()
    }

    /// Whether `--quiet` was given.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether `-v` was given.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// A message, unless `--quiet`.
    pub(crate) fn say(&self, message: &str) {
        if !self.quiet {
            self.error(message);
        }
    }

    /// A message that appears even with `--quiet`.
    pub(crate) fn error(&self, message: &str) {
        // Names of files may have characters that a terminal obeys.
        let lines = message.split('\n').map(|line| printable(line, usize::MAX));
        let lines: Vec<String> = lines.collect();
        self.write(format!("{}\n", lines.join("\n")).as_bytes());
    }

    /// A picture in the terminal's own codes, unless `--quiet`.
    pub(crate) fn draw(&self, picture: &str) {
        if !self.quiet {
            self.write(format!("{picture}\n").as_bytes());
        }
    }

    /// Whether the user sees a question and can answer it.
    pub(crate) fn can_ask(&self) -> bool {
        self.terminal && !self.quiet && io::stdin().is_terminal()
    }

    /// Asks a question on the terminal. The blocks make room for it; other questions wait.
    pub(crate) fn confirm(&self, question: &str) -> bool {
        let mut input = io::stdin().lock();
        let mut painter = self.painter();
        painter.hidden = true;
        put(&painter.paint(format!("{question} [y/N] ").as_bytes(), Size::now()));
        drop(painter);
        let yes = is_yes(&mut input);
        let mut painter = self.painter();
        painter.hidden = false;
        put(&painter.paint(&[], Size::now()));
        yes
    }

    /// A place below all messages, for lines that are redrawn.
    pub(crate) fn block(&self) -> Block {
        let mut painter = self.painter();
        painter.next += 1;
        Block {
            id: painter.next,
            screen: self.clone(),
        }
    }

    /// Keeps messages back while something else draws on the terminal, until the result is dropped.
    #[cfg(feature = "top")]
    pub(crate) fn hold(&self) -> Held {
        self.painter().held = self.terminal.then(Vec::new);
        Held(self.clone())
    }

    /// Writes above the blocks.
    fn write(&self, bytes: &[u8]) {
        let mut painter = self.painter();
        match &mut painter.held {
            Some(held) if held.len() + bytes.len() <= MAX_HELD => held.extend(bytes),
            Some(_) => {}
            None => put(&painter.paint(bytes, Size::now())),
        }
    }

    fn show(&self, id: u64, lines: Vec<Line>) {
        if !self.redraws || self.quiet {
            return;
        }
        let mut painter = self.painter();
        match lines.is_empty() {
            true => painter.blocks.remove(&id),
            false => painter.blocks.insert(id, lines),
        };
        put(&painter.paint(&[], Size::now()));
    }

    fn painter(&self) -> MutexGuard<'_, Painter> {
        self.painter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// To standard error. If that is closed or its terminal is gone, the program goes on without it.
fn put(bytes: &[u8]) {
    let mut stderr = io::stderr().lock();
    stderr.write_all(bytes).and_then(|()| stderr.flush()).ok();
}

/// Lines below all messages; they vanish when this is dropped.
#[derive(Debug)]
pub(crate) struct Block {
    id: u64,
    screen: Screen,
}

impl Block {
    /// Replaces the lines.
    pub(crate) fn show(&self, lines: Vec<Line>) {
        self.screen.show(self.id, lines);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.show(Vec::new());
    }
}

/// Messages wait while this exists.
#[cfg(feature = "top")]
#[must_use]
pub(crate) struct Held(Screen);

#[cfg(feature = "top")]
impl Drop for Held {
    fn drop(&mut self) {
        let held = self.0.painter().held.take();
        self.0.write(&held.unwrap_or_default());
    }
}

/// What stands below all messages.
#[derive(Debug, Default)]
struct Painter {
    blocks: BTreeMap<u64, Vec<Line>>,
    /// The widths of the lines that are on the terminal. The cursor is at the line below them.
    drawn: Vec<usize>,
    /// While a question waits for its answer.
    hidden: bool,
    /// Messages that wait.
    held: Option<Vec<u8>>,
    colour: bool,
    next: u64,
}

impl Painter {
    /// What makes `message` stand above the blocks, as they are now.
    fn paint(&mut self, message: &[u8], size: Size) -> Vec<u8> {
        // A line as wide as the terminal would leave the cursor where terminals differ.
        let columns = size.columns.saturating_sub(1);
        let all = self.blocks.values().flatten();
        let shown = all.take(if self.hidden {
            0
        } else {
            size.rows.saturating_sub(1)
        });
        let lines: Vec<Line> = shown.map(|line| line.clone().cut(columns)).collect();
        let mut out = Vec::new();
        // A terminal that has become narrower has wrapped the lines.
        let wrapped = |width: &usize| width.div_ceil(size.columns.max(1)).max(1);
        let above: usize = self.drawn.iter().map(wrapped).sum();
        let draws = above > 0 || !lines.is_empty();
        if above > 0 {
            out.extend(format!("\r\x1b[{above}A").bytes());
        }
        if !message.is_empty() {
            if draws {
                out.extend(b"\r\x1b[J");
            }
            out.extend(message);
        }
        let mut text = String::new();
        for line in &lines {
            let line = line.render(self.colour);
            write!(text, "\r{line}\x1b[K\n").expect("a String takes everything");
        }
        out.extend(text.bytes());
        if draws {
            out.extend(b"\x1b[J");
        }
        self.drawn = lines.iter().map(Line::width).collect();
        out
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

    #[test]
    fn messages_stand_above_what_is_redrawn() {
        let mut painter = Painter::default();
        let size = |columns, rows| Size { columns, rows };
        let paint = |painter: &mut Painter, message: &str, size| {
            String::from_utf8(painter.paint(message.as_bytes(), size)).unwrap()
        };
        // Without blocks there are no escape codes.
        assert_eq!(paint(&mut painter, "a\n", size(20, 5)), "a\n");
        let lines = |n| {
            (0..n)
                .map(|i| Line::from(format!("line {i} is long")))
                .collect()
        };
        painter.blocks.insert(1, lines(2));
        let first = paint(&mut painter, "", size(20, 5));
        assert_eq!(
            first,
            "\rline 0 is long\x1b[K\n\rline 1 is long\x1b[K\n\x1b[J"
        );
        let above = paint(&mut painter, "b\n", size(20, 5));
        let begin = "\r\x1b[2A\r\x1b[Jb\n\rline 0";
        assert!(above.starts_with(begin), "{above:?}");
        // Narrower: each of the two lines takes two rows now, and is cut.
        let narrow = paint(&mut painter, "", size(10, 5));
        assert!(
            narrow.starts_with("\r\x1b[4A\rline 0 i…\x1b[K\n"),
            "{narrow:?}"
        );
        // No more lines than there is room for.
        painter.blocks.insert(2, lines(9));
        assert_eq!(
            paint(&mut painter, "", size(20, 5)).matches('\n').count(),
            4
        );
        painter.hidden = true;
        assert_eq!(
            paint(&mut painter, "c? ", size(20, 5)),
            "\r\x1b[4A\r\x1b[Jc? \x1b[J"
        );
        painter.hidden = false;
        painter.blocks.clear();
        assert_eq!(paint(&mut painter, "", size(20, 5)), "");
    }
}

//! Lines of a terminal: styled parts, cut to a number of columns.

use anstyle::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A line of text. It never contains a control character, whatever its parts contain.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Line(Vec<(Style, String)>);

impl Line {
    /// Adds text.
    #[must_use]
    pub(crate) fn and(self, text: impl AsRef<str>) -> Self {
        self.styled(Style::new(), text)
    }

    /// Adds text in a style.
    #[must_use]
    pub(crate) fn styled(mut self, style: Style, text: impl AsRef<str>) -> Self {
        let visible = text.as_ref().chars().filter(|c| !c.is_control());
        let visible: String = visible.collect();
        if !visible.is_empty() {
            self.0.push((style, visible));
        }
        self
    }

    /// The two lines as one.
    #[must_use]
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The columns that it takes.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.width()).sum()
    }

    /// As much of it as fits; a line that is cut ends with `…`.
    #[must_use]
    pub(crate) fn cut(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut room = columns.saturating_sub(1);
        let mut cut = Vec::new();
        for (style, text) in self.0 {
            let part = head(&text, room);
            let whole = part.len() == text.len();
            room -= part.width();
            cut.push((style, part.to_owned()));
            if !whole {
                break;
            }
        }
        if columns > 0 {
            cut.push((Style::new(), "…".to_owned()));
        }
        Self(cut)
    }

    /// The text, with escape codes for its styles if `colour`.
    pub(crate) fn render(&self, colour: bool) -> String {
        let mut out = String::new();
        for (style, text) in &self.0 {
            match colour && *style != Style::new() {
                true => out.push_str(&format!("{style}{text}{style:#}")),
                false => out.push_str(text),
            }
        }
        out
    }
}

impl<T: AsRef<str>> From<T> for Line {
    fn from(text: T) -> Self {
        Self::default().and(text)
    }
}

/// The beginning of a text, `columns` wide at most.
fn head(text: &str, columns: usize) -> &str {
    let mut width = 0;
    for (at, c) in text.char_indices() {
        width += c.width().unwrap_or(0);
        if width > columns {
            return &text[..at];
        }
    }
    text
}

/// A text that keeps its end, which says more of a file's name: `…24/sea.jpg`.
pub(crate) fn ending(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut width = 1;
    let mut from = text.len();
    for (at, c) in text.char_indices().rev() {
        width += c.width().unwrap_or(0);
        if width > columns {
            break;
        }
        from = at;
    }
    format!("…{}", &text[from..])
}

/// A bar that is `fraction` full.
#[must_use]
pub(crate) fn bar(fraction: f64, columns: usize) -> Line {
    let full = (fraction.clamp(0.0, 1.0) * columns as f64) as usize;
    Line::default()
        .styled(GOOD, "█".repeat(full))
        .styled(FAINT, "░".repeat(columns - full))
}

/// What works.
pub(crate) const GOOD: Style = coloured(anstyle::AnsiColor::Green);
/// What may work soon.
pub(crate) const UNSURE: Style = coloured(anstyle::AnsiColor::Yellow);
/// What doesn't work.
pub(crate) const BAD: Style = coloured(anstyle::AnsiColor::Red);
/// What matters less.
pub(crate) const FAINT: Style = Style::new().dimmed();

const fn coloured(colour: anstyle::AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(colour)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit() {
        let line = Line::from("路 ab").styled(GOOD, "cd").and("e\x1b[2Jf\n");
        assert_eq!(line.width(), 12);
        assert_eq!(line.render(false), "路 abcde[2Jf");
        assert_eq!(line.render(true), "路 ab\u{1b}[32mcd\u{1b}[0me[2Jf");
        let cut = |columns| line.clone().cut(columns).render(false);
        assert_eq!(
            [12, 6, 2, 1, 0].map(cut),
            ["路 abcde[2Jf", "路 ab…", "…", "…", ""]
        );
        for columns in 0..20 {
            assert!(line.clone().cut(columns).width() <= columns);
        }
    }

    #[test]
    fn a_name_keeps_its_end() {
        assert_eq!(ending("photos/sea.jpg", 14), "photos/sea.jpg");
        assert_eq!(ending("photos/sea.jpg", 8), "…sea.jpg");
        assert_eq!(ending("写真.jpg", 7), "…真.jpg");
        assert_eq!(ending("写真.jpg", 6), "….jpg");
        assert_eq!(ending("abc", 0), "…");
    }

    #[test]
    fn a_bar_is_as_full_as_the_fraction() {
        let drawn = |fraction| bar(fraction, 4).render(false);
        let fractions = [0.0, 0.26, 0.99, 1.0, 7.0, f64::NAN];
        let bars = ["░░░░", "█░░░", "███░", "████", "████", "░░░░"];
        assert_eq!(fractions.map(drawn), bars);
    }
}

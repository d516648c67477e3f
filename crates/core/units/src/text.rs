//! What the parsers of rates, sizes and durations share.

use std::fmt;

/// A quantity that could not be read; the message quotes the text and lists what would have been
/// understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {what}: {problem}; write a number and a unit, such as {examples}")]
pub struct ParseQuantityError {
    text: String,
    what: &'static str,
    problem: String,
    examples: &'static str,
}

/// One kind of quantity, for error messages.
#[derive(Copy, Clone)]
pub(crate) struct Kind {
    pub(crate) what: &'static str,
    pub(crate) units: &'static str,
    pub(crate) examples: &'static str,
}

impl Kind {
    pub(crate) fn error(&self, text: &str, problem: impl Into<String>) -> ParseQuantityError {
        ParseQuantityError {
            text: shorten(text),
            what: self.what,
            problem: problem.into(),
            examples: self.examples,
        }
    }

    pub(crate) fn no_unit(&self, text: &str) -> ParseQuantityError {
        self.error(text, format!("the unit is missing (one of {})", self.units))
    }

    pub(crate) fn unknown_unit(&self, text: &str, unit: &str) -> ParseQuantityError {
        let problem = format!(
            "unknown unit {:?} (known: {})",
            shorten(unit.trim()),
            self.units
        );
        self.error(text, problem)
    }

    pub(crate) fn too_large(&self, text: &str) -> ParseQuantityError {
        self.error(text, "it is too large")
    }

    /// Splits the leading number off `text`; what follows it, trimmed at the front, is the rest.
    pub(crate) fn number<'a>(
        &self,
        whole: &str,
        text: &'a str,
    ) -> Result<(Number<'a>, &'a str), ParseQuantityError> {
        let text = text.trim_start();
        let end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (digits, rest) = text.split_at(end);
        let problem = || self.error(whole, "it does not begin with a plain decimal number");
        let value: f64 = digits.parse().map_err(|_| problem())?;
        if !value.is_finite() {
            return Err(self.too_large(whole));
        }
        Ok((Number { digits, value }, rest.trim_start()))
    }
}

/// A non-negative decimal number as written.
#[derive(Copy, Clone)]
pub(crate) struct Number<'a> {
    digits: &'a str,
    pub(crate) value: f64,
}

impl Number<'_> {
    /// The number times `unit`, rounded to an integer; exact for whole numbers. `None` when it
    /// exceeds 64 bits.
    pub(crate) fn times(&self, unit: u64) -> Option<u64> {
        if !self.digits.contains('.') {
            return self.digits.parse::<u64>().ok()?.checked_mul(unit);
        }
        let product = (self.value * unit as f64).round();
        // 2^64 as f64; anything at or above it does not fit.
        (product < 18_446_744_073_709_551_616.0).then_some(product as u64)
    }
}

/// Writes `value` with four significant digits (all of those before the point), without trailing
/// zeros.
pub(crate) fn four_digits(value: f64) -> String {
    let decimals = match value {
        v if v < 9.9995 => 3,
        v if v < 99.995 => 2,
        v if v < 999.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    if decimals == 0 {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Writes `value` in the largest of `units` (descending) that it fills, keeping width and fill
/// flags.
pub(crate) fn pad_scaled(
    f: &mut fmt::Formatter<'_>,
    value: f64,
    units: &[(f64, &str)],
) -> fmt::Result {
    // 0.99995 of a unit would already be printed as "1" of it.
    let (unit, name) = units
        .iter()
        .find(|(unit, _)| value >= unit * 0.99995)
        .or(units.last())
        .copied()
        .unwrap_or((1.0, ""));
    let number = match f.precision() {
        Some(decimals) => format!("{:.decimals$}", value / unit),
        None => four_digits(value / unit),
    };
    // `Formatter::pad` would take the precision for a maximal width.
    let text = format!("{number} {name}");
    let missing = f.width().unwrap_or(0).saturating_sub(text.chars().count());
    let (before, after) = match f.align() {
        Some(fmt::Alignment::Left) => (0, missing),
        Some(fmt::Alignment::Center) => (missing / 2, missing - missing / 2),
        Some(fmt::Alignment::Right) | None => (missing, 0),
    };
    let fill = String::from(f.fill());
    f.write_str(&fill.repeat(before))?;
    f.write_str(&text)?;
    f.write_str(&fill.repeat(after))
}

/// Errors quote what was written, but not a whole file that was piped in by accident.
fn shorten(text: &str) -> String {
    const MAX: usize = 40;
    match text.char_indices().nth(MAX) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

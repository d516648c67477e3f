//! What the checks found: lines for people, one JSON object for programs.

use std::fmt;

use serde::Serialize;

use crate::exit::Problems;
use crate::screen::Screen;
use crate::summary::print_json;

/// All checks. Serialised, this is `--json`'s object; fields are added, never changed.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) checks: Vec<Check>,
    /// What would make transfers faster.
    pub(crate) faster: Vec<String>,
}

/// One check.
#[derive(Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) kind: Kind,
    /// Whether it found nothing wrong.
    pub(crate) ok: bool,
    /// What it found; with a remedy, if something is wrong.
    pub(crate) message: String,
}

/// What is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Interface,
    Buffers,
    Relay,
    Registry,
    Listener,
    Path,
}

impl Report {
    pub(crate) fn fine(&mut self, kind: Kind, message: impl fmt::Display) {
        self.add(kind, true, message);
    }

    pub(crate) fn problem(&mut self, kind: Kind, message: impl fmt::Display) {
        self.add(kind, false, message);
    }

    fn add(&mut self, kind: Kind, ok: bool, message: impl fmt::Display) {
        let message = message.to_string();
        self.checks.push(Check { kind, ok, message });
    }

    pub(crate) fn faster(&mut self, advice: impl Into<String>) {
        let advice = advice.into();
        if !self.faster.contains(&advice) {
            self.faster.push(advice);
        }
    }

    /// The text for people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for Check { ok, message, .. } in &self.checks {
            let mark = if *ok { "ok     " } else { "problem" };
            text += &format!("{mark}  {message}\n");
        }
        match self.faster.is_empty() {
            // Beside a problem, that would be no news.
            true if self.checks.iter().any(|check| !check.ok) => {}
            true => text += "\nNothing here would make transfers faster.\n",
            false => {
                text += "\nWhat would make transfers faster:\n";
                for advice in &self.faster {
                    text += &format!("  {advice}\n");
                }
            }
        }
        text
    }

    /// Prints it on standard error, or as JSON on standard output.
    ///
    /// # Errors
    /// There are problems, or standard output failed.
    pub(crate) fn show(&self, screen: &Screen, json: bool) -> anyhow::Result<()> {
        match json {
            true => print_json(self)?,
            false => screen.error(self.text().trim_end()),
        }
        let wrong = || self.checks.iter().filter(|check| !check.ok);
        match wrong().count() {
            0 => Ok(()),
            count => Err(Problems {
                count,
                unreachable: wrong().any(|check| check.kind == Kind::Listener),
            }
            .into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let mut report = Report::default();
        report.fine(
            Kind::Interface,
            "eth0 (192.0.2.7) has a route to the Internet",
        );
        insta::assert_snapshot!("fine", report.text());
        report.problem(
            Kind::Listener,
            "nothing listens at 203.0.113.5:4433. Start it.",
        );
        assert!(!report.text().contains("faster"), "{}", report.text());
        report.faster("A second interface.");
        report.faster("A second interface.");
        insta::assert_snapshot!("wrong", report.text());
        insta::assert_snapshot!("json", serde_json::to_string_pretty(&report).unwrap());
    }
}

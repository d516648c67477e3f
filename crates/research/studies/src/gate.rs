//! What must hold of results.

use serde::Serialize;

/// Something that must hold, and whether it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gate {
    /// What must hold.
    pub what: String,
    /// What was found, for people.
    pub found: String,
    /// Whether it holds.
    pub holds: bool,
    /// Why it doesn't hold, once that has been found out. Such a gate fails no run, and the page
    /// shows it all the same.
    pub explained: Option<&'static str>,
}

impl Gate {
    pub(crate) fn new(what: impl Into<String>, found: impl Into<String>, holds: bool) -> Self {
        Gate {
            what: what.into(),
            found: found.into(),
            holds,
            explained: None,
        }
    }

    /// Whether it holds, or is known not to.
    pub fn passes(&self) -> bool {
        self.holds || self.explained.is_some()
    }

    /// Gates as a table in Markdown.
    pub fn markdown(gates: &[Gate]) -> String {
        let rows = gates.iter().map(|gate| {
            let holds = match (gate.holds, gate.explained) {
                (true, _) => "yes".to_owned(),
                (false, Some(reason)) => format!("**no**: {reason}"),
                (false, None) => "**no**".to_owned(),
            };
            format!("| {} | {} | {holds} |\n", gate.what, gate.found)
        });
        format!(
            "| what | found | holds |\n|---|---|---|\n{}",
            rows.collect::<String>()
        )
    }
}

//! Prometheus' text format.

use std::fmt::{Display, Write};

/// Metrics in Prometheus' text format, version 0.0.4.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// The samples that follow are of this family. `kind` is a type of Prometheus.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}").ok();
    }

    /// A sample with labels, whose values may be any text.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let text = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            write!(self.0, "{before}{label}=\"{text}\"").ok();
        }
        let after = if labels.is_empty() { "" } else { "}" };
        writeln!(self.0, "{after} {value}").ok();
    }

    /// A family with one sample, which has no labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// All that was written.
    pub fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Exposition::default();
        text.single("a", "counter", "All.", 3);
        text.family("b", "gauge", "Some.");
        text.sample("b", &[("x", "1"), ("y", "q\"\\\n")], 0.5);
        assert_eq!(
            text.into_text(),
            "# HELP a All.\n# TYPE a counter\na 3\n# HELP b Some.\n# TYPE b gauge\n\
             b{x=\"1\",y=\"q\\\"\\\\\\n\"} 0.5\n"
        );
    }
}

//! `manyway laws`: the laws of the registry, or the parameters of one.

use manyway::control::LawSpec;
use manyway::control::registry;
use manyway_report::{Column, Table};
use serde::Serialize;

use crate::args::LawsArgs;
use crate::summary::{print_json, print_text};

/// A law, for programs.
#[derive(Debug, Serialize)]
struct Law {
    name: &'static str,
    /// What it is, how it couples paths, and where it comes from.
    about: &'static str,
    acts_on: String,
    parameters: Vec<Parameter>,
}

#[derive(Debug, Serialize)]
struct Parameter {
    name: &'static str,
    /// Text, as JSON has no infinity.
    default: String,
    allowed: String,
    meaning: &'static str,
}

impl Law {
    fn of(spec: &LawSpec) -> Self {
        let parameters = spec.parameters().map(|(parameter, _)| Parameter {
            name: parameter.key,
            default: parameter.default.to_string(),
            allowed: parameter.range.to_string(),
            meaning: parameter.meaning,
        });
        Self {
            name: spec.name(),
            about: spec.about(),
            acts_on: spec.capabilities().signal.to_string(),
            parameters: parameters.collect(),
        }
    }
}

pub(crate) fn run(args: &LawsArgs) -> anyhow::Result<()> {
    match (&args.law, args.json) {
        (Some(law), true) => print_json(&Law::of(law)),
        (Some(law), false) => print_text(&one(&Law::of(law))),
        (None, true) => print_json(&all()),
        (None, false) => print_text(&list(&all())),
    }
}

fn all() -> Vec<Law> {
    registry::laws().map(|spec| Law::of(&spec)).collect()
}

/// A line for each law.
fn list(laws: &[Law]) -> String {
    let default = LawSpec::default().name();
    let mut table = Table::new([Column::left("law"), Column::left("what it is")]);
    for law in laws {
        let name = match law.name == default {
            true => format!("{} [default]", law.name),
            false => law.name.to_owned(),
        };
        table.row([name, law.about.to_owned()]);
    }
    let table = table.to_string();
    format!(
        "{}\n\n`manyway laws LAW` lists the law's parameters.\n",
        table.trim_end()
    )
}

/// A law with a line for each parameter.
fn one(law: &Law) -> String {
    let Law {
        name,
        about,
        acts_on,
        ..
    } = law;
    let head = format!("{name}: {about}\nacts on: {acts_on}\n");
    if law.parameters.is_empty() {
        return format!("{head}no parameters\n");
    }
    let mut table = Table::new([
        Column::left("parameter"),
        Column::right("default"),
        Column::left("allowed"),
        Column::left("meaning"),
    ]);
    for parameter in &law.parameters {
        table.row([
            parameter.name,
            &parameter.default,
            &parameter.allowed,
            parameter.meaning,
        ]);
    }
    format!("{head}\n{}\n", table.to_string().trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_people() {
        insta::assert_snapshot!("list", list(&all()));
        let of = |name: &str| one(&Law::of(&name.parse().unwrap()));
        insta::assert_snapshot!("generalized", of("generalized"));
        assert!(of("lia").ends_with("acts on: losses\nno parameters\n"));
    }

    #[test]
    fn for_programs() {
        let law = Law::of(&"ewtcp:a=0.25".parse().unwrap());
        insta::assert_snapshot!("json", serde_json::to_string_pretty(&law).unwrap());
        assert_eq!(all().len(), registry::laws().count());
    }
}

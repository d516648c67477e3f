//! The law, or class of laws, whose criteria are evaluated.

use manyway_control::{LawError, LawSpec};

use crate::law::{FluidLaw, NoFluid};

/// What is judged: a law, or a class of laws of which each point takes another.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    label: String,
    members: Vec<(String, FluidLaw)>,
}

/// A law that can't be judged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoSubject {
    /// There is no such law, or not with these parameters.
    #[error(transparent)]
    Law(#[from] LawError),
    /// It has no fluid form.
    #[error(transparent)]
    NoFluid(#[from] NoFluid),
}

impl Subject {
    /// A law of the registry with its parameters, as it runs; or `max`, the paper's fluid of LIA;
    /// or `auto-group`, a group of `auto`.
    ///
    /// # Errors
    /// [`NoSubject`] for unknown laws and for those without a fluid form.
    pub fn law(text: &str) -> Result<Self, NoSubject> {
        let (label, law) = match text.trim() {
            "max" => ("max".to_owned(), FluidLaw::Max),
            "auto-group" => ("auto-group".to_owned(), FluidLaw::AutoGroup),
            text => {
                let spec: LawSpec = text.parse()?;
                (spec.to_string(), FluidLaw::of(&spec)?)
            }
        };
        Ok(Subject {
            members: vec![(label.clone(), law)],
            label,
        })
    }

    /// Eq. (16) for `0 < β ≤ 1`, as Theorem IV.1 has it: 24 of its members. η is in `k`, not in
    /// `φ`, and doesn't matter to the criteria.
    pub fn class() -> Self {
        let mut members = Vec::new();
        for beta in [0.05, 0.2, 0.5, 1.0] {
            for n in ["1", "2", "3", "8", "64", "inf"] {
                let text = format!("generalized:beta={beta},n={n}");
                let law = Subject::law(&text).map(|subject| subject.members);
                members.extend(law.into_iter().flatten());
            }
        }
        Subject {
            label: "generalized, 0 < β ≤ 1".to_owned(),
            members,
        }
    }

    /// What tables call it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Its laws.
    pub fn laws(&self) -> impl Iterator<Item = &FluidLaw> {
        self.members.iter().map(|(_, law)| law)
    }

    /// The law of the n-th point, with its name.
    pub(super) fn member(&self, n: usize) -> (&str, &FluidLaw) {
        let (name, law) = &self.members[n % self.members.len()];
        (name, law)
    }

    pub(super) fn named_member(&self, name: &str) -> Option<&FluidLaw> {
        let member = self.members.iter().find(|(own, _)| own == name);
        member.map(|(_, law)| law)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_has_all_its_members() {
        let class = Subject::class();
        assert_eq!(class.laws().count(), 24);
        assert_eq!(class.member(30).0, "generalized:n=1");
    }
}

//! Equal flows, of which one is integrated for all.

use manyway_network::LinkConfig;
use manyway_scenario::{Experiment, Flow};

/// Flows that can't be told apart, of which the first stands for all: as a fluid they do the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Class {
    /// Indices in [`Experiment::flows`].
    pub(super) members: Vec<usize>,
}

impl Class {
    /// How many flows there are of it.
    pub(super) fn size(&self) -> f64 {
        self.members.len() as f64
    }
}

/// The flows by what they are: those of a group that differ in nothing.
pub(super) fn classes(experiment: &Experiment) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    for group in &experiment.groups {
        let first = classes.len();
        for index in group.members.clone() {
            let same = |class: &&mut Class| {
                alike(
                    &experiment.flows[class.members[0]],
                    &experiment.flows[index],
                )
            };
            match classes[first..].iter_mut().find(same) {
                Some(class) => class.members.push(index),
                None => classes.push(Class {
                    members: vec![index],
                }),
            }
        }
    }
    classes
}

fn alike(a: &Flow, b: &Flow) -> bool {
    let access = |flow: &Flow| {
        let link = flow.access.as_deref().cloned();
        link.map(|link| LinkConfig { seed: 0, ..link })
    };
    access(a) == access(b)
        && Flow {
            name: b.name.clone(),
            access: b.access.clone(),
            ..a.clone()
        } == *b
}

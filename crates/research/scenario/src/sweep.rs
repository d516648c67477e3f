//! Keys with lists of values, and their product.

use indexmap::IndexSet;

use crate::assign::{assign, canonical, check_default_used};
use crate::fault::Fault;
use crate::tree::{self, Key, Node, Table, Value};

/// The most points that a sweep may have.
const MAX_POINTS: usize = 100_000;

/// The most keys that a sweep may change.
const MAX_KEYS: usize = 200;

/// The most values that all points together may be called by.
const MAX_LABELS: usize = 2_000_000;

/// What a scenario sweeps.
#[derive(Debug)]
pub(crate) struct Sweep {
    axes: Vec<Axis>,
    points: usize,
}

/// What is changed together, and the values that it goes through.
#[derive(Debug)]
struct Axis {
    /// Where in the tree the list of values is.
    place: Key,
    values: Vec<Vec<Assignment>>,
    labels: Labels,
}

/// What to call the values of an axis: the same keys for all of them.
#[derive(Debug)]
enum Labels {
    /// By the one key that they are given to.
    Key(String),
    /// By the names of cases.
    Names(IndexSet<String>),
    /// By all keys that any case sets; what a case doesn't set is empty.
    Keys(IndexSet<String>),
}

#[derive(Debug)]
struct Assignment {
    /// The key as written.
    label: String,
    target: Key,
    node: Node,
    /// Where in the tree it comes from: the value in a case, else the list of values.
    place: Key,
}

impl Sweep {
    /// What `[sweep]` in `root` says.
    pub(crate) fn of(root: &Table) -> Result<Sweep, Fault> {
        let here = Key::of(["sweep"]);
        let mut axes = Vec::new();
        match root.get("sweep").map(|entry| &entry.node.value) {
            None => {}
            Some(Value::Table(table)) => collect(table, &here, &Key::default(), &mut axes)?,
            Some(other) => {
                return Err(Fault::new(
                    &here,
                    format!("{other} is not a table of keys with lists of values"),
                ));
            }
        }
        check_conflicts(&axes)?;
        let product = axes.iter().try_fold(1, |product: usize, axis| {
            product.checked_mul(axis.values.len())
        });
        let points = product
            .filter(|points| *points <= MAX_POINTS)
            .ok_or_else(|| {
                let sizes: Vec<_> = axes
                    .iter()
                    .map(|axis| axis.values.len().to_string())
                    .collect();
                let sizes =
                    crate::problem::listed(sizes.iter().map(String::as_str)).replace(", ", " × ");
                Fault::new(
                    &here,
                    format!("{sizes} combinations are too many: at most {MAX_POINTS} are possible"),
                )
            })?;
        let keys: usize = axes.iter().map(Axis::keys).sum();
        if points * keys > MAX_LABELS {
            let message =
                format!("{points} points with {keys} keys each are too many: give the cases names");
            return Err(Fault::new(&here, message));
        }
        Ok(Sweep { axes, points })
    }

    /// How many points there are.
    pub(crate) fn points(&self) -> usize {
        self.points
    }

    /// Makes point `index` out of the tree; returns what was set.
    pub(crate) fn apply(
        &self,
        root: &mut Table,
        index: usize,
    ) -> Result<Vec<(String, String)>, Fault> {
        let mut set = Vec::new();
        // The last axis changes fastest.
        let mut below = self.points;
        for axis in &self.axes {
            below /= axis.values.len();
            let value = index / below % axis.values.len();
            axis.label(value, &mut set);
            for assignment in &axis.values[value] {
                let fault = |message| Fault::key(&assignment.place, message);
                assign(root, &assignment.target, &assignment.node).map_err(fault)?;
                check_default_used(root, &assignment.target).map_err(fault)?;
            }
        }
        Ok(set)
    }
}

impl Axis {
    /// What is set in case `n`, for people.
    fn label(&self, n: usize, set: &mut Vec<(String, String)>) {
        let case = &self.values[n];
        match &self.labels {
            Labels::Key(key) => set.extend(
                case.iter()
                    .map(|only| (key.clone(), plain(&only.node.value))),
            ),
            Labels::Names(names) => set.extend(
                names
                    .get_index(n)
                    .map(|name| ("case".to_owned(), name.clone())),
            ),
            Labels::Keys(keys) => set.extend(keys.iter().map(|key| {
                let own = case.iter().find(|assignment| assignment.label == *key);
                let value =
                    own.map_or_else(String::new, |assignment| plain(&assignment.node.value));
                (key.clone(), value)
            })),
        }
    }

    /// How many keys [`Axis::label`] gives.
    fn keys(&self) -> usize {
        match &self.labels {
            Labels::Key(_) | Labels::Names(_) => 1,
            Labels::Keys(keys) => keys.len(),
        }
    }
}

/// Takes `target` out of the sweep, because it has been assigned.
pub(crate) fn forget(root: &mut Table, target: &Key) {
    let Some(Value::Table(table)) = root.get("sweep").map(|entry| &entry.node.value) else {
        return;
    };
    let mut axes = Vec::new();
    // A sweep that can't be read is complained of when it is run.
    let _ = collect(table, &Key::of(["sweep"]), &Key::default(), &mut axes);
    for axis in axes {
        let assignments = || axis.values.iter().flatten();
        let mut others = assignments().filter(|assignment| assignment.target != *target);
        if assignments().next().is_some() && others.next().is_none() {
            tree::remove(root, &axis.place);
            continue;
        }
        for assignment in assignments().filter(|assignment| assignment.target == *target) {
            tree::remove(root, &assignment.place);
        }
    }
}

/// Finds the lists of values in a table of `[sweep]`; nested tables are dotted keys without quotes.
fn collect(table: &Table, place: &Key, outer: &Key, axes: &mut Vec<Axis>) -> Result<(), Fault> {
    for (name, entry) in table {
        let place = place.join(name.as_str());
        let inner = Key::parse(name)
            .map_err(|message| Fault::key(&place, format!("not a key: {message}")))?;
        let key = outer.joined(inner.segments());
        match &entry.node.value {
            Value::List(nodes) if nodes.is_empty() => {
                return Err(Fault::new(
                    &place,
                    "an empty list: a sweep needs at least one value".to_owned(),
                ));
            }
            Value::List(nodes) if key.bare() == Some("cases") => axes.push(cases(nodes, place)?),
            Value::List(nodes) => {
                let target = swept(&key).map_err(|message| Fault::key(&place, message))?;
                let assignments = nodes.iter().map(|node| {
                    vec![Assignment {
                        label: key.to_string(),
                        target: target.clone(),
                        node: node.clone(),
                        place: place.clone(),
                    }]
                });
                let values = assignments.collect();
                axes.push(Axis {
                    place,
                    values,
                    labels: Labels::Key(key.to_string()),
                });
            }
            Value::Table(inner) => collect(inner, &place, &key, axes)?,
            other => {
                let message = format!(
                    "{other} is not a list: give the values to go through, as in {name:?} = \
                     [{other}]"
                );
                return Err(Fault::new(&place, message));
            }
        }
    }
    Ok(())
}

/// As somebody would write it in an assignment.
fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `cases = [{ name = "x", a = 1, b = 2 }, …]`.
fn cases(nodes: &[Node], place: Key) -> Result<Axis, Fault> {
    let mut values = Vec::new();
    let mut names = IndexSet::new();
    for (n, node) in nodes.iter().enumerate() {
        let place = place.at(n);
        let Value::Table(table) = &node.value else {
            let message = format!(
                "{} is not a table of assignments, such as \
                 {{ law = \"lia\", duration = \"10 s\" }}",
                node.value
            );
            return Err(Fault::new(&place, message));
        };
        let name = case_name(table, &place, &names)?;
        if n > 0 && name.is_some() == names.is_empty() {
            let message = "give all cases a `name`, or none of them".to_owned();
            return Err(Fault::new(&place, message));
        }
        names.extend(name);
        let assignments = table.iter().filter(|(key, _)| *key != "name");
        let case = assignments.map(|(key, entry)| {
            let place = place.join(key.as_str());
            let key = Key::parse(key)
                .map_err(|message| Fault::key(&place, format!("not a key: {message}")))?;
            Ok(Assignment {
                target: swept(&key).map_err(|message| Fault::key(&place, message))?,
                label: key.to_string(),
                node: entry.node.clone(),
                place,
            })
        });
        values.push(case.collect::<Result<Vec<_>, Fault>>()?);
    }
    let labels = match names.is_empty() {
        false => Labels::Names(names),
        true => {
            let assignments = values.iter().flatten();
            Labels::Keys(
                assignments
                    .map(|assignment| assignment.label.clone())
                    .collect(),
            )
        }
    };
    Ok(Axis {
        place,
        values,
        labels,
    })
}

/// A case's own name.
fn case_name(
    table: &Table,
    place: &Key,
    others: &IndexSet<String>,
) -> Result<Option<String>, Fault> {
    let Some(entry) = table.get("name") else {
        return Ok(None);
    };
    let place = place.join("name");
    match &entry.node.value {
        Value::Text(name) if others.contains(name) => Err(Fault::new(
            &place,
            format!("another case is called {name} already"),
        )),
        Value::Text(name) if !name.trim().is_empty() => Ok(Some(name.clone())),
        other => Err(Fault::new(
            &place,
            format!("{other} is not the name of a case"),
        )),
    }
}

/// The key in full, if it may be swept.
fn swept(key: &Key) -> Result<Key, String> {
    let target = canonical(key)?;
    match target.name(0) {
        Some("sweep") => Err("a sweep can't sweep itself".to_owned()),
        Some("seed" | "repeat") => {
            Err("can't be swept: to run each point with several seeds, use `repeat`".to_owned())
        }
        Some("name" | "about") => Err("can't be swept: a scenario has one name".to_owned()),
        _ => Ok(target),
    }
}

/// No key is set twice in one point, nor a table that holds another swept key.
fn check_conflicts(axes: &[Axis]) -> Result<(), Fault> {
    let mut distinct: Vec<(usize, &Assignment)> = Vec::new();
    for (n, axis) in axes.iter().enumerate() {
        for case in &axis.values {
            for (i, assignment) in case.iter().enumerate() {
                let targets = distinct
                    .iter()
                    .filter(|(axis, _)| *axis != n)
                    .map(|(_, other)| *other);
                if let Some(other) = targets
                    .chain(&case[..i])
                    .find(|other| other.target.overlaps(&assignment.target))
                {
                    return Err(clash(assignment, other));
                }
            }
            for assignment in case {
                let known = |(axis, other): &(usize, &Assignment)| {
                    *axis == n && other.target == assignment.target
                };
                if !distinct.iter().any(known) {
                    distinct.push((n, assignment));
                }
            }
            if distinct.len() > MAX_KEYS {
                let message =
                    format!("more than {MAX_KEYS} different keys are swept: that is too many");
                return Err(Fault::new(&axis.place, message));
            }
        }
    }
    Ok(())
}

fn clash(assignment: &Assignment, other: &Assignment) -> Fault {
    let message = match other.target == assignment.target {
        true => format!("swept twice, here and as {}", other.label),
        false => format!(
            "this and {}, which is also swept, set the same key",
            other.label
        ),
    };
    Fault::key(&assignment.place, message)
}

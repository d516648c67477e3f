//! Values put into the tree: by assignments, by a sweep, from `[defaults]`.

use crate::file::{File, Flow, Link, Measure, Overlay, Path, RateControl, Reselect};
use crate::problem::{hint, listed};
use crate::tree::{Entry, Key, Node, Segment, Table, Value, field_names};

/// The key in full: a bare one is of the top level or of `[defaults]`.
pub(crate) fn canonical(key: &Key) -> Result<Key, String> {
    let Some(name) = key.bare() else {
        return Ok(key.clone());
    };
    let (top, flow) = (field_names::<File>(), field_names::<Flow>());
    match (top.contains(&name), flow.contains(&name)) {
        (true, false) => return Ok(key.clone()),
        (false, true) => return Ok(Key::of(["defaults", name])),
        (true, true) => {
            return Err(format!(
                "may mean {name}.NAME.… or defaults.{name}: write one of them"
            ));
        }
        (false, false) => {}
    }
    let homes = [
        ("links.NAME", field_names::<Link>()),
        ("paths.NAME", field_names::<Path>()),
        ("measure", field_names::<Measure>()),
        ("overlay", field_names::<Overlay>()),
        ("overlay.control", field_names::<RateControl>()),
        ("overlay.reselect", field_names::<Reselect>()),
    ];
    let hint = match homes.iter().find(|(_, keys)| keys.contains(&name)) {
        Some((home, _)) => format!(" (did you mean {home}.{name}?)"),
        None => hint(name, top.iter().chain(flow).copied()),
    };
    Err(format!(
        "there is no such key{hint}: a bare key is one of the top level or of [defaults] ({}); \
         others are written with dots, such as links.NAME.rate, or links.*.rate for all",
        flow.join(", "),
    ))
}

/// Puts `node` where `target` leads to, everywhere if it has a `*`.
pub(crate) fn assign(root: &mut Table, target: &Key, node: &Node) -> Result<(), String> {
    let Some(star) = target
        .segments()
        .iter()
        .position(|segment| *segment == Segment::Every)
    else {
        return assign_one(root, target, node);
    };
    let (before, after) = target.segments().split_at(star);
    let parent = crate::tree::find_mut(root, before);
    let names: Vec<String> = match parent.map(|node| &node.value) {
        Some(Value::Table(table)) => table.keys().cloned().collect(),
        None if before.is_empty() => {
            return Err("write a name in front of the *, as in links.*.rate".to_owned());
        }
        _ => Vec::new(),
    };
    if names.is_empty() {
        return Err(format!("the * in {target} matches nothing"));
    }
    for name in names {
        let target = Key::default().joined(before).join(name).joined(&after[1..]);
        assign(root, &target, node)?;
    }
    Ok(())
}

fn assign_one(root: &mut Table, target: &Key, node: &Node) -> Result<(), String> {
    let mut table = root;
    let segments = target.segments();
    let mut rest = segments;
    loop {
        let (first, tail) = match rest {
            [Segment::Key(first), tail @ ..] => (first, tail),
            _ => return Err("doesn't lead to a key".to_owned()),
        };
        let depth = segments.len() - rest.len();
        check_named(table, segments, depth)?;
        if tail.is_empty() {
            let entry = Entry {
                key: node.origin,
                node: node.clone(),
                inherited: false,
            };
            table.insert(first.clone(), entry);
            return Ok(());
        }
        let entry = table.entry(first.clone()).or_insert_with(|| Entry {
            key: node.origin,
            node: Node {
                value: Value::Table(Box::default()),
                origin: node.origin,
            },
            inherited: false,
        });
        let mut inner = &mut entry.node;
        rest = tail;
        // Lists on the way, whose entries exist already.
        while let [Segment::Index(index), tail @ ..] = rest {
            let Value::List(nodes) = &mut inner.value else {
                return Err(format!(
                    "[{index}] is an entry of a list, but there is no list"
                ));
            };
            let length = nodes.len();
            inner = nodes.get_mut(*index).ok_or_else(|| {
                format!("there is no [{index}]: the list has {length} entries, counted from 0")
            })?;
            rest = tail;
        }
        if rest.is_empty() {
            *inner = node.clone();
            return Ok(());
        }
        table = match &mut inner.value {
            Value::Table(table) => table,
            other => return Err(format!("leads into {other}, which is not a table")),
        };
    }
}

/// Links, paths and flows are there before something is assigned to them.
fn check_named(table: &Table, segments: &[Segment], depth: usize) -> Result<(), String> {
    let (Some(Segment::Key(kind)), Some(Segment::Key(name)), 1) =
        (segments.first(), segments.get(1), depth)
    else {
        return Ok(());
    };
    let one = match kind.as_str() {
        "links" => "link",
        "paths" => "path",
        "flows" => "flow",
        _ => return Ok(()),
    };
    if table.contains_key(name) {
        return Ok(());
    }
    let hint = hint(name, table.keys().map(String::as_str));
    let known = listed(table.keys().map(String::as_str));
    Err(format!(
        "there is no {one} {name:?}{hint}; {kind} are {known}"
    ))
}

/// An assignment to a key of `[defaults]` that every flow has itself would change nothing.
pub(crate) fn check_default_used(root: &Table, target: &Key) -> Result<(), String> {
    let (Some("defaults"), Some(key)) = (target.name(0), target.name(1)) else {
        return Ok(());
    };
    let Some(Value::Table(flows)) = root.get("flows").map(|entry| &entry.node.value) else {
        return Ok(());
    };
    let own =
        |entry: &Entry| matches!(&entry.node.value, Value::Table(flow) if flow.contains_key(key));
    if flows.is_empty() || !flows.values().all(own) {
        return Ok(());
    }
    let name = flows.keys().next().map_or("NAME", String::as_str);
    Err(format!(
        "this is [defaults].{key}, which no flow uses, as each has its own: write \
         flows.{name}.{key} or flows.*.{key}"
    ))
}

/// Gives every flow what it hasn't itself but `[defaults]` has.
pub(crate) fn inherit(root: &mut Table) {
    let defaults = match root.get("defaults").map(|entry| &entry.node.value) {
        Some(Value::Table(defaults)) => defaults.clone(),
        _ => return,
    };
    let Some(Value::Table(flows)) = root.get_mut("flows").map(|entry| &mut entry.node.value) else {
        return;
    };
    for flow in flows.values_mut() {
        let Value::Table(flow) = &mut flow.node.value else {
            continue;
        };
        for (key, entry) in defaults.iter() {
            flow.entry(key.clone()).or_insert_with(|| Entry {
                inherited: true,
                ..entry.clone()
            });
        }
    }
}

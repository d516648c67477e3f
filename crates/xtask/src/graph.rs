//! Cycles of a directed graph.

use std::collections::{BTreeMap, BTreeSet};

/// The strongly connected components with more than one node, each sorted.
///
/// Two nodes are in one component if each reaches the other. The graphs here have some hundred
/// nodes, so a search from every node is fast enough.
pub fn cycles<N: Ord + Clone>(edges: impl IntoIterator<Item = (N, N)>) -> Vec<BTreeSet<N>> {
    let mut next: BTreeMap<N, BTreeSet<N>> = BTreeMap::new();
    for (from, to) in edges {
        next.entry(from).or_default().insert(to);
    }
    let reaches: BTreeMap<&N, BTreeSet<&N>> = next
        .keys()
        .map(|node| (node, reachable(&next, node)))
        .collect();
    let mut found: Vec<BTreeSet<N>> = Vec::new();
    for (&node, there) in &reaches {
        let component: BTreeSet<N> = there
            .iter()
            .filter(|other| reaches.get(*other).is_some_and(|back| back.contains(node)))
            .map(|&other| other.clone())
            .collect();
        if component.len() > 1 && !found.contains(&component) {
            found.push(component);
        }
    }
    found
}

fn reachable<'a, N: Ord>(next: &'a BTreeMap<N, BTreeSet<N>>, from: &'a N) -> BTreeSet<&'a N> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        for to in next.get(node).into_iter().flatten() {
            if seen.insert(to) {
                open.push(to);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_and_a_pair_are_found_and_a_chain_is_not() {
        let edges = [
            (1, 2),
            (2, 3),
            (3, 1),
            (3, 4),
            (4, 5),
            (5, 4),
            (5, 6),
            (6, 7),
        ];
        let found = cycles(edges);
        assert_eq!(found, [BTreeSet::from([1, 2, 3]), BTreeSet::from([4, 5])]);
    }

    #[test]
    fn a_node_that_names_itself_is_no_cycle() {
        assert!(cycles([(1, 1), (1, 2)]).is_empty());
    }
}

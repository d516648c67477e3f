use super::*;
use crate::Loss;
use manyway_units::Rate;

/// Two links and a path over both, back over the second.
fn good() -> Topology {
    let link = |name: &str| NamedLink {
        name: name.to_owned(),
        config: LinkConfig::new(Rate::from_mbps(20.0), Duration::from_millis(10)),
    };
    Topology {
        links: vec![link("access"), link("core")],
        paths: vec![PathSpec {
            name: "both".to_owned(),
            links: vec![0, 1],
            reverse: vec![1],
            return_delay: Duration::ZERO,
        }],
    }
}

fn assert_refused(change: impl Fn(&mut Topology), place: (Part, usize, &str, &str), message: &str) {
    let mut topology = good();
    change(&mut topology);
    let error = topology.validate().unwrap_err();
    let found = (
        error.part,
        error.index,
        error.name.as_str(),
        error.field.as_str(),
    );
    assert_eq!(found, place);
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_good_one_and_an_empty_one() {
    assert_eq!(good().validate(), Ok(()));
    assert_eq!(Topology::default().validate(), Ok(()));
    // There and back over the same medium.
    let mut shared = good();
    shared.paths[0].reverse = vec![1, 0];
    assert_eq!(shared.validate(), Ok(()));
}

#[test]
fn a_links_error_names_the_link() {
    assert_refused(
        |topology| topology.links[1].config.loss = Loss::Bernoulli(2.0),
        (Part::Link, 1, "core", "loss"),
        "link number 1 (counted from 0), `core`: its `loss` is 2: choose a probability of at least \
         0 and less than 1",
    );
}

#[test]
fn names_are_unique() {
    assert_refused(
        |topology| topology.links[1].name = "access".to_owned(),
        (Part::Link, 1, "access", "name"),
        "link number 1 (counted from 0), `access`: its `name` is that of link number 0 (counted \
         from 0) too: choose another",
    );
    assert_refused(
        |topology| topology.paths.push(topology.paths[0].clone()),
        (Part::Path, 1, "both", "name"),
        "path number 1 (counted from 0), `both`: its `name` is that of path number 0 (counted from \
         0) too: choose another",
    );
    assert_refused(
        |topology| topology.paths[0].name.clear(),
        (Part::Path, 0, "", "name"),
        "path number 0 (counted from 0), ``: its `name` is empty: choose one",
    );
}

#[test]
fn paths_pass_links_that_exist_and_each_once() {
    assert_refused(
        |topology| topology.paths[0].links.clear(),
        (Part::Path, 0, "both", "links"),
        "path number 0 (counted from 0), `both`: its `links` is empty: a path needs at least one \
         link",
    );
    assert_refused(
        |topology| topology.paths[0].reverse = vec![1, 2],
        (Part::Path, 0, "both", "reverse"),
        "path number 0 (counted from 0), `both`: its `reverse` has link number 2 (counted from 0), \
         but there are 2 links",
    );
    assert_refused(
        |topology| topology.paths[0].links = vec![0, 1, 0],
        (Part::Path, 0, "both", "links"),
        "path number 0 (counted from 0), `both`: its `links` passes the link `access` twice: leave \
         the loop out",
    );
}

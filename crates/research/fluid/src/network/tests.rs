use super::*;

/// Links of 1 Mbps each, a flow for each route.
fn network(links: usize, routes: &[&[usize]]) -> Network {
    let flow = |(n, links): (usize, &&[usize])| Flow {
        name: format!("s{n}"),
        weight: 1.0,
        demand: None,
        routes: vec![Route {
            name: format!("r{n}"),
            links: links.to_vec(),
            rtt: 0.1,
            packet: 12_000.0,
        }],
    };
    Network {
        links: (0..links)
            .map(|n| Link {
                name: format!("l{n}"),
                capacity: 1e6,
            })
            .collect(),
        flows: routes.iter().enumerate().map(flow).collect(),
    }
}

#[test]
fn full_links_that_depend_on_each_other_are_told() {
    let told = |network: &Network, rates: &[f64]| -> Vec<String> {
        let remarks = network.remarks_at(&network.loads(rates));
        remarks.iter().map(Remark::to_string).collect()
    };
    let series = network(2, &[&[0, 1], &[0, 1]]);
    assert_eq!(
        told(&series, &[5e5, 5e5]),
        [
            "the links `l0` and `l1` are both full and passed by the same routes: only the sum of \
             their prices is determined"
        ]
    );
    assert!(told(&series, &[5e5, 4e5]).is_empty());
    // In a square of links each route passes two neighbours: any one of them carries what the other
    // three leave it no choice about.
    let square = network(4, &[&[0, 1], &[1, 2], &[2, 3], &[3, 0]]);
    assert_eq!(
        told(&square, &[5e5; 4]),
        [
            "of the 4 full links only 3 are independent (their routing matrix has no full row \
             rank): their prices are not unique"
        ]
    );
    let independent = network(3, &[&[0], &[0, 1], &[1, 2]]);
    assert!(told(&independent, &[5e5; 3]).is_empty());
}

/// What can't be computed with, and what is said about it.
#[test]
fn bad_networks_are_told() {
    let good = network(2, &[&[0], &[0, 1]]);
    assert_eq!(good.validate(), Ok(()));
    let told = |change: &dyn Fn(&mut Network)| {
        let mut network = good.clone();
        change(&mut network);
        network.validate().unwrap_err().to_string()
    };
    assert_eq!(
        told(&|network| network.links[1].capacity = 0.0),
        "the link `l1` has a capacity of 0 bps: give it a positive one, or leave it out together \
         with the routes over it"
    );
    assert_eq!(
        told(&|network| network.flows[0].routes.clear()),
        "the flow `s0` is disconnected: give it at least one route"
    );
    assert_eq!(
        told(&|network| network.flows[1].routes[0].links.push(0)),
        "the flow `s1` has the route `r1` twice over the link `l0`: leave the loop out"
    );
    assert_eq!(
        told(&|network| network.flows[1].routes[0].links.push(7)),
        "the flow `s1` has the route `r1` over link number 7, but there are 2 (counted from 0)"
    );
    assert_eq!(
        told(&|network| network.flows[1].routes[0].rtt = 0.0),
        "the flow `s1` has the route `r1` with a round-trip time of 0 s: give a link on it, or the \
         return path, a delay"
    );
    assert_eq!(
        told(&|network| network.flows.clear()),
        "the network has no flow: at this moment none is active with all links of a path up"
    );
}

#[test]
fn duplicate_paths_are_told() {
    let mut twice = network(2, &[&[0, 1]]);
    let route = Route {
        name: "again".to_owned(),
        links: vec![1, 0],
        ..twice.flows[0].routes[0].clone()
    };
    twice.flows[0].routes.push(route);
    let remarks: Vec<String> = twice.remarks().iter().map(Remark::to_string).collect();
    assert_eq!(
        remarks,
        [
            "`r0` and `again` of the flow `s0` pass the same links: only their sum is determined, \
             not how it is split"
        ]
    );
}

//! What flows get from links that they share, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use manyway_network::{Change, LinkConfig};
use manyway_noq::Coupling;
use manyway_units::{Rate, Time};
use noq_proto::TransportConfig;
use noq_proto::congestion::NewRenoConfig;

use crate::lab::multipath;
use crate::simulated::{Flow, Network};

/// noq's own controllers.
const CUBIC: &str = "noq's CUBIC";
const RENO: &str = "noq's Reno";

/// Two paths over one link, beside one flow: coupled, they take about what that flow takes, and
/// else twice as much. The bounds are those that our kernel laws have to keep.
#[test]
fn two_paths_over_one_link_take_one_flows_share() {
    for (law, rival) in [("lia", RENO), ("balia", RENO), ("auto", CUBIC)] {
        let share = share_of_pair(law, rival);
        let fair = 0.40..=0.58;
        assert!(fair.contains(&share), "{law} beside {rival}: {share:.3}");
    }
    for (law, rival) in [(RENO, RENO), (CUBIC, CUBIC), ("reno", RENO)] {
        let share = share_of_pair(law, rival);
        assert!(share >= 0.63, "{law} beside {rival}: {share:.3}");
    }
}

/// Coupling costs nothing where nothing is shared. Headers, and windows that are halved where a
/// queue holds just what the link does, take the rest.
#[test]
fn two_paths_fill_two_links() {
    for law in ["lia", "balia", "auto", CUBIC] {
        let links = vec![
            [link(20.0, 10), link(20.0, 10)],
            [link(10.0, 30), link(10.0, 30)],
        ];
        let mbps = goodputs(links, vec![flow(law, &[0, 1], 0)])[0];
        assert!(mbps > 0.9 * 30.0, "{law}: {mbps:.1} of 30 Mbps");
    }
}

/// `auto` finds out by round-trip times alone that two links are two, and takes a flow's share of
/// each: 4.8 Mbps, beside CUBIC. What it can't know without one-way delays is whether a delay that
/// changes is on the way there. noq sends the ACKs of all paths back on one, so a change there
/// shows on all paths, like a common queue, and `auto` couples what isn't shared.
#[test]
fn auto_takes_delays_on_the_way_back_for_a_common_queue() {
    let total = |back: LinkConfig| {
        let links = vec![[link(10.0, 10), back], [link(10.0, 20), link(10.0, 20)]];
        let flows = vec![
            flow("auto", &[0, 1], 0),
            flow(CUBIC, &[0], 100),
            flow(CUBIC, &[1], 100),
        ];
        goodputs(links, flows)[0]
    };
    let steady = total(link(10.0, 10));
    assert!((9.0..=11.5).contains(&steady), "{steady:.2} Mbps");
    let mut back = link(10.0, 10);
    back.timetable.changes = (1..60)
        .map(|second| Change {
            at: Time::from_millis(1000 * second),
            delay: Some(Duration::from_millis(
                [10, 40, 40, 10, 40][second as usize % 5],
            )),
            ..Change::default()
        })
        .collect();
    let changing = total(back);
    assert!(
        changing < 0.95 * steady,
        "{changing:.2} of {steady:.2} Mbps"
    );
}

/// What part of a link of 10 Mbps a connection of two paths gets beside one of one path: the mean
/// of three runs, in which the rival begins at different times.
fn share_of_pair(law: &str, rival: &str) -> f64 {
    let share = |starts_ms| {
        let flows = vec![flow(law, &[0, 0], 0), flow(rival, &[0], starts_ms)];
        let mbps = goodputs(vec![[link(10.0, 10), link(10.0, 10)]], flows);
        mbps[0] / (mbps[0] + mbps[1])
    };
    let shares = [100, 150, 200].map(share);
    shares.iter().sum::<f64>() / shares.len() as f64
}

/// Mbps that each flow gets, its start left out.
fn goodputs(links: Vec<[LinkConfig; 2]>, flows: Vec<Flow>) -> Vec<f64> {
    let [from, to] = [10, 50].map(Duration::from_secs);
    let mut network = Network::new(links, flows);
    network.run_until(from);
    let before = network.received();
    network.run_until(to);
    let bytes = network.received().into_iter().zip(before);
    let seconds = (to - from).as_secs_f64();
    bytes
        .map(|(now, then)| (now - then) as f64 * 8e-6 / seconds)
        .collect()
}

fn link(mbps: f64, delay_ms: u64) -> LinkConfig {
    LinkConfig::new(Rate::from_mbps(mbps), Duration::from_millis(delay_ms))
}

fn flow(law: &str, links: &[usize], starts_ms: u64) -> Flow {
    Flow {
        transport: transport(law),
        links: links.to_vec(),
        starts: Duration::from_millis(starts_ms),
    }
}

fn transport(law: &str) -> Arc<TransportConfig> {
    let mut own = multipath();
    match law {
        CUBIC => {}
        RENO => {
            own.congestion_controller_factory(Arc::new(NewRenoConfig::default()));
        }
        _ => {
            let coupling = Coupling::new(law.parse().unwrap()).unwrap();
            return coupling.for_connection(&own);
        }
    }
    Arc::new(own)
}

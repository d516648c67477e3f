//! temporary
use manyway_control::registry::LawSpec;
use manyway_control::{Options, SenderConfig, SlowStartKind};
use manyway_network::*;
use manyway_scenario::*;
use manyway_units::{Rate, Time};
use std::time::Duration;

pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) experiment: Experiment,
    pub(crate) bound: f64,
}
fn flow(law: &str, paths: &[usize], n: usize) -> Flow {
    Flow {
        name: format!("{law}.{n}"),
        group: 0,
        law: law.parse::<LawSpec>().unwrap(),
        options: Options::default().with_slow_start(SlowStartKind::Standard),
        paths: paths.to_vec(),
        lifetimes: vec![],
        access: Some(LinkConfig {
            queue: Queue::DropTail(Limit::Packets(1000)),
            ..LinkConfig::new(Rate::from_mbps(1000.0), Duration::ZERO)
        }),
        extra_delay: Duration::ZERO,
        extra_return: Duration::ZERO,
        start: Time::ZERO,
        start_spread: Duration::from_secs(1),
        stop: None,
        size: None,
        rate: None,
        headers: 0,
        jitter: Duration::ZERO,
        sender: SenderConfig {
            packet_size: 1500,
            pacing: false,
            max_ack_delay: Duration::ZERO,
            ..Default::default()
        },
        ack: AckPolicy {
            every: 1,
            max_delay: Duration::ZERO,
            bytes: 40,
        },
        ecn: false,
    }
}
fn scene(
    name: &'static str,
    bound: f64,
    links: usize,
    mbps: f64,
    queue: u32,
    n: usize,
    secs: u32,
) -> Scene {
    let l = (0..links).map(|i| NamedLink {
        name: format!("l{i}"),
        config: LinkConfig {
            queue: Queue::DropTail(Limit::Packets(queue)),
            ..LinkConfig::new(Rate::from_mbps(mbps), Duration::from_millis(20))
        },
    });
    let p = (0..links).map(|i| PathSpec {
        name: format!("p{i}"),
        links: vec![i],
        reverse: vec![],
        return_delay: Duration::from_millis(20),
    });
    let mut flows = vec![];
    if links == 2 {
        for i in 0..n {
            flows.push(flow("lia", &[0, 1], i));
        }
    }
    for i in 0..n {
        flows.push(flow("reno", &[links - 1], i));
    }
    let duration = Duration::from_secs(1) * secs;
    Scene {
        name,
        bound,
        experiment: Experiment {
            name: name.into(),
            topology: Topology {
                links: l.collect(),
                paths: p.collect(),
            },
            groups: vec![],
            flows,
            duration,
            measure: Measure {
                from: Time::ZERO,
                until: Time::ZERO + duration,
                spans: vec![],
                interval: Duration::from_secs(1),
                series: vec![],
            },
        },
    }
}
pub(crate) fn all() -> Vec<Scene> {
    vec![
        scene("S1", 0.17, 1, 60.0, 100, 10, 100),
        scene("S2", 0.12, 2, 60.0, 100, 10, 100),
        scene("S2-100", 0.0, 2, 600.0, 1000, 100, 20),
        scene("S2-1000", 0.07, 2, 6000.0, 10000, 1000, 20),
    ]
}

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use manyway_network::LinkStats;
use manyway_scenario::Scenario;

use super::*;
use crate::packet::{RunResult, Simulation};

/// Keeps everything.
#[derive(Debug, Clone, Default)]
struct Kept(Arc<Mutex<Vec<Event>>>);

impl Observer for Kept {
    fn wants(&self, _: usize) -> bool {
        true
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.0.lock().unwrap().push(*event);
        Ok(())
    }

    fn end(&mut self, _: Time) -> io::Result<()> {
        Ok(())
    }
}

/// Two flows of two subflows each, with reverse links, at this queue of the first link.
fn experiment(queue: &str) -> Experiment {
    let text = format!(
        r#"
        name = "two by two"
        duration = "3 s"
        links.a = {{ rate = "10 Mbps", delay = "7 ms", loss = 0.005, queue = {queue} }}
        links.b = {{ rate = "8 Mbps", delay = "9 ms", jitter = "3 ms",
            timetable = [{{ at = "1 s", up = false }}, {{ at = "1500 ms", up = true }}] }}
        links.back = {{ rate = "500 kbps", delay = "5 ms", queue = "5 packets" }}
        paths.one = {{ links = ["a"], reverse = ["back"] }}
        paths.two = {{ links = ["b", "a"] }}
        flows.f = {{ law = "reno", paths = ["one", "two"], count = 2, ecn = true }}
        measure = {{ from = "1 s", until = "2900 ms", percentiles = ["rtt", "queue"] }}
        "#
    );
    let scenario = Scenario::parse(&text, "test.toml").unwrap();
    scenario.points().unwrap().remove(0).experiment
}

const QUEUES: [&str; 4] = [
    r#""30 packets""#,
    r#"{ red = { limit = "60 packets", min = "5 packets", max = "20 packets", ecn = true } }"#,
    r#"{ codel = { limit = "60 packets", ecn = true } }"#,
    r#"{ fq_codel = { limit = "30 packets" } }"#,
];

fn observed(experiment: &Experiment) -> (RunResult, Vec<Event>, Vec<LinkStats>) {
    let mut simulation = Simulation::new(experiment, 1).unwrap();
    let kept = Kept::default();
    let result = simulation.run_observed(&AtomicBool::new(false), |_| {}, Box::new(kept.clone()));
    let stats = simulation.links().iter().map(|link| link.stats());
    let events = kept.0.lock().unwrap().clone();
    (result.unwrap(), events, stats.collect())
}

/// Everything that a link counts is told, in the order of time, and no queue has fewer than no
/// packets or more than it can hold.
#[test]
fn what_happens_is_what_links_count() {
    for queue in QUEUES {
        let experiment = experiment(queue);
        let (_, events, stats) = observed(&experiment);
        assert!(events.is_sorted_by_key(|event| event.at));
        for (link, stats) in stats.iter().enumerate() {
            let of = |what: &dyn Fn(What) -> bool| {
                let own = events.iter().filter(|event| event.link == link);
                own.filter(|event| what(event.what)).count() as u64
            };
            let drops = |wanted: DropReason| {
                of(&|what| matches!(what, What::Drop { reason, .. } if reason == wanted))
            };
            let outside = of(&|what| matches!(what, What::Drop { queued: false, .. }));
            assert_eq!(
                of(&|what| what == What::Enqueue) + outside,
                stats.offered,
                "{queue}"
            );
            assert_eq!(drops(DropReason::QueueFull), stats.dropped_queue);
            assert_eq!(drops(DropReason::Early), stats.dropped_early);
            assert_eq!(drops(DropReason::Forced), stats.dropped_forced);
            assert_eq!(drops(DropReason::Down), stats.dropped_down);
            // The last ones are under way when the run ends.
            let lost = drops(DropReason::RandomLoss);
            assert!(lost <= stats.dropped_random && lost + 3 > stats.dropped_random);
            assert_eq!(of(&|what| what == What::Mark), stats.marked, "{queue}");
            let own = events.iter().filter(|event| event.link == link);
            assert!(own.map(|event| event.queue).max() <= Some(61), "{queue}");
            let delivered = of(&|what| what == What::Deliver);
            assert!(delivered + 70 > stats.delivered && delivered <= stats.delivered);
        }
    }
}

/// An observer changes nothing, and the mean of the delays is the one that Little's law gives.
#[test]
fn an_observer_changes_nothing() {
    for queue in QUEUES {
        let experiment = experiment(queue);
        let (with, ..) = observed(&experiment);
        let mut plain = experiment.clone();
        plain.measure.percentiles = Default::default();
        let mut without = Simulation::new(&plain, 1).unwrap();
        let without = without.run(&AtomicBool::new(false));
        let mut stripped = with.clone();
        for link in &mut stripped.links {
            assert!(link.queue_delay_percentiles_s.take().is_some());
        }
        for subflow in stripped
            .flows
            .iter_mut()
            .flat_map(|flow| &mut flow.subflows)
        {
            assert!(subflow.rtt_percentiles_s.take().is_some());
        }
        assert_eq!(stripped, without, "{queue}");
    }
}

/// The percentiles beside those of the delays that the log has.
#[test]
fn percentiles_are_those_of_the_log() {
    for queue in QUEUES {
        let experiment = experiment(queue);
        let (result, events, _) = observed(&experiment);
        let mut came = std::collections::HashMap::new();
        let mut delays = Vec::new();
        let measured = Time::from_millis(1000)..Time::from_millis(2900);
        for event in events.iter().filter(|event| event.link == 0) {
            let packet = (event.packet.subflow, event.packet.number);
            match event.what {
                What::Enqueue => drop(came.insert(packet, event.at)),
                What::Transmit if measured.contains(&came[&packet]) => {
                    delays.push(event.at.since(came[&packet]).as_secs_f64());
                }
                _ => {}
            }
        }
        delays.sort_by(f64::total_cmp);
        let found = result.links[0].queue_delay_percentiles_s.unwrap();
        for (share, found) in [0.5, 0.95, 0.99].into_iter().zip(found) {
            let exact = delays[(share * delays.len() as f64).ceil() as usize - 1];
            assert!(
                (found / exact - 1.0).abs() < 1.0 / 128.0,
                "{queue}: {share}: {found} {exact}"
            );
        }
        let [p50, p95, p99] = result.flows[0].subflows[0].rtt_percentiles_s.unwrap();
        assert!(
            0.012 < p50 && p50 <= p95 && p95 <= p99 && p99 < 0.2,
            "{p50} {p95} {p99}"
        );
    }
}

/// A disk that is full after so many events.
#[derive(Debug)]
struct Full(u32);

impl Observer for Full {
    fn wants(&self, _: usize) -> bool {
        true
    }

    fn event(&mut self, _: &Event) -> io::Result<()> {
        self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
        Ok(())
    }

    fn end(&mut self, _: Time) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_run() {
    let experiment = experiment(QUEUES[0]);
    let mut simulation = Simulation::new(&experiment, 1).unwrap();
    let result = simulation.run_observed(&AtomicBool::new(false), |_| {}, Box::new(Full(100)));
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::StorageFull);
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The options that begin at `at`.
fn options(block: &[u8], mut at: usize) -> Vec<(u16, Vec<u8>)> {
    let mut found = Vec::new();
    while at + 4 < block.len() {
        let (code, len) = (u16_at(block, at), usize::from(u16_at(block, at + 2)));
        found.push((code, block[at + 4..at + 4 + len].to_vec()));
        at += 4 + len.next_multiple_of(4);
    }
    found
}

/// The file is one that section 4 of the draft describes, and has each packet that a link sends.
#[test]
fn a_capture_has_what_links_send() {
    let experiment = experiment(QUEUES[1]);
    let (_, events, stats) = observed(&experiment);
    // Links a and back.
    let mut simulation = Simulation::new(&experiment, 1).unwrap();
    let file = Shared::default();
    let pcapng = Pcapng::new(file.clone(), &experiment, &[0, 2]).unwrap();
    let stop = AtomicBool::new(false);
    simulation
        .run_observed(&stop, |_| {}, Box::new(pcapng))
        .unwrap();
    let bytes = file.0.lock().unwrap().clone();

    let mut sent = events.iter();
    let mut sent = sent
        .by_ref()
        .filter(|e| e.link != 1 && e.what == What::Transmit);
    let mut at = 0;
    let mut kinds = Vec::new();
    while at < bytes.len() {
        let (kind, len) = (u32_at(&bytes, at), u32_at(&bytes, at + 4) as usize);
        let block = &bytes[at..at + len];
        assert_eq!((len % 4, u32_at(block, len - 4) as usize), (0, len));
        at += len;
        kinds.push(kind);
        match kind {
            0x0a0d_0d0a => assert_eq!(u32_at(block, 8), 0x1a2b_3c4d),
            1 => {
                let options = options(block, 16);
                let name: &[u8] = if kinds.len() == 2 { b"a" } else { b"back" };
                assert_eq!(u16_at(block, 8), 101);
                assert!(options.contains(&(2, name.to_vec())));
                assert!(options.contains(&(9, vec![9])));
            }
            6 => {
                let event = sent.next().unwrap();
                assert_eq!(u32_at(block, 8) as usize, event.link / 2);
                let time = u64::from(u32_at(block, 12)) << 32 | u64::from(u32_at(block, 16));
                assert_eq!(time, event.at.as_nanos());
                assert_eq!(
                    (u32_at(block, 20), u32_at(block, 24)),
                    (28, event.packet.bytes)
                );
                check_headers(&block[28..56], &event.packet);
                let id = options(block, 56)[0].1[0];
                assert_eq!(id, event.packet.number.unwrap() as u8);
            }
            5 => {
                let link = 2 * u32_at(block, 8) as usize;
                let options = options(block, 20);
                let count = |n: usize| u64::from_le_bytes(options[n].1[..].try_into().unwrap());
                assert_eq!(count(0), stats[link].offered);
                let dropped = stats[link].dropped();
                assert!(count(1) <= dropped && count(1) + 1 >= dropped);
                assert!(dropped > 0 || link > 0);
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(sent.next(), None);
    assert_eq!(kinds[..3], [0x0a0d_0d0a, 1, 1]);
    assert_eq!(kinds[kinds.len() - 2..], [5, 5]);
}

/// The headers are what RFC 791 and RFC 768 say, and whose the packet is can be read there.
fn check_headers(header: &[u8], packet: &Seen) {
    let word = |at: usize| u32::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let sum: u32 = (0..20).step_by(2).map(word).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum");
    assert_eq!((header[0], header[9]), (0x45, 17));
    assert_eq!(word(2), packet.bytes);
    assert_eq!(word(24), packet.bytes - 20);
    assert_eq!(header[1], packet.ecn as u8);
    assert_ne!(packet.ecn, Ecn::Ect1);
    let flow = (packet.subflow / 2) as u8;
    let mut ends = [
        ([10, 0, 0, 2 * flow + 1], 49152 + packet.subflow % 2),
        ([10, 0, 0, 2 * flow + 2], 4433),
    ];
    if packet.back {
        ends.reverse();
    }
    assert_eq!(
        (&header[12..16], &header[16..20]),
        (&ends[0].0[..], &ends[1].0[..])
    );
    assert_eq!((word(20), word(22)), (ends[0].1, ends[1].1));
}

/// A file in memory.
#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

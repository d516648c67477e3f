//! How long a transfer would take without anything to wait for.

use std::collections::BTreeMap;

use manyway_network::{LinkConfig, Topology};
use manyway_scenario::Flow;

/// The least time that a flow's transfers take: as if its windows were open from the start, nobody
/// else were there, and links that change were always as fast as they ever are. A transfer's
/// slowdown is its time over this.
#[derive(Debug, Copy, Clone, PartialEq)]
pub struct Alone {
    /// Seconds of propagation, there and back, on the path with the fastest first packet.
    delay: f64,
    /// Seconds for each byte of the first packet there, and for all of its acknowledgement.
    first_byte: f64,
    acknowledgement: f64,
    /// Bytes in a second, on all paths together.
    rate: f64,
    /// Bytes in a second where policers limit the paths, and those that may pass at once before.
    policed: f64,
    burst: f64,
    /// Slowest links: each has a first packet.
    links: u64,
    /// Bytes of a full packet.
    packet: u32,
    /// Bytes of payload in it.
    payload: u32,
    /// Seconds in which the application has another byte of payload.
    production: f64,
}

/// A link at its best.
#[derive(Debug, Copy, Clone)]
struct Best {
    /// Bytes in a second, and seconds.
    rate: f64,
    delay: f64,
    /// What its policer lets pass in a second, and at once.
    policed: f64,
    burst: f64,
}

impl Alone {
    /// Each path counts with its slowest link; one that is the slowest of several paths counts
    /// once.
    pub fn of(topology: &Topology, flow: &Flow) -> Self {
        let packet = flow.sender.packet_size;
        let payload = packet.saturating_sub(flow.headers).max(1);
        let (mut slowest, mut policed) = (BTreeMap::new(), BTreeMap::new());
        // Delay, seconds for each byte, and for an acknowledgement.
        let mut first = (f64::INFINITY, 0.0, 0.0);
        for (n, path) in flow.paths.iter().enumerate() {
            let Some(path) = topology.paths.get(*path) else {
                continue;
            };
            let link = |index: &usize| {
                let link = topology.links.get(*index);
                link.map(|link| (*index, Best::of(&link.config)))
            };
            // A private link has a number that no other has.
            let own = flow.access.as_deref();
            let own = own.map(|link| (topology.links.len() + n, Best::of(link)));
            let there: Vec<(usize, Best)> = own
                .into_iter()
                .chain(path.links.iter().filter_map(link))
                .collect();
            let back: Vec<Best> = (path.reverse.iter().filter_map(link))
                .map(|(_, link)| link)
                .collect();
            let fixed = (flow.extra_delay + path.return_delay + flow.extra_return).as_secs_f64();
            let delays = there.iter().map(|(_, link)| link.delay);
            let delay =
                fixed + delays.sum::<f64>() + back.iter().map(|link| link.delay).sum::<f64>();
            let byte: f64 = there.iter().map(|(_, link)| link.rate.recip()).sum();
            let ack: f64 = back.iter().map(|link| link.rate.recip()).sum();
            let ack = ack * f64::from(flow.ack.bytes);
            let time = |(delay, byte, ack): (f64, f64, f64)| delay + byte * f64::from(packet) + ack;
            if time((delay, byte, ack)) < time(first) {
                first = (delay, byte, ack);
            }
            let least = |rate: fn(&Best) -> f64| {
                let links = there.iter();
                links.min_by(|a, b| rate(&a.1).total_cmp(&rate(&b.1)))
            };
            slowest.extend(least(|link| link.rate).copied());
            policed.extend(least(|link| link.policed).copied());
        }
        Self {
            delay: first.0,
            first_byte: first.1,
            acknowledgement: first.2,
            rate: slowest.values().map(|link| link.rate).sum(),
            policed: policed.values().map(|link| link.policed).sum(),
            burst: policed.values().map(|link| link.burst).sum(),
            links: slowest.len() as u64,
            packet,
            payload,
            production: flow.rate.map_or(0.0, |rate| rate.bytes_per_sec().recip()),
        }
    }

    /// Seconds for a transfer of so many bytes of payload, until all are acknowledged. `whole`: all
    /// packets are full ones, the last one too.
    pub fn seconds(&self, bytes: u64, whole: bool) -> f64 {
        let packets = bytes.div_ceil(u64::from(self.payload)).max(1);
        let headers = u64::from(self.packet - self.payload);
        let (packet, all) = match whole {
            true => (self.packet, packets * u64::from(self.packet)),
            false => {
                let all = bytes + packets * headers;
                (all.min(u64::from(self.packet)) as u32, all)
            }
        };
        let first = self.delay + self.first_byte * f64::from(packet) + self.acknowledgement;
        let (all, firsts) = (all as f64, (self.links * u64::from(packet)) as f64);
        let further = (all - firsts).max(0.0);
        let policed = (all - firsts.max(self.burst)).max(0.0) / self.policed;
        let produced = bytes.saturating_sub(self.payload.into()) as f64 * self.production;
        first + (further / self.rate).max(policed).max(produced)
    }
}

impl Best {
    fn of(link: &LinkConfig) -> Self {
        let changes = || link.timetable.changes.iter();
        let rates = changes().filter_map(|change| change.rate);
        let rates = rates.map(|rate| rate.bytes_per_sec());
        let delays = changes().filter_map(|change| change.delay);
        let rate = rates.fold(link.rate.bytes_per_sec(), f64::max);
        let (policed, burst) = match link.policer {
            Some(policer) if policer.rate.bytes_per_sec() < rate => {
                (policer.rate.bytes_per_sec(), policer.burst as f64)
            }
            _ => (rate, 0.0),
        };
        Self {
            rate,
            delay: delays.fold(link.delay, Ord::min).as_secs_f64(),
            policed,
            burst,
        }
    }
}

#[cfg(test)]
mod tests {
    use manyway_scenario::Scenario;

    use super::*;

    /// Seconds of a transfer alone over a link of 10 Mbps and 10 ms, back in no time.
    fn alone(link: &str, flow: &str, bytes: u64, whole: bool) -> f64 {
        let text = format!(
            "name = \"one\"\nduration = \"9 s\"\n\
             [links.a]\nrate = \"10 Mbps\"\ndelay = \"10 ms\"\n{link}\n\
             [paths.a]\nlinks = [\"a\"]\nreturn_delay = \"0 ms\"\n\
             [flows.one]\nlaw = \"reno\"\npaths = [\"a\"]\nheaders = \"52 B\"\n{flow}\n"
        );
        let scenario = Scenario::parse(&text, "one.toml").unwrap();
        let experiment = &scenario.points().unwrap()[0].experiment;
        Alone::of(&experiment.topology, &experiment.flows[0]).seconds(bytes, whole)
    }

    fn assert_close(found: f64, expected: f64) {
        assert!(
            (found / expected - 1.0).abs() < 1e-9,
            "{found}, not {expected}"
        );
    }

    #[test]
    fn packets_one_behind_the_other() {
        // 691 packets of 1500 B, and 10 ms.
        assert_close(alone("", "", 1_000_000, true), 691.0 * 0.0012 + 0.01);
        let bytes = 1_000_000.0 + 691.0 * 52.0;
        assert_close(alone("", "", 1_000_000, false), bytes * 0.8e-6 + 0.01);
        assert_close(alone("", "", 100, true), 0.0112);
        assert_close(alone("", "", 100, false), 152.0 * 0.8e-6 + 0.01);
    }

    #[test]
    fn links_count_as_they_are_at_their_best() {
        let faster = "timetable = [{ at = \"1 s\", rate = \"100 Mbps\" }, \
                      { at = \"2 s\", rate = \"1 Mbps\", delay = \"4 ms\" }]";
        assert_close(alone(faster, "", 1_000_000, true), 691.0 * 0.00012 + 0.004);
    }

    #[test]
    fn policers_and_applications_take_their_time() {
        let policer = "policer = { rate = \"2 Mbps\", burst = \"15 kB\" }";
        let packets = 691.0 * 1500.0;
        let first = 0.0112;
        assert_close(
            alone(policer, "", 1_000_000, true),
            (packets - 15_000.0) * 4e-6 + first,
        );
        assert_close(
            alone("", "rate = \"1 Mbps\"", 1_000_000, true),
            (1_000_000.0 - 1448.0) * 8e-6 + first,
        );
        // A burst passes at the link's rate.
        assert_close(alone(policer, "", 10_000, true), 7.0 * 0.0012 + 0.01);
    }
}

//! What a live network is made of: hosts, addresses, and routes over links, by index. Nothing here
//! touches the system.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use manyway_network::{Limit, LinkConfig, Queue};
use manyway_scenario::{Experiment, Flow};
use manyway_units::Rate;

/// The rate of links that stand for a delay or for jitter and for nothing else.
const INSTANT_MBPS: f64 = 100_000.0;

/// The receiver's port of the first flow; the next ones count up from it. By the port, the emulator
/// knows whose packet it has.
pub(crate) const FIRST_PORT: u16 = 9000;

/// Most ways: their numbers are in their addresses.
const MAX_WAYS: usize = 4096;

/// Most flows: each is two processes or two threads, and a port.
const MAX_FLOWS: usize = 1000;

/// A sender and a receiver, a network namespace each, with a way between them for each of their
/// paths. Flows with the same list of paths share their hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// The sender's namespace.
    pub sender: String,
    /// The receiver's.
    pub receiver: String,
    /// Their paths, as indices of the topology's.
    pub paths: Vec<usize>,
    /// The first of their ways, one for each path.
    pub first_way: usize,
}

/// A path between two hosts: a device at each end, and the routes of what enters there.
#[derive(Debug, Clone)]
pub struct Way {
    /// Index of its hosts.
    pub hosts: usize,
    /// The devices' name, at both ends.
    pub device: String,
    /// The sender's address and the receiver's.
    pub addresses: [Ipv4Addr; 2],
    /// From the sender, and back.
    pub(crate) directions: [Direction; 2],
}

/// Where packets go that enter at one end of a way.
#[derive(Debug, Clone)]
pub(crate) struct Direction {
    /// Those that belong to no flow.
    pub(crate) other: Arc<[usize]>,
    /// By the port at the receiver: the route, and the subflow.
    pub(crate) flows: HashMap<u16, (Arc<[usize]>, usize)>,
}

/// A network, and where its flows are.
#[derive(Debug, Clone)]
pub struct Plan {
    /// All pairs of hosts.
    pub hosts: Vec<Hosts>,
    /// All ways, those of a pair of hosts side by side.
    pub ways: Vec<Way>,
    /// The hosts of each flow.
    pub hosts_of: Vec<usize>,
    /// The topology's links, then private ones.
    pub(crate) links: Vec<LinkConfig>,
    /// Number of the topology's links.
    pub(crate) named: usize,
    /// Number of the flows' subflows; they are numbered in the experiment's order.
    pub(crate) subflows: usize,
}

impl Plan {
    /// The network of all flows of an experiment.
    ///
    /// # Errors
    /// If there are too many of something.
    pub fn of_flows(experiment: &Experiment) -> Result<Self, String> {
        let count = experiment.flows.len();
        if count > MAX_FLOWS {
            return Err(format!(
                "{count} flows are too many for one machine: a live run has at most {MAX_FLOWS}"
            ));
        }
        let mut plan = Self::empty(experiment);
        for (index, flow) in experiment.flows.iter().enumerate() {
            let hosts = plan.hosts_with(experiment, &flow.paths)?;
            plan.hosts_of.push(hosts);
            plan.add_flow(experiment, flow, FIRST_PORT + index as u16, hosts);
        }
        Ok(plan)
    }

    /// One pair of hosts with all paths of the topology.
    ///
    /// # Errors
    /// If there are too many paths.
    pub fn of_paths(experiment: &Experiment) -> Result<Self, String> {
        let mut plan = Self::empty(experiment);
        let all: Vec<usize> = (0..experiment.topology.paths.len()).collect();
        plan.hosts_with(experiment, &all)?;
        Ok(plan)
    }

    /// The ways between two hosts.
    pub fn ways_of(&self, hosts: usize) -> &[Way] {
        let Hosts {
            paths, first_way, ..
        } = &self.hosts[hosts];
        &self.ways[*first_way..first_way + paths.len()]
    }

    fn empty(experiment: &Experiment) -> Self {
        let links = experiment.topology.links.iter();
        let named = links.len();
        Self {
            hosts: Vec::new(),
            ways: Vec::new(),
            hosts_of: Vec::new(),
            links: links.map(|link| link.config.clone()).collect(),
            named,
            subflows: 0,
        }
    }

    /// The hosts with these paths.
    fn hosts_with(&mut self, experiment: &Experiment, paths: &[usize]) -> Result<usize, String> {
        if let Some(known) = self.hosts.iter().position(|hosts| hosts.paths == paths) {
            return Ok(known);
        }
        let hosts = self.hosts.len();
        let named = |end: &str| match hosts {
            0 => end.to_owned(),
            n => format!("{end}{}", n + 1),
        };
        self.hosts.push(Hosts {
            sender: named("sender"),
            receiver: named("receiver"),
            paths: paths.to_vec(),
            first_way: self.ways.len(),
        });
        for &path in paths {
            let number = self.ways.len() + 1;
            if number > MAX_WAYS {
                return Err(format!(
                    "the flows have more than {MAX_WAYS} paths between their hosts: use fewer"
                ));
            }
            let spec = &experiment.topology.paths[path];
            let back = self.back(&spec.reverse, spec.return_delay);
            let address = |last| Ipv4Addr::new(10, (number >> 8) as u8, number as u8, last);
            let direction = |route: &[usize]| Direction {
                other: route.into(),
                flows: HashMap::new(),
            };
            self.ways.push(Way {
                hosts,
                device: format!("path{}", path + 1),
                addresses: [address(1), address(2)],
                directions: [direction(&spec.links), direction(&back)],
            });
        }
        Ok(hosts)
    }

    /// Private links before and behind the paths' own.
    fn add_flow(&mut self, experiment: &Experiment, flow: &Flow, port: u16, hosts: usize) {
        let first_way = self.hosts[hosts].first_way;
        for (n, &path) in flow.paths.iter().enumerate() {
            let spec = &experiment.topology.paths[path];
            let mut there = Vec::new();
            if !flow.jitter.is_zero() {
                let jitter = flow.jitter;
                there.push(self.private(LinkConfig {
                    jitter,
                    ..instant(Duration::ZERO)
                }));
            }
            let access = flow.access.as_deref().cloned();
            there.extend(access.map(|access| self.private(access)));
            there.extend(&spec.links);
            if !flow.extra_delay.is_zero() {
                there.push(self.private(instant(flow.extra_delay)));
            }
            let delay = spec.return_delay.saturating_add(flow.extra_return);
            let back = self.back(&spec.reverse, delay);
            for (direction, route) in self.ways[first_way + n]
                .directions
                .iter_mut()
                .zip([there, back])
            {
                direction.flows.insert(port, (route.into(), self.subflows));
            }
            self.subflows += 1;
        }
    }

    fn private(&mut self, link: LinkConfig) -> usize {
        self.links.push(link);
        self.links.len() - 1
    }

    /// The reverse links, and a delay.
    fn back(&mut self, reverse: &[usize], delay: Duration) -> Vec<usize> {
        let mut back = reverse.to_vec();
        if back.is_empty() || !delay.is_zero() {
            back.push(self.private(instant(delay)));
        }
        back
    }

    /// Parts of the network that have no link in common, each a list of links. Ways back over
    /// private links alone are one part.
    pub(crate) fn parts(&self) -> Vec<Vec<usize>> {
        let mut part: Vec<usize> = (0..self.links.len()).collect();
        fn root(part: &mut [usize], mut link: usize) -> usize {
            while part[link] != link {
                part[link] = part[part[link]];
                link = part[link];
            }
            link
        }
        let mut join = |a: usize, b: usize| {
            let (a, b) = (root(&mut part, a), root(&mut part, b));
            part[a.max(b)] = a.min(b);
        };
        let mut delays = None;
        for way in &self.ways {
            for (n, direction) in way.directions.iter().enumerate() {
                let flows = direction.flows.values().map(|(route, _)| route);
                // Whoever reads a device knows all its routes.
                let first = direction.other[0];
                for route in flows.chain([&direction.other]) {
                    route.iter().for_each(|link| join(first, *link));
                }
                if n == 1 && first >= self.named {
                    join(*delays.get_or_insert(first), first);
                }
            }
        }
        let mut parts: HashMap<usize, Vec<usize>> = HashMap::new();
        for link in 0..self.links.len() {
            parts.entry(root(&mut part, link)).or_default().push(link);
        }
        let mut parts: Vec<_> = parts.into_values().collect();
        parts.sort();
        parts
    }
}

/// A delay and nothing else.
fn instant(delay: Duration) -> LinkConfig {
    LinkConfig {
        queue: Queue::DropTail(Limit::Packets(u32::MAX)),
        ..LinkConfig::new(Rate::from_mbps(INSTANT_MBPS), delay)
    }
}

#[cfg(test)]
mod tests {
    use manyway_scenario::Scenario;

    use super::*;

    fn experiment(flows: &str) -> Experiment {
        let text = format!(
            r#"
            name = "plan"
            duration = "10 s"
            [links]
            a = {{ rate = "10 Mbps", delay = "10 ms" }}
            b = {{ rate = "20 Mbps", delay = "10 ms" }}
            shared = {{ rate = "5 Mbps", delay = "1 ms" }}
            back = {{ rate = "1 Mbps", delay = "1 ms" }}
            [paths]
            a = {{ links = ["a", "shared"], reverse = ["back"] }}
            b = {{ links = ["b"], return_delay = "7 ms" }}
            c = {{ links = ["shared"] }}
            {flows}
            "#
        );
        let scenario = Scenario::parse(&text, "plan.toml").unwrap();
        scenario.live_points().unwrap().remove(0).experiment
    }

    #[test]
    fn flows_with_the_same_paths_share_hosts_and_have_routes_of_their_own() {
        let experiment = experiment(
            r#"
            [flows.one]
            law = "kernel:mptcp:cubic"
            paths = ["a", "b"]
            count = 2
            delay_step = "3 ms"
            [flows.two]
            law = "lia"
            paths = ["c"]
            jitter = "1 ms"
            access = { rate = "3 Mbps" }
            "#,
        );
        let plan = Plan::of_flows(&experiment).unwrap();
        assert_eq!(plan.hosts_of, [0, 0, 1]);
        assert_eq!(plan.subflows, 5);
        let names = |hosts: &Hosts| (hosts.sender.clone(), hosts.receiver.clone());
        assert_eq!(names(&plan.hosts[0]), ("sender".into(), "receiver".into()));
        assert_eq!(
            names(&plan.hosts[1]),
            ("sender2".into(), "receiver2".into())
        );
        let addresses: Vec<String> = plan
            .ways
            .iter()
            .map(|way| way.addresses[1].to_string())
            .collect();
        assert_eq!(addresses, ["10.0.1.2", "10.0.2.2", "10.0.3.2"]);

        let route = |way: usize, direction: usize, port: u16| {
            let (route, subflow) = &plan.ways[way].directions[direction].flows[&port];
            (route.to_vec(), *subflow)
        };
        // The second flow is 3 ms farther away, and its acknowledgements are, too.
        assert_eq!(route(0, 0, 9000), (vec![0, 2], 0));
        assert_eq!(route(0, 1, 9000), (vec![3], 0));
        let (farther, subflow) = route(1, 0, 9001);
        assert_eq!((farther.len(), farther[0], subflow), (2, 1, 3));
        assert_eq!(plan.links[farther[1]].delay, Duration::from_millis(3));
        let (back, _) = route(1, 1, 9001);
        assert_eq!(plan.links[back[0]].delay, Duration::from_millis(10));
        // Jitter, the access link, and the path's.
        let (there, _) = route(2, 0, 9002);
        assert_eq!(plan.links[there[0]].jitter, Duration::from_millis(1));
        assert_eq!(plan.links[there[1]].rate, Rate::from_mbps(3.0));
        assert_eq!(there[2..], [2]);
    }

    #[test]
    fn links_that_no_way_joins_are_apart() {
        let experiment = experiment("[flows.one]\nlaw = \"lia\"\npaths = [\"a\", \"b\", \"c\"]");
        let plan = Plan::of_paths(&experiment).unwrap();
        // The shared link joins `a` and `c`; return paths without links are one part.
        let parts = plan.parts();
        assert_eq!(parts[..3], [vec![0, 2], vec![1], vec![3]]);
        assert_eq!(parts.len(), 4);
        assert_eq!(parts[3].len(), 2, "{parts:?}");
        assert_eq!(parts.concat().len(), plan.links.len());
    }
}

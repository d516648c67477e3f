//! Writes runs on the synthetic PlanetLab as scenario files, as `manyway run` takes them.

use std::collections::BTreeMap;
use std::fmt::Write;

use rand::RngExt;

use super::assumptions::Background;
use super::network::{Kind, Link, Network, Node, STEP_S, stream};

/// Packets, headers included; UDP on PlanetLab avoided fragments.
const PACKET_BYTES: f64 = 1250.0;
/// Packets that a queue holds at least.
const MIN_QUEUE: f64 = 5.0;

/// What is run.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) law: Law,
    /// Source and destination of each connection; all start within two seconds.
    pub(crate) pairs: Vec<(Node, Node)>,
    pub(crate) duration_s: u32,
    /// Which part of the links' history it meets, in multiples of the duration: 0 is the first, 1
    /// what comes right after it.
    pub(crate) epoch: u32,
    /// Whether to record rates and windows over time.
    pub(crate) series: bool,
}

/// Who carries the data.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub(crate) enum Law {
    /// mPath with a list of so many relays.
    Mpath(usize),
    /// One Reno flow on the direct path.
    Tcp,
}

/// The time between two values of a series, seconds.
pub(crate) const INTERVAL_S: f64 = 5.0;

/// A path: its name and its links.
type Path = (String, Vec<Link>);

impl Network {
    /// The run as a scenario file.
    pub(crate) fn scenario(&self, run: &Run) -> String {
        let mut links = BTreeMap::new();
        let (mut paths, mut flows) = (String::new(), String::new());
        for (number, &(from, to)) in run.pairs.iter().enumerate() {
            let known = self.paths(run.law, (from, to), number);
            let back = self.route(to, from).iter().map(|link| link.delay_ms).sum();
            for path in &known {
                write_path(&mut paths, path, back);
            }
            self.write_flow(&mut flows, run.law, number, &known);
            let used = known.into_iter().flat_map(|(_, links)| links);
            links.extend(used.map(|link| (link.name.clone(), link)));
        }
        let flows_on = self.background(run);
        let direct = self.direct(run);
        let mut text = self.head(run);
        for link in links.values() {
            // A link leaves its rate to each flow, so to each connection whose direct way it is.
            let ours = direct.get(&link.name).copied().unwrap_or(1);
            self.write_link(&mut text, link, (run, flows_on(link) + ours));
        }
        text.push_str(&paths);
        text.push_str(&flows);
        for link in links.values() {
            write_background(&mut text, link, flows_on(link));
        }
        text
    }

    /// The paths of a connection, the direct one first.
    fn paths(&self, law: Law, (from, to): (Node, Node), number: usize) -> Vec<Path> {
        let mut paths = vec![(format!("c{number}-direct"), self.route(from, to))];
        if let Law::Mpath(count) = law {
            for relay in self.candidates((from, to), count) {
                let links = self.detour(from, relay, to);
                paths.push((format!("c{number}-relay{relay}"), links));
            }
        }
        paths
    }

    /// The relays that the registration server names to a source: the first so many of a random
    /// order, so that longer lists contain shorter ones.
    fn candidates(&self, (from, to): (Node, Node), count: usize) -> Vec<usize> {
        let purpose = format!("candidates {} {}", from.name(), to.name());
        let mut rng = stream(self.assumptions.seed, &purpose);
        let mut order: Vec<usize> = (0..self.relays.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, rng.random_range(0..=last));
        }
        order.retain(|&relay| Node::Relay(relay) != from && Node::Relay(relay) != to);
        order.truncate(count);
        order
    }

    fn head(&self, run: &Run) -> String {
        let series = match run.series {
            true => format!("series = [\"rate\", \"window\"]\ninterval = \"{INTERVAL_S} s\"\n"),
            false => String::new(),
        };
        let (duration, half) = (run.duration_s, run.duration_s / 2);
        format!(
            "name = \"Synthetic PlanetLab\"\n\
             about = \"{} connections, {:?}, epoch {}\"\n\
             duration = \"{duration} s\"\n\
             seed = {}\n\n\
             [defaults]\n\
             pacing = false\n\
             slow_start = \"standard\"\n\
             jitter = \"1 ms\"\n\
             packet_size = \"{PACKET_BYTES} B\"\n\
             start_spread = \"2 s\"\n\n\
             [measure]\n{series}\
             spans = [{{ name = \"late\", from = \"{half} s\", until = \"{duration} s\" }}]\n\n",
            run.pairs.len(),
            run.law,
            run.epoch,
            self.assumptions.seed,
        )
    }

    /// How many direct ways each congested link is on.
    fn direct(&self, run: &Run) -> BTreeMap<String, u32> {
        let routes = run
            .pairs
            .iter()
            .flat_map(|&(from, to)| self.route(from, to));
        let mut ways = BTreeMap::new();
        for link in routes.filter(|link| link.kind == Kind::Congested) {
            *ways.entry(link.name).or_default() += 1;
        }
        ways
    }

    /// How many flows of others are on a link.
    fn background(&self, run: &Run) -> impl Fn(&Link) -> u32 {
        let access = |&(from, to): &(Node, Node)| self.site(from).up.min(self.site(to).down);
        let most = run.pairs.iter().map(access).fold(0.0, f64::max);
        let background = self.assumptions.background;
        move |link| match background {
            Background::Elastic(flows)
                if link.kind == Kind::Congested && link.rate < 2.0 * most =>
            {
                flows
            }
            _ => 0,
        }
    }

    fn write_link(&self, text: &mut String, link: &Link, (run, shares): (&Run, u32)) {
        let steps = (f64::from(run.duration_s) / STEP_S).ceil() as usize;
        let from = run.epoch as usize * steps;
        let factors = match link.kind {
            Kind::Ample => vec![1.0],
            _ => self.sway(link, (from, from + steps)),
        };
        let mean = link.rate * f64::from(shares) * self.assumptions.scale * 1000.0;
        let rate = |factor: f64| format!("{:.1} kbps", mean * factor);
        let queue = (mean * self.assumptions.queue_s * 125.0 / PACKET_BYTES)
            .max(MIN_QUEUE)
            .round();
        let _ = write!(
            text,
            "[links.{}]\nrate = \"{}\"\ndelay = \"{:.3} ms\"\nqueue = \"{queue} packets\"\n",
            link.name,
            rate(factors[0]),
            link.delay_ms,
        );
        if self.is_dead(link) {
            text.push_str("timetable = [{ at = \"0 s\", up = false }]\n\n");
            return;
        }
        let changes = factors.iter().enumerate().skip(1);
        let changes = changes.map(|(step, &factor)| {
            format!(
                "{{ at = \"{} s\", rate = \"{}\" }}",
                step as f64 * STEP_S,
                rate(factor)
            )
        });
        let changes: Vec<String> = changes.collect();
        if !changes.is_empty() {
            let _ = writeln!(text, "timetable = [{}]", changes.join(", "));
        }
        text.push('\n');
    }

    /// The outgoing link of a relay that doesn't answer.
    fn is_dead(&self, link: &Link) -> bool {
        let relay = link.name.strip_prefix("relay");
        let relay = relay.and_then(|rest| rest.strip_suffix("-up"));
        let relay: Option<usize> = relay.and_then(|number| number.parse().ok());
        relay.is_some_and(|relay| self.relays[relay].dead)
    }

    fn write_flow(&self, text: &mut String, law: Law, number: usize, paths: &[Path]) {
        let names: Vec<String> = paths
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let law = match law {
            Law::Mpath(_) => format!("law = \"mpath\"\nrelays = {}", self.assumptions.manager),
            Law::Tcp => "law = \"reno\"".to_owned(),
        };
        let paths = names.join(", ");
        let _ = write!(text, "[flows.c{number}]\n{law}\npaths = [{paths}]\n\n");
    }
}

fn write_background(text: &mut String, link: &Link, flows: u32) {
    if flows == 0 {
        return;
    }
    let name = &link.name;
    let _ = write!(
        text,
        "[paths.{name}]\nlinks = [\"{name}\"]\n\n\
         [flows.{name}]\nlaw = \"reno\"\npaths = [\"{name}\"]\ncount = {flows}\n\
         extra_delay = \"10 ms\"\ndelay_step = \"20 ms\"\n\n",
    );
}

/// Acknowledgements take the direct return path whatever path the data took (section 2.2), `back`
/// ms.
fn write_path(text: &mut String, (name, links): &Path, back: f64) {
    let links: Vec<String> = links
        .iter()
        .map(|link| format!("\"{}\"", link.name))
        .collect();
    let _ = write!(
        text,
        "[paths.{name}]\nlinks = [{}]\nreturn_delay = \"{back:.3} ms\"\n\n",
        links.join(", "),
    );
}

//! Scenarios with the topologies of textbooks and papers, written as files that anybody can change.

mod graph;
mod regular;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::time::Duration;

use manyway_control::LawSpec;
use manyway_units::Rate;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use graph::Graph;

/// What a generated network looks like.
#[derive(Debug, Copy, Clone, PartialEq)]
pub enum Shape {
    /// Pairs of hosts with links of their own on either side of one bottleneck.
    Dumbbell {
        /// Number of pairs.
        pairs: u32,
    },
    /// Links in a row, a flow over all of them, and one over each.
    ParkingLot {
        /// Number of links.
        hops: u32,
    },
    /// Three layers of switches with `ports` ports each (Al-Fares et al., "A scalable, commodity
    /// data center network architecture", SIGCOMM 2008), and as many flows as hosts: each host
    /// sends to another and receives from one.
    FatTree {
        /// Ports of each switch: an even number.
        ports: u32,
    },
    /// Nodes at random places in a square; two at distance d are connected with probability
    /// α exp(−d / (β L)), where L is the diagonal (Waxman, "Routing of multipoint connections",
    /// JSAC 1988).
    Waxman {
        /// Number of nodes.
        nodes: u32,
        /// α, above 0 and at most 1: more links of any length.
        alpha: f64,
        /// β, above 0 and at most 1: more long links.
        beta: f64,
    },
    /// Nodes that come one after the other and connect to `links` others, in proportion to the
    /// links that those have (Barabási and Albert, "Emergence of scaling in random networks",
    /// Science 1999).
    BarabasiAlbert {
        /// Number of nodes.
        nodes: u32,
        /// Links of each new node.
        links: u32,
    },
}

/// What else a generated scenario has.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// The law of all flows.
    pub law: LawSpec,
    /// The rate of the bottleneck, or of every link.
    pub rate: Rate,
    /// The one-way delay of a link; of the square's diagonal in a Waxman graph.
    pub delay: Duration,
    /// Length of a run.
    pub duration: Duration,
    /// Paths of each flow, where there are so many; those of a graph have no link in common.
    pub subflows: u32,
    /// Flows in a random graph, each between two random nodes.
    pub flows: u32,
    /// Seed of everything that is random about the network.
    pub seed: u64,
}

/// A network that can't be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// A number is out of range.
    #[error("{what} is out of range: choose {allowed}")]
    Range {
        /// The number, in words.
        what: &'static str,
        /// What it can be.
        allowed: &'static str,
    },
    /// Waxman's graph falls apart.
    #[error("none of 100 such graphs was connected: choose more nodes, or a larger alpha or beta")]
    Disconnected,
}

/// Writes a scenario. The same arguments give the same text.
///
/// # Errors
/// [`Impossible`] if there is no such network.
pub fn generate(shape: Shape, traffic: &Traffic) -> Result<String, Impossible> {
    check(shape, traffic)?;
    let mut rng = Pcg64Mcg::seed_from_u64(traffic.seed);
    let (name, network) = match shape {
        Shape::Dumbbell { pairs } => {
            let name = format!("Dumbbell of {pairs} pairs");
            (name, regular::dumbbell(pairs, traffic))
        }
        Shape::ParkingLot { hops } => {
            let name = format!("Parking lot of {hops} links");
            (name, regular::parking_lot(hops, traffic))
        }
        Shape::FatTree { ports } => {
            let name = format!("Fat tree of {ports}-port switches");
            (name, regular::fat_tree(ports, traffic, &mut rng))
        }
        Shape::Waxman { nodes, alpha, beta } => {
            let graph = Graph::waxman(nodes, (alpha, beta), traffic, &mut rng);
            let graph = graph.ok_or(Impossible::Disconnected)?;
            let name = format!("Waxman graph of {nodes} nodes");
            (name, graph.network(traffic, &mut rng))
        }
        Shape::BarabasiAlbert { nodes, links } => {
            let graph = Graph::barabasi_albert(nodes, links, traffic, &mut rng);
            let name = format!("Barabási-Albert graph of {nodes} nodes");
            (name, graph.network(traffic, &mut rng))
        }
    };
    Ok(network.text(&name, traffic))
}

fn check(shape: Shape, traffic: &Traffic) -> Result<(), Impossible> {
    let within = |holds: bool, what, allowed| match holds {
        true => Ok(()),
        false => Err(Impossible::Range { what, allowed }),
    };
    let share = |x: f64| x > 0.0 && x <= 1.0;
    within(
        (1..=1000).contains(&traffic.subflows),
        "the number of subflows",
        "1 to 1000",
    )?;
    within(
        (1..=10_000).contains(&traffic.flows),
        "the number of flows",
        "1 to 10000",
    )?;
    within(!traffic.duration.is_zero(), "the duration", "more than 0 s")?;
    within(
        traffic.rate.bits_per_sec() >= 1.0,
        "the rate",
        "at least 1 bps",
    )?;
    match shape {
        Shape::Dumbbell { pairs } => within(
            (1..=50_000).contains(&pairs),
            "the number of pairs",
            "1 to 50000",
        ),
        Shape::ParkingLot { hops } => {
            within((1..=250).contains(&hops), "the number of links", "1 to 250")
        }
        Shape::FatTree { ports } => within(
            (2..=32).contains(&ports) && ports.is_multiple_of(2),
            "the number of ports",
            "an even number from 2 to 32",
        ),
        Shape::Waxman { nodes, alpha, beta } => {
            within(
                (2..=2000).contains(&nodes),
                "the number of nodes",
                "2 to 2000",
            )?;
            within(share(alpha), "alpha", "more than 0 and at most 1")?;
            within(share(beta), "beta", "more than 0 and at most 1")
        }
        Shape::BarabasiAlbert { nodes, links } => {
            within(
                (2..=2000).contains(&nodes),
                "the number of nodes",
                "2 to 2000",
            )?;
            let allowed = "at least 1 and less than the number of nodes";
            within((1..nodes).contains(&links), "the number of links", allowed)
        }
    }
}

/// What is written.
#[derive(Debug, Default)]
struct Network {
    links: Vec<Link>,
    paths: Vec<Path>,
    flows: Vec<Flow>,
    /// A line or two about it.
    about: String,
}

#[derive(Debug)]
struct Link {
    name: String,
    rate: Rate,
    delay: Duration,
}

#[derive(Debug)]
struct Path {
    name: String,
    /// Names of its links.
    links: Vec<String>,
}

#[derive(Debug)]
struct Flow {
    name: String,
    /// Names of its paths.
    paths: Vec<String>,
    /// Further keys, a line each.
    more: String,
}

impl Network {
    fn text(&self, name: &str, traffic: &Traffic) -> String {
        let mut text = String::new();
        // Writing to a string doesn't fail.
        let _ = self.write(&mut text, name, traffic);
        text
    }

    fn write(&self, out: &mut String, name: &str, traffic: &Traffic) -> std::fmt::Result {
        writeln!(out, "name = {name:?}")?;
        writeln!(out, "about = {:?}", self.about)?;
        writeln!(out, "duration = \"{}\"", time(traffic.duration))?;
        writeln!(out, "\n[defaults]\nlaw = \"{}\"", traffic.law)?;
        writeln!(out, "start_spread = \"{}\"", time(traffic.duration / 20))?;
        writeln!(
            out,
            "\n[measure]\nfrom = \"{}\"",
            time(traffic.duration / 5)
        )?;
        for Link { name, rate, delay } in &self.links {
            let (rate, delay) = (shown(*rate), time(*delay));
            writeln!(
                out,
                "\n[links.{name}]\nrate = \"{rate}\"\ndelay = \"{delay}\""
            )?;
        }
        for Path { name, links } in &self.paths {
            writeln!(out, "\n[paths.{name}]\nlinks = {links:?}")?;
        }
        for Flow { name, paths, more } in &self.flows {
            writeln!(out, "\n[flows.{name}]\npaths = {paths:?}\n{more}")?;
        }
        Ok(())
    }
}

/// The time in its largest unit that needs no fraction.
fn time(time: Duration) -> String {
    let nanos = time.as_nanos();
    let units = [(1_000_000_000_u128, "s"), (1_000_000, "ms"), (1000, "us")];
    let unit = units
        .into_iter()
        .find(|(unit, _)| nanos.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ns"));
    format!("{} {name}", nanos / unit)
}

/// The rate in words that mean exactly this one.
fn shown(rate: Rate) -> String {
    let short = rate.to_string();
    match short.parse::<Rate>() {
        Ok(same) if same == rate => short,
        _ => format!("{rate:#}"),
    }
}

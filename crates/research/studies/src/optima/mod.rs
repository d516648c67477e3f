//! How exact optima are, and how long they take: random networks of growing size, and many of up to
//! 200 links and 500 flows.

use std::fmt::Write as _;
use std::time::Instant;

use manyway_fluid::optimum::{self, Utility};
use manyway_fluid::{Flow, Link, Network, Route};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use crate::extent::{Extent, Size};
use crate::failure::Failure;
use crate::gate::{Gate, gate};
use crate::headline::Headline;
use crate::progress::tell;
use crate::study::{Outcome, Study};
use crate::table::markdown;

/// The study.
pub(crate) struct Optima;

impl Study for Optima {
    fn name(&self) -> &'static str {
        "optima"
    }

    fn reproduces(&self) -> &'static str {
        "how exact the optima of random networks are"
    }

    fn cost(&self, size: Size) -> u32 {
        match size {
            Size::Short => 12,
            Size::Full => 120,
        }
    }

    fn run(&self, extent: Extent) -> Result<Outcome, Failure> {
        let count = if extent.full() { 1000 } else { 50 };
        Ok(measure(count, extent.seed))
    }
}

/// A network's optimum, and how far it is from one.
struct Solved {
    links: usize,
    flows: usize,
    utility: Utility,
    seconds: f64,
    /// NaN when none was found.
    gap: f64,
    residual: f64,
    /// All rates together, Mbps.
    rate: f64,
}

impl Solved {
    fn of((links, flows): (usize, usize), utility: Utility, seed: u64) -> Self {
        let network = random(links, flows, seed);
        let began = Instant::now();
        let found = optimum::solve(&network, utility);
        let seconds = began.elapsed().as_secs_f64();
        let (gap, residual, rate) = match found {
            Ok(best) => {
                let bits = best.rates.iter().sum::<f64>();
                (best.certificate.gap, best.certificate.residual, bits / 1e6)
            }
            Err(error) => {
                tell(&format!(
                    "{links} links, {flows} flows, seed {seed}: {error}"
                ));
                (f64::NAN, f64::NAN, f64::NAN)
            }
        };
        Solved {
            links,
            flows,
            utility,
            seconds,
            gap,
            residual,
            rate,
        }
    }

    fn json(&self) -> Value {
        json!({
            "links": self.links, "flows": self.flows, "utility": self.utility.to_string(),
            "gap": self.gap, "residual": self.residual, "rate_mbps": self.rate,
        })
    }
}

/// Networks of growing size, and `count` random ones.
fn measure(count: u64, seed: u64) -> Outcome {
    let mut growing = Vec::new();
    for flows in [10, 50, 100, 500, 1000, 2000] {
        for utility in [Utility::Log, Utility::AlphaFair(2.0)] {
            growing.push(Solved::of((flows / 5 * 2, flows), utility, 1 + seed));
        }
    }
    let mut sizes = Pcg64Mcg::seed_from_u64(7 + seed);
    let random = (0..count).map(|n| {
        let size = (sizes.random_range(1..=200), sizes.random_range(1..=500));
        Solved::of(size, Utility::Log, n + seed)
    });
    let random: Vec<Solved> = random.collect();
    let gates = vec![exactness(&growing, &random)];
    let columns = ["links", "flows", "utility", "seconds", "gap", "residual"];
    let rows = growing.iter().map(|solved| {
        vec![
            solved.links.to_string(),
            solved.flows.to_string(),
            solved.utility.to_string(),
            format!("{:.3}", solved.seconds),
            format!("{:.1e}", solved.gap),
            format!("{:.1e}", solved.residual),
        ]
    });
    let mut page = "# Optima of random networks\n\n".to_owned();
    let _ = write!(
        page,
        "Links of 1 to 1000 Mbps, flows with two to four routes of one to four links, weights of \
         0.1 to 10. The largest relative gap, and the largest violation of the Karush-Kuhn-Tucker \
         conditions.\n\n{}\nNetworks of growing size:\n\n{}\n{count} networks of up to 200 links \
         and 500 flows are only in the gate above.\n",
        Gate::markdown(&gates),
        markdown(&columns, &rows.collect::<Vec<_>>()),
    );
    let headline = growing.iter().map(|solved| {
        let Solved {
            flows,
            utility,
            rate,
            ..
        } = solved;
        Headline::rounded(format!("{flows} flows, {utility}: all rates, Mbps"), *rate)
    });
    Outcome {
        page,
        gates,
        ours: Vec::new(),
        tables: Vec::new(),
        headline: headline.collect(),
        figures: Vec::new(),
        details: json!({
            "growing": growing.iter().map(Solved::json).collect::<Vec<_>>(),
            "random": random.iter().map(Solved::json).collect::<Vec<_>>(),
        }),
    }
}

/// How far all networks are from an optimum.
fn exactness(growing: &[Solved], random: &[Solved]) -> Gate {
    // A network without a solution has NaN, which no maximum may hide.
    let largest = |networks: &[Solved], of: fn(&Solved) -> f64| {
        let values = networks.iter().map(of);
        values.fold(0.0, |most: f64, value| match value.is_nan() {
            true => value,
            false if most.is_nan() => most,
            false => most.max(value),
        })
    };
    let both = [("growing", growing), ("random", random)];
    let mut found = Vec::new();
    let mut cases = Vec::new();
    for (what, networks) in both {
        let gap = largest(networks, |solved| solved.gap);
        let residual = largest(networks, |solved| solved.residual);
        found.push(format!(
            "{} {what} networks: gap at most {gap:.1e}, violation at most {residual:.1e}",
            networks.len()
        ));
        cases.push((format!("{what}, gap"), gap));
        cases.push((format!("{what}, violation"), residual));
    }
    gate("manyway/optima").cases(cases, found.join("; "))
}

/// Links of 1 to 1000 Mbps, flows with two to four routes of one to four links, weights of 0.1 to
/// 10.
fn random(links: usize, flows: usize, seed: u64) -> Network {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut exponent = |least: f64, range: f64| 10f64.powf(least + range * rng.random::<f64>());
    let mut network = Network::default();
    for n in 0..links {
        network.links.push(Link {
            name: format!("l{n}"),
            capacity: exponent(6.0, 3.0),
        });
    }
    let weights: Vec<f64> = (0..flows).map(|_| exponent(-1.0, 2.0)).collect();
    for (s, weight) in weights.into_iter().enumerate() {
        let routes = (0..rng.random_range(2..=4)).map(|r| {
            let hops = rng.random_range(1..=4usize.min(links));
            let mut over: Vec<usize> = Vec::new();
            while over.len() < hops {
                let link = rng.random_range(0..links);
                if !over.contains(&link) {
                    over.push(link);
                }
            }
            Route {
                name: format!("s{s}/{r}"),
                links: over,
                rtt: 0.1,
                packet: 12_000.0,
            }
        });
        network.flows.push(Flow {
            name: format!("s{s}"),
            weight,
            demand: None,
            routes: routes.collect(),
        });
    }
    network
}

//! How exact optima are, and how long they take: random networks of growing size, and as many as
//! asked for of up to 200 links and 500 flows.
//!
//! ```sh
//! cargo run --release -p manyway-fluid --example optima -- 1000
//! ```
#![allow(clippy::print_stdout)]

use std::process::ExitCode;
use std::time::Instant;

use manyway_fluid::optimum::{self, Allocation, OptimumError, Utility};
use manyway_fluid::{Flow, Link, Network, Route};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The Karush-Kuhn-Tucker conditions have to hold to this.
const BOUND: f64 = 1e-6;

fn main() -> ExitCode {
    let count = std::env::args().nth(1).map(|text| text.parse());
    let Ok(count) = count.unwrap_or(Ok(100)) else {
        println!("the argument should be the number of random networks, 100 without one");
        return ExitCode::FAILURE;
    };
    println!("links  flows  utility  seconds  gap      residual");
    let mut failed = false;
    let mut report = |(links, flows): (usize, usize), utility, seed, print: bool| {
        let network = random(links, flows, seed);
        let began = Instant::now();
        let found = optimum::solve(&network, utility);
        let seconds = began.elapsed().as_secs_f64();
        let (gap, residual) = worst(&found);
        let bad = gap.is_nan() || gap > BOUND || residual.is_nan() || residual > BOUND;
        failed |= bad;
        if print || bad {
            println!(
                "{links:>5}  {flows:>5}  {utility:<7}  {seconds:>7.3}  {gap:.1e}  {residual:.1e}{}",
                if bad { "  too much" } else { "" }
            );
        }
        (gap, residual)
    };
    for flows in [10, 50, 100, 500, 1000, 2000] {
        for utility in [Utility::Log, Utility::AlphaFair(2.0)] {
            report((flows / 5 * 2, flows), utility, 1, true);
        }
    }
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    let mut most = (0.0f64, 0.0f64);
    for seed in 0..count {
        let size = (rng.random_range(1..=200), rng.random_range(1..=500));
        let (gap, residual) = report(size, Utility::Log, seed, false);
        most = (most.0.max(gap), most.1.max(residual));
    }
    println!(
        "{count} random networks of up to 200 links and 500 flows: gap at most {:.1e}, residual at \
         most {:.1e}",
        most.0, most.1
    );
    if failed {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn worst(found: &Result<Allocation, OptimumError>) -> (f64, f64) {
    match found {
        Ok(best) => (best.certificate.gap, best.certificate.residual),
        Err(error) => {
            println!("{error}");
            (f64::NAN, f64::NAN)
        }
    }
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

//! mPath on a synthetic PlanetLab: Fig. 15 to 23 and 27 of the mPath paper (sections 4.2 to 4.6) on
//! generated networks.

mod assumptions;
pub(crate) mod buffers;
mod experiments;
mod geography;
mod hours;
mod network;
mod report;
mod runs;
mod scenario;
mod statistics;
#[cfg(test)]
mod tests;

use crate::extent::{self, Extent};
use crate::failure::Failure;
use crate::gate::Gate;
use crate::page::Page;
use crate::study::{Outcome, Study};
use assumptions::{Assumptions, Background};
use experiments::{Pair, Scarce, Size, alone, listed, networks, together};
use network::Network;
use report::{Results, Variant};
use scenario::{Law, Run};

/// The study.
pub(crate) struct PlanetLab;

impl Study for PlanetLab {
    fn name(&self) -> &'static str {
        "planetlab"
    }

    fn reproduces(&self) -> &'static str {
        "mPath (Xu et al. 2013) on a synthetic PlanetLab: Fig. 15 to 23 and 27, packet level"
    }

    fn cost(&self, size: extent::Size) -> u32 {
        match size {
            extent::Size::Short => 6,
            extent::Size::Full => 1800,
        }
    }

    fn run(&self, extent: Extent) -> Result<Outcome, Failure> {
        let size = match extent.full() {
            true => Size::full(),
            false => Size::short(),
        };
        let results = measure(size, extent.seed)?;
        let gates = report::gates(&results, extent.full());
        Ok(Outcome {
            page: page(&results, &gates),
            gates,
            ours: [
                report::ours(&results.pairs),
                results.hours.as_ref().map_or_else(Vec::new, hours::ours),
            ]
            .concat(),
            tables: Vec::new(),
            headline: report::headline(&results),
            figures: report::figures(&results),
            details: serde_json::to_value(&results)?,
        })
    }
}

impl Size {
    fn full() -> Self {
        Size {
            networks: 10,
            pairs: 50,
            few: 5,
            varied: 3,
            duration_s: 600,
            together_s: 300,
            lists: vec![1, 5, 10, 20, 50, 100],
            together: vec![(50, 2), (100, 1)],
            relaying: vec![(50, 1), (100, 1), (200, 1)],
            scarce: vec![(50, 2), (100, 1)],
            scarce_hosts: vec![(50, 1), (100, 1), (200, 1)],
            hours: Some(experiments::Plan {
                networks: 5,
                pairs: 4,
            }),
        }
    }

    fn short() -> Self {
        Size {
            networks: 2,
            pairs: 10,
            few: 2,
            varied: 2,
            duration_s: 120,
            together_s: 60,
            lists: vec![10],
            together: vec![(20, 1)],
            relaying: vec![(20, 1)],
            scarce: Vec::new(),
            scarce_hosts: Vec::new(),
            hours: None,
        }
    }
}

/// A pair's run in the full study, as a scenario for `manyway run`: of mPath, or of TCP. None if
/// there is no such network (from 1 on) or pair (from 0 on).
pub fn pair_scenario(network: u64, pair: usize, tcp: bool) -> Option<String> {
    let size = Size::full();
    if !(1..=size.networks).contains(&network) || pair >= size.pairs {
        return None;
    }
    let network = Network::new(Assumptions {
        seed: network,
        ..Assumptions::default()
    });
    let run = Run {
        law: match tcp {
            true => Law::Tcp,
            false => Law::Mpath(network.relays.len()),
        },
        pairs: vec![network.pairs(size.pairs)[pair]],
        duration_s: size.duration_s,
        epoch: 0,
        series: true,
    };
    Some(network.scenario(&run))
}

/// All experiments, on networks with seeds from `seed` + 1 on.
fn measure(size: Size, seed: u64) -> Result<Results, Failure> {
    let assumptions = Assumptions {
        seed: seed + 1,
        ..Assumptions::default()
    };
    let networks = networks(size.networks, &assumptions);
    let pairs = alone("alone", &networks, (size.pairs, size.duration_s))?;
    Ok(Results {
        comparison: report::compare_alone(&pairs),
        lists: listed(&networks, &pairs, &size)?,
        together: together(&networks, (&size.together, false), size.together_s)?,
        relaying: together(&networks, (&size.relaying, true), size.together_s)?,
        scarce: scarce(&assumptions, &size)?,
        variants: vary(&assumptions, &size, &pairs)?,
        hours: (size.hours.map(|plan| hours::hours(&assumptions, plan))).transpose()?,
        pairs,
        assumptions,
        size,
    })
}

/// Many pairs at the same time where relays, or hosts that relay, have less to spare.
fn scarce(assumptions: &Assumptions, size: &Size) -> Result<Vec<Scarce>, Failure> {
    let relays = (&size.scarce, false);
    let hosts = (&size.scarce_hosts, true);
    let rows = [
        (report::QUARTER, 4.0, relays),
        (report::SIXTEENTH, 16.0, relays),
        (report::HOSTS, 4.0, hosts),
    ];
    let of = |(name, part, (counts, relaying)): (_, f64, (&Vec<_>, bool))| {
        let fewer = Assumptions {
            spare: 1.0 / part,
            ..assumptions.clone()
        };
        let networks = networks(size.networks, &fewer);
        together(&networks, (counts, relaying), size.together_s).map(|rows| Scarce { name, rows })
    };
    rows.into_iter().map(of).collect()
}

type Change = fn(&mut Assumptions);

/// Other assumptions, one at a time.
const VARIANTS: [(&str, Change); 7] = [
    ("core links congested half as often", |assumed| {
        assumed.congested /= 2.0
    }),
    ("up to nine other slices on a node", |assumed| {
        assumed.slices = 9
    }),
    (report::STILL, |assumed| assumed.sway = 0.0),
    ("half the rates", |assumed| assumed.scale /= 2.0),
    ("queues twice as long", |assumed| assumed.queue_s *= 2.0),
    ("dropped relays are tried again (best-idle)", |assumed| {
        assumed.manager = "{ reuse = \"best-idle\" }";
    }),
    (ELASTIC, |assumed| {
        assumed.background = Background::Elastic(4)
    }),
];
/// It takes long, so it is done for fewer pairs.
const ELASTIC: &str = "four Reno flows on each congested link";

fn vary(
    assumptions: &Assumptions,
    size: &Size,
    alone_before: &[Pair],
) -> Result<Vec<Variant>, Failure> {
    let first = |name, count| {
        let few = alone_before.iter().filter(|pair| pair.number < count);
        Variant {
            name,
            pairs: few.cloned().collect(),
        }
    };
    let least = size.varied.div_ceil(2);
    let mut variants = vec![
        first("as above", size.varied),
        first("as above, the first few", least),
    ];
    for (name, change) in VARIANTS {
        let mut changed = assumptions.clone();
        change(&mut changed);
        let networks = networks(size.networks, &changed);
        let count = if name == ELASTIC { least } else { size.varied };
        let pairs = alone(name, &networks, (count, size.duration_s))?;
        variants.push(Variant { name, pairs });
    }
    Ok(variants)
}

fn page(results: &Results, gates: &[Gate]) -> String {
    let size = &results.size;
    let mut page = Page::new(include_str!("page.md"));
    for (place, table) in hours::tables(results.hours.as_ref()) {
        page = page.fill(place, &table);
    }
    page.fill("networks", &size.networks.to_string())
        .fill("pairs", &results.pairs.len().to_string())
        .fill("minutes", &format!("{}", f64::from(size.duration_s) / 60.0))
        .fill("few", &size.few.to_string())
        .fill("at once", &format!("{}", f64::from(size.together_s) / 60.0))
        .fill("comparison", &report::comparison(&results.comparison))
        .fill("groups", &report::groups(&results.pairs))
        .fill("lists", &report::lists(&results.lists))
        .fill(
            "together",
            &report::together(&results.together, &results.relaying, &results.scarce),
        )
        .fill("variants", &report::variants(&results.variants))
        .fill("gates", &Gate::markdown(gates))
        .text()
}

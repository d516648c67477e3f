//! The experiments of the Balia paper (`scenarios/balia`), with the paper's numbers beside ours.

mod figures;
mod page;
mod tables;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::extent::{Extent, Size};
use crate::failure::Failure;
use crate::headline::Headline;
use crate::ours::Ours;
use crate::progress::timed;
use crate::runs::RED;
use crate::study::{Outcome, Study};
use tables::{Aggregation, Friendliness, Oscillation, Responsiveness, Variant, gates, paper};

/// The study.
pub(crate) struct Balia;

impl Study for Balia {
    fn name(&self) -> &'static str {
        "balia"
    }

    fn reproduces(&self) -> &'static str {
        "Balia (Peng et al. 2016): Tables III to V, Fig. 3 and 4 of six laws, packet level"
    }

    fn cost(&self, size: Size) -> u32 {
        match size {
            Size::Short => 60,
            Size::Full => 1200,
        }
    }

    fn run(&self, extent: Extent) -> Result<Outcome, Failure> {
        let results = Results::measure(extent)?;
        let (figures, fig4) = figures::all(extent)?;
        let gates = [
            gates::friendliness(&results.friendliness[0].rows),
            gates::unequal_rtts(&results.unequal_rtts[0].rows),
            gates::aggregation(&results.aggregation[0].rows),
            gates::responsiveness(&results.responsiveness[0].rows),
            gates::oscillation(&results.oscillation[0].rows),
            fig4,
        ]
        .concat();
        Ok(Outcome {
            page: page::page(&results, &gates),
            gates,
            ours: results.ours(),
            tables: Vec::new(),
            headline: results.headline(),
            figures,
            details: serde_json::to_value(&results)?,
        })
    }
}

/// All that was measured. The first variant of each is the scenario as its file has it, which the
/// gates are about.
#[derive(Serialize)]
struct Results {
    friendliness: Vec<Of<Friendliness>>,
    unequal_rtts: Vec<Of<Friendliness>>,
    aggregation: Vec<Of<Aggregation>>,
    responsiveness: Vec<Of<Responsiveness>>,
    oscillation: Vec<Of<Oscillation>>,
}

/// A variant's rows, one per law.
#[derive(Serialize)]
struct Of<R> {
    variant: Variant,
    rows: Vec<R>,
}

impl Results {
    /// What the gates are about.
    fn headline(&self) -> Vec<Headline> {
        let value = |table: &str, law: &str, what: &str, value| {
            Headline::exact(format!("{table}, {law}: {what}"), value)
        };
        let friendliness = self.friendliness[0].rows.iter().flat_map(|row| {
            [
                value("Table III", &row.law, "multipath, Mbps", row.multipath.mean),
                value("Table III", &row.law, "single path, Mbps", row.single.mean),
            ]
        });
        let aggregation = self.aggregation[0]
            .rows
            .iter()
            .map(|row| value("Table IV", &row.law, "Mbps", row.goodput.mean));
        let responsiveness = self.responsiveness[0].rows.iter().flat_map(|row| {
            let longest = row.longest().unwrap_or(f64::NAN);
            [
                value("Table V", &row.law, "longest convergence, s", longest),
                value("Table V", &row.law, "single paths, Mbps", row.single.mean),
            ]
        });
        let oscillation = self.oscillation[0]
            .rows
            .iter()
            .map(|row| value("Fig. 3", &row.law, "mean cut", row.cut.mean));
        friendliness
            .chain(aggregation)
            .chain(responsiveness)
            .chain(oscillation)
            .collect()
    }

    /// What stands beside the paper's numbers.
    fn ours(&self) -> Vec<Ours> {
        let friendliness = self.friendliness[0].rows.iter().flat_map(|row| {
            let table = "balia/table-3";
            [
                Ours::mean(table, format!("{}, multipath", row.law), &row.multipath),
                Ours::mean(table, format!("{}, single path", row.law), &row.single),
            ]
        });
        let aggregation = self.aggregation[0].rows.iter();
        let aggregation =
            aggregation.map(|row| Ours::mean("balia/table-4", row.law.as_str(), &row.goodput));
        let responsiveness = self.responsiveness[0].rows.iter().flat_map(|row| {
            let (law, longest) = (row.law.as_str(), row.longest().unwrap_or(f64::INFINITY));
            [
                Ours::exact(paper::convergence(law), law, longest),
                Ours::mean("balia/table-5-sp-tcp", law, &row.single),
            ]
        });
        friendliness
            .chain(aggregation)
            .chain(responsiveness)
            .collect()
    }

    fn measure(extent: Extent) -> Result<Self, Failure> {
        let (runs, otherwise) = (extent.runs(20, 4), extent.runs(8, 2));
        let new = |name: &str, set: &str| Variant::new(name, [set], otherwise);
        let friendliness = each(
            tables::friendliness,
            [
                Variant::plain(runs),
                new("no jitter", "jitter=0 s"),
                new("jitter of at most 0.5 ms", "jitter=0.5 ms"),
                new("jitter of at most 5 ms", "jitter=5 ms"),
                new("window floor 1", "flows.multipath.window_floor=1 packets"),
                new(
                    "window floor 1.5",
                    "flows.multipath.window_floor=1.5 packets",
                ),
                new("window floor 2", "flows.multipath.window_floor=2 packets"),
                new("RED, 12 to 36 of 50 packets", RED),
                new("windows grow in recovery, too", "recovery=grow"),
                new("delayed ACKs as in Table V", "ack_every=2 packets")
                    .and("ack_delay=10 ms")
                    .and("growth=acks"),
            ],
        )?;
        // Balia and Coupled are closer to each other than 20 runs can tell.
        let more = Variant::plain(extent.runs(40, 4));
        let unequal_rtts = each(tables::unequal_rtts, [more])?;
        let aggregation = each(
            tables::aggregation,
            [
                Variant::plain(runs),
                new("queues of 20 packets", "links.*.queue=20 packets"),
                new("delayed ACKs as in Table V", "ack_every=2 packets")
                    .and("ack_delay=10 ms")
                    .and("growth=acks"),
            ],
        )?;
        let floor = "flows.multipath.window_floor";
        let responsiveness = each(
            tables::responsiveness,
            [
                Variant::plain(runs),
                new("ACKs held for at most 1 ms", "ack_delay=1 ms"),
                new("at most 20 ms", "ack_delay=20 ms").and("duration=600 s"),
                new("at most 40 ms", "ack_delay=40 ms").and("duration=900 s"),
                new("at most 40 ms, window floor 2", "ack_delay=40 ms")
                    .and(&format!("{floor}=2 packets")),
                new("window floor 1", &format!("{floor}=1 packets")),
                new("an ACK per packet", "ack_every=1 packets"),
                new("the five start within 5 s", "flows.single.start_spread=5 s"),
                new("windows grow in recovery, too", "recovery=grow"),
            ],
        )?;
        let oscillation = each(tables::oscillation, [Variant::plain(runs)])?;
        Ok(Results {
            friendliness,
            unequal_rtts,
            aggregation,
            responsiveness,
            oscillation,
        })
    }
}

/// A table under each of these conditions.
fn each<R, const N: usize>(
    table: impl Fn(&Variant) -> Result<Vec<R>, Failure>,
    variants: [Variant; N],
) -> Result<Vec<Of<R>>, Failure> {
    let rows = variants.into_iter().map(|variant| {
        let rows = timed(&variant.name, || table(&variant))?;
        Ok(Of { variant, rows })
    });
    rows.collect()
}

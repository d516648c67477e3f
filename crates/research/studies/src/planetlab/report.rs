//! What was found, beside the paper's numbers.

use manyway_report::{Kind, Plot, Series};
use serde::Serialize;

use super::assumptions::Assumptions;
use super::experiments::{Listed, Pair, Scarce, Size, Together};
use super::hours::{self, Hours};
use super::statistics::Sample;
use crate::claims::number;
use crate::gate::{Gate, GateRow, gate};
use crate::headline::Headline;
use crate::ours::Ours;
use crate::study::Figure;
use crate::table::texts as table;

/// Ratios beyond this are a gain: TCP after TCP stays within 20 % (Fig. 18).
pub(crate) const GAIN: f64 = 1.2;
/// The variant whose rates are constant.
pub(crate) const STILL: &str = "nothing varies over time";
/// Ratios beyond this aren't drawn.
const DRAWN: f64 = 6.0;

/// All that was found.
#[derive(Serialize)]
pub(crate) struct Results {
    pub(crate) assumptions: Assumptions,
    pub(crate) size: Size,
    pub(crate) comparison: Vec<Line>,
    pub(crate) pairs: Vec<Pair>,
    pub(crate) lists: Vec<Listed>,
    pub(crate) together: Vec<Together>,
    pub(crate) relaying: Vec<Together>,
    /// In the full run alone.
    pub(crate) scarce: Vec<Scarce>,
    pub(crate) variants: Vec<Variant>,
    /// In the full run alone.
    pub(crate) hours: Option<Hours>,
}

/// A number of the paper's and ours.
#[derive(Serialize)]
pub(crate) struct Line {
    what: String,
    paper: &'static str,
    ours: String,
}

/// The same experiment with something assumed otherwise.
#[derive(Serialize)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) pairs: Vec<Pair>,
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Fig. 18 to 20: each pair alone.
pub(crate) fn compare_alone(pairs: &[Pair]) -> Vec<Line> {
    let ratios = Sample::new(pairs.iter().map(Pair::ratio));
    let paired = Sample::new(pairs.iter().map(Pair::paired));
    let benchmark = Sample::new(pairs.iter().map(Pair::benchmark));
    let gaining = || pairs.iter().filter(|pair| pair.ratio() > GAIN);
    let open = Sample::new(gaining().map(|pair| pair.mpath.open));
    let most = Sample::new(gaining().map(|pair| pair.mpath.most_open));
    let range = |sample: &Sample| {
        let [low, middle, high] = [0.1, 0.5, 0.9].map(|share| sample.quantile(share));
        format!("{middle:.0} ({low:.0} to {high:.0})")
    };
    let line = |what: &str, paper, ours| Line {
        what: what.to_owned(),
        paper,
        ours,
    };
    vec![
        line(
            "pairs that gain (more than 1.2×)",
            "about 40 %",
            percent(ratios.above(GAIN)),
        ),
        line(
            "the same, TCP at the same time",
            "",
            percent(paired.above(GAIN)),
        ),
        line(
            "pairs that double",
            "about 20 %",
            percent(ratios.above(2.0)),
        ),
        line(
            "the same, TCP at the same time",
            "",
            percent(paired.above(2.0)),
        ),
        line(
            "TCP after TCP: more than 1.2×",
            "few",
            percent(benchmark.above(GAIN)),
        ),
        line(
            "worst ratio, 1st and 5th percentile",
            "0.8 (worst)",
            format!(
                "{:.2}, {:.2}, {:.2}",
                ratios.quantile(0.0),
                ratios.quantile(0.01),
                ratios.quantile(0.05)
            ),
        ),
        line(
            "the same, TCP at the same time",
            "",
            format!(
                "{:.2}, {:.2}, {:.2}",
                paired.quantile(0.0),
                paired.quantile(0.01),
                paired.quantile(0.05)
            ),
        ),
        line(
            "the same, TCP after TCP",
            "left of mPath's",
            format!(
                "{:.2}, {:.2}, {:.2}",
                benchmark.quantile(0.0),
                benchmark.quantile(0.01),
                benchmark.quantile(0.05)
            ),
        ),
        line(
            "settled within 5 minutes, of those that gain",
            "80 %",
            percent(settled(pairs, true, 300.0)),
        ),
        line(
            "settled within 2 minutes, of the others",
            "90 %",
            percent(settled(pairs, false, 120.0)),
        ),
        line(
            "proxied paths open, of those that gain: median (10 % to 90 % of the pairs)",
            "10 to 20",
            range(&open),
        ),
        line("most open at a time", "", range(&most)),
        line(
            "direct paths limited in the core",
            "",
            percent(share(pairs, Pair::in_core)),
        ),
        line(
            "access links have more than 1.2× and 2× what the direct path has",
            "",
            format!(
                "{}, {}",
                percent(share(pairs, |pair| pair.potential() > GAIN)),
                percent(share(pairs, |pair| pair.potential() > 2.0))
            ),
        ),
    ]
}

fn share(pairs: &[Pair], what: impl Fn(&Pair) -> bool) -> f64 {
    pairs.iter().filter(|pair| what(pair)).count() as f64 / pairs.len() as f64
}

/// Who gains: by where the bottleneck is, and by distance (Fig. 18 and 19).
pub(crate) fn groups(pairs: &[Pair]) -> String {
    let mut table = table(&[
        "pairs",
        "of them",
        "gain",
        "double",
        "median ratio",
        "mean proxied share",
    ]);
    let mut add = |name: &str, of: &dyn Fn(&Pair) -> bool| {
        let group: Vec<&Pair> = pairs.iter().filter(|pair| of(pair)).collect();
        let ratios = Sample::new(group.iter().map(|pair| pair.ratio()));
        let proxied = Sample::new(group.iter().map(|pair| pair.mpath.proxied));
        table.row([
            name.to_owned(),
            group.len().to_string(),
            percent(ratios.above(GAIN)),
            percent(ratios.above(2.0)),
            format!("{:.2}", ratios.quantile(0.5)),
            percent(proxied.mean()),
        ]);
    };
    add("limited in the core", &Pair::in_core);
    add("limited at an end", &|pair| !pair.in_core());
    add("on one continent", &|pair| pair.one_continent);
    add("on two", &|pair| !pair.one_continent);
    for (from, until) in [(0.0, 50.0), (50.0, 100.0), (100.0, 200.0), (200.0, 1e9)] {
        let name = match until {
            1e9 => format!("RTT from {from} ms"),
            _ => format!("RTT {from} to {until} ms"),
        };
        add(&name, &|pair| (from..until).contains(&pair.rtt_ms));
    }
    table.markdown()
}

/// Fig. 21, and what of the load stays on proxied paths that are of no use.
pub(crate) fn lists(lists: &[Listed]) -> String {
    let mut table = table(&[
        "relays",
        "gain",
        "double",
        "median ratio",
        "mean ratio",
        "proxied share, limited at an end",
    ]);
    for Listed {
        relays,
        ratios,
        useless,
    } in lists
    {
        table.row([
            relays.to_string(),
            percent(ratios.above(GAIN)),
            percent(ratios.above(2.0)),
            format!("{:.2}", ratios.quantile(0.5)),
            format!("{:.2}", ratios.mean()),
            percent(useless.mean()),
        ]);
    }
    table.markdown()
}

/// Who has less to spare, as the table calls it.
pub(crate) const QUARTER: &str = ", relays with a quarter of the rates";
pub(crate) const SIXTEENTH: &str = ", relays with a sixteenth of the rates";
pub(crate) const HOSTS: &str = ", relays themselves with a quarter of the rates";

/// Fig. 22 and 23.
pub(crate) fn together(found: &[Together], relaying: &[Together], scarce: &[Scarce]) -> String {
    let mut table = table(&[
        "pairs at a time",
        "data points",
        "gain",
        "double",
        "paper: double",
        "median ratio",
        "all of mPath / all of TCP",
    ]);
    let rows = found.iter().map(|row| (row, "", "about 10 %"));
    let rows = rows.chain(relaying.iter().map(|row| {
        let paper = if row.pairs >= 200 {
            "very few"
        } else {
            "about 10 %"
        };
        (row, ", relays themselves", paper)
    }));
    let rows = rows.chain(
        scarce
            .iter()
            .flat_map(|scarce| scarce.rows.iter().map(|row| (row, scarce.name, ""))),
    );
    for (row, which, paper) in rows {
        table.row([
            format!("{}{which}", row.pairs),
            row.ratios.len().to_string(),
            percent(row.ratios.above(GAIN)),
            percent(row.ratios.above(2.0)),
            paper.to_owned(),
            format!("{:.2}", row.ratios.quantile(0.5)),
            format!("{:.2}", row.mpath / row.tcp),
        ]);
    }
    table.markdown()
}

/// What changes the result.
pub(crate) fn variants(variants: &[Variant]) -> String {
    let mut table = table(&[
        "assumed",
        "pairs",
        "core",
        "gain",
        "double",
        "worst",
        "TCP after TCP gains",
        "5 min (gaining)",
        "2 min (others)",
        "open",
    ]);
    for Variant { name, pairs } in variants {
        let ratios = Sample::new(pairs.iter().map(Pair::ratio));
        let benchmark = Sample::new(pairs.iter().map(Pair::benchmark));
        let gaining = pairs.iter().filter(|pair| pair.ratio() > GAIN);
        table.row([
            (*name).to_owned(),
            pairs.len().to_string(),
            percent(share(pairs, Pair::in_core)),
            percent(ratios.above(GAIN)),
            percent(ratios.above(2.0)),
            format!("{:.2}", ratios.quantile(0.0)),
            percent(benchmark.above(GAIN)),
            percent(settled(pairs, true, 300.0)),
            percent(settled(pairs, false, 120.0)),
            format!(
                "{:.0}",
                Sample::new(gaining.map(|pair| pair.mpath.open)).quantile(0.5)
            ),
        ]);
    }
    table.markdown()
}

pub(crate) fn comparison(lines: &[Line]) -> String {
    let mut table = table(&["what", "paper", "ours"]);
    for line in lines {
        table.row([line.what.as_str(), line.paper, line.ours.as_str()]);
    }
    table.markdown()
}

/// Distributions of ratios (Fig. 18, 21, 22 and 23) or times (Fig. 20).
pub(crate) fn figure(
    (title, x_label, most): (&str, &str, f64),
    samples: Vec<(String, Sample)>,
) -> Plot {
    let mut plot = Plot::new(title, Kind::Lines);
    plot.x_label = x_label.to_owned();
    plot.y_label = "share of the pairs".to_owned();
    plot.size = (900, 460);
    plot.series = samples
        .into_iter()
        .map(|(name, sample)| Series {
            name,
            points: sample.distribution(most),
        })
        .collect();
    plot
}

/// The figures.
pub(crate) fn figures(results: &Results) -> Vec<Figure> {
    let pairs = &results.pairs;
    let of = |what: &dyn Fn(&Pair) -> f64| Sample::new(pairs.iter().map(what));
    let only = |condition: &dyn Fn(&&Pair) -> bool, what: &dyn Fn(&Pair) -> f64| {
        Sample::new(pairs.iter().filter(condition).map(what))
    };
    let ratio = "goodput of mPath over that of TCP";
    let named = |name: &str, sample| (name.to_owned(), sample);
    let fig18 = vec![
        named("TCP after TCP", of(&Pair::benchmark)),
        named("mPath, all pairs", of(&Pair::ratio)),
        named(
            "one continent",
            only(&|pair| pair.one_continent, &Pair::ratio),
        ),
        named(
            "two continents",
            only(&|pair| !pair.one_continent, &Pair::ratio),
        ),
    ];
    let gains = |pair: &&Pair| pair.ratio() > GAIN;
    let time = |pair: &Pair| pair.mpath.settled_s;
    let fig20 = vec![
        named("pairs that gain", only(&gains, &time)),
        named("others", only(&|pair| !gains(pair), &time)),
        named("TCP", of(&|pair| pair.tcp.settled_s)),
    ];
    let fig21 = results
        .lists
        .iter()
        .map(|listed| (format!("{} relays", listed.relays), listed.ratios.clone()));
    let fig22 = |rows: &[Together]| {
        let rows = rows
            .iter()
            .map(|row| (format!("{} pairs", row.pairs), row.ratios.clone()));
        let alone = named("1 pair", of(&Pair::ratio));
        std::iter::once(alone).chain(rows).collect::<Vec<_>>()
    };
    let duration = f64::from(results.size.duration_s);
    let time = ("Time until the rate has settled", "seconds", duration);
    let of_ratios = |title| (title, ratio, DRAWN);
    [
        ("fig18", of_ratios("Each pair alone"), fig18),
        ("fig20", time, fig20),
        (
            "fig21",
            of_ratios("Relays that the source knows"),
            fig21.collect(),
        ),
        (
            "fig22",
            of_ratios("Pairs at the same time"),
            fig22(&results.together),
        ),
        (
            "fig23",
            of_ratios("Pairs at the same time, relays themselves"),
            fig22(&results.relaying),
        ),
    ]
    .map(|(name, axes, samples)| Figure::new(format!("planetlab-{name}"), figure(axes, samples)))
    .into()
}

/// Ratios of mPath to TCP, in means.
pub(crate) fn headline(results: &Results) -> Vec<Headline> {
    let mean = |pairs: &[Pair], of: fn(&Pair) -> f64| Sample::new(pairs.iter().map(of)).mean();
    let pairs = &results.pairs;
    let ratios = Sample::new(pairs.iter().map(Pair::ratio));
    let alone = [
        ("pairs that gain", ratios.above(GAIN)),
        ("pairs that double", ratios.above(2.0)),
        ("mean ratio", ratios.mean()),
        (
            "mean ratio, TCP at the same time",
            mean(pairs, Pair::paired),
        ),
        ("mean ratio, TCP after TCP", mean(pairs, Pair::benchmark)),
    ];
    let alone = alone.map(|(what, value)| Headline::exact(what, value));
    let lists = results.lists.iter().map(|listed| {
        let name = format!("{} relays: mean ratio", listed.relays);
        Headline::exact(name, listed.ratios.mean())
    });
    let together = |suffix: &'static str, rows: &[Together]| {
        let values = rows.iter().map(|row| {
            let name = format!("{} pairs at a time{suffix}: mean ratio", row.pairs);
            Headline::exact(name, row.ratios.mean())
        });
        values.collect::<Vec<_>>()
    };
    let variants = results.variants.iter().map(|variant| {
        let name = format!("{}: mean ratio", variant.name);
        Headline::exact(name, mean(&variant.pairs, Pair::ratio))
    });
    let mut headline = Vec::from(alone);
    headline.extend(lists);
    headline.extend(together("", &results.together));
    headline.extend(together(", relays themselves", &results.relaying));
    headline.extend(variants);
    headline
}

/// What must hold; of the short version, only what few pairs can show.
pub(crate) fn gates(results: &Results, full: bool) -> Vec<Gate> {
    let mut gates = of_all_pairs(&results.pairs);
    if full {
        gates.extend(of_many_pairs(results));
    }
    gates.extend(results.hours.iter().flat_map(hours::gates));
    gates
}

fn of_all_pairs(pairs: &[Pair]) -> Vec<Gate> {
    let of = |in_core: bool| {
        let group = pairs.iter().filter(|pair| pair.in_core() == in_core);
        Sample::new(group.map(Pair::paired))
    };
    let (core, access) = (of(true), of(false));
    let (gain, median) = (core.above(GAIN), access.quantile(0.5));
    let all = gaining(pairs).map(|(name, part)| (name, part - number("mpath/figure-18", name)));
    let found = all.map(|(name, off)| format!("{name}: {off:+.0}"));
    vec![
        gate("mpath/figure-18-all").cases(all, found.join(", ")),
        gate("mpath/figure-18-core").value(gain, percent(gain)),
        gate("mpath/figure-18-access").value(median, format!("{median:.2}")),
    ]
}

/// Fig. 19 to 23.
fn of_many_pairs(results: &Results) -> Vec<Gate> {
    let gain = |one_continent: bool| {
        let pairs = results.pairs.iter();
        let group = pairs.filter(|pair| pair.one_continent == one_continent);
        Sample::new(group.map(Pair::ratio)).above(GAIN)
    };
    let (near, far) = (gain(true), gain(false));
    let gaining = 100.0 * settled(&results.pairs, true, 300.0);
    let others = 100.0 * settled(&results.pairs, false, 120.0);
    let still = results
        .variants
        .iter()
        .find(|variant| variant.name == STILL);
    let still = still.map_or(f64::NAN, |variant| {
        100.0 * settled(&variant.pairs, false, 120.0)
    });
    let relays = |count: usize| {
        let listed = results.lists.iter().find(|listed| listed.relays == count);
        listed.map_or(f64::NAN, |listed| listed.ratios.mean())
    };
    let most = results.lists.iter().map(|listed| listed.relays).max();
    let (fifty, all) = (relays(50), relays(most.unwrap_or(0)));
    let shown = |cases: &[(String, f64)]| {
        let cases = cases
            .iter()
            .map(|(pairs, share)| format!("{pairs}: {share:.0} %"));
        cases.collect::<Vec<_>>().join(", ")
    };
    let scarce = |name| -> &[Together] {
        let found = results.scarce.iter().find(|scarce| scarce.name == name);
        found.map_or(&[], |scarce| &scarce.rows)
    };
    let some = |gate: GateRow, rows: &[Together]| {
        let (_, cases) = by_number(rows);
        let found = shown(&cases);
        gate.cases(cases, found)
    };
    let most = |gate: GateRow, rows: &[Together]| {
        let (most, _) = by_number(rows);
        gate.value(most, format!("{most:.0} %"))
    };
    vec![
        gate("mpath/figure-19").value(
            far / near,
            format!("{} against {}", percent(far), percent(near)),
        ),
        gate("mpath/figure-20-gaining").value(gaining, format!("{gaining:.0} %")),
        gate("mpath/figure-20-others").value(others, format!("{others:.0} %")),
        gate("mpath/figure-20-still").value(still, format!("{still:.0} %")),
        gate("mpath/figure-21").value(fifty / all, format!("{fifty:.2} against {all:.2}")),
        some(gate("mpath/figure-22"), &results.together),
        some(gate("mpath/figure-22-scarce"), scarce(SIXTEENTH)),
        some(gate("mpath/figure-23"), &results.relaying),
        most(gate("mpath/figure-23-200"), &results.relaying),
        some(gate("mpath/figure-23-scarce"), scarce(HOSTS)),
        most(gate("mpath/figure-23-200-scarce"), scarce(HOSTS)),
    ]
}

/// Pairs that double, in per cent: of 200 at a time (NaN if none were), and of fewer.
fn by_number(rows: &[Together]) -> (f64, Vec<(String, f64)>) {
    let double = |row: &Together| 100.0 * row.ratios.above(2.0);
    let most = rows.iter().find(|row| row.pairs == 200);
    let fewer = rows.iter().filter(|row| row.pairs < 200);
    let fewer = fewer.map(|row| (format!("{} pairs", row.pairs), double(row)));
    (most.map_or(f64::NAN, double), fewer.collect())
}

/// The share of the pairs that gain, or of the others, that have settled by then.
fn settled(pairs: &[Pair], gaining: bool, within: f64) -> f64 {
    let of = pairs.iter().filter(|pair| (pair.ratio() > GAIN) == gaining);
    Sample::new(of.map(|pair| pair.mpath.settled_s)).within(within)
}

/// Pairs that gain and that double, in per cent of all.
fn gaining(pairs: &[Pair]) -> [(&'static str, f64); 2] {
    let ratios = Sample::new(pairs.iter().map(Pair::ratio));
    [("pairs that gain", GAIN), ("pairs that double", 2.0)]
        .map(|(name, least)| (name, 100.0 * ratios.above(least)))
}

/// What stands beside the paper's numbers.
pub(crate) fn ours(pairs: &[Pair]) -> Vec<Ours> {
    let [gain, double] = gaining(pairs).map(|(name, part)| ("mpath/figure-18", name, part));
    [
        gain,
        double,
        (
            "mpath/figure-20",
            "settled in 5 min, pairs that gain",
            100.0 * settled(pairs, true, 300.0),
        ),
        (
            "mpath/figure-20",
            "settled in 2 min, others",
            100.0 * settled(pairs, false, 120.0),
        ),
    ]
    .map(|(claim, name, percent)| Ours::exact(claim, name, percent))
    .into()
}

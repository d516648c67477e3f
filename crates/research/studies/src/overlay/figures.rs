//! The paper's figures, drawn of our runs.

use manyway_report::{Kind, Plot, Series};
use manyway_simulate::batch::OverlayDone;

use super::sweep::{Sweep, below};
use crate::study::Figure;

/// Pixels.
const SIZE: (u32, u32) = (900, 400);
/// Intervals that are drawn of the runs over time.
const EARLY: usize = 3000;

/// The rules that are drawn, each in a figure of its own.
const RULES: [&str; 2] = ["max-min", "proportional"];

/// A figure for each rule, by a function that gets the rule and its points.
fn by_rule(study: &Sweep, name: &str, draw: impl Fn(&str, &[usize]) -> Plot) -> Vec<Figure> {
    let one = |rule| {
        let plot = draw(rule, &study.having(&[rule]));
        Figure::new(format!("overlay-{name}-{rule}"), plot)
    };
    RULES.map(one).into()
}

pub(crate) fn fig3(study: &Sweep) -> Vec<Figure> {
    by_rule(study, "fig3", |rule, points| {
        let title = format!("Fig. 3, {rule}: all rates over the demands");
        over_time(study, points, &title)
    })
}

/// A selection with the paper's optimum.
pub(crate) fn fig4a(study: &Sweep) -> Vec<Figure> {
    by_rule(study, "fig4a", |rule, points| {
        let title = format!("Fig. 4(a), {rule}, a selection with the paper's optimum: AIAD from 0");
        over_time(study, points, &title)
    })
}

pub(crate) fn fig4b(study: &Sweep) -> Vec<Figure> {
    by_rule(study, "fig4b", |rule, points| {
        let title =
            format!("Fig. 4(b), {rule}: share of runs that are no further below the optimum");
        differences(study, points, &title)
    })
}

pub(crate) fn fig4c(study: &Sweep) -> Vec<Figure> {
    by_rule(study, "fig4c", |rule, points| {
        let title = format!("Fig. 4(c), {rule}: share of runs that take longer to settle");
        times(study, points, &title)
    })
}

pub(crate) fn packets(study: &Sweep) -> Figure {
    let points: Vec<usize> = (0..study.points.len()).collect();
    let title = "Packet level: share of runs that are no further below the optimum";
    Figure::new("overlay-packets", differences(study, &points, title))
}

pub(crate) fn fig5(study: &Sweep) -> Vec<Figure> {
    by_rule(study, "fig5", |rule, points| {
        let title = format!("Fig. 5, {rule}: first selection's rate by the number of paths");
        by_last(study, points, &title, "k", rate)
    })
}

pub(crate) fn fig6(study: &Sweep) -> Vec<Figure> {
    by_rule(study, "fig6", |rule, points| {
        let title = format!("Fig. 6, {rule}: first selection's rate by the relays' bandwidth");
        by_last(study, points, &title, "f", rate)
    })
}

/// A figure for each way to choose relays.
pub(crate) fn fig7(study: &Sweep) -> Vec<Figure> {
    let one = |choice: &str| {
        let title = format!("Fig. 7, max-min, {choice} choice: iterations until all are satisfied");
        let plot = by_last(study, &study.having(&[choice]), &title, "f", iterations);
        Figure::new(format!("overlay-fig7-{choice}"), plot)
    };
    ["uniform", "proportional"].map(one).into()
}

fn plot(title: &str, (x, y): (&str, &str), series: Vec<Series>) -> Plot {
    let mut plot = Plot::new(title, Kind::Lines);
    plot.size = SIZE;
    plot.x_label = x.to_owned();
    plot.y_label = y.to_owned();
    plot.series = series;
    plot
}

/// The first repetition of each point, and the optimum if that isn't all of the demand.
fn over_time(study: &Sweep, points: &[usize], title: &str) -> Plot {
    let line = |&point: &usize| {
        let values = study.runs(point)[0].run.series.iter().take(EARLY);
        let line = Series {
            name: format!("ε = {}", study.values(point).last().unwrap_or(&"")),
            points: (1_u32..).map(f64::from).zip(values.copied()).collect(),
        };
        line.thinned(SIZE.0 as usize)
    };
    let mut lines: Vec<Series> = points.iter().map(line).collect();
    let optimum = study.runs(points[0])[0].optimum.unwrap_or(1.0);
    lines.push(Series {
        name: "optimum".to_owned(),
        points: vec![(1.0, optimum), (EARLY as f64, optimum)],
    });
    plot(title, ("interval", "rates over demands"), lines)
}

/// Points that differ in skew and ratio only, under one name.
fn families<'a>(study: &'a Sweep, points: &[usize]) -> Vec<(String, Vec<&'a OverlayDone>)> {
    let name = |point: usize| {
        let set = study.points[point].set.iter();
        let own = set.filter(|(key, _)| {
            !["skew", "ratio", "sharing"]
                .iter()
                .any(|word| key.ends_with(word))
        });
        let words = own.map(|(key, value)| match key.rsplit('.').next() {
            Some("increment") => format!("ε = {value}"),
            _ => value.clone(),
        });
        words.collect::<Vec<_>>().join(", ")
    };
    let mut families: Vec<(String, Vec<_>)> = Vec::new();
    for &point in points {
        let runs = study.runs(point);
        match families.iter_mut().find(|(known, _)| *known == name(point)) {
            Some((_, known)) => known.extend(runs),
            None => families.push((name(point), runs.iter().collect())),
        }
    }
    families
}

/// The cumulative distribution of how far runs are below the optimum.
fn differences(study: &Sweep, points: &[usize], title: &str) -> Plot {
    let line = |(name, runs): (String, Vec<&OverlayDone>)| {
        let mut values: Vec<f64> = runs
            .iter()
            .map(|done| 100.0 * below(done).max(0.0))
            .collect();
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        let points = (1_u32..)
            .zip(values)
            .map(|(n, value)| (value, f64::from(n) / count));
        Series {
            name,
            points: points.collect(),
        }
    };
    let lines = families(study, points).into_iter().map(line).collect();
    plot(title, ("below the optimum, %", "share of runs"), lines)
}

/// The complementary distribution of times to settle, by the logarithm of the time.
fn times(study: &Sweep, points: &[usize], title: &str) -> Plot {
    let line = |(name, runs): (String, Vec<&OverlayDone>)| {
        let time = |done: &&OverlayDone| done.run.settled.max(1) as f64;
        let mut values: Vec<f64> = runs.iter().map(time).collect();
        values.sort_by(f64::total_cmp);
        let count = values.len() as f64;
        let points = (1_u32..)
            .zip(values)
            .map(|(n, value)| (value.log10(), 1.0 - f64::from(n) / count));
        Series {
            name,
            points: points.collect(),
        }
    };
    let lines = families(study, points).into_iter().map(line).collect();
    plot(
        title,
        ("log10 of the time, intervals", "share of runs"),
        lines,
    )
}

type Value = fn(&OverlayDone) -> f64;

fn rate(done: &OverlayDone) -> f64 {
    done.run.rate
}

fn iterations(done: &OverlayDone) -> f64 {
    done.run
        .search
        .map_or(f64::NAN, |search| search.iterations as f64)
}

/// Means by the key that changes fastest.
fn by_last(study: &Sweep, points: &[usize], title: &str, x_label: &str, value: Value) -> Plot {
    let searched = study.done[0].run.search.is_some();
    let mut lines: Vec<Series> = Vec::new();
    for &point in points {
        let set = &study.points[point].set;
        let (last, others) = set.split_last().expect("a swept key");
        let others = others.iter().filter(|(key, _)| !key.ends_with("sharing"));
        let word = |(key, value): &(String, String)| match key.rsplit('.').next() {
            Some("skew") => format!("b = {value}"),
            Some("scheme") => format!("{value}-reselection"),
            _ => value.clone(),
        };
        let name = others.map(word).collect::<Vec<_>>().join(", ");
        let runs = study.runs(point);
        let mean = runs.iter().map(value).sum::<f64>() / runs.len() as f64;
        // Iterations spread over three orders of magnitude.
        let mean = if searched { mean.log10() } else { mean };
        let Ok(x) = last.1.parse::<f64>() else {
            continue;
        };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((x, mean)),
            None => lines.push(Series {
                name,
                points: vec![(x, mean)],
            }),
        }
    }
    let y_label = if searched {
        "log10 of iterations"
    } else {
        "rates over demands"
    };
    plot(title, (x_label, y_label), lines)
}

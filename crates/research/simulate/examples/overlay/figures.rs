//! The paper's figures, drawn of our runs.

use std::fs;
use std::path::PathBuf;

use manyway_report::{Kind, Plot, Series};
use manyway_simulate::batch::OverlayDone;

use super::study::{Study, below};

/// Pixels.
const SIZE: (u32, u32) = (900, 400);
/// Intervals that are drawn of the runs over time.
const EARLY: usize = 3000;

/// Draws what there is to draw of these studies into the directory of `--out`, if there is one.
pub(crate) fn write(studies: &[(&'static str, Study)]) -> Result<(), String> {
    let args: Vec<String> = std::env::args().collect();
    let out = args.iter().position(|arg| arg == "--out");
    let Some(dir) = out.and_then(|at| args.get(at + 1)).map(PathBuf::from) else {
        return Ok(());
    };
    fs::create_dir_all(&dir)
        .map_err(|error| format!("can't write to {}: {error}", dir.display()))?;
    for (name, study) in studies {
        for (file, plot) in figures(name, study) {
            let svg = plot.svg().map_err(|error| error.to_string())?;
            let path = dir.join(format!("overlay-{file}.svg"));
            fs::write(&path, svg)
                .map_err(|error| format!("can't write {}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// The figures of a study, with the names of their files.
fn figures(name: &str, study: &Study) -> Vec<(String, Plot)> {
    let rule = |rule: &'static str| (rule, study.having(&[rule]));
    let rules = || ["max-min", "proportional"].map(rule);
    let each = |draw: &dyn Fn(&str, &[usize]) -> Plot| {
        let one =
            |(rule, points): (&str, Vec<usize>)| (format!("{name}-{rule}"), draw(rule, &points));
        rules().map(one).to_vec()
    };
    match name {
        "fig3" => each(&|rule, points| {
            over_time(
                study,
                points,
                &format!("Fig. 3, {rule}: all rates over the demands"),
            )
        }),
        "fig4a" => Vec::new(),
        "published" => {
            let draw = |rule: &str, points: &[usize]| {
                over_time(
                    study,
                    points,
                    &format!("Fig. 4(a), {rule}, the published selection: AIAD from 0"),
                )
            };
            let one =
                |(rule, points): (&str, Vec<usize>)| (format!("fig4a-{rule}"), draw(rule, &points));
            rules().map(one).to_vec()
        }
        "fig4b" => each(&|rule, points| {
            differences(
                study,
                points,
                &format!("Fig. 4(b), {rule}: share of runs that are no further below the optimum"),
            )
        }),
        "fig4c" => each(&|rule, points| {
            times(
                study,
                points,
                &format!("Fig. 4(c), {rule}: share of runs that take longer to settle"),
            )
        }),
        "packets" => vec![(
            "packets".to_owned(),
            differences(
                study,
                &all(study),
                "Packet level: share of runs that are no further below the optimum",
            ),
        )],
        "fig5" | "fig5h" => each(&|rule, points| {
            let demands = if name == "fig5" {
                ""
            } else {
                ", demands of 1, 10, 100 Mbps"
            };
            by_last(
                study,
                points,
                &format!("Fig. 5, {rule}{demands}: first selection's rate by the number of paths"),
                "k",
                rate,
            )
        }),
        "fig6" => each(&|rule, points| {
            by_last(
                study,
                points,
                &format!("Fig. 6, {rule}: first selection's rate by the relays' bandwidth"),
                "f",
                rate,
            )
        }),
        "fig7" => ["uniform", "proportional"]
            .map(|choice| {
                let points = study.having(&[choice]);
                let plot = by_last(
                    study,
                    &points,
                    &format!(
                        "Fig. 7, max-min, {choice} choice: iterations until all are satisfied"
                    ),
                    "f",
                    iterations,
                );
                (format!("fig7-{choice}"), plot)
            })
            .to_vec(),
        _ => Vec::new(),
    }
}

fn all(study: &Study) -> Vec<usize> {
    (0..study.points.len()).collect()
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
fn over_time(study: &Study, points: &[usize], title: &str) -> Plot {
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
fn families<'a>(study: &'a Study, points: &[usize]) -> Vec<(String, Vec<&'a OverlayDone>)> {
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
fn differences(study: &Study, points: &[usize], title: &str) -> Plot {
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
fn times(study: &Study, points: &[usize], title: &str) -> Plot {
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
fn by_last(study: &Study, points: &[usize], title: &str, x_label: &str, value: Value) -> Plot {
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

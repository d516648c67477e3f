//! `manyway reproduce`: runs the studies that the asked-for claims need and that aren't kept yet,
//! and writes the report.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use manyway_studies::reproduce::{Kept, Selection, Store, Verdict, write_report};
use manyway_studies::{Extent, Size, Study};
use manyway_units::format_duration;

use crate::args::ReproduceArgs;
use crate::exit::{Stop, usage};
use crate::screen::Screen;
use crate::text::bar;

/// Columns of the bar.
const BAR: usize = 30;
const REDRAW: Duration = Duration::from_millis(500);

pub(crate) async fn run(screen: &Screen, args: ReproduceArgs) -> anyhow::Result<()> {
    let ReproduceArgs {
        what, full, out, ..
    } = args;
    let selection = Selection::of(what.as_deref()).map_err(|error| usage(error.to_string()))?;
    let size = match full {
        true => Size::Full,
        false => Size::Short,
    };
    let stop = Stop::listen(false);
    let store = Store::open(&out, code()?).map_err(|error| {
        let out = out.display();
        usage(format!(
            "can't write into {out}: {error}; --out DIR names another folder"
        ))
    })?;
    let studies = selection.studies();
    let kept = collect(screen, &stop, &store, &studies, size).await?;
    let (report, written) = write_report(&out, &selection, size, &kept)
        .with_context(|| format!("can't write the report into {}", out.display()))?;
    let verdicts = Verdict::ALL
        .iter()
        .filter(|verdict| report.count(**verdict) > 0);
    let verdicts: Vec<String> = verdicts
        .map(|&verdict| format!("{} {}", report.count(verdict), verdict.words()))
        .collect();
    screen.say(&format!(
        "{}\nThe report is {}; {} has its data",
        verdicts.join(", "),
        written.html.display(),
        written.json.display()
    ));
    if let Some(archive) = written.archive {
        screen.say(&format!(
            "{} has everything, with how to cite it",
            archive.display()
        ));
    }
    Ok(())
}

/// What tells this program's code from any other's: a result is kept for one code.
fn code() -> anyhow::Result<String> {
    let program = std::env::current_exe().context("can't find this program's own file")?;
    let read = |path: &Path| -> std::io::Result<String> {
        let mut hash = blake3::Hasher::new();
        hash.update_reader(std::fs::File::open(path)?)?;
        Ok(hash.finalize().to_hex().to_string())
    };
    read(&program).with_context(|| format!("can't read {}", program.display()))
}

/// The results of all studies: those that are kept, and of the others what they give now.
async fn collect(
    screen: &Screen,
    stop: &Stop,
    store: &Store,
    studies: &[&'static dyn Study],
    size: Size,
) -> anyhow::Result<Vec<Kept>> {
    let before: Vec<_> = studies
        .iter()
        .map(|study| store.kept(*study, size))
        .collect();
    let missing = studies
        .iter()
        .zip(&before)
        .filter(|(_, kept)| kept.is_none());
    let costs = missing.map(|(study, _)| study.cost(size));
    let mut work = Work::new(costs.sum(), studies.len());
    work.over = before.iter().flatten().count();
    if work.over > 0 {
        screen.say(&format!(
            "{} of {} studies were kept",
            work.over,
            studies.len()
        ));
    }
    let mut all = Vec::new();
    for (&study, kept) in studies.iter().zip(before) {
        if let Some(kept) = kept {
            all.push(kept);
            continue;
        }
        let name = study.name();
        work.begin(name, study.cost(size));
        let mut running = tokio::task::spawn_blocking(move || study.run(Extent::of(size)));
        let outcome = tokio::select! {
            outcome = &mut running => outcome,
            () = stop.requested() => bail!(
                "stopped: {} of {} studies are kept; run the same command to continue",
                work.over,
                studies.len()
            ),
            never = show(screen, &work) => match never {},
        };
        let outcome = outcome.with_context(|| format!("the study {name} came to a sudden end"))?;
        let failed = |error| anyhow::anyhow!("the study {name}: {error}");
        let outcome = outcome.map_err(failed)?;
        all.push(store.keep(study, size, &outcome).map_err(failed)?);
        work.end();
        if !screen.redraws() {
            screen.say(&work.words());
        }
    }
    Ok(all)
}

/// Studies that are to be run, by what they cost.
struct Work {
    started: Instant,
    /// All studies, and those that are over or were kept.
    studies: usize,
    over: usize,
    /// Processor seconds of those that are to be run, and of those that have been.
    total: u32,
    done: u32,
    /// The study that runs now: its name, cost, and when it began.
    now: Option<(&'static str, u32, Instant)>,
}

impl Work {
    fn new(total: u32, studies: usize) -> Self {
        Work {
            started: Instant::now(),
            studies,
            over: 0,
            total,
            done: 0,
            now: None,
        }
    }

    fn begin(&mut self, name: &'static str, cost: u32) {
        self.now = Some((name, cost, Instant::now()));
    }

    fn end(&mut self) {
        if let Some((_, cost, _)) = self.now.take() {
            self.done += cost;
            self.over += 1;
        }
    }

    /// How much of the work is done, and how long the rest will take.
    fn progress(&self) -> (f64, Duration) {
        let now = self.now.as_ref();
        let (cost, taken) = now.map_or((0, Duration::ZERO), |(_, cost, began)| {
            (*cost, began.elapsed())
        });
        estimate(self.total, self.done, self.started.elapsed(), (cost, taken))
    }

    /// `mpath, 3 of 9 studies, 40 %, 1 min 5 s left`.
    fn words(&self) -> String {
        let (fraction, left) = self.progress();
        let left = match self.total > self.done {
            true => format!(", about {} left", format_duration(left)),
            false => String::new(),
        };
        let name = self.now.as_ref().map(|(name, ..)| format!("{name}, "));
        format!(
            "{}{} of {} studies, {:.0} %{left}",
            name.unwrap_or_default(),
            self.over,
            self.studies,
            (100.0 * fraction).floor()
        )
    }
}

/// Of the whole cost, what is done after so long, with a study of a known cost under way for a part
/// of it: how much that is, and how long the rest takes.
fn estimate(
    total: u32,
    done: u32,
    elapsed: Duration,
    (cost, taken): (u32, Duration),
) -> (f64, Duration) {
    let [total, done, cost] = [total, done, cost].map(f64::from);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let before = elapsed.saturating_sub(taken).as_secs_f64();
    // Seconds for a unit of cost: as measured, or as if all cores were busy.
    let pace = match done > 0.0 && before > 0.0 {
        true => before / done,
        false => 1.0 / cores,
    };
    // A study that takes longer than expected is never quite over.
    let of_this = (taken.as_secs_f64() / pace).min(0.95 * cost);
    let done = done + of_this;
    let left = Duration::from_secs_f64(((total - done) * pace).max(0.0).ceil());
    (done / total.max(1.0), left)
}

/// Draws a bar for ever; it vanishes when this is dropped.
async fn show(screen: &Screen, work: &Work) -> std::convert::Infallible {
    if !screen.redraws() || screen.is_quiet() {
        return std::future::pending().await;
    }
    let block = screen.block();
    loop {
        let (fraction, _) = work.progress();
        block.show(vec![bar(fraction, BAR).and(" ").and(work.words())]);
        tokio::time::sleep(REDRAW).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_was_done_says() {
        let second = Duration::from_secs(1);
        let (fraction, left) = estimate(100, 20, 10 * second, (0, Duration::ZERO));
        assert_eq!((fraction, left), (0.2, 40 * second));
        // Four seconds of a study that should take ten.
        let (fraction, left) = estimate(100, 20, 14 * second, (20, 4 * second));
        assert_eq!((fraction, left), (0.28, 36 * second));
        // One that takes much longer than expected.
        let (fraction, left) = estimate(100, 80, 200 * second, (20, 160 * second));
        assert!(
            (fraction - 0.99).abs() < 1e-9 && left == second,
            "{fraction} {left:?}"
        );
        let (fraction, left) = estimate(0, 0, second, (0, Duration::ZERO));
        assert_eq!((fraction, left), (0.0, Duration::ZERO));
    }
}

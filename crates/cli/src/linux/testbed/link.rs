//! `manyway testbed link` and `show`: one link in namespaces of somebody else's, for scripts that
//! end links or look into their queues.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use anyhow::Context;
use manyway_network::{Change, Limit, LinkConfig, Queue};
use manyway_scenario::Experiment;
use manyway_testbed::live::{self, End, LinkReading, PartReport};
use manyway_units::{Rate, Time};
use serde_json::{Value, json};

use super::chosen;
use crate::args::testbed::{LinkArgs, NetworkOfArgs};
use crate::exit::{Stop, usage};
use crate::summary::print_json;

/// Faster than anything that a link meets: the return path if the scenario has no link for it.
const WAY_BACK_MBPS: f64 = 100_000.0;

/// How soon it is noticed that a device is gone.
const LOOK: Duration = Duration::from_millis(50);

/// The links, paths and flows.
pub(super) fn show(args: &NetworkOfArgs) -> anyhow::Result<()> {
    let (experiment, _) = chosen(args)?;
    let end = Time::ZERO + experiment.duration;
    let span = [experiment.measure.from, end].map(Time::as_secs_f64);
    let topology = &experiment.topology;
    let links = topology.links.iter().map(|link| {
        let config = &link.config;
        let about = json!({
            "rate_bps": mean_rate(config, span),
            "delay_s": config.delay.as_secs_f64(),
            "loss": config.loss.mean(),
        });
        (link.name.clone(), about)
    });
    let named = |link: &usize| topology.links[*link].name.as_str();
    let paths = topology.paths.iter().map(|path| {
        let (there, back) = [&path.links, &path.reverse]
            .map(|links| links.iter().map(named).collect::<Vec<_>>())
            .into();
        (
            path.name.clone(),
            json!({ "links": there, "reverse": back }),
        )
    });
    print_json(&json!({
        "links": links.collect::<Value>(),
        "paths": paths.collect::<Value>(),
        "flows": experiment.flows.iter().map(|flow| {
            let paths = flow.paths.iter().map(|path| topology.paths[*path].name.as_str());
            json!({ "name": flow.name, "law": flow.law_name(),
                "paths": paths.collect::<Vec<_>>() })
        }).collect::<Vec<_>>(),
    }))
}

/// The mean over a span of what a link can carry, in bits per second.
fn mean_rate(link: &LinkConfig, [from, to]: [f64; 2]) -> f64 {
    const STEPS: u32 = 10_000;
    let at = |step: u32| from + (to - from) * (f64::from(step) + 0.5) / f64::from(STEPS);
    let rate = |step| {
        let now = Time::from_secs_f64(at(step));
        f64::from(u8::from(link.at(now).up)) * link.capacity(now).bits_per_sec()
    };
    (0..STEPS).map(rate).sum::<f64>() / f64::from(STEPS)
}

/// Is a link until a signal comes or a device is gone.
pub(super) async fn run(args: &LinkArgs) -> anyhow::Result<()> {
    let (experiment, seed) = chosen(&args.network)?;
    let there = find(&experiment, &args.link)?;
    let back = match &args.back {
        Some(name) => find(&experiment, name)?,
        None => way_back(&there),
    };
    let end = |text: &str| text.parse::<End>().map_err(usage);
    let ends = [end(&args.here)?, end(&args.there)?];
    let log = match &args.log {
        Some(path) => {
            let file = File::create(path).with_context(|| path.display().to_string())?;
            Some(Box::new(BufWriter::new(file)) as Box<dyn Write + Send>)
        }
        None => None,
    };
    let stop = Stop::listen(false);
    let emulator = live::link(&ends, [there, back], seed, log)?;
    let mut stdout = io::stdout();
    writeln!(stdout, "up")?;
    stdout.flush()?;
    let ended = async {
        while !emulator.has_ended() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        () = stop.requested() => {}
        () = ended => {}
    }
    let links = emulator.read().links;
    let parts = emulator.stop()?;
    for ((link, part), direction) in links.iter().zip(&parts).zip(["there", "back"]) {
        print_json(&said((link, part), &args.link, direction))?;
    }
    Ok(())
}

fn find(experiment: &Experiment, name: &str) -> anyhow::Result<LinkConfig> {
    let links = &experiment.topology.links;
    match links.iter().find(|link| link.name == name) {
        Some(link) => Ok(link.config.clone()),
        None => {
            let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
            let names = names.join(", ");
            Err(usage(format!("no link {name}; there are {names}")))
        }
    }
}

/// As long, and dark at the same times.
fn way_back(there: &LinkConfig) -> LinkConfig {
    let mut back = LinkConfig::new(Rate::from_mbps(WAY_BACK_MBPS), there.delay);
    back.queue = Queue::DropTail(Limit::Packets(u32::MAX));
    back.timetable = there.timetable.clone();
    let changes = back.timetable.changes.drain(..);
    let ups = changes.filter(|change| change.up.is_some());
    let ups = ups.map(|change| Change {
        rate: None,
        delay: None,
        ..change
    });
    back.timetable.changes = ups.collect();
    back
}

fn said((seen, part): (&LinkReading, &PartReport), link: &str, direction: &str) -> Value {
    let micros = |delay: Duration| (delay.as_secs_f64() * 1e7).round() / 10.0;
    let (stats, late) = (&seen.stats, &part.late);
    json!({
        "link": link,
        "direction": direction,
        "offered": stats.offered,
        "delivered": stats.delivered,
        "bytes": stats.bytes_delivered,
        "dropped_by_queue": stats.dropped() - stats.dropped_random - stats.dropped_down,
        "lost": stats.dropped_random + stats.dropped_down,
        "refused": part.refused,
        "real_time": part.real_time,
        "late_us": {
            "median": micros(late.percentile(0.5)),
            "p99": micros(late.percentile(0.99)),
            "max": micros(late.most()),
        },
    })
}

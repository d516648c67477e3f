//! `manyway demo`: real transfers over emulated links, on this host alone.
//!
//! A demo transfers random files, verifies the copies and plots the rates. It never leaves
//! loopback, and writes only temporary files and the plot.

mod files;
mod plain;
mod relays;
mod report;
mod result;
mod trial;

use anyhow::{Context, ensure};

use self::report::DemoReport;
use crate::args::DemoArgs;
use crate::exit::{Interrupted, Stop};
use crate::screen::Screen;
use crate::summary::print_json;

pub(crate) async fn run(screen: &Screen, args: DemoArgs) -> anyhow::Result<()> {
    let stop = Stop::listen(false);
    let demo = async {
        anyhow::Ok(match args.relays {
            true => Outcome::of(&relays::run(screen, &args).await?)?,
            false => Outcome::of(&plain::run(screen, &args).await?)?,
        })
    };
    let outcome = tokio::select! {
        outcome = demo => outcome?,
        () = stop.requested() => return Err(Interrupted.into()),
    };
    // The plot first: report success only after everything that can fail.
    std::fs::write(&args.svg, &outcome.svg).with_context(|| {
        format!(
            "can't write the plot to {} (`--svg FILE` names another file)",
            args.svg.display()
        )
    })?;
    screen.say(&outcome.text);
    screen.say(&format!(
        "The plot of each path's rate is in {}",
        args.svg.display()
    ));
    if args.json {
        print_json(&outcome.json)?;
    }
    ensure!(
        outcome.verified,
        "the received file differs from the sent one: please report this bug"
    );
    Ok(())
}

#[derive(Debug)]
struct Outcome {
    text: String,
    json: serde_json::Value,
    svg: String,
    verified: bool,
}

impl Outcome {
    fn of(demo: &impl DemoReport) -> anyhow::Result<Self> {
        Ok(Self {
            text: demo.text(),
            json: serde_json::to_value(demo.json())?,
            svg: demo.svg()?,
            verified: demo.verified(),
        })
    }
}

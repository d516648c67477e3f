//! `manyway demo`: real transfers over emulated links, on this host alone.

mod files;
mod plain;
mod relays;
mod result;
mod show;
mod trial;

use anyhow::{Context, ensure};

use self::show::Show;
use crate::args::DemoArgs;
use crate::exit::{Interrupted, Stop};
use crate::screen::Screen;
use crate::summary::print_json;

pub(crate) async fn run(screen: &Screen, args: DemoArgs) -> anyhow::Result<()> {
    let stop = Stop::listen(false);
    let play = async {
        anyhow::Ok(match args.relays {
            true => Played::of(&relays::play(screen, &args).await?)?,
            false => Played::of(&plain::play(screen, &args).await?)?,
        })
    };
    let played = tokio::select! {
        played = play => played?,
        () = stop.requested() => return Err(Interrupted.into()),
    };
    // The picture first: what can fail comes before "done" is said.
    std::fs::write(&args.svg, &played.svg).with_context(|| {
        format!(
            "can't write the plot to {} (--svg FILE names another)",
            args.svg.display()
        )
    })?;
    screen.say(&played.text);
    screen.say(&format!(
        "The rate of each path over time: {}",
        args.svg.display()
    ));
    if args.json {
        print_json(&played.json)?;
    }
    ensure!(
        played.verified,
        "the received file differs from the sent one: please report this"
    );
    Ok(())
}

#[derive(Debug)]
struct Played {
    text: String,
    json: serde_json::Value,
    svg: String,
    verified: bool,
}

impl Played {
    fn of(demo: &impl Show) -> anyhow::Result<Self> {
        Ok(Self {
            text: demo.text(),
            json: serde_json::to_value(demo.json())?,
            svg: demo.svg()?,
            verified: demo.verified(),
        })
    }
}

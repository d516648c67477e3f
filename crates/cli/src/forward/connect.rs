//! `manyway connect --stdio`: standard input and output as one TCP connection of the other host.

use manyway::Connection;
use manyway_wire::forward::{Request, Target};
use tokio::try_join;

use super::Setup;
use super::error::Cut;
use super::stdio::{Input, Output};
use super::stream::{Stream, over};
use crate::args::ConnectArgs;
use crate::exit::{Interrupted, NotNeeded, usage};
use crate::publish::Doing;
use crate::relays::RelaySources;
use crate::screen::Screen;
use crate::ticket::Invitation;
use crate::{options, ticket};

/// Most bytes taken from the stream at once.
const PIECE: usize = 256 << 10;

pub(crate) async fn run(screen: &Screen, args: ConnectArgs) -> anyhow::Result<()> {
    debug_assert!(args.stdio, "it is required");
    let (invitation, target) = invitation_and_target(&args)?;
    let carrier = args.network.carrier;
    let mut relays = RelaySources::read(screen, &args.relays, carrier, None)?;
    relays.check_access()?;
    let endpoint = options::bind(&args.network).await?;
    let setup = Setup::new(screen, &endpoint, &args.network, Doing::Other("connected"));
    let connected = async {
        let ticket = relays.accept(invitation, &setup.stop).await?;
        let (connection, _tasks) = relays.dial(&endpoint, &ticket, &setup.stop).await?;
        setup.run(&connection, work(&connection, target)).await
    };
    let result = connected.await;
    endpoint.close().await;
    result.map_err(|error| match error.is::<Interrupted>() {
        true => NotNeeded.into(),
        false => error,
    })
}

/// `[TICKET] [HOST:PORT]`; the ticket may come from `--to` or `MANYWAY_TICKET` instead.
fn invitation_and_target(args: &ConnectArgs) -> anyhow::Result<(Invitation, Option<Target>)> {
    let mut what: &[String] = &args.what;
    let mut to = args.to.as_deref();
    if let Some(first) = what
        .first()
        .filter(|first| ticket::is_invitation(first.as_ref()))
    {
        to = Some(first);
        what = &what[1..];
    }
    let target = match what {
        [] => None,
        [target] => {
            let target: Result<Target, _> = target.parse();
            Some(target.map_err(|error| usage(error.to_string()))?)
        }
        _ => return Err(usage("give one target, HOST:PORT, behind the ticket")),
    };
    Ok((ticket::needed(to)?, target))
}

async fn work(connection: &Connection, target: Option<Target>) -> anyhow::Result<()> {
    let (mut stream, _) = Stream::open(connection, &Request::Connect(target)).await?;
    let (mut input, mut output) = (Input::start()?, Output::start()?);
    let Stream { send, receive } = &mut stream;
    let upwards = async {
        loop {
            let piece = tokio::select! {
                piece = input.next() => piece?,
                stopped = send.stopped() => return Err(explain(Cut::stopped(stopped))),
            };
            match piece {
                Some(piece) => {
                    let written = send.write_bytes(piece).await;
                    written.map_err(|error| explain(Cut::write(error)))?;
                }
                None => break,
            }
        }
        let finished = send.finish();
        finished.map_err(|error| explain(Cut::write(error)))?;
        match send.stopped().await {
            Ok(None) => Ok(()),
            stopped => Err(explain(Cut::stopped(stopped))),
        }
    };
    let downwards = async {
        loop {
            match receive.read_chunk(PIECE).await {
                Ok(Some(piece)) => output.write(piece).await?,
                Ok(None) => return output.close().await,
                Err(error) => return Err(explain(Cut::read(error))),
            }
        }
    };
    let result = try_join!(upwards, downwards);
    if result.is_err() {
        stream.cut();
    }
    result.map(drop)
}

/// With the peer's reason, if the connection is over.
fn explain(cut: Cut) -> anyhow::Error {
    match cut {
        Cut::Lost(lost) => over(lost),
        cut => cut.into(),
    }
}

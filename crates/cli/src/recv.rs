//! `manyway recv`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use manyway::{Connection, Endpoint, RelayAddress, Ticket};
use tokio::task::JoinSet;

use crate::args::RecvArgs;
use crate::exchange::{Exchange, Job, Side};
use crate::exit::{Interrupted, Stop, usage, words};
use crate::fleet::Detours;
use crate::screen::Screen;
use crate::summary::{self, Summary};
use crate::{options, ticket};

pub(crate) async fn run(screen: &Screen, args: RecvArgs) -> anyhow::Result<()> {
    let (source, dir) = source_and_dir(&args)?;
    let mut detours = Detours::of(screen, &args.relays).await?;
    if source.is_some() {
        detours.check_access()?;
    }
    prepare(&dir)?;
    let stop = Stop::listen(args.while_stdin);
    let endpoint = options::bind(&args.network).await?;
    let receiver = Receiver {
        screen: screen.clone(),
        stop,
        job: Job::Receive(dir, options::receive(args.conflict)),
        json: args.network.json,
        named: !args.network.interfaces.is_empty(),
    };
    let result = match source {
        Some(ticket) => receiver.fetch(&endpoint, &ticket, &mut detours).await,
        None => match detours.to_be_found_at().await {
            Ok(found_at) => receiver.listen(&endpoint, &args, &found_at).await,
            Err(error) => Err(error),
        },
    };
    endpoint.close().await;
    result
}

/// `[TICKET] [DIR]`, with the ticket's twins `--from` and `MANYWAY_TICKET`.
fn source_and_dir(args: &RecvArgs) -> anyhow::Result<(Option<Ticket>, PathBuf)> {
    let mut what: &[OsString] = &args.what;
    let mut source = args.from.clone();
    if let Some(first) = what.first().filter(|first| ticket::is_ticket(first)) {
        source = first.to_str().map(str::to_owned);
        what = &what[1..];
    }
    if what.len() > 1 {
        return Err(usage(
            "one directory to receive into, please; a ticket comes before it and begins with mw1",
        ));
    }
    let dir = what
        .first()
        .map_or_else(|| PathBuf::from("."), PathBuf::from);
    Ok((source.as_deref().map(ticket::read).transpose()?, dir))
}

/// Creates the directory when only its last part is missing: anything more is likely a slip.
fn prepare(dir: &Path) -> anyhow::Result<()> {
    let shown = dir.display();
    match fs::create_dir(dir) {
        Ok(()) => Ok(()),
        Err(_) if dir.is_dir() => Ok(()),
        Err(error) => Err(match error.kind() {
            io::ErrorKind::AlreadyExists => {
                anyhow!("can't receive into {shown}: it is not a directory")
            }
            io::ErrorKind::NotFound => {
                anyhow!("can't receive into {shown}: create its parent directory first")
            }
            _ => anyhow::Error::new(error).context(format!("can't create {shown}")),
        }),
    }
}

#[derive(Debug, Clone)]
struct Receiver {
    screen: Screen,
    stop: Stop,
    job: Job,
    json: bool,
    named: bool,
}

impl Receiver {
    async fn fetch(
        &self,
        endpoint: &Endpoint,
        ticket: &Ticket,
        detours: &mut Detours,
    ) -> anyhow::Result<()> {
        let result = match detours.dial(endpoint, ticket, &self.stop).await {
            Ok((connection, _caretaker)) => self.receive(connection, Side::Dialled).await,
            Err(error) => Err(error),
        };
        summary::finish(&self.screen, self.json, result)
    }

    async fn listen(
        &self,
        endpoint: &Endpoint,
        args: &RecvArgs,
        via: &[RelayAddress],
    ) -> anyhow::Result<()> {
        ticket::publish(&self.screen, endpoint, &args.invitation, via, |ticket| {
            format!("On the sending host:\n\n  manyway send PATH… --to {ticket}\n")
        })?;
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                accepted = endpoint.accept() => {
                    let connection = accepted.context("the sockets are gone")?;
                    let receiver = self.clone();
                    if args.once {
                        return receiver.serve(connection).await;
                    }
                    running.spawn(async move {
                        if let Err(error) = receiver.serve(connection).await {
                            receiver.screen.error(&format!("manyway: {}", words(&error)));
                        }
                    });
                }
                Some(_) = running.join_next() => {}
                () = self.stop.requested() => break,
            }
        }
        self.end(running, args.once).await
    }

    /// Stopped by the user: fine while nothing was under way.
    async fn end(&self, mut running: JoinSet<()>, once: bool) -> anyhow::Result<()> {
        if running.is_empty() && !once {
            self.screen.say("stopped");
            return Ok(());
        }
        while running.join_next().await.is_some() {}
        Err(Interrupted.into())
    }

    async fn serve(&self, connection: Connection) -> anyhow::Result<()> {
        let result = self.receive(connection, Side::Answered).await;
        summary::finish(&self.screen, self.json, result)
    }

    async fn receive(&self, connection: Connection, side: Side) -> anyhow::Result<Summary> {
        let exchange = Exchange {
            screen: &self.screen,
            stop: &self.stop,
            connection,
            side,
            named: self.named,
        };
        exchange.run(self.job.clone()).await
    }
}

//! `manyway send`.

use manyway::files::Sources;
use manyway::{Endpoint, Ticket};

use crate::args::SendArgs;
use crate::destination::{self, Remote};
use crate::exchange::{self, Exchange, Job, Side};
use crate::exit::{Interrupted, Stop, usage};
use crate::relays::{RelaySources, selection};
use crate::screen::Screen;
use crate::ssh::{self, Far, Invocation};
use crate::summary::{self, Summary};
use crate::{options, ticket};

pub(crate) async fn run(screen: &Screen, mut args: SendArgs) -> anyhow::Result<()> {
    let target = Target::of(&mut args)?;
    // What can't be sent is said before a ticket is printed or ssh asks for a password.
    let sources = Sources::new(&args.paths)?;
    let connects = !matches!(target, Target::Whoever);
    let limit = args.network.limit;
    let selected = selection::config(&args.selection, &args.relays, limit, connects)?;
    let (carrier, pick) = (args.network.carrier, args.selection.pick);
    let relays = RelaySources::open(screen, &args.relays, carrier, pick).await?;
    if connects {
        relays.check_access()?;
    }
    if !matches!(target, Target::Ssh(_)) && (args.conflict.overwrite || args.conflict.rename) {
        screen.say("--overwrite and --rename are the receiver's to give: they have no effect here");
    }
    let stop = Stop::listen(false);
    let endpoint = options::bind_selecting(&args.network, selected).await?;
    let mut sender = Sender {
        screen,
        stop: &stop,
        endpoint: &endpoint,
        args: &args,
        sources,
        relays,
    };
    let result = match target {
        Target::Ticket(ticket) => sender.deliver(&ticket).await,
        Target::Ssh(remote) => sender.deliver_over_ssh(&remote).await,
        Target::Whoever => sender.offer().await,
    };
    endpoint.close().await;
    summary::finish(screen, args.network.json, result)
}

/// Where the files go.
enum Target {
    Ticket(Ticket),
    Ssh(Remote),
    /// Whoever shows the ticket that we print.
    Whoever,
}

impl Target {
    fn of(args: &mut SendArgs) -> anyhow::Result<Self> {
        let remote = destination::split(&mut args.paths)?;
        Ok(match (remote, &args.to) {
            (Some(remote), None) => Target::Ssh(remote),
            (None, Some(to)) => Target::Ticket(ticket::read(to)?),
            (None, None) => Target::Whoever,
            (Some(remote), Some(_)) => {
                return Err(usage(format!(
                    "both a ticket (--to or MANYWAY_TICKET) and {}:{} name a destination: \
                     give one (a local file of that name is ./{}:…)",
                    remote.host, remote.dir, remote.host
                )));
            }
        })
    }
}

struct Sender<'a> {
    screen: &'a Screen,
    stop: &'a Stop,
    endpoint: &'a Endpoint,
    args: &'a SendArgs,
    sources: Sources,
    relays: RelaySources,
}

impl Sender<'_> {
    async fn deliver(&mut self, ticket: &Ticket) -> anyhow::Result<Summary> {
        let dialled = self.relays.dial(self.endpoint, ticket, self.stop).await;
        let (connection, _tasks) = dialled?;
        let exchange = Exchange {
            screen: self.screen,
            stop: self.stop,
            connection,
            side: Side::Dialled,
            named: self.named(),
        };
        exchange.run(Job::Send(self.sources.clone())).await
    }

    async fn deliver_over_ssh(&mut self, remote: &Remote) -> anyhow::Result<Summary> {
        let invocation = Invocation {
            remote,
            ssh: &self.args.ssh,
            conflict: self.args.conflict,
        };
        let (far, ticket): (Far, Ticket) = tokio::select! {
            started = ssh::start(self.screen, &invocation) => started?,
            () = self.stop.requested() => return Err(Interrupted.into()),
        };
        let result = self.deliver(&ticket).await;
        far.finish(result.is_ok()).await;
        result
    }

    fn named(&self) -> bool {
        !self.args.network.interfaces.is_empty()
    }

    async fn offer(&mut self) -> anyhow::Result<Summary> {
        let relays_of_ticket = self.relays.for_own_ticket().await?;
        options::listen_tcp(self.endpoint, &self.args.network)?;
        let ticket = ticket::publish(
            self.screen,
            self.endpoint,
            &self.args.ticket,
            &relays_of_ticket,
            |ticket| format!("On the receiving host:\n\n  manyway recv {ticket}\n"),
        )?;
        let _tasks = self.relays.await_callers(self.endpoint, &ticket)?;
        let (connection, side) = tokio::select! {
            first = exchange::first(self.endpoint) => first?,
            () = self.stop.requested() => return Err(Interrupted.into()),
        };
        let exchange = Exchange {
            screen: self.screen,
            stop: self.stop,
            connection,
            side,
            named: self.named(),
        };
        exchange.run(Job::Send(self.sources.clone())).await
    }
}

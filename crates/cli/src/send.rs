//! `manyway send`: to a ticket, over ssh, or to a receiver that fetches.

use std::cell::Cell;

use manyway::files::Sources;
use manyway::{Connection, Endpoint, Ticket};

use crate::args::SendArgs;
use crate::destination::{self, Remote};
use crate::door::Door;
use crate::exchange::{self, Job, Role, Setup};
use crate::exit::{Interrupted, Stop, usage};
use crate::forward::pipe;
use crate::listener::Listener;
use crate::metered::Limit;
use crate::relays::{RelaySources, selection};
use crate::reports::Reports;
use crate::retry::until_done;
use crate::screen::Screen;
use crate::ssh::{self, Invocation, RemoteReceiver};
use crate::summary::Summary;
use crate::ticket::Invitation;
use crate::{content, options, ticket};

pub(crate) async fn run(screen: &Screen, args: SendArgs) -> anyhow::Result<()> {
    if args.paths.iter().any(|path| pipe::is_pipe(path)) {
        let reports = Reports::start(screen, &args.report)?;
        let sent = pipe::send(screen, args).await;
        let sent = sent.inspect_err(|error| reports.failed(error));
        reports.close().await?;
        return sent;
    }
    run_as(screen, args, false).await
}

/// `manyway sync`: what exists there is replaced, and a directory may stand for its contents.
pub(crate) async fn sync(screen: &Screen, mut args: SendArgs) -> anyhow::Result<()> {
    args.arrival.overwrite = true;
    run_as(screen, args, true).await
}

async fn run_as(screen: &Screen, args: SendArgs, syncs: bool) -> anyhow::Result<()> {
    let mut reports = Reports::start(screen, &args.report)?;
    let sent = send(screen, &mut reports, args, syncs).await;
    let told = reports.ended(sent).await;
    reports.close().await?;
    told
}

async fn send(
    screen: &Screen,
    reports: &mut Reports,
    mut args: SendArgs,
    syncs: bool,
) -> anyhow::Result<Summary> {
    reports.of_transfers(&args.report, None).await?;
    if syncs && args.arrival.rename {
        return Err(usage(
            "`sync` replaces files that differ: use `send` with `--rename`",
        ));
    }
    let (invitation, remote) = destination(&mut args)?;
    // Report files that can't be sent before printing a ticket or letting ssh ask for a password.
    let sources = content::sources(&args.paths, &args.content, syncs)?;
    // A directory's contents, and nothing beside them.
    let spare_home = args.arrival.delete && sources.names().next().is_none();
    let sources = sources.with_attributes(args.arrival.xattrs, args.arrival.acls);
    let connects = invitation.is_some() || remote.is_some();
    let limit = args.network.limit.as_ref().and_then(Limit::now);
    let selected = selection::config(&args.selection, &args.relays, limit, connects)?;
    let (carrier, pick) = (args.network.carrier, args.selection.pick);
    let mut relays = RelaySources::read(screen, &args.relays, carrier, pick)?;
    if connects {
        if args.code.code {
            return Err(usage(
                "`--code` makes a code for a receiver that fetches the files: leave it out, or the \
                 destination",
            ));
        }
        ticket::check_options(&args.ticket)?;
        relays.check_access()?;
    }
    // Who waits has it in the command for the receiving host. Without `--overwrite`, the receiver
    // refuses, and says why; without the others, nobody learns that they do nothing.
    let given = args.arrival.given();
    if invitation.is_some() && given.iter().any(|option| *option != "--overwrite") {
        screen.say(&format!(
            "The receiver's options decide: this is for one started with `manyway recv {}`.",
            given.join(" ")
        ));
    }
    let retry = args.retry.retry;
    let stop = Stop::listen(false);
    let endpoint = options::bind_selecting(&args.network, selected).await?;
    let ticket = relays.open(invitation, args.code.code, &stop).await?;
    let options = (&args.network, &args.quota, &args.retry);
    let setup = Setup::new(screen, stop, &endpoint, options, reports);
    let mut sender = Sender {
        setup: &setup,
        endpoint: &endpoint,
        args: &args,
        sources,
        spare_home,
        relays,
    };
    let result = match (ticket, remote) {
        (Some(ticket), _) => {
            let attempt = async || sender.deliver(&ticket).await;
            until_done(setup.retrying(), retry, attempt).await
        }
        (None, Some(remote)) => {
            let attempt = async || sender.deliver_over_ssh(&remote).await;
            until_done(setup.retrying(), retry, attempt).await
        }
        (None, None) => sender.offer().await,
    };
    endpoint.close().await;
    result
}

/// Where the files go: to a listener, or over ssh. Without either, a receiver fetches them.
fn destination(args: &mut SendArgs) -> anyhow::Result<(Option<Invitation>, Option<Remote>)> {
    let remote = destination::split(&mut args.paths)?;
    match (&remote, &args.to) {
        (None, Some(to)) => Ok((Some(ticket::read(to)?), None)),
        (_, None) => Ok((None, remote)),
        (Some(remote), Some(_)) => Err(usage(format!(
            "both a ticket (`--to` or MANYWAY_TICKET) and {}:{} name a destination: give only one \
             (to send a local file of that name, write ./{}:…)",
            remote.host, remote.dir, remote.host
        ))),
    }
}

struct Sender<'a> {
    setup: &'a Setup,
    endpoint: &'a Endpoint,
    args: &'a SendArgs,
    sources: Sources,
    /// See [`Invocation::spare_home`].
    spare_home: bool,
    relays: RelaySources,
}

impl Sender<'_> {
    async fn deliver(&mut self, ticket: &Ticket) -> anyhow::Result<Summary> {
        let stop = &self.setup.stop;
        let dialled = self.relays.dial(self.endpoint, ticket, stop).await;
        let (connection, _tasks) = dialled?;
        self.run(connection, Role::Initiator).await
    }

    async fn deliver_over_ssh(&mut self, remote: &Remote) -> anyhow::Result<Summary> {
        let invocation = Invocation {
            remote,
            ssh: &self.args.ssh,
            arrival: self.args.arrival,
            spare_home: self.spare_home,
        };
        let (receiver, ticket): (RemoteReceiver, Ticket) = tokio::select! {
            started = ssh::start(&self.setup.screen, &invocation) => started?,
            () = self.setup.stop.requested() => return Err(Interrupted.into()),
        };
        let result = self.deliver(&ticket).await;
        receiver.finish(result.is_ok()).await;
        result
    }

    async fn run(&self, connection: Connection, role: Role) -> anyhow::Result<Summary> {
        let job = Job::Send(self.sources.clone());
        let reporter = self.setup.reports.begin();
        self.setup.run(&reporter, connection, role, job).await
    }

    async fn offer(&mut self) -> anyhow::Result<Summary> {
        let file = self.args.network.identity.as_deref();
        let door = Door::new(&self.setup.screen, self.endpoint, file, &self.args.ticket)?;
        let given = self.args.arrival.given();
        let listener = Listener {
            screen: &self.setup.screen,
            stop: &self.setup.stop,
            reports: &self.setup.reports,
            door: &door,
            network: &self.args.network,
            ticket: &self.args.ticket,
            code: self.args.code.code,
            retry: self.args.retry.retry,
            begun: Cell::default(),
            instructions: &|with, invitation| {
                let command = [&["manyway recv"], &*given, &[invitation]].concat();
                let command = command.join(" ");
                format!("On the receiving host{with}:\n\n  {command}\n")
            },
        };
        let _tasks = listener.announce(&mut self.relays).await?;
        let job = Job::Send(self.sources.clone());
        let attempt = async || {
            let (connection, role) = listener.first(exchange::first(&door, &job)).await?;
            self.run(connection, role).await
        };
        until_done(self.setup.retrying(), self.args.retry.retry, attempt).await
    }
}

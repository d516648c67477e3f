//! `manyway recv`: waits for senders, or fetches what a sender offers.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use manyway::files::Skipped;
use manyway::{Connection, Endpoint, Ticket};
use manyway_os::file::system_error;
use manyway_registry::Code;

use crate::args::RecvArgs;
use crate::destination;
use crate::door::Door;
use crate::exchange::{self, Job, Role, Setup};
use crate::exit::{CantFill, Interrupted, Stop, usage, words};
use crate::forward::pipe;
use crate::listener::{Listener, Served, Visit};
use crate::relays::RelaySources;
use crate::reports::Reports;
use crate::retry::until_done;
use crate::screen::Screen;
use crate::summary::Summary;
use crate::ticket::Invitation;
use crate::{options, ticket};

pub(crate) async fn run(screen: &Screen, args: RecvArgs) -> anyhow::Result<()> {
    let mut reports = Reports::start(screen, &args.report)?;
    let ended = match source_and_dir(&args) {
        Ok((source, dir)) if pipe::is_pipe(dir.as_os_str()) => {
            let received = pipe::receive(screen, args, source).await;
            received.map(|()| Ended::Many(Ok(())))
        }
        Ok(place) => recv(screen, &mut reports, args, place).await,
        Err(error) => Err(error),
    };
    let told = match ended {
        Ok(Ended::One(result)) => reports.ended(*result).await,
        // The transfers that it interrupts say so themselves.
        Ok(Ended::Many(result)) => result,
        Err(error) => {
            reports.failed(&error);
            Err(error)
        }
    };
    reports.close().await?;
    told
}

/// How the command ends.
enum Ended {
    /// With its only transfer.
    One(Box<anyhow::Result<Summary>>),
    /// After it has served senders, who were told of their transfers.
    Many(anyhow::Result<()>),
}

async fn recv(
    screen: &Screen,
    reports: &mut Reports,
    mut args: RecvArgs,
    (source, dir): (Option<Invitation>, PathBuf),
) -> anyhow::Result<Ended> {
    // A code leads one sender here.
    args.once |= args.code.code;
    reports.of_transfers(&args.report, Some(&dir)).await?;
    let carrier = args.network.carrier;
    let mut relays = RelaySources::read(screen, &args.relays, carrier, None)?;
    if source.is_some() {
        if args.code.code {
            return Err(usage(
                "`--code` makes a code for a sender: leave out either the option or the ticket \
                 that you fetch from",
            ));
        }
        ticket::check_options(&args.ticket)?;
        relays.check_access()?;
    }
    let made = prepare(&dir)?;
    if args.spare_home
        && let Some(shared) = destination::common_directory(&dir)
    {
        return Err(destination::deletes_all(shared));
    }
    // Standard input that stands for the caller's life has no answers.
    let ask = screen.can_ask() && !args.while_stdin;
    let stop = Stop::listen(args.while_stdin);
    let endpoint = options::bind(&args.network).await?;
    let opened = relays.open(source, args.code.code, &stop).await;
    let ticket = opened.inspect_err(|_| {
        if made {
            fs::remove_dir(&dir).ok();
        }
    })?;
    let options = (&args.network, &args.quota, &args.retry);
    let mut setup = Setup::new(screen, stop, &endpoint, options, reports);
    setup.goes_on |= ticket.is_none() && !args.once;
    let receiver = Receiver {
        setup,
        job: Job::Receive(
            dir,
            options::receive(screen, args.arrival, &args.guard, ask),
        ),
        over_ssh: args.while_stdin,
    };
    let result = match ticket {
        Some(ticket) => {
            let retry = args.retry.retry;
            let received = receiver.fetch(&endpoint, &ticket, &mut relays, retry);
            Ok(Ended::One(Box::new(received.await)))
        }
        None => receiver.listen(&endpoint, &args, &mut relays).await,
    };
    endpoint.close().await;
    result
}

/// `[TICKET] [DIR]`; the ticket may come from `--from` or `MANYWAY_TICKET` instead.
fn source_and_dir(args: &RecvArgs) -> anyhow::Result<(Option<Invitation>, PathBuf)> {
    let what = with_whole_code(&args.what);
    let mut what: &[OsString] = &what;
    let mut source = args.from.clone();
    let mut may_be_dir = false;
    if let Some(first) = what.first().filter(|first| ticket::is_invitation(first)) {
        source = first.to_str().map(str::to_owned);
        may_be_dir = source.as_deref().is_some_and(Code::is_meant);
        what = &what[1..];
    }
    if what.len() > 1 {
        return Err(usage(
            "give only one directory to receive into; a ticket (mw1…) or a code (as in \
             7-guitar-saddle-orbit) goes before it",
        ));
    }
    let source = source.as_deref().map(ticket::read).transpose();
    let source = source.map_err(|error| match may_be_dir {
        true => usage(format!(
            "{error} (if you mean a directory, write ./ before its name)"
        )),
        false => error,
    })?;
    let dir = what
        .first()
        .map_or_else(|| PathBuf::from("."), PathBuf::from);
    Ok((source, dir))
}

/// The arguments with a code as one of them, if spaces part its words.
fn with_whole_code(what: &[OsString]) -> Vec<OsString> {
    let parts = what.get(..4).and_then(|parts| {
        let parts: Option<Vec<_>> = parts.iter().map(|part| part.to_str()).collect();
        Some(parts?.join("-"))
    });
    match parts.filter(|code| Code::is_meant(code)) {
        Some(code) => [code.into()]
            .into_iter()
            .chain(what[4..].to_vec())
            .collect(),
        None => what.to_vec(),
    }
}

/// Creates the directory if its parent exists: a longer missing path is likely a mistake. Returns
/// whether there was none.
fn prepare(dir: &Path) -> anyhow::Result<bool> {
    let shown = dir.display();
    if dir.as_os_str().is_empty() {
        return Err(usage(
            "the directory to receive into has no name: `.` is this one",
        ));
    }
    let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    match fs::create_dir(dir) {
        Ok(()) => {
            // It is to survive a crash as its contents will; not every file system can sync it.
            let above = fs::File::open(above);
            above.and_then(|above| above.sync_all()).ok();
            Ok(true)
        }
        Err(_) if dir.is_dir() => {
            check_writable(dir).map_err(|error| CantFill {
                doing: "write into",
                dir: dir.to_owned(),
                error,
            })?;
            Ok(false)
        }
        Err(error) => Err(match error.kind() {
            io::ErrorKind::AlreadyExists => {
                usage(format!("can't receive into {shown}: it is not a directory"))
            }
            io::ErrorKind::NotFound if !above.is_dir() => usage(format!(
                "can't receive into {shown}: create its parent directory first"
            )),
            _ => CantFill {
                doing: "create",
                dir: dir.to_owned(),
                error,
            }
            .into(),
        }),
    }
}

/// Tries to write into the directory. A directory in it may be all that a sender is to fill.
fn check_writable(dir: &Path) -> io::Result<()> {
    let try_in = |dir: &Path| tempfile::tempfile_in(dir).map(drop);
    let Err(error) = try_in(dir) else {
        return Ok(());
    };
    let below = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    match below.any(|entry| try_in(&entry.path()).is_ok()) {
        true => Ok(()),
        false => Err(system_error(error)),
    }
}

#[derive(Debug, Clone)]
struct Receiver {
    setup: Setup,
    job: Job,
    over_ssh: bool,
}

impl Receiver {
    async fn fetch(
        &self,
        endpoint: &Endpoint,
        ticket: &Ticket,
        relays: &mut RelaySources,
        retry: Option<Duration>,
    ) -> anyhow::Result<Summary> {
        let attempt = async || {
            let (connection, _tasks) = relays.dial(endpoint, ticket, &self.setup.stop).await?;
            self.serve(connection, Role::Initiator).await
        };
        until_done(self.setup.retrying(), retry, attempt).await
    }

    async fn listen(
        &self,
        endpoint: &Endpoint,
        args: &RecvArgs,
        relays: &mut RelaySources,
    ) -> anyhow::Result<Ended> {
        let file = args.network.identity.as_deref();
        let door = Door::new(&self.setup.screen, endpoint, file, &args.ticket)?;
        let listener = Listener {
            screen: &self.setup.screen,
            stop: &self.setup.stop,
            reports: &self.setup.reports,
            door: &door,
            network: &args.network,
            ticket: &args.ticket,
            code: args.code.code,
            retry: args.retry.retry,
            begun: Cell::default(),
            instructions: &|with, invitation| {
                format!("On the sending host{with}:\n\n  manyway send PATH… --to {invitation}\n")
            },
        };
        let _tasks = listener.announce(relays).await?;
        if args.once {
            let attempt = async || {
                let (connection, role) = listener.first(exchange::first(&door, &self.job)).await?;
                self.serve(connection, role).await
            };
            let received = until_done(self.setup.retrying(), args.retry.retry, attempt).await;
            return Ok(Ended::One(Box::new(received)));
        }
        let served = listener.serve(|connection| self.clone().attend(connection));
        let ended = match served.await {
            Ok(Served::Stopped { interrupted: true }) => Err(Interrupted.into()),
            Ok(served) => {
                served.tell(&self.setup.screen);
                Ok(())
            }
            Err(error) => return Err(error),
        };
        Ok(Ended::Many(ended))
    }

    async fn attend(self, connection: Connection) -> Visit {
        let begun = self.transfer(connection).await;
        // A code leads to `once`, where nobody returns.
        Visit {
            begun,
            may_return: true,
        }
    }

    /// Returns whether a transfer took place.
    async fn transfer(self, connection: Connection) -> bool {
        let role = tokio::select! {
            role = Role::answer(&connection, &self.job) => role,
            () = self.setup.stop.requested() => None,
        };
        let Some(role) = role else {
            return false;
        };
        let reporter = self.setup.reports.begin();
        let job = self.job.clone();
        let received = self.setup.run(&reporter, connection, role, job).await;
        if let Err(error) = reporter.ended(received).await {
            let words = words(&error);
            self.setup.screen.error(&format!("manyway: {words}"));
        }
        true
    }

    /// The command's only transfer.
    async fn serve(&self, connection: Connection, role: Role) -> anyhow::Result<Summary> {
        let reporter = self.setup.reports.begin();
        let job = self.job.clone();
        let mut summary = self.setup.run(&reporter, connection, role, job).await?;
        if self.over_ssh {
            // The sender lists that, to the same user.
            summary.skipped = Skipped::default();
        }
        Ok(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_may_part_the_words_of_a_code() {
        let whole = |words: &str| -> Vec<OsString> {
            let words: Vec<_> = words.split(' ').map(OsString::from).collect();
            with_whole_code(&words)
        };
        assert_eq!(whole("7 guitar saddle orbit"), ["7-guitar-saddle-orbit"]);
        assert_eq!(
            whole("7 guitar saddle orbit in"),
            ["7-guitar-saddle-orbit", "in"]
        );
        for other in ["7-guitar-saddle-orbit in", "a b c d", "mw1x in"] {
            assert_eq!(whole(other).join(" ".as_ref()), *other);
        }
    }
}

//! `manyway send -` and `manyway recv -`: standard input of one host to standard output of another.
//!
//! The sender's direction of the stream has the bytes as they are. The receiver answers once it has
//! written all of them, or when it can't.

use std::cell::Cell;
use std::time::Duration;

use anyhow::anyhow;
use manyway::control::rate_control::LiveConfig;
use manyway::{ByteSize, Connection, ConnectionLost, Endpoint, Rate, ReadError, Ticket};
use manyway_units::format_duration;
use manyway_wire::forward::{Code, HeaderError, Reply, Request};
use tokio::time::{Instant, timeout};

use super::Setup;
use super::stdio::{Input, Output};
use super::stream::{CUT, Stream, WrongPeer, over, read_reply};
use crate::args::{NetworkArgs, RecvArgs, RelaySourceArgs, SendArgs, TicketArgs};
use crate::close::FAILED;
use crate::door::Door;
use crate::exchange::{CLOSE_WAIT, first_that};
use crate::exit::{usage, words};
use crate::listener::Listener;
use crate::meter::Direction;
use crate::metered::Limit;
use crate::publish::Doing;
use crate::relays::{RelaySources, selection};
use crate::reports::Reports;
use crate::screen::Screen;
use crate::ticket::Invitation;
use crate::{options, ticket};

/// Most bytes taken from the stream at once.
const PIECE: usize = 256 << 10;

/// `-` in place of files, or of a directory.
pub(crate) fn is_pipe(path: &std::ffi::OsStr) -> bool {
    path == "-"
}

/// `manyway send -`.
pub(crate) async fn send(screen: &Screen, args: SendArgs) -> anyhow::Result<()> {
    if args.paths.len() > 1 {
        return Err(usage(
            "`-` stands for standard input and goes alone: for a file of that name, write ./-, \
             and for a destination over ssh, start `manyway recv -` there and give `--to`",
        ));
    }
    let content = &args.content;
    let given = args.arrival.given();
    let more = [
        (!content.exclude.is_empty(), "--exclude"),
        (!content.include.is_empty(), "--include"),
        (!content.filter_from.is_empty(), "--filter-from"),
        (content.max_size.is_some(), "--max-size"),
        (content.dry_run, "--dry-run"),
        (args.retry.retry.is_some(), "--retry"),
        (args.retry.timeout.is_some(), "--timeout"),
        (args.report.json, "--json"),
        (args.report.progress.is_some(), "--progress"),
        (args.report.hook.is_some(), "--hook"),
        (args.report.metrics.is_some(), "--metrics"),
        (!args.quota.quota.is_empty(), "--quota"),
    ];
    check(given, &more)?;
    let to = args.to.as_deref().map(ticket::read).transpose()?;
    let limit = args.network.limit.as_ref().and_then(Limit::now);
    let selected = selection::config(&args.selection, &args.relays, limit, to.is_some())?;
    let ends = Ends {
        sends: true,
        network: &args.network,
        relays: &args.relays,
        pick: args.selection.pick,
        selected,
        ticket: &args.ticket,
        code: args.code.code,
    };
    ends.run(screen, to).await
}

/// `manyway recv -`.
pub(crate) async fn receive(
    screen: &Screen,
    args: RecvArgs,
    from: Option<Invitation>,
) -> anyhow::Result<()> {
    // `-o -` is how other programs say it: a flag that has no meaning here.
    let mut arrival = args.arrival;
    arrival.owner = false;
    let given = arrival.given();
    let more = [
        (args.retry.retry.is_some(), "--retry"),
        (args.retry.timeout.is_some(), "--timeout"),
        (args.report.json, "--json"),
        (args.report.progress.is_some(), "--progress"),
        (args.report.hook.is_some(), "--hook"),
        (args.report.metrics.is_some(), "--metrics"),
        (args.guard.max_total.is_some(), "--max-total"),
        (!args.quota.quota.is_empty(), "--quota"),
    ];
    check(given, &more)?;
    let ends = Ends {
        sends: false,
        network: &args.network,
        relays: &args.relays,
        pick: None,
        selected: None,
        ticket: &args.ticket,
        code: args.code.code,
    };
    ends.run(screen, from).await
}

/// Refuses options about files: those that were given, and those of `more` that were.
fn check(mut given: Vec<&str>, more: &[(bool, &'static str)]) -> anyhow::Result<()> {
    given.extend(
        more.iter()
            .filter(|(given, _)| *given)
            .map(|(_, name)| name),
    );
    if given.is_empty() {
        return Ok(());
    }
    Err(usage(format!(
        "`-` carries a stream and no files: leave out {}",
        given.join(" ")
    )))
}

/// Our end, and how the other is found.
struct Ends<'a> {
    /// Whether we send.
    sends: bool,
    network: &'a NetworkArgs,
    relays: &'a RelaySourceArgs,
    pick: Option<u16>,
    selected: Option<LiveConfig>,
    ticket: &'a TicketArgs,
    code: bool,
}

impl Ends<'_> {
    /// Without an invitation, the other side comes to us.
    async fn run(self, screen: &Screen, invitation: Option<Invitation>) -> anyhow::Result<()> {
        let carrier = self.network.carrier;
        let mut relays = RelaySources::read(screen, self.relays, carrier, self.pick)?;
        if invitation.is_some() {
            if self.code {
                return Err(usage(
                    "`--code` makes a code for the other side: leave out either the option or the \
                     ticket",
                ));
            }
            ticket::check_options(self.ticket)?;
            relays.check_access()?;
        }
        let endpoint = options::bind_selecting(self.network, self.selected).await?;
        let direction = match self.sends {
            true => Direction::Sending,
            false => Direction::Receiving,
        };
        let setup = Setup::new(screen, &endpoint, self.network, Doing::Transfer(direction));
        let ticket = relays.open(invitation, self.code, &setup.stop).await?;
        let piped = match &ticket {
            Some(ticket) => self.dial(&setup, &endpoint, &mut relays, ticket).await,
            None => self.listen(&setup, &endpoint, &mut relays).await,
        };
        endpoint.close().await;
        piped
    }

    async fn dial(
        &self,
        setup: &Setup,
        endpoint: &Endpoint,
        relays: &mut RelaySources,
        ticket: &Ticket,
    ) -> anyhow::Result<()> {
        let (connection, _tasks) = relays.dial(endpoint, ticket, &setup.stop).await?;
        let work = async {
            let request = Request::Pipe { sends: self.sends };
            let (stream, _) = Stream::open(&connection, &request).await?;
            self.pipe(&setup.screen, &connection, stream).await
        };
        setup.run(&connection, work).await
    }

    async fn listen(
        &self,
        setup: &Setup,
        endpoint: &Endpoint,
        relays: &mut RelaySources,
    ) -> anyhow::Result<()> {
        let sends = self.sends;
        let instructions = |with: &str, invitation: &str| match sends {
            true => format!("On the receiving host{with}:\n\n  manyway recv {invitation} - | …\n"),
            false => {
                format!("On the sending host{with}:\n\n  … | manyway send - --to {invitation}\n")
            }
        };
        let file = self.network.identity.as_deref();
        let door = Door::new(&setup.screen, endpoint, file, self.ticket)?;
        let listener = Listener {
            screen: &setup.screen,
            stop: &setup.stop,
            reports: &Reports::silent(&setup.screen),
            door: &door,
            network: self.network,
            ticket: self.ticket,
            code: self.code,
            retry: None,
            begun: Cell::default(),
            instructions: &instructions,
        };
        let _tasks = listener.announce(relays).await?;
        let arrival = first_that(&door, move |connection| answer(connection, sends));
        let (connection, stream) = listener.first(arrival).await?;
        let work = self.pipe(&setup.screen, &connection, stream);
        setup.run(&connection, work).await
    }

    async fn pipe(
        &self,
        screen: &Screen,
        connection: &Connection,
        stream: Stream,
    ) -> anyhow::Result<()> {
        let began = Instant::now();
        let (done, bytes) = match self.sends {
            true => ("Sent", send_all(stream).await?),
            false => {
                let received = receive_all(connection, stream).await?;
                // The sender hears the end and closes the connection.
                timeout(CLOSE_WAIT, connection.closed()).await.ok();
                ("Received", received)
            }
        };
        screen.say(&headline(done, bytes, began.elapsed()));
        Ok(())
    }
}

/// `Sent 3.0 MB in 1.2 s: 20.0 Mbps`
fn headline(done: &str, bytes: u64, time: Duration) -> String {
    let rate = bytes as f64 * 8.0 / time.as_secs_f64().max(1e-9);
    format!(
        "{done} {} in {}: {:.1}",
        ByteSize::new(bytes).decimal(),
        format_duration(time),
        Rate::from_bits_per_sec(rate)
    )
}

/// Waits for the peer's stream and its request, which is to complete ours. `None` if the peer wants
/// something else: others may come.
async fn answer(connection: Connection, we_send: bool) -> Option<(Connection, Stream)> {
    let refused = match accept(&connection).await {
        Ok((mut stream, Request::Pipe { sends })) if sends != we_send => {
            stream.reply(&Reply::done()).await.ok()?;
            return Some((connection, stream));
        }
        Ok((stream, request)) => {
            let reason = match request {
                Request::Pipe { .. } if we_send => {
                    "both sides want to send: on one of them, run `manyway recv - --from` with the \
                     other one's ticket"
                }
                Request::Pipe { .. } => {
                    "both sides want to receive: on one of them, run `manyway send - --to` with \
                     the other one's ticket"
                }
                _ => {
                    "this ticket is for a pipe (`manyway send -` or `recv -`), and not for \
                      `forward` or `connect`"
                }
            };
            stream.refuse(Code::Unsupported, reason).await;
            reason.to_owned()
        }
        Err(error) => {
            if let Some(WrongPeer(HeaderError::FileTransfer)) = error.downcast_ref() {
                let reason = "its ticket is for a pipe: give `-` in place of files or a directory";
                connection.close(FAILED, reason);
            }
            words(&error)
        }
    };
    tracing::info!("a peer came that has no pipe in mind: {refused}");
    // It reads the answer and goes.
    timeout(CLOSE_WAIT, connection.closed()).await.ok();
    None
}

async fn accept(connection: &Connection) -> anyhow::Result<(Stream, Request)> {
    let (send, receive) = connection.accept_bi().await.map_err(over)?;
    let mut stream = Stream { send, receive };
    let request = stream.read_request().await?;
    Ok((stream, request))
}

/// Sends standard input to its end; returns its length in bytes, once the receiver has written all.
async fn send_all(mut stream: Stream) -> anyhow::Result<u64> {
    let mut input = Input::start()?;
    let mut sent = 0;
    let answer = read_reply(&mut stream.receive);
    let feed = async {
        while let Some(piece) = input.next().await? {
            let len = piece.len() as u64;
            if stream.send.write_bytes(piece).await.is_err() {
                // Its answer, or the end of the connection, says why.
                return Ok(());
            }
            sent += len;
        }
        stream.send.finish().ok();
        anyhow::Ok(())
    };
    tokio::pin!(answer);
    let fed = tokio::select! {
        answer = &mut answer => {
            // Only failures come before the end.
            answer?;
            anyhow::bail!("the receiver said that it has everything before it had");
        }
        fed = feed => fed,
    };
    fed?;
    answer.await?;
    Ok(sent)
}

/// Writes everything to standard output; returns its length in bytes.
async fn receive_all(connection: &Connection, mut stream: Stream) -> anyhow::Result<u64> {
    let mut output = Output::start()?;
    let mut received = 0;
    let broken = loop {
        match stream.receive.read_chunk(PIECE).await {
            Ok(Some(piece)) => {
                received += piece.len() as u64;
                if let Err(error) = output.write(piece).await {
                    break Some(error);
                }
            }
            Ok(None) => break output.close().await.err(),
            Err(ReadError::Lost(lost)) => return Err(over(lost)),
            Err(_) => {
                // The sender gave up, and is about to say why.
                let reason = timeout(CLOSE_WAIT, connection.closed()).await;
                let reason = reason.map(|reason| over(ConnectionLost(reason)));
                return Err(reason.unwrap_or_else(|_| anyhow!("the sender gave up")));
            }
        }
    };
    let Some(error) = broken else {
        stream.reply(&Reply::done()).await?;
        stream.send.finish().ok();
        return Ok(received);
    };
    stream.receive.stop(CUT);
    let failed = Reply::failed(Code::Failed, format!("the receiver {}", words(&error)));
    if stream.reply(&failed).await.is_ok() && stream.send.finish().is_ok() {
        timeout(CLOSE_WAIT, stream.send.stopped()).await.ok();
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_has_size_time_and_rate() {
        insta::assert_snapshot!(
            headline("Sent", 3_000_000, Duration::from_millis(1200)),
            @"Sent 3 MB in 1.2 s: 20.0 Mbps"
        );
        assert!(headline("Received", 0, Duration::ZERO).ends_with("0.0 bps"));
    }
}

//! `manyway forward`: connections that come to this host go on from the other one, and those that
//! come there go on from here.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use manyway::{Connection, ConnectionLost};
use manyway_wire::forward::{Code, Request, Target};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::error::{PortHeld, Refusal};
use super::serve::serve_target;
use super::spec::{Bind, Forward};
use super::stream::{Stream, over};
use super::tcp::{accept_each, listen, reset, splice};
use super::{Setup, socks};
use crate::args::ForwardArgs;
use crate::exit::{Interrupted, lasting, usage, words};
use crate::publish::Doing;
use crate::relays::RelaySources;
use crate::screen::Screen;
use crate::{options, retry, ticket};

pub(crate) async fn run(screen: &Screen, args: ForwardArgs) -> anyhow::Result<()> {
    let ForwardArgs {
        local,
        remote,
        dynamic,
        ..
    } = &args;
    if local.is_empty() && remote.is_empty() && dynamic.is_empty() {
        return Err(usage(
            "say what to forward: -L PORT:HOST:PORT from here to there, -R PORT:HOST:PORT from \
             there to here, or -D PORT for a SOCKS5 proxy",
        ));
    }
    let to = args.ticket.as_deref().or(args.to.as_deref());
    let invitation = ticket::needed(to)?;
    // What can't be listened on is an error before anybody is called.
    let mut entries = Vec::new();
    for Forward { listen, target } in local {
        entries.push(Arc::new(Entry::open(listen, Some(target)).await?));
    }
    for Bind(at) in dynamic {
        entries.push(Arc::new(Entry::open(at, None).await?));
    }
    let carrier = args.network.carrier;
    let mut relays = RelaySources::read(screen, &args.relays, carrier, None)?;
    relays.check_access()?;
    let endpoint = options::bind_for_streams(&args.network).await?;
    let setup = Setup::new(screen, &endpoint, &args.network, Doing::Other("forwarding"));
    let forwarded = async {
        let ticket = relays.accept(invitation, &setup.stop).await?;
        let worked = Cell::new(false);
        let attempt = async || {
            let (connection, _tasks) = relays.dial(&endpoint, &ticket, &setup.stop).await?;
            let work = work(screen, &connection, (&entries, remote), &worked);
            setup.run(&connection, work).await.map_err(lasting)
        };
        match retry::until_done(setup.retrying(), args.lasting.patience(), attempt).await {
            // That is how it ends.
            Err(error) if error.is::<Interrupted>() => {
                screen.say("stopped");
                Ok(())
            }
            result => result,
        }
    };
    let result = forwarded.await;
    endpoint.close().await;
    result
}

/// An address of this host, and where connections go that come to it.
struct Entry {
    listener: TcpListener,
    at: SocketAddr,
    /// `None`: each says by SOCKS.
    target: Option<Target>,
}

impl Entry {
    async fn open(at: &Target, target: Option<&Target>) -> anyhow::Result<Self> {
        let listener = listen(at).await;
        let listener = listener.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => {
                anyhow!(
                    "another program, or this one for another option, listens on {at}: end it, or \
                     choose another port"
                )
            }
            _ => anyhow::Error::new(error).context(format!("can't listen on {at}")),
        })?;
        Ok(Self {
            at: listener.local_addr()?,
            listener,
            target: target.cloned(),
        })
    }

    fn describe(&self) -> String {
        match &self.target {
            Some(target) => format!("{} → {target} there", self.at),
            None => format!("{} → anywhere there, by SOCKS5", self.at),
        }
    }
}

/// Forwards until the connection is over.
async fn work(
    screen: &Screen,
    connection: &Connection,
    (entries, remote): (&[Arc<Entry>], &[Forward]),
    worked: &Cell<bool>,
) -> anyhow::Result<()> {
    // A ticket for something else shows now, and not with the first program that connects.
    Stream::open(connection, &Request::Hello).await?;
    // The streams last as long as the listeners there.
    let mut listeners = BTreeMap::new();
    let mut held = Vec::new();
    for forward in remote {
        let request = Request::Listen(forward.listen.clone());
        let opened = Stream::open(connection, &request).await;
        let (stream, reply) = match worked.get() {
            true => opened.map_err(later)?,
            false => opened?,
        };
        let (host, port) = (forward.listen.host(), reply.port);
        let there = Target::new(host, port).unwrap_or_else(|_| forward.listen.clone());
        screen.say(&format!("Forwarding {there} there → {}", forward.target));
        listeners.insert(stream.send.id().0, forward.target.clone());
        held.push(stream);
    }
    worked.set(true);
    let mut tasks = JoinSet::new();
    let failures = Failures::new(screen);
    for entry in entries {
        screen.say(&format!("Forwarding {}", entry.describe()));
        let forwarded = forward(failures.clone(), connection.clone(), entry.clone());
        tasks.spawn(forwarded);
    }
    let listeners = Arc::new(listeners);
    tasks.spawn(come_back(failures, connection.clone(), listeners));
    let reason = connection.closed().await;
    drop(held);
    Err(over(ConnectionLost(reason)))
}

/// On a connection after a lost one, a failure to listen may pass.
fn later(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<Refusal>() {
        Ok(refusal) if refusal.code == Code::Failed => PortHeld(refusal).into(),
        Ok(refusal) => refusal.into(),
        Err(error) => error,
    }
}

/// Says why connections fail, but not for all of them: whoever can reach a forwarded port can make
/// any number.
#[derive(Clone)]
struct Failures {
    screen: Screen,
    said: Arc<Mutex<Said>>,
}

impl Failures {
    fn new(screen: &Screen) -> Self {
        let screen = screen.clone();
        let said = Arc::default();
        Self { screen, said }
    }

    fn say(&self, reason: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        match said.one_more(Instant::now()) {
            true => self.screen.say(&format!("manyway: {reason}")),
            false => tracing::info!("{reason}"),
        }
    }
}

/// Counts lines, of which there may be only so many in so long.
#[derive(Default)]
struct Said {
    since: Option<Instant>,
    lines: u32,
}

impl Said {
    const LONG: Duration = Duration::from_secs(10);
    const MOST: u32 = 10;

    fn one_more(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now >= since + Self::LONG) {
            (self.since, self.lines) = (Some(now), 0);
        }
        self.lines += 1;
        self.lines <= Self::MOST
    }
}

/// Takes connections of this host's programs to the other side.
async fn forward(failures: Failures, connection: Connection, entry: Arc<Entry>) {
    let full = |news: &str| failures.say(&format!("{}: {news}", entry.at));
    accept_each(&entry.listener, full, |tcp, _| {
        let failures = failures.clone();
        let (connection, target) = (connection.clone(), entry.target.clone());
        async move {
            let done = match target {
                Some(target) => to_target(&connection, &target, tcp).await,
                None => by_socks(&connection, tcp).await,
            };
            if let Err(error) = done {
                failures.say(&words(&error));
            }
        }
    })
    .await;
}

async fn to_target(connection: &Connection, target: &Target, tcp: TcpStream) -> anyhow::Result<()> {
    let request = Request::Connect(Some(target.clone()));
    match Stream::open(connection, &request).await {
        Ok((stream, _)) => {
            if let Err(cut) = splice(tcp, stream).await {
                tracing::debug!("{target}: {cut}");
            }
            Ok(())
        }
        Err(error) => {
            reset(tcp);
            Err(error)
        }
    }
}

async fn by_socks(connection: &Connection, mut tcp: TcpStream) -> anyhow::Result<()> {
    let (target, early) = socks::hear(&mut tcp).await?;
    let request = Request::Connect(Some(target.clone()));
    match Stream::open(connection, &request).await {
        Ok((mut stream, _)) => {
            socks::tell(&mut tcp, Code::Done).await?;
            if stream.send.write_all(&early).await.is_err() {
                reset(tcp);
                return Ok(());
            }
            if let Err(cut) = splice(tcp, stream).await {
                tracing::debug!("{target}: {cut}");
            }
            Ok(())
        }
        Err(error) => {
            let refusal = error.downcast_ref::<Refusal>();
            let code = refusal.map_or(Code::Failed, |refusal| refusal.code);
            // What went wrong matters more than whether it hears of that.
            socks::tell(&mut tcp, code).await.ok();
            Err(error)
        }
    }
}

/// Takes connections that came to the other side to targets of this one.
async fn come_back(
    failures: Failures,
    connection: Connection,
    listeners: Arc<BTreeMap<u64, Target>>,
) {
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            opened = connection.accept_bi() => {
                let Ok((send, receive)) = opened else {
                    return;
                };
                let (stream, listeners) = (Stream { send, receive }, listeners.clone());
                streams.spawn(take_back(failures.clone(), stream, listeners));
            }
            Some(_) = streams.join_next() => {}
        }
    }
}

async fn take_back(failures: Failures, mut stream: Stream, listeners: Arc<BTreeMap<u64, Target>>) {
    match stream.read_request().await {
        Ok(request) => {
            let asked = match request {
                Request::Accepted { listener } => listeners.get(&listener),
                _ => None,
            };
            match asked {
                Some(target) => {
                    if let Err(reason) = serve_target(target, stream).await {
                        failures.say(&reason);
                    }
                }
                None => {
                    stream
                        .refuse(Code::NotAllowed, "nobody here asked for that")
                        .await
                }
            }
        }
        Err(error) => {
            tracing::info!("the peer sent no request: {}", words(&error));
            stream.cut();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_say_ten_lines_in_ten_seconds() {
        let mut said = Said::default();
        let begun = Instant::now();
        for second in [0, 9, 10, 25] {
            let now = begun + Duration::from_secs(second);
            let lines = (0..1000).filter(|_| said.one_more(now)).count();
            assert_eq!(lines, if second == 9 { 0 } else { 10 }, "{second}");
        }
    }
}

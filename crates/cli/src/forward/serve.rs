//! `manyway serve`: lets the holders of a ticket connect to targets that its user has allowed.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use manyway::{Connection, Endpoint};
use manyway_wire::forward::{Code, HeaderError, Reply, Request, Target};
use tokio::io::AsyncReadExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Setup;
use super::rules::Rules;
use super::stream::{Stream, WrongPeer, over};
use super::tcp::{accept_each, dial, listen, reset, splice};
use crate::args::ServeArgs;
use crate::close::FAILED;
use crate::door::Door;
use crate::exit::{usage, words};
use crate::listener::{Listener, Visit};
use crate::options;
use crate::publish::Doing;
use crate::relays::RelaySources;
use crate::reports::Reports;
use crate::screen::Screen;

/// How long targets may take for what had arrived for them when the connection ended.
const LAST_BYTES: Duration = Duration::from_secs(30);
/// Connections whose targets may take that time at once; others are cut.
static ENDING: Semaphore = Semaphore::const_new(16);

pub(crate) async fn run(screen: &Screen, args: ServeArgs) -> anyhow::Result<()> {
    if args.allow.is_empty() && args.allow_listen.is_empty() {
        return Err(usage(
            "`serve` lets nothing through by itself: say what with `--allow HOST:PORT`, for \
             example `--allow localhost:22`, or with `--allow-listen PORT`",
        ));
    }
    let carrier = args.network.carrier;
    let mut relays = RelaySources::read(screen, &args.relays, carrier, None)?;
    let endpoint = options::bind_for_streams(&args.network).await?;
    let setup = Setup::new(screen, &endpoint, &args.network, Doing::Other("serving"));
    relays.get_ready(args.code.code, &setup.stop).await?;
    let served = serve(&setup, &endpoint, &mut relays, &args).await;
    endpoint.close().await;
    served
}

async fn serve(
    setup: &Setup,
    endpoint: &Endpoint,
    relays: &mut RelaySources,
    args: &ServeArgs,
) -> anyhow::Result<()> {
    let rules = Arc::new(Rules {
        connect: args.allow.clone(),
        listen: args.allow_listen.clone(),
    });
    let file = args.network.identity.as_deref();
    let door = Door::new(&setup.screen, endpoint, file, &args.ticket)?;
    let listener = Listener {
        screen: &setup.screen,
        stop: &setup.stop,
        reports: &Reports::silent(&setup.screen),
        door: &door,
        network: &args.network,
        ticket: &args.ticket,
        code: args.code.code,
        retry: None,
        begun: Cell::default(),
        instructions: &|with, invitation| instructions(&rules, with, invitation, args.code.code),
    };
    let _tasks = listener.announce(relays).await?;
    let served = listener.serve(|connection| {
        let (setup, rules) = (setup.clone(), rules.clone());
        async move {
            let ended = setup.run(&connection, attend(&connection, &rules)).await;
            if let Err(error) = &ended {
                tracing::info!("a connection ended: {}", words(error));
            }
            Visit::of(&ended)
        }
    });
    served.await?.tell(&setup.screen);
    Ok(())
}

/// What to do on the other host. If the invitation works `once`, it is no use to ssh, which starts
/// its ProxyCommand anew for each session.
fn instructions(rules: &Rules, with: &str, invitation: &str, once: bool) -> String {
    let who = match once {
        true => "Whoever uses the code",
        false => "Whoever has the ticket",
    };
    let may = rules.words(who);
    let mut lines = format!("{may}.\n\nOn the other host{with}, for example:\n\n");
    if let Some(target) = rules.default_target() {
        lines += &format!("  manyway forward -L 8080:{target} {invitation}\n");
        if !once {
            lines += &format!(
                "\nor, as ssh's ProxyCommand:\n\n  manyway connect --stdio {invitation}\n"
            );
        }
    } else if rules.connect.is_empty() {
        lines += &format!("  manyway forward -R PORT:localhost:80 {invitation}\n");
    } else {
        lines += &format!("  manyway forward -D 1080 {invitation}\n");
    }
    lines
}

/// Serves the streams of a connection until it is over.
async fn attend(connection: &Connection, rules: &Arc<Rules>) -> anyhow::Result<()> {
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            // The session lets the peer have only so many open.
            opened = connection.accept_bi() => {
                let (send, receive) = match opened {
                    Ok(halves) => halves,
                    Err(lost) => {
                        let rest = async { while streams.join_next().await.is_some() {} };
                        if let Ok(_place) = ENDING.try_acquire() {
                            timeout(LAST_BYTES, rest).await.ok();
                        }
                        return Err(over(lost));
                    }
                };
                let stream = Stream { send, receive };
                streams.spawn(serve_stream(connection.clone(), rules.clone(), stream));
            }
            Some(_) = streams.join_next() => {}
        }
    }
}

async fn serve_stream(connection: Connection, rules: Arc<Rules>, mut stream: Stream) {
    match stream.read_request().await {
        Ok(Request::Hello) => {
            if stream.reply(&Reply::done()).await.is_ok() {
                stream.send.finish().ok();
            }
        }
        Ok(Request::Connect(target)) => connect(&rules, target, stream).await,
        Ok(Request::Listen(at)) => listen_for(&connection, &rules, at, stream).await,
        Ok(Request::Pipe { .. } | Request::Accepted { .. }) => {
            let reason = "this ticket is for `manyway forward` and `connect`, and not for a pipe";
            stream.refuse(Code::Unsupported, reason).await;
        }
        Ok(Request::Tunnel { .. }) => {
            let reason = "this ticket is for `manyway forward` and `connect`, and not for a tunnel";
            stream.refuse(Code::Unsupported, reason).await;
        }
        Err(error) => {
            tracing::info!("a peer sent no request: {}", words(&error));
            match error.downcast_ref() {
                Some(WrongPeer(HeaderError::FileTransfer)) => {
                    let reason = "its ticket is for `manyway forward` and `connect`, and not for \
                                  files";
                    connection.close(FAILED, reason);
                }
                Some(WrongPeer(other @ HeaderError::Version(_))) => {
                    stream.refuse(Code::Unsupported, other.to_string()).await;
                }
                _ => stream.cut(),
            }
        }
    }
}

async fn connect(rules: &Rules, target: Option<Target>, stream: Stream) {
    let Some(target) = target.or_else(|| rules.default_target()) else {
        let reason = "there is no default target: name one, HOST:PORT, behind the ticket";
        return stream.refuse(Code::Unsupported, reason).await;
    };
    if !rules.may_connect(&target) {
        tracing::info!("refused: {target} isn't allowed");
        let reason = format!(
            "{target} isn't allowed: the user of `manyway serve` can allow it with `--allow \
             {target}`"
        );
        return stream.refuse(Code::NotAllowed, reason).await;
    }
    if let Err(reason) = serve_target(&target, stream).await {
        tracing::info!("refused: {reason}");
    }
}

/// Connects a stream that asks for it to a target.
///
/// # Errors
/// The target can't be reached, as the peer was told.
pub(super) async fn serve_target(target: &Target, mut stream: Stream) -> Result<(), String> {
    let dialled = tokio::select! {
        dialled = dial(target) => dialled,
        // Who asked is gone.
        _ = stream.send.stopped() => {
            stream.cut();
            return Ok(());
        }
    };
    match dialled {
        Ok(tcp) => {
            if stream.reply(&Reply::done()).await.is_err() {
                reset(tcp);
                return Ok(());
            }
            tracing::debug!("connected to {target}");
            if let Err(cut) = splice(tcp, stream).await {
                tracing::debug!("{target}: {cut}");
            }
            Ok(())
        }
        Err((code, reason)) => {
            let there = format!("on the other side, {reason}");
            stream.refuse(code, there).await;
            Err(reason)
        }
    }
}

/// Listens for the peer, until it ends the stream.
async fn listen_for(connection: &Connection, rules: &Rules, at: Target, mut stream: Stream) {
    if !rules.may_listen(&at) {
        tracing::info!("refused: listening on {at} isn't allowed");
        let reason = format!(
            "listening on {at} isn't allowed: the user of `manyway serve` can allow it with \
             `--allow-listen {at}`"
        );
        return stream.refuse(Code::NotAllowed, reason).await;
    }
    let listener = match listen(&at).await {
        Ok(listener) => listener,
        Err(error) => {
            let reason = format!("can't listen on {at} there: {error}");
            return stream.refuse(Code::Failed, reason).await;
        }
    };
    let port = listener.local_addr().map_or(at.port(), |at| at.port());
    let reply = Reply {
        port,
        ..Reply::done()
    };
    if stream.reply(&reply).await.is_err() {
        return;
    }
    let request = Request::Accepted {
        listener: stream.send.id().0,
    };
    let (connection, request) = (connection.clone(), Arc::new(request));
    let full = |news: &str| tracing::info!("{news}");
    let pass_on = accept_each(&listener, full, |tcp, from| {
        let (connection, request) = (connection.clone(), request.clone());
        async move {
            match Stream::open(&connection, &request).await {
                Ok((stream, _)) => {
                    if let Err(cut) = splice(tcp, stream).await {
                        tracing::debug!("{from}: {cut}");
                    }
                }
                Err(error) => {
                    tracing::info!("{from}: {}", words(&error));
                    reset(tcp);
                }
            }
        }
    });
    let mut more = [0; 1];
    tokio::select! {
        never = pass_on => match never {},
        // Nothing more is said on it.
        _ = stream.receive.read(&mut more) => {}
    }
    stream.send.finish().ok();
}

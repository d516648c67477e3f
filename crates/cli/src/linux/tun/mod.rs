//! `manyway tun`: IP packets of any program over all paths, through a network device.
//!
//! Each packet goes in a datagram of its own, which is sent once: TCP in the tunnel repeats what is
//! lost, and nothing else may want it repeated. `docs/tun.md` describes it.

mod carry;
mod device;
mod packet;
mod resequencer;

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use manyway::{Config, Connection, Endpoint, PathSelector};
use manyway_wire::forward::{Code, HeaderError, MAX_TUNNEL_ADDRESSES, Reply, Request};
use tokio::sync::watch;

use self::device::Device;
use self::packet::{Filter, NUMBER_LEN};
use crate::args::TunArgs;
use crate::close::FAILED;
use crate::door::Door;
use crate::exit::{Interrupted, lasting, usage, words};
use crate::forward::Setup;
use crate::forward::stream::{Stream, WrongPeer, over};
use crate::listener::{Listener, Visit};
use crate::publish::Doing;
use crate::relays::RelaySources;
use crate::screen::Screen;
use crate::ticket::Invitation;
use crate::{options, retry, ticket};

/// The smallest packets that IPv6 works with (RFC 8200, section 5).
const LEAST_IPV6: u16 = 1280;

/// This host's end.
#[derive(Debug)]
struct Tunnel {
    device: Device,
    filter: Filter,
    /// The largest packet that this side wants.
    mtu: u16,
}

pub(crate) async fn run(screen: &Screen, args: TunArgs) -> anyhow::Result<()> {
    check(&args)?;
    let to = args.ticket.as_deref().or(args.to.as_deref());
    let invitation = to.map(ticket::read).transpose()?;
    let carrier = args.network.carrier;
    let mut relays = RelaySources::read(screen, &args.relays, carrier, None)?;
    if invitation.is_some() {
        if args.code.code {
            return Err(usage(
                "`--code` makes a code for the other side: leave out either the option or the \
                 ticket",
            ));
        }
        ticket::check_options(&args.announce)?;
        relays.check_access()?;
    }
    let config = Config {
        datagram: Some(usize::from(args.mtu) + NUMBER_LEN),
        ..options::config(&args.network)?
    };
    let endpoint = options::bind_with(&args.network, config).await?;
    // Before there is one: no path leads through the tunnel itself.
    endpoint.remove_path(&PathSelector::Interface(args.name.clone()));
    let setup = Setup::new(screen, &endpoint, &args.network, Doing::Other("tunnelling"));
    let tunnel = Arc::new(Tunnel::make(&args)?);
    setup.screen.say(&tunnel.describe(&args));
    let work = async {
        match invitation {
            Some(invitation) => {
                dial(&setup, &endpoint, &mut relays, (&args, invitation), &tunnel).await
            }
            None => wait(&setup, &endpoint, &mut relays, &args, &tunnel).await,
        }
    };
    let result = tokio::select! {
        result = work => result,
        gone = tunnel.device.gone() => Err(gone.into()),
    };
    endpoint.close().await;
    match result {
        // That is how it ends.
        Err(error) if error.is::<Interrupted>() => {
            setup.screen.say("stopped");
            Ok(())
        }
        result => result,
    }
}

fn check(args: &TunArgs) -> anyhow::Result<()> {
    if args.address.len() > MAX_TUNNEL_ADDRESSES {
        return Err(usage(format!(
            "name at most {MAX_TUNNEL_ADDRESSES} addresses"
        )));
    }
    let named = matches!(args.name.parse(), Ok(PathSelector::Interface(_)));
    if !named || args.name.contains('%') {
        return Err(usage(format!(
            "{:?} can't be the name of a network device: choose 1 to 15 letters and digits",
            args.name
        )));
    }
    let is_ipv6 = |address: &IpAddr| address.is_ipv6();
    if args.mtu < LEAST_IPV6 && own(args).iter().any(is_ipv6) {
        return Err(usage(format!("IPv6 needs `--mtu {LEAST_IPV6}` or more")));
    }
    // Sockets keep to an interface that is named; to an address, only as long as routes do.
    for selector in &args.network.interfaces {
        if let PathSelector::Address(address) = selector
            && !address.is_loopback()
        {
            return Err(usage(format!(
                "`--path {address}`: `tun` needs the interface's name, as packets that only have \
                 an address could be routed into the tunnel itself"
            )));
        }
    }
    Ok(())
}

/// This host's addresses in the tunnel.
fn own(args: &TunArgs) -> Vec<IpAddr> {
    args.address.iter().map(|own| own.address).collect()
}

impl Tunnel {
    fn make(args: &TunArgs) -> anyhow::Result<Self> {
        let device = Device::make(&args.name, args.mtu, &args.address, &args.route)?;
        let networks = args.address.iter().map(|own| own.network());
        let networks = networks.chain(args.route.iter().chain(&args.allow_from).copied());
        Ok(Self {
            device,
            filter: Filter {
                networks: networks.collect(),
                own: own(args),
            },
            mtu: args.mtu,
        })
    }

    fn describe(&self, args: &TunArgs) -> String {
        format!("{} has {}.", self.device.name(), list(&args.address))
    }

    /// The connection's packets are those of the smaller side. How large they are.
    fn adapt(&self, connection: &Connection) -> anyhow::Result<u16> {
        let most = connection.max_datagram().ok_or_else(|| {
            anyhow!("the other side doesn't run `manyway tun`: its ticket is for something else")
        })?;
        let theirs = u16::try_from(most.saturating_sub(NUMBER_LEN)).unwrap_or(u16::MAX);
        let mtu = self.mtu.min(theirs);
        if mtu < LEAST_IPV6 && self.filter.own.iter().any(IpAddr::is_ipv6) {
            bail!("the other side takes packets of {mtu} bytes at most, and IPv6 needs 1280");
        }
        self.device.set_mtu(mtu)?;
        Ok(mtu)
    }
}

/// The side with the ticket: connects, again and again.
async fn dial(
    setup: &Setup,
    endpoint: &Endpoint,
    relays: &mut RelaySources,
    (args, invitation): (&TunArgs, Invitation),
    tunnel: &Tunnel,
) -> anyhow::Result<()> {
    let ticket = relays.accept(invitation, &setup.stop).await?;
    let patience = args.lasting.patience();
    retry::until_done(setup.retrying(), patience, async || {
        let (connection, _tasks) = relays.dial(endpoint, &ticket, &setup.stop).await?;
        let work = async {
            let mtu = tunnel.adapt(&connection)?;
            let addresses = tunnel.filter.own.clone();
            Stream::open(&connection, &Request::Tunnel { addresses }).await?;
            setup
                .screen
                .say(&format!("The tunnel is open, for packets of {mtu} bytes."));
            carry::both_ways(&setup.screen, tunnel, &connection, mtu).await
        };
        setup.run(&connection, work).await.map_err(lasting)
    })
    .await
}

/// The side that prints a ticket.
async fn wait(
    setup: &Setup,
    endpoint: &Endpoint,
    relays: &mut RelaySources,
    args: &TunArgs,
    tunnel: &Arc<Tunnel>,
) -> anyhow::Result<()> {
    relays.get_ready(args.code.code, &setup.stop).await?;
    let own = &args.address[0];
    let file = args.network.identity.as_deref();
    let door = Door::new(&setup.screen, endpoint, file, &args.announce)?;
    let listener = Listener {
        screen: &setup.screen,
        stop: &setup.stop,
        reports: &setup.reports,
        door: &door,
        network: &args.network,
        ticket: &args.announce,
        code: args.code.code,
        retry: None,
        begun: Cell::default(),
        instructions: &|with, invitation| {
            format!(
                "On the other host{with}, where ADDR is another address in {}:\n\n  \
                 sudo manyway tun {invitation} --address ADDR/{}\n",
                own.network(),
                own.bits
            )
        },
    };
    let _tasks = listener.announce(relays).await?;
    let code = args.code.code;
    // Who the newest peer is: the tunnel is its own.
    let (owner, _) = watch::channel(0u64);
    let owner = Arc::new(owner);
    let served = listener.serve(|connection| {
        let (setup, tunnel, owner) = (setup.clone(), tunnel.clone(), owner.clone());
        async move {
            let work = attend(&setup, &connection, &tunnel, &owner);
            let ended = setup.run(&connection, work).await;
            let visit = Visit::of(&ended);
            if let Err(error) = &ended
                && !error.is::<Interrupted>()
            {
                let next = if code {
                    ""
                } else {
                    "; waiting for the next one"
                };
                setup
                    .screen
                    .say(&format!("manyway: {}{next}", words(error)));
            }
            visit
        }
    });
    served.await?.tell(&setup.screen);
    Ok(())
}

/// What both sides read if nothing that the peer sends would get through.
fn elsewhere(theirs: &[IpAddr], filter: &Filter) -> String {
    format!(
        "{} is in none of the waiting side's networks ({}): choose an `--address` in one of them, \
         or start the waiting side with a `--route` for yours",
        list(theirs),
        list(&filter.networks)
    )
}

fn list(of: &[impl ToString]) -> String {
    let words: Vec<_> = of.iter().map(ToString::to_string).collect();
    words.join(", ")
}

/// Serves a peer until another one comes, or its connection is over.
async fn attend(
    setup: &Setup,
    connection: &Connection,
    tunnel: &Tunnel,
    owner: &watch::Sender<u64>,
) -> anyhow::Result<()> {
    let (send, receive) = connection.accept_bi().await.map_err(over)?;
    let mut stream = Stream { send, receive };
    let theirs = match stream.read_request().await {
        Ok(Request::Tunnel { addresses }) => addresses,
        Err(error) => {
            if let Some(WrongPeer(HeaderError::FileTransfer)) = error.downcast_ref() {
                let reason = "its ticket is for `manyway tun`, and not for files";
                connection.close(FAILED, reason);
            }
            return Err(error);
        }
        Ok(_) => {
            let reason = "this ticket is for `manyway tun`";
            stream.refuse(Code::Unsupported, reason).await;
            connection.closed().await;
            bail!("the peer wanted something other than a tunnel");
        }
    };
    if let Some(both) = theirs
        .iter()
        .find(|address| tunnel.filter.own.contains(address))
    {
        let reason = format!("both sides have the address {both}: change it on one side");
        stream.refuse(Code::Failed, reason.clone()).await;
        connection.closed().await;
        bail!(reason);
    }
    if !theirs.iter().any(|address| tunnel.filter.knows(*address)) {
        let reason = elsewhere(&theirs, &tunnel.filter);
        stream.refuse(Code::Failed, reason.clone()).await;
        connection.closed().await;
        bail!(reason);
    }
    let mtu = tunnel.adapt(connection)?;
    stream.reply(&Reply::done()).await?;
    let mut own = 0;
    owner.send_modify(|newest| {
        *newest += 1;
        own = *newest;
    });
    let mut newest = owner.subscribe();
    setup.screen.say(&format!(
        "The tunnel is open to {}, for packets of {mtu} bytes.",
        list(&theirs)
    ));
    tokio::select! {
        result = carry::both_ways(&setup.screen, tunnel, connection, mtu) => result,
        _ = newest.wait_for(|newest| *newest != own) => {
            bail!("another host with the ticket has taken over the tunnel")
        }
    }
}

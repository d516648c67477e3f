//! `manyway id` and `manyway peers`: who this host is, and names for others.

use manyway_registry::Code;

use crate::args::{IdArgs, PeersArgs, PeersCommand};
use crate::exit::usage;
use crate::identity;
use crate::peers::{Peer, Peers};
use crate::screen::Screen;
use crate::summary::print_text;
use crate::ticket;

/// Prints the identity of this host, which it makes if there is none.
pub(crate) fn run(screen: &Screen, args: &IdArgs) -> anyhow::Result<()> {
    let file = identity::file(args.identity.as_deref())?;
    let (mut secrets, new) = identity::read_or_make(&file)?;
    if new {
        screen.say(&format!(
            "This host has a new identity, in {}.",
            file.display()
        ));
    }
    if args.new_ticket {
        secrets = identity::renew_ticket(&file, &secrets)?;
        screen.say(
            "Listeners with `--allow-peer` print another ticket from their next start on, and the \
             old one leads nowhere: give the new one to your peers.",
        );
    }
    print_text(&format!("{}\n", secrets.id()))
}

/// Lists, adds and removes names.
pub(crate) fn peers(screen: &Screen, args: &PeersArgs) -> anyhow::Result<()> {
    match &args.command {
        PeersCommand::Add { name, who } => {
            let peer = peer(who)?;
            Peers::add(name, &peer)?;
            screen.say(&format!("{name} is {}", peer.id()));
            Ok(())
        }
        PeersCommand::List => {
            let peers = Peers::read()?;
            let lines = peers.list().iter().map(|(name, peer)| {
                let id = peer.id();
                match peer {
                    Peer::Id(_) => format!("{name}  {id}\n"),
                    Peer::Ticket(_) => format!("{name}  {id}  with ticket\n"),
                }
            });
            print_text(&lines.collect::<String>())
        }
        PeersCommand::Remove { name } => {
            Peers::remove(name)?;
            screen.say(&format!("{name} is forgotten"));
            Ok(())
        }
    }
}

/// An id, a ticket, or a file with one.
fn peer(text: &str) -> anyhow::Result<Peer> {
    if let Some(file) = text.strip_prefix('@') {
        let text = ticket::read_file(file.as_ref())?;
        let peer = Peer::parse(&text).map_err(|error| usage(format!("{file}: {error}")))?;
        if let Peer::Ticket(_) = peer {
            ticket::warn_of_readers(file.as_ref());
        }
        return Ok(peer);
    }
    if Code::is_meant(text) {
        return Err(usage(
            "a code works once, and so names nobody: give the id that `manyway id` prints on the \
             other host, or the ticket of a listener there",
        ));
    }
    Peer::parse(text).map_err(usage)
}

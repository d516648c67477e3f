//! Tickets in files, on command lines and on the screen.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::Context;
use manyway::relay::MAX_TICKET_RELAYS;
use manyway::{Endpoint, RelayAddress, Ticket};

use crate::args::TicketArgs;
use crate::exit::usage;
use crate::screen::Screen;

/// No ticket is longer than this, in bytes: 32 addresses and the keys take well under 2 KiB.
const LONGEST: u64 = 16 << 10;

/// Whether an argument is a ticket rather than a directory.
pub(crate) fn is_ticket(argument: &OsStr) -> bool {
    argument
        .to_str()
        .is_some_and(|text| text.starts_with("mw1") || text.starts_with('@'))
}

/// The ticket of `mw1…` or of the file named by `@FILE`.
pub(crate) fn read(text: &str) -> anyhow::Result<Ticket> {
    match text.strip_prefix('@') {
        Some(file) => read_file(Path::new(file)).with_context(|| format!("no ticket in {file}")),
        // The text itself stays out of the message: it is a secret.
        None => text
            .trim()
            .parse()
            .map_err(|error| usage(format!("the ticket can't be used: {error}"))),
    }
}

fn read_file(file: &Path) -> anyhow::Result<Ticket> {
    let mut text = String::new();
    fs::File::open(file)?
        .take(LONGEST)
        .read_to_string(&mut text)?;
    Ok(text.trim().parse()?)
}

/// The first word of a line that is a ticket.
pub(crate) fn find(line: &str) -> Option<Ticket> {
    line.split_whitespace()
        .filter(|word| word.starts_with("mw1"))
        .find_map(|word| word.parse().ok())
}

/// Makes the endpoint listen, and tells the user the ticket: on the screen and, if asked for, in a
/// file.
pub(crate) fn publish(
    screen: &Screen,
    endpoint: &Endpoint,
    options: &TicketArgs,
    via: &[RelayAddress],
    instructions: impl FnOnce(&Ticket) -> String,
) -> anyhow::Result<Ticket> {
    if via.len() > MAX_TICKET_RELAYS {
        return Err(usage(format!(
            "--via: a ticket has room for {MAX_TICKET_RELAYS} relays, and {} are given: leave some \
             out",
            via.len()
        )));
    }
    let mut ticket = endpoint.listen()?;
    endpoint.listen_at(&mut ticket, via);
    advertise(&mut ticket, &options.advertise)?;
    if let Some(file) = &options.ticket_file {
        write_file(&ticket, file)?;
    }
    match (screen.is_quiet(), &options.ticket_file) {
        (false, _) => screen.say(&instructions(&ticket)),
        (true, None) => screen.error(&ticket.to_string()),
        (true, Some(_)) => {}
    }
    Ok(ticket)
}

/// Writes the ticket for its owner's eyes alone (mode 0600), at once or not at all.
fn write_file(ticket: &Ticket, file: &Path) -> anyhow::Result<()> {
    let written = match fs::metadata(file) {
        // A pipe or a terminal can't be replaced by a file.
        Ok(found) if !found.is_file() => fs::OpenOptions::new()
            .write(true)
            .open(file)
            .and_then(|mut pipe| writeln!(pipe, "{ticket}")),
        _ => replace_file(ticket, file),
    };
    written.with_context(|| format!("can't write the ticket to {}", file.display()))
}

fn replace_file(ticket: &Ticket, file: &Path) -> std::io::Result<()> {
    let parent = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    // tempfile creates with mode 0600, and persist keeps it.
    let mut whole = tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;
    writeln!(whole, "{ticket}")?;
    whole.persist(file)?;
    Ok(())
}

/// Adds addresses to a ticket that its maker can't know: `ADDR:PORT`, or `ADDR` with each port of
/// our own sockets.
fn advertise(ticket: &mut Ticket, addresses: &[String]) -> anyhow::Result<()> {
    for text in addresses {
        if let Ok(address) = text.parse::<SocketAddr>() {
            add(ticket, [address]);
            continue;
        }
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        let address: IpAddr = bare.parse().map_err(|_| {
            usage(format!(
                "--advertise {text:?} is neither ADDR nor ADDR:PORT (IPv6: [ADDR]:PORT)"
            ))
        })?;
        add_host(ticket, [address]);
    }
    Ok(())
}

/// Adds a host's addresses with each port of the ticket, unless the ticket names the host already.
pub(crate) fn add_host(ticket: &mut Ticket, hosts: impl IntoIterator<Item = IpAddr>) {
    let mut ports: Vec<u16> = ticket.addresses.iter().map(SocketAddr::port).collect();
    ports.sort_unstable();
    ports.dedup();
    for host in hosts {
        if !ticket.addresses.iter().any(|known| known.ip() == host) {
            add(
                ticket,
                ports.iter().map(|port| SocketAddr::new(host, *port)),
            );
        }
    }
}

fn add(ticket: &mut Ticket, addresses: impl IntoIterator<Item = SocketAddr>) {
    for address in addresses {
        if !ticket.addresses.contains(&address) {
            // In front, because a ticket's text has room for so many and no more.
            ticket.addresses.insert(0, address);
        }
    }
}

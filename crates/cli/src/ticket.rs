//! Tickets, and codes and names that lead to one, in files, on command lines and on the screen.
//! Messages never show a ticket's text.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Context;
use manyway::relay::MAX_TICKET_RELAYS;
use manyway::{Endpoint, RelayAddress, Ticket};
use manyway_os::file::system_error;
use manyway_registry::Code;
use manyway_wire::MAX_ADDRESSES;

use crate::args::TicketArgs;
use crate::door::Door;
use crate::exit::usage;
use crate::peers::{self, Peer, Peers};
use crate::qr;
use crate::screen::Screen;

/// Most bytes of a ticket file: 32 addresses and the keys take well under 2 KiB.
const MAX_FILE: u64 = 16 << 10;

/// What leads to a listener.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a command has one")]
pub(crate) enum Invitation {
    Ticket(Ticket),
    /// A registry has the ticket for who knows this.
    Code(Code),
}

/// Whether an argument is a ticket or a code rather than a directory.
pub(crate) fn is_invitation(argument: &OsStr) -> bool {
    argument.to_str().is_some_and(|text| {
        text.starts_with("mw1") || text.starts_with('@') || Code::is_meant(text)
    })
}

/// The ticket in `mw1…` or of the peer of this name, the code, or what is in the file that `@FILE`
/// names.
pub(crate) fn read(text: &str) -> anyhow::Result<Invitation> {
    match text.strip_prefix('@') {
        Some(file) => {
            let found = parse(&read_file(Path::new(file))?)
                .map_err(|error| usage(format!("can't read a ticket from {file}: {error}")))?;
            warn_of_readers(Path::new(file));
            Ok(found)
        }
        None if peers::is_name(text) => of_peer(text).map(Invitation::Ticket),
        None => parse(text).map_err(usage),
    }
}

/// The ticket of a peer with this name.
fn of_peer(name: &str) -> anyhow::Result<Ticket> {
    match Peers::read()?.find(name)? {
        Peer::Ticket(ticket) => Ok(ticket.clone()),
        Peer::Id(_) => Err(usage(format!(
            "no ticket of {name} is known, only its id, which leads nowhere: get the ticket that a \
             listener with `--allow-peer` prints there, and run `manyway peers add {name} TICKET`"
        ))),
    }
}

/// The invitation of a command that can't do without.
pub(crate) fn needed(text: Option<&str>) -> anyhow::Result<Invitation> {
    match text {
        Some(text) => read(text),
        None => Err(usage(
            "name the ticket of the other side (mw1…, or @FILE with it), its code or its name in \
             `manyway peers`, or set MANYWAY_TICKET",
        )),
    }
}

/// A ticket's text is a secret and stays out of the message. A mistyped word of a code is shown.
fn parse(text: &str) -> Result<Invitation, String> {
    let text = text.trim();
    match text.starts_with(|c: char| c.is_ascii_digit()) || Code::is_meant(text) {
        true => match text.parse() {
            Ok(code) => Ok(Invitation::Code(code)),
            Err(error) => Err(format!("the code is not valid: {error}")),
        },
        false => match text.parse() {
            Ok(ticket) => Ok(Invitation::Ticket(ticket)),
            Err(error) => Err(format!("the ticket is not valid: {error}")),
        },
    }
}

/// The text of a file with a ticket, a code or an id.
pub(crate) fn read_file(file: &Path) -> anyhow::Result<String> {
    let read = || {
        let mut bytes = Vec::new();
        fs::File::open(file)?
            .take(MAX_FILE)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read()
        .map_err(|error: io::Error| error)
        .with_context(|| format!("can't read {}", file.display()))?;
    let no_text = |_| usage(format!("{} is no text, and so no ticket", file.display()));
    String::from_utf8(bytes).map_err(no_text)
}

/// Warns of a file with a secret that other users can read: whoever made it with `>` may not know.
pub(crate) fn warn_of_readers(file: &Path) {
    let metadata = fs::metadata(file);
    if metadata.is_ok_and(|found| found.is_file() && found.mode() & 0o044 != 0) {
        let file = file.display();
        tracing::warn!("other users can read {file}, which is a secret: run chmod 600 {file}");
    }
}

/// The first word of a line that is a ticket.
pub(crate) fn find(line: &str) -> Option<Ticket> {
    line.split_whitespace()
        .filter(|word| word.starts_with("mw1"))
        .find_map(|word| word.parse().ok())
}

/// Refuses options for listeners where this side connects to a ticket, or starts the other side:
/// they would have no effect.
pub(crate) fn check_options(options: &TicketArgs) -> anyhow::Result<()> {
    match options.given_in_vain() {
        Some(option) => Err(usage(format!(
            "`{option}` is for the side that waits for the other one, and here this side connects: \
             leave the option out, or give it to the other side"
        ))),
        None => Ok(()),
    }
}

/// Makes the endpoint listen, and returns its ticket.
pub(crate) fn listen(
    door: &Door,
    options: &TicketArgs,
    via: &[RelayAddress],
) -> anyhow::Result<Ticket> {
    if via.len() > MAX_TICKET_RELAYS {
        return Err(usage(format!(
            "`--via` names {} relays, but a ticket holds at most {MAX_TICKET_RELAYS}",
            via.len()
        )));
    }
    let endpoint = door.endpoint();
    let mut ticket = match door.secrets() {
        Some(secrets) => endpoint.listen_with(secrets.clone()),
        None => endpoint.listen()?,
    };
    endpoint.listen_at(&mut ticket, via);
    advertise(&mut ticket, &options.advertise)?;
    Ok(ticket)
}

/// The endpoint's addresses that other hosts may reach.
pub(crate) fn outside(endpoint: &Endpoint) -> impl Iterator<Item = SocketAddr> {
    let locals = endpoint.locals().into_iter().map(|(_, addr)| addr);
    locals.filter(|addr| !addr.ip().is_loopback())
}

/// Has the ticket name the addresses that the endpoint has now, and those of `--advertise`.
pub(crate) fn readdress(
    ticket: &mut Ticket,
    endpoint: &Endpoint,
    options: &TicketArgs,
) -> anyhow::Result<()> {
    ticket.addresses = outside(endpoint).take(MAX_ADDRESSES).collect();
    advertise(ticket, &options.advertise)
}

/// Gives the user the ticket, on the screen and in `--ticket-file`.
pub(crate) fn publish(
    screen: &Screen,
    ticket: &Ticket,
    options: &TicketArgs,
    instructions: impl FnOnce(&Ticket) -> String,
) -> anyhow::Result<()> {
    if let Some(file) = &options.ticket_file {
        write_file(ticket, file)?;
    }
    match (screen.is_quiet(), &options.ticket_file) {
        (false, _) => {
            screen.say(&instructions(ticket));
            if options.qr {
                qr::show(screen, &ticket.to_string());
            }
        }
        (true, None) => screen.error(&ticket.to_string()),
        (true, Some(_)) => {}
    }
    Ok(())
}

/// Writes the ticket, readable by the user alone (mode 0600), completely or not at all.
fn write_file(ticket: &Ticket, file: &Path) -> anyhow::Result<()> {
    let written = match fs::metadata(file) {
        // Don't replace a pipe or a terminal by a file.
        Ok(found) if !found.is_file() => fs::OpenOptions::new()
            .write(true)
            .open(file)
            .and_then(|mut pipe| writeln!(pipe, "{ticket}")),
        _ => replace_file(ticket, file),
    };
    let written = written.map_err(system_error);
    written.with_context(|| format!("can't write the ticket to {}", file.display()))
}

fn replace_file(ticket: &Ticket, file: &Path) -> std::io::Result<()> {
    let parent = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    // `tempfile` creates files with mode 0600, and `persist` keeps it.
    let mut whole = tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;
    writeln!(whole, "{ticket}")?;
    whole.persist(file)?;
    Ok(())
}

/// Adds addresses that this host can't know: `ADDR:PORT`, or `ADDR` with each port of our sockets.
fn advertise(ticket: &mut Ticket, addresses: &[String]) -> anyhow::Result<()> {
    for text in addresses {
        if let Ok(address) = text.parse::<SocketAddr>() {
            add(ticket, [address]);
            continue;
        }
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        let address: IpAddr = bare.parse().map_err(|_| {
            usage(format!(
                "`--advertise {text:?}` is neither ADDR nor ADDR:PORT (IPv6: [ADDR]:PORT)"
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
            // In front: a ticket's text has room for a limited number of addresses.
            ticket.addresses.insert(0, address);
        }
    }
}

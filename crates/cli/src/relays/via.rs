//! Relays that the command line names: `--via`.

use std::fs;
use std::path::Path;

use anyhow::Context;
use manyway::relay::RelayTicket;
use manyway::{Carriers, RelayAccess, RelayAddress};

use crate::exit::usage;
use crate::ticket::warn_of_readers;

/// Most bytes of a file that lists relays.
const MAX_FILE: u64 = 1 << 20;

/// The relays that `--via` names: the text of one (`mr1…`), or `@FILE` with one on each line.
pub(super) fn read(via: &[String]) -> anyhow::Result<Vec<RelayTicket>> {
    let mut relays = Vec::new();
    for (n, text) in (1..).zip(via) {
        match text.strip_prefix('@') {
            Some(file) => {
                let listed = read_file(Path::new(file))
                    .with_context(|| format!("can't read relays from {file}"))?;
                if listed.is_empty() {
                    return Err(usage(format!(
                        "{file} of `--via` names no relay: write one RELAY (mr1…) on each line"
                    )));
                }
                relays.extend(listed);
            }
            // The text itself stays out of the message: it is a secret.
            None => relays.push(text.parse().map_err(|error| {
                usage(format!("`--via` number {n} is not a valid RELAY: {error}"))
            })?),
        }
    }
    if relays.iter().any(|relay| relay.addresses.is_empty()) {
        return Err(usage(
            "a RELAY of `--via` has no address: start its relay with `--advertise`, and use the \
             RELAY that it prints then",
        ));
    }
    Ok(relays)
}

fn read_file(file: &Path) -> anyhow::Result<Vec<RelayTicket>> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(file)?
        .take(MAX_FILE)
        .read_to_string(&mut text)?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let relays = lines.map(|(n, line)| line.parse().with_context(|| format!("line {n}")));
    let relays: Vec<RelayTicket> = relays.collect::<Result<_, _>>()?;
    if relays.iter().any(|relay| relay.access.is_some()) {
        warn_of_readers(file);
    }
    Ok(relays)
}

/// The relays as the initiator uses them.
pub(super) fn with_access(relays: &[RelayTicket]) -> anyhow::Result<Vec<RelayAccess>> {
    let mut usable = Vec::new();
    for relay in relays {
        if relay.access.is_none() {
            let at = relay
                .addresses
                .first()
                .map_or(String::new(), |a| format!(" at {a}"));
            return Err(usage(format!(
                "the RELAY{at} gives no access: ask its operator for one with access (`manyway \
                 relay --invite`)"
            )));
        }
        usable.extend(RelayAccess::of(relay));
    }
    Ok(usable)
}

/// The relays as a listener names them in its ticket.
pub(super) fn addresses(relays: &[RelayTicket]) -> Vec<RelayAddress> {
    relays.iter().flat_map(RelayAddress::of).collect()
}

/// The addresses of those that a listener with this carrier reaches over UDP alone.
pub(super) fn udp_alone(relays: &[RelayTicket], carrier: Carriers) -> Vec<RelayAddress> {
    let takes_tcp = |relay: &&RelayTicket| match carrier {
        Carriers::Udp => false,
        Carriers::Tcp => true,
        Carriers::Auto => relay.tcp,
    };
    let others = relays.iter().filter(|relay| !takes_tcp(relay));
    others.flat_map(RelayAddress::of).collect()
}

#[cfg(test)]
mod tests {
    use manyway::relay::RelayId;

    use super::*;

    #[test]
    fn a_relay_without_an_address_is_refused() {
        let relay = |addresses: &[&str]| RelayTicket {
            relay: RelayId([7; 32]),
            addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            tcp: false,
            access: None,
        };
        let refused = read(&[relay(&[]).to_string()]).unwrap_err().to_string();
        assert!(refused.contains("has no address"), "{refused}");
        read(&[relay(&["192.0.2.1:1"]).to_string()]).unwrap();
    }

    #[test]
    fn the_carrier_and_the_ticket_say_whether_udp_is_all_there_is() {
        let relay = |port: u16, tcp| RelayTicket {
            relay: RelayId([7; 32]),
            addresses: vec![([192, 0, 2, 1], port).into()],
            tcp,
            access: None,
        };
        let relays = [relay(1, false), relay(2, true)];
        let ports = |carrier| {
            let alone = udp_alone(&relays, carrier).into_iter();
            alone.map(|relay| relay.address.port()).collect::<Vec<_>>()
        };
        assert_eq!(ports(Carriers::Udp), [1, 2]);
        assert_eq!(ports(Carriers::Auto), [1]);
        assert_eq!(ports(Carriers::Tcp), [0; 0]);
    }
}

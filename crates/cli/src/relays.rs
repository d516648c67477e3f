//! Relays on the command line: `--via`.

use std::fs;
use std::path::Path;

use anyhow::Context;
use manyway::relay::RelayTicket;
use manyway::{RelayAccess, RelayAddress};

use crate::exit::usage;

/// A list of relays in a file isn't longer than this, in bytes.
const LONGEST: u64 = 1 << 20;

/// The relays that `--via` names: the text of one (`mr1…`), or `@FILE` with one on each line.
pub(crate) fn read(via: &[String]) -> anyhow::Result<Vec<RelayTicket>> {
    let mut relays = Vec::new();
    for (n, text) in (1..).zip(via) {
        match text.strip_prefix('@') {
            Some(file) => relays.extend(
                read_file(Path::new(file)).with_context(|| format!("no relays in {file}"))?,
            ),
            // The text itself stays out of the message: it is a secret.
            None => relays.push(
                text.parse()
                    .map_err(|error| usage(format!("--via number {n} can't be used: {error}")))?,
            ),
        }
    }
    Ok(relays)
}

fn read_file(file: &Path) -> anyhow::Result<Vec<RelayTicket>> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(file)?
        .take(LONGEST)
        .read_to_string(&mut text)?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let relays = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    relays
        .map(|(n, line)| line.parse().with_context(|| format!("line {n}")))
        .collect()
}

/// What who dials needs of them.
pub(crate) fn with_access(relays: &[RelayTicket]) -> anyhow::Result<Vec<RelayAccess>> {
    let mut usable = Vec::new();
    for relay in relays {
        if relay.access.is_none() {
            let at = relay
                .addresses
                .first()
                .map_or(String::new(), |a| format!(" at {a}"));
            return Err(usage(format!(
                "--via: the relay{at} comes without the right to use it: ask its operator for a \
                 text with access"
            )));
        }
        usable.extend(RelayAccess::of(relay));
    }
    Ok(usable)
}

/// What who waits to be dialled needs of them.
pub(crate) fn addresses(relays: &[RelayTicket]) -> Vec<RelayAddress> {
    relays.iter().flat_map(RelayAddress::of).collect()
}

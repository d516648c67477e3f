//! Names for other hosts, in a file that people may edit: a line for each with its name and its id,
//! or its ticket, which is a secret and contains the id.

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, anyhow, ensure};
use manyway::{PeerId, Ticket};
use manyway_os::secret;
use manyway_registry::Code;
use manyway_units::printable;
use zeroize::Zeroizing;

use crate::exit::usage;
use crate::state::config_file;

/// Most bytes of the file: room for thousands of peers.
const MAX_FILE: u64 = 4 << 20;
/// Most bytes of a name.
const MAX_NAME: usize = 64;

/// What is known of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Peer {
    Id(PeerId),
    /// Leads to it, and has its id.
    Ticket(Ticket),
}

impl Peer {
    /// Reads an id or a ticket. The text stays out of the message: it may be a secret.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match text.starts_with("id") {
            true => text
                .parse()
                .map(Self::Id)
                .map_err(|error| error.to_string()),
            false => text
                .parse()
                .map(Self::Ticket)
                .map_err(|error| error.to_string()),
        }
    }

    pub(crate) fn id(&self) -> PeerId {
        match self {
            Self::Id(id) => *id,
            Self::Ticket(ticket) => PeerId(ticket.public_key),
        }
    }

    fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(match self {
            Self::Id(id) => id.to_string(),
            Self::Ticket(ticket) => ticket.to_string(),
        })
    }
}

/// Is it a name for a peer? Whatever looks like a ticket, an id or a code is none.
pub(crate) fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    // Kinds of texts that people copy: two letters and a version.
    let kinds = ["mw", "mr", "id"];
    let is_text = kinds.iter().any(|kind| {
        let rest = text.strip_prefix(kind);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() <= MAX_NAME
        && text.chars().all(allowed)
        && !is_text
        && !Code::is_meant(text)
}

/// What our user calls this peer.
pub(crate) fn name(id: PeerId) -> Option<String> {
    Some(Peers::read().ok()?.name_of(id)?.to_owned())
}

/// The file of peers.
#[derive(Debug)]
pub(crate) struct Peers {
    file: PathBuf,
    text: Zeroizing<String>,
    list: Vec<(String, Peer)>,
}

impl Peers {
    /// Reads the file; without one, there are no peers.
    pub(crate) fn read() -> anyhow::Result<Self> {
        Self::read_from(config_file("peers")?)
    }

    fn read_from(file: PathBuf) -> anyhow::Result<Self> {
        let text = secret::read(&file, MAX_FILE)?.unwrap_or_default();
        let mut list: Vec<(String, Peer)> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let place = || format!("{}, line {}", file.display(), at + 1);
            if let Some((name, peer)) = parse_line(line).map_err(|e| anyhow!("{}: {e}", place()))? {
                let known = list.iter().any(|(other, _)| other == name);
                ensure!(
                    !known,
                    "{}: {name} already has a line above: remove one of them",
                    place()
                );
                list.push((name.to_owned(), peer));
            }
        }
        Ok(Self { file, text, list })
    }

    /// All of them, as in the file.
    pub(crate) fn list(&self) -> &[(String, Peer)] {
        &self.list
    }

    /// The name of a peer.
    pub(crate) fn name_of(&self, id: PeerId) -> Option<&str> {
        let mut peers = self.list.iter();
        let found = peers.find(|(_, peer)| peer.id() == id);
        found.map(|(name, _)| name.as_str())
    }

    /// The peer of this name.
    ///
    /// # Errors
    /// There is none: the message lists names, so that a typing error shows.
    pub(crate) fn find(&self, name: &str) -> anyhow::Result<&Peer> {
        let mut peers = self.list.iter();
        let found = peers.find(|(known, _)| known == name);
        found.map(|(_, peer)| peer).ok_or_else(|| {
            let shown: Vec<&str> = self.list.iter().take(10).map(|(n, _)| n.as_str()).collect();
            let known = match self.list.len() {
                0 => "there are none yet".to_owned(),
                count if count > shown.len() => format!("known: {}, …", shown.join(", ")),
                _ => format!("known: {}", shown.join(", ")),
            };
            usage(format!(
                "no peer is called {} ({known}): `manyway peers add` names one",
                printable(name, MAX_NAME)
            ))
        })
    }

    /// Keeps a peer under a name. One that is known by that name keeps its ticket unless this is a
    /// new one.
    ///
    /// # Errors
    /// The name is none, or that of another peer; the file can't be written.
    pub(crate) fn add(name: &str, peer: &Peer) -> anyhow::Result<()> {
        Self::change(|peers| peers.set(name, peer))
    }

    /// Forgets a peer.
    ///
    /// # Errors
    /// There is none of that name, or the file can't be written.
    pub(crate) fn remove(name: &str) -> anyhow::Result<()> {
        Self::change(|peers| {
            peers.find(name)?;
            Ok(peers.without(name))
        })
    }

    fn set(&self, name: &str, peer: &Peer) -> anyhow::Result<Zeroizing<String>> {
        if !is_name(name) {
            return Err(usage(format!(
                "\"{}\" can't name a peer: a name begins with a letter, has only letters, digits, \
                 `-`, `_` and `.`, at most {MAX_NAME}, and doesn't look like a ticket or an id",
                printable(name, MAX_NAME)
            )));
        }
        if let Ok(known) = self.find(name) {
            if known.id() != peer.id() {
                return Err(usage(format!(
                    "{name} is another peer already, {}: if that has become this one, run \
                     `manyway peers remove {name}` first",
                    known.id()
                )));
            }
            if matches!(peer, Peer::Id(_)) {
                return Ok(self.text.clone());
            }
        }
        let mut text = self.without(name);
        text.push_str(&format!("{name} {}\n", *peer.text()));
        Ok(text)
    }

    /// The file's text without a peer. Comments stay.
    fn without(&self, name: &str) -> Zeroizing<String> {
        // With room for one more, no copy is left behind where the text grew.
        let mut text = Zeroizing::new(String::with_capacity(self.text.len() + (4 << 10)));
        let lines = self.text.lines();
        for line in lines.filter(|line| line.split_whitespace().next() != Some(name)) {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// Changes the file, as a whole, while nobody else does.
    fn change(
        change: impl FnOnce(&Self) -> anyhow::Result<Zeroizing<String>>,
    ) -> anyhow::Result<()> {
        let file = config_file("peers")?;
        let dir = file.parent().context("the file has no directory")?;
        let failed = || format!("can't write to {}", dir.display());
        fs::create_dir_all(dir).with_context(failed)?;
        let dir = File::open(dir).with_context(failed)?;
        dir.lock().with_context(failed)?;
        let peers = Self::read_from(file)?;
        let text = change(&peers)?;
        if text != peers.text {
            secret::replace(&peers.file, &text)?;
        }
        Ok(())
    }
}

/// A name and a peer; `None` for a comment or an empty line.
fn parse_line(line: &str) -> Result<Option<(&str, Peer)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (Some(name), Some(who), None) = (words.next(), words.next(), words.next()) else {
        return Err("a line has a name and an id (id1…) or a ticket (mw1…)".to_owned());
    };
    if !is_name(name) {
        // It may be a ticket without a name, so it isn't shown.
        return Err("the first word can't be the name of a peer".to_owned());
    }
    let peer = Peer::parse(who).map_err(|error| format!("{name}: {error}"))?;
    Ok(Some((name, peer)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use manyway::{Identity, Secrets};
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;

    fn rng(seed: u8) -> ChaCha20Rng {
        ChaCha20Rng::from_seed([seed; 32])
    }

    fn id(seed: u8) -> Peer {
        Peer::Id(Identity::generate(&mut rng(seed)).id())
    }

    fn peers(dir: &Path, text: &str) -> anyhow::Result<Peers> {
        let file = dir.join("peers");
        secret::replace(&file, text).unwrap();
        Peers::read_from(file)
    }

    #[test]
    fn names_are_short_words_that_are_nothing_else() {
        for name in ["office", "a", "Ann.laptop-2_x", "identity", "mwx", "idle"] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(MAX_NAME + 1);
        for wrong in [
            "",
            "1st",
            "-x",
            ".x",
            "mw1",
            "mw1abc",
            "mw2",
            "mr1x",
            "id1x",
            "a b",
            "a/b",
            "a\u{1b}[m",
            "a\n",
            "ö",
            "@x",
            "7-guitar-saddle-orbit",
            &long,
        ] {
            assert!(!is_name(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn comments_stay_and_others_too() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = Secrets::generate(&mut rng(2));
        let ticket = secrets.ticket(vec!["192.0.2.1:4433".parse().unwrap()]);
        let text = format!("# those of work\n\nann {}\n  bob\t{ticket} \n", id(1).id());
        let peers = peers(dir.path(), &text).unwrap();
        assert_eq!(peers.find("ann").unwrap(), &id(1));
        assert_eq!(peers.find("bob").unwrap(), &Peer::Ticket(ticket.clone()));
        assert_eq!(peers.name_of(secrets.id()), Some("bob"));
        assert_eq!(
            *peers.without("ann"),
            format!("# those of work\n\n  bob\t{ticket} \n")
        );
        let added = peers.set("carl", &id(3)).unwrap();
        assert_eq!(*added, format!("{text}carl {}\n", id(3).id()));
        // The id says nothing new, and a ticket does.
        let same = peers.set("bob", &Peer::Id(secrets.id())).unwrap();
        assert_eq!(*same, text);
        let mut moved = ticket;
        moved.addresses = Vec::new();
        let changed = peers.set("bob", &Peer::Ticket(moved.clone())).unwrap();
        assert!(changed.ends_with(&format!("\nbob {moved}\n")));
        let error = peers.set("bob", &id(4)).unwrap_err().to_string();
        assert!(
            error.contains("bob is another peer already, id1"),
            "{error}"
        );
    }

    #[test]
    fn mistakes_in_the_file_name_the_line_and_quote_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let ann = format!("ann {}\n", id(1).id());
        let damaged = format!("{ann}# x\nbob {}\n", "mw1secretsecret");
        let wrong = |text: &str| {
            let error = peers(dir.path(), text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
            error.replace(dir.path().to_str().unwrap(), "DIR")
        };
        let said = [
            wrong(&damaged),
            wrong(&format!("{ann}{ann}")),
            wrong("mw1secret\n"),
            wrong("mw1secret x\n"),
            wrong(&format!("\n{} and more\n", ann.trim())),
            wrong("ann id1secret"),
            wrong("a\u{1b}nn id1secret"),
        ];
        insta::assert_snapshot!("mistakes", said.join("\n"));
        let known = peers(dir.path(), &ann).unwrap();
        let error = known.find("a\u{7}n").unwrap_err().to_string();
        assert!(
            error.starts_with("no peer is called a") && !error.contains('\u{7}'),
            "{error}"
        );
        let error = known.set("a\u{7}n", &id(1)).unwrap_err().to_string();
        assert!(
            error.contains("can't name a peer") && !error.contains('\u{7}'),
            "{error}"
        );
    }
}

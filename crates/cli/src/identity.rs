//! This host's identity: the key pair by which others know it, and what its lasting ticket needs.
//! It is in a file that only its owner can read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use data_encoding::HEXLOWER;
use manyway::Secrets;
use manyway_os::secret;
use rand::SeedableRng;
use rand::rngs::{ChaCha20Rng, SysRng};
use zeroize::Zeroizing;

use crate::exit::usage;
use crate::state::config_file;

/// The file's first line.
const FIRST: &str = "manyway identity 1";
/// Most bytes of the file.
const MAX_FILE: u64 = 4 << 10;

/// The file that an option names, or the default one.
pub(crate) fn file(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    match named {
        Some(file) => Ok(file.to_owned()),
        None => config_file("identity"),
    }
}

/// The identity, if this host has one. One that is named has to be there.
pub(crate) fn read(named: Option<&Path>) -> anyhow::Result<Option<Secrets>> {
    let Ok(file) = file(named) else {
        // Without a home directory, there is no default.
        return Ok(None);
    };
    let found = load(&file)?;
    match (&found, named) {
        (None, Some(_)) => Err(usage(format!(
            "{file} doesn't exist: `manyway id --identity {file}` makes an identity",
            file = file.display()
        ))),
        _ => Ok(found),
    }
}

/// The identity in this file, and whether it is new.
pub(crate) fn read_or_make(file: &Path) -> anyhow::Result<(Secrets, bool)> {
    if let Some(secrets) = load(file)? {
        return Ok((secrets, false));
    }
    if let Some(parent) = file
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        fs::create_dir_all(parent).with_context(|| format!("can't create {}", parent.display()))?;
    }
    let secrets = Secrets::generate(&mut rng()?);
    match secret::create(file, &text(&secrets)) {
        Ok(()) => Ok((secrets, true)),
        // Another process may have made one just now: there is only one.
        Err(error) => match load(file)? {
            Some(secrets) => Ok((secrets, false)),
            None => Err(error.into()),
        },
    }
}

/// Gives the identity another ticket. The old one leads nowhere from now on.
pub(crate) fn renew_ticket(file: &Path, secrets: &Secrets) -> anyhow::Result<Secrets> {
    let renewed = Secrets::of(secrets.identity(), &mut rng()?);
    secret::replace(file, &text(&renewed))?;
    Ok(renewed)
}

fn load(file: &Path) -> anyhow::Result<Option<Secrets>> {
    let Some(text) = secret::read(file, MAX_FILE)? else {
        return Ok(None);
    };
    let secrets = parse(&text).ok_or_else(|| {
        anyhow!(
            "{file} holds no identity, which `manyway id` writes: restore the file, or move it \
             away to become somebody else",
            file = file.display()
        )
    })?;
    Ok(Some(secrets))
}

fn text(secrets: &Secrets) -> Zeroizing<String> {
    let bytes = secrets.to_bytes();
    Zeroizing::new(format!("{FIRST}\n{}\n", HEXLOWER.encode(&*bytes)))
}

fn parse(text: &str) -> Option<Secrets> {
    let rest = text.strip_prefix(FIRST)?.trim();
    let bytes = Zeroizing::new(HEXLOWER.decode(rest.as_bytes()).ok()?);
    Secrets::from_bytes(&bytes).ok()
}

fn rng() -> anyhow::Result<ChaCha20Rng> {
    ChaCha20Rng::try_from_rng(&mut SysRng).context("the system provides no random numbers")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn an_identity_is_made_once_and_its_tickets_any_number_of_times() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config/manyway/identity");
        assert!(load(&file).unwrap().is_none());
        let error = read(Some(&file)).unwrap_err().to_string();
        assert!(
            error.contains("doesn't exist: `manyway id --identity "),
            "{error}"
        );
        let (made, new) = read_or_make(&file).unwrap();
        assert!(new);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let (again, new) = read_or_make(&file).unwrap();
        assert!(!new && again.to_bytes() == made.to_bytes());
        let renewed = renew_ticket(&file, &made).unwrap();
        assert_eq!(renewed.id(), made.id());
        assert_ne!(renewed.ticket_id(), made.ticket_id());
        let read = read(Some(&file)).unwrap().unwrap();
        assert_eq!(read.to_bytes(), renewed.to_bytes());
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_identity_is_left_alone_and_not_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("identity");
        let whole = text(&Secrets::generate(&mut rng().unwrap()));
        let cut = &whole[..whole.len() - 3];
        for wrong in ["", "mw1secret", "manyway identity 1\n00\n", cut] {
            secret::replace(&file, wrong).unwrap();
            let error = read_or_make(&file).unwrap_err().to_string();
            assert!(
                error.contains("holds no identity") && !error.contains("secret"),
                "{error}"
            );
            assert_eq!(fs::read_to_string(&file).unwrap(), wrong);
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let error = read_or_make(&file).unwrap_err().to_string();
        assert!(error.contains("mode 0644"), "{error}");
    }
}

//! Files in which this host keeps its keys, tokens and names for others.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, anyhow};
use manyway_os::secret;
use manyway_registry::{Role, Token};

/// Most bytes of a file with tokens: room for thousands.
pub(crate) const MAX_TOKEN_FILE: u64 = 256 << 10;

/// The default path of a service's file; creates its directory.
pub(crate) fn file(name: &str) -> anyhow::Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let dir = match (set("STATE_DIRECTORY"), set("XDG_STATE_HOME"), set("HOME")) {
        (Some(dir), _, _) => PathBuf::from(dir),
        (_, Some(dir), _) => Path::new(&dir).join("manyway"),
        (_, _, Some(home)) => Path::new(&home).join(".local/state/manyway"),
        _ => {
            return Err(anyhow!(
                "can't choose a directory for {name}: set STATE_DIRECTORY or HOME, or name a file \
                 with an option"
            ));
        }
    };
    fs::create_dir_all(&dir).with_context(|| format!("can't create {}", dir.display()))?;
    Ok(dir.join(name))
}

/// A file beside the configuration file; the directory needn't exist.
pub(crate) fn config_file(name: &str) -> anyhow::Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let config = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")));
    let config = config.ok_or_else(|| anyhow!("no directory for {name}: set HOME"))?;
    Ok(config.join("manyway").join(name))
}

/// Reads the token from a file that only its owner can read.
pub(crate) fn token(file: &Path, role: Role) -> anyhow::Result<Token> {
    let text = secret::read(file, MAX_TOKEN_FILE)?;
    let text = text.ok_or_else(|| {
        anyhow!(
            "{} doesn't exist: write the token that the registry's operator gave you into it, and \
             chmod 600 it",
            file.display()
        )
    })?;
    Token::from_text(&text, role).map_err(|error| anyhow!("{}: {error}", file.display()))
}

//! Files in which services keep their keys and tokens.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context, anyhow};
use manyway_os::secret;
use manyway_registry::{Role, Token};

/// Most bytes of a file with tokens: room for thousands.
pub(crate) const MAX_TOKEN_FILE: u64 = 256 << 10;

/// Where a service keeps a file of its own unless told otherwise; the directory is made.
pub(crate) fn file(name: &str) -> anyhow::Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let dir = match (set("STATE_DIRECTORY"), set("XDG_STATE_HOME"), set("HOME")) {
        (Some(dir), _, _) => PathBuf::from(dir),
        (_, Some(dir), _) => Path::new(&dir).join("manyway"),
        (_, _, Some(home)) => Path::new(&home).join(".local/state/manyway"),
        _ => {
            return Err(anyhow!(
                "no place for {name}: neither STATE_DIRECTORY nor HOME is set; name a file with an \
                 option"
            ));
        }
    };
    fs::create_dir_all(&dir).with_context(|| format!("can't create {}", dir.display()))?;
    Ok(dir.join(name))
}

/// The token in a file that is its owner's alone.
pub(crate) fn token(file: &Path, role: Role) -> anyhow::Result<Token> {
    let text = secret::read(file, MAX_TOKEN_FILE)?;
    let text = text.ok_or_else(|| {
        anyhow!(
            "there is no {}: write the token that the registry's operator gave you into it, and \
             chmod 600 it",
            file.display()
        )
    })?;
    Token::from_text(&text, role).map_err(|error| anyhow!("{}: {error}", file.display()))
}

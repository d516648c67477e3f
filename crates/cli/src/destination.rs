//! `HOST:DIR` destinations, in scp's notation.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use crate::exit::usage;

/// Where ssh starts the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    /// ssh's argument: a host, an alias of its configuration, or `user@host`.
    pub(crate) host: String,
    /// The directory there: a relative or absolute path, never empty, that never begins with `-`.
    pub(crate) dir: String,
}

/// The directory that holds all sorts of things, if it is one of those, by whatever path: the home
/// directory, or one above it.
pub(crate) fn common_directory(dir: &Path) -> Option<&'static str> {
    let id = |path: &Path| {
        fs::metadata(path)
            .map(|found| (found.dev(), found.ino()))
            .ok()
    };
    let here = id(dir)?;
    let home = env::home_dir()?;
    if id(&home) == Some(here) {
        return Some("the home directory");
    }
    // It may be a link, with others beside it.
    let real = home.canonicalize().ok()?;
    let mut above = home.ancestors().chain(real.ancestors());
    above
        .any(|above| id(above) == Some(here))
        .then_some("a directory above the home directory")
}

/// That is what `--delete` would do with a directory's contents in place of it.
pub(crate) fn deletes_all(shared: &str) -> anyhow::Error {
    usage(format!(
        "`--delete` would delete all other files in {shared}: name a directory below it, or write \
         the local directory without the slash at its end"
    ))
}

/// Takes the destination off the end of the paths if there is one: a colon before any slash.
pub(crate) fn split(paths: &mut Vec<OsString>) -> anyhow::Result<Option<Remote>> {
    let Some(remote) = paths.last().map(|last| parse(last)).transpose()?.flatten() else {
        return Ok(None);
    };
    paths.pop();
    if paths.is_empty() {
        return Err(usage(format!(
            "there is nothing to send to {0}: name files before it (if {0}:{1} is a file, write \
             ./{0}:{1})",
            remote.host, remote.dir
        )));
    }
    Ok(Some(remote))
}

fn parse(argument: &OsStr) -> anyhow::Result<Option<Remote>> {
    let lossy = argument.to_string_lossy();
    let Some((host, dir)) = split_host(&lossy) else {
        return Ok(None);
    };
    if host.contains('/') || host.is_empty() {
        return Ok(None);
    }
    if argument.to_str().is_none() || lossy.contains('\0') {
        return Err(usage(format!(
            "the directory in {lossy:?} must be UTF-8 to go through ssh"
        )));
    }
    // ssh would read it as an option.
    if host.starts_with('-') {
        return Err(usage(format!("{host:?} is not a host name")));
    }
    Ok(Some(Remote {
        host,
        dir: relative(dir),
    }))
}

/// The host, and what is behind its colon. An IPv6 address is in brackets, which ssh doesn't take.
fn split_host(text: &str) -> Option<(String, &str)> {
    let address = text.split_once('[').filter(|(user, _)| {
        // As in `ann@[2001:db8::1]:in`.
        user.is_empty() || user.ends_with('@') && !user.contains([':', '/'])
    });
    if let Some((user, rest)) = address
        && let Some((address, dir)) = rest.split_once("]:")
    {
        return Some((format!("{user}{address}"), dir));
    }
    let (host, dir) = text.split_once(':')?;
    Some((host.to_owned(), dir))
}

/// ssh starts in the home directory, so `~/x` is `x`. A leading `./` makes sure that `-x`, `@x` and
/// `mw1x` are read as directories.
fn relative(dir: &str) -> String {
    let dir = dir
        .strip_prefix("~/")
        .or(dir.strip_prefix('~').filter(|rest| rest.is_empty()))
        .unwrap_or(dir);
    let mut components = Path::new(dir).components();
    match dir {
        _ if components.all(|c| c == Component::CurDir) => ".".to_owned(),
        dir if dir.starts_with('/') => dir.to_owned(),
        dir => format!("./{}", dir.strip_prefix("./").unwrap_or(dir)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(text: &str) -> Option<(String, String)> {
        parse(OsStr::new(text))
            .unwrap()
            .map(|remote| (remote.host, remote.dir))
    }

    #[test]
    fn a_colon_before_any_slash_is_a_host() {
        let is = |text: &str, host: &str, dir: &str| {
            assert_eq!(
                remote(text),
                Some((host.to_owned(), dir.to_owned())),
                "{text}"
            );
        };
        is("server:", "server", ".");
        is("server:in", "server", "./in");
        is("ann@server:/srv/a b", "ann@server", "/srv/a b");
        is("server:~", "server", ".");
        is("server:~/in", "server", "./in");
        is("server:~bob/in", "server", "./~bob/in");
        is("server:-rf", "server", "./-rf");
        is("server:mw1abc", "server", "./mw1abc");
        is("server:./", "server", ".");
        is("server:~/./.", "server", ".");
        is("server:a:b", "server", "./a:b");
        is("[2001:db8::1]:in", "2001:db8::1", "./in");
        is("ann@[fe80::1%eth0]:/a[b]:c", "ann@fe80::1%eth0", "/a[b]:c");
        is("server:[x]:y", "server", "./[x]:y");
        let locals = [
            "file", "./a:b", "dir/a:b", "/a:b", ":x", "[]:x", "[a/b]:x", "[x]",
        ];
        for local in locals {
            assert_eq!(remote(local), None, "{local}");
        }
    }

    #[test]
    fn options_are_not_hosts() {
        for host in ["-oProxyCommand=x:dir", "[-oProxyCommand=x]:dir"] {
            let error = parse(OsStr::new(host)).unwrap_err();
            assert!(error.to_string().contains("not a host name"));
        }
    }

    #[test]
    fn the_destination_is_the_last_argument() {
        let mut paths: Vec<OsString> = ["a", "b:c", "server:in"].map(Into::into).into();
        assert_eq!(split(&mut paths).unwrap().unwrap().host, "server");
        assert_eq!(paths, ["a", "b:c"]);
        let mut paths: Vec<OsString> = vec!["server:in".into()];
        assert!(
            split(&mut paths)
                .unwrap_err()
                .to_string()
                .contains("nothing to send")
        );
    }
}

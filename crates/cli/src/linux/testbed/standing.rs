//! Networks that stand. Each has a process, which listens on an abstract socket: there is no file
//! to be left behind, and the name is free when the process is gone.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use anyhow::{Context, bail};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

/// What all names begin with.
const PREFIX: &str = "manyway-testbed-";

/// The word that ends one.
const DOWN: u8 = b'd';

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{PREFIX}{name}"))
}

/// Takes a name.
///
/// # Errors
/// If a network stands that has it.
pub(super) fn take(name: &str) -> anyhow::Result<UnixListener> {
    match UnixListener::bind_addr(&address(name)?) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => bail!(
            "a testbed {name} stands already: take it down with `manyway testbed down {name}`, or \
             choose another --name"
        ),
        listener => Ok(listener?),
    }
}

/// Waits until root says that the network is to go; the name is free then.
///
/// # Errors
/// If the socket fails.
pub(super) fn wait(listener: UnixListener) -> anyhow::Result<()> {
    loop {
        let (mut caller, _) = listener.accept()?;
        let mut word = [0];
        let asked = caller.read(&mut word).is_ok_and(|len| len == 1) && word[0] == DOWN;
        if asked && getsockopt(&caller, PeerCredentials)?.uid() == 0 {
            // The caller sees it close when this process is gone.
            std::mem::forget(caller);
            return Ok(());
        }
    }
}

/// The process that holds a network, as this process numbers it.
///
/// # Errors
/// If there is no such network.
pub(super) fn holder(name: &str) -> anyhow::Result<i32> {
    let socket = UnixStream::connect_addr(&address(name)?)?;
    Ok(getsockopt(&socket, PeerCredentials)?.pid())
}

/// Takes a network down and waits until it is gone; its name.
///
/// # Errors
/// If it isn't clear which, or there is none.
pub(super) fn down(name: Option<&str>) -> anyhow::Result<String> {
    let names = names()?;
    let name = match (name, &names[..]) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, []) => bail!("no testbed is up"),
        (None, several) => bail!(
            "several testbeds are up: name one of {}",
            several.join(", ")
        ),
    };
    let mut socket = UnixStream::connect_addr(&address(name)?).map_err(|_| {
        let stand = match names.is_empty() {
            true => "none stands".to_owned(),
            false => format!("there are {}", names.join(", ")),
        };
        anyhow::anyhow!("no testbed {name}: {stand}")
    })?;
    socket.write_all(&[DOWN])?;
    // Reset or closed: gone.
    let _ = socket.read(&mut [0]);
    Ok(name.to_owned())
}

/// Networks that stand.
fn names() -> anyhow::Result<Vec<String>> {
    let sockets = fs::File::open("/proc/net/unix").context("/proc/net/unix")?;
    let mut names = Vec::new();
    for line in BufReader::new(sockets).lines() {
        let line = String::from_utf8_lossy(line?.as_bytes()).into_owned();
        let at = line.split_whitespace().nth(7).unwrap_or_default();
        if let Some(name) = at.strip_prefix('@').and_then(|at| at.strip_prefix(PREFIX))
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

//! A receiver that ssh starts: `ssh HOST manyway recv --once … DIR`, and the ticket that it prints.
//!
//! Only the ticket and messages pass through ssh; the files go over manyway's own connection.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use manyway::Ticket;
use manyway_units::printable;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::args::{ArrivalArgs, SshArgs};
use crate::destination::Remote;
use crate::exit::{Class, SshFailed, usage};
use crate::screen::Screen;
use crate::ticket;

/// How long to wait for the receiver's end after the transfer.
const EXIT_WAIT: Duration = Duration::from_secs(5);
/// How long `ssh -G` and name resolution may take; the transfer works without them.
const LOOKUP: Duration = Duration::from_secs(3);
/// Most characters shown of a line from the other host.
const MAX_LINE: usize = 4096;
/// Most bytes kept of such a line: more than any ticket has.
const MAX_KEPT: usize = 64 << 10;

/// What to start, and where.
#[derive(Debug)]
pub(crate) struct Invocation<'a> {
    pub(crate) remote: &'a Remote,
    pub(crate) ssh: &'a SshArgs,
    pub(crate) arrival: ArrivalArgs,
    /// The receiver refuses the home directory there, whatever its path is.
    pub(crate) spare_home: bool,
}

/// A receiver on the remote host. Dropping it ends ssh. That ends the receiver's standard input and
/// so the receiver.
#[derive(Debug)]
pub(crate) struct RemoteReceiver {
    child: Child,
    errors: JoinHandle<()>,
}

/// Starts the receiver and waits for its ticket.
pub(crate) async fn start(
    screen: &Screen,
    what: &Invocation<'_>,
) -> anyhow::Result<(RemoteReceiver, Ticket)> {
    let words = ssh_words(&what.ssh.ssh)?;
    let host = &what.remote.host;
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .arg(host)
        .arg(remote_command(what)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| {
            format!(
                "can't start {:?}: install ssh, or name another program with `--ssh CMD`",
                words[0]
            )
        })?;
    let stderr = child.stderr.take().context("ssh has no standard error")?;
    let mut lines = Lines(BufReader::new(stderr));

    let (said, addresses) = tokio::join!(
        listen_for_ticket(screen, host, &mut lines),
        addresses_of(host, &words)
    );
    let Some(mut ticket) = said else {
        let status = child.wait().await.context("waiting for ssh")?;
        return Err(why_no_ticket(what, status));
    };
    // Behind NAT, the receiver doesn't know the address by which we reach its host.
    ticket::add_host(&mut ticket, addresses);
    let errors = tokio::spawn(pass_on(screen.clone(), host.clone(), lines));
    Ok((RemoteReceiver { child, errors }, ticket))
}

impl RemoteReceiver {
    /// Waits until the receiver ends, so that its last messages appear. After a failure on our side
    /// it may still wait for us: the end of its standard input stops it.
    pub(crate) async fn finish(mut self, done: bool) {
        if !done {
            drop(self.child.stdin.take());
        }
        if timeout(EXIT_WAIT, self.child.wait()).await.is_ok() {
            timeout(EXIT_WAIT, self.errors).await.ok();
        }
    }
}

/// The shell command for the remote host, with every variable part quoted.
fn remote_command(what: &Invocation<'_>) -> anyhow::Result<String> {
    let quoted = |text: &str| {
        shlex::try_quote(text)
            .map(|quoted| quoted.into_owned())
            .map_err(|error| usage(format!("ssh can't pass {text:?} on: {error}")))
    };
    let mut command = quoted(&what.ssh.remote_bin)?;
    // Who may run commands there may send any files.
    command.push_str(" recv --once --quiet --while-stdin --allow-dotfiles");
    for option in what.arrival.given() {
        command.push(' ');
        command.push_str(option);
    }
    if what.spare_home {
        command.push_str(" --spare-home");
    }
    if let Some(port) = what.ssh.remote_port {
        command.push_str(&format!(" --port {port}"));
    }
    command.push_str(" -- ");
    command.push_str(&quoted(&what.remote.dir)?);
    Ok(command)
}

fn ssh_words(command: &str) -> anyhow::Result<Vec<String>> {
    match shlex::split(command) {
        Some(words) if !words.is_empty() => Ok(words),
        _ => Err(usage(format!(
            "`--ssh {command:?}` is not a command: check its quotes"
        ))),
    }
}

/// Reads until a line has a ticket, and shows the user all other lines (`command not found`).
async fn listen_for_ticket(
    screen: &Screen,
    host: &str,
    lines: &mut Lines<BufReader<ChildStderr>>,
) -> Option<Ticket> {
    while let Ok(Some(line)) = lines.next().await {
        match ticket::find(&line) {
            Some(ticket) => return Some(ticket),
            None => screen.error(&said(host, &line)),
        }
    }
    None
}

async fn pass_on(screen: Screen, host: String, mut lines: Lines<BufReader<ChildStderr>>) {
    while let Ok(Some(line)) = lines.next().await {
        screen.error(&said(&host, &line));
    }
}

/// Lines in any encoding and of any length: an sshd's banner is its owner's affair.
struct Lines<R>(R);

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// The next one, without what is too long of it; `None` at the end.
    async fn next(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        loop {
            let bytes = self.0.fill_buf().await?;
            if bytes.is_empty() && line.is_empty() {
                return Ok(None);
            }
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let part = &bytes[..end.unwrap_or(bytes.len())];
            let room = MAX_KEPT - line.len();
            line.extend_from_slice(&part[..part.len().min(room)]);
            let ends = end.is_some() || bytes.is_empty();
            let used = part.len() + usize::from(end.is_some());
            self.0.consume(used);
            if ends {
                let line = String::from_utf8_lossy(&line);
                return Ok(Some(line.trim_end_matches('\r').to_owned()));
            }
        }
    }
}

/// A line from the other host.
fn said(host: &str, line: &str) -> String {
    format!("{host}: {}", printable(line, MAX_LINE))
}

fn why_no_ticket(what: &Invocation<'_>, status: ExitStatus) -> anyhow::Error {
    let host = &what.remote.host;
    let program = &what.ssh.remote_bin;
    let reason = match status.code() {
        Some(127) => format!(
            "{program} isn't installed on {host}, or isn't in the PATH of its non-interactive \
             shell: install it there, or give its path with `--remote-bin PATH`"
        ),
        Some(126) => format!("{host} can't execute {program}: check its permissions"),
        Some(255) => return SshFailed(format!("ssh can't reach {host}")).into(),
        Some(code) => {
            let ended =
                format!("{program} on {host} ended with status {code} before it printed a ticket");
            // What is wrong with its command line is wrong with ours.
            if code == i32::from(Class::Usage.status()) {
                return usage(ended);
            }
            ended
        }
        None => return SshFailed(format!("ssh to {host} was killed")).into(),
    };
    anyhow::anyhow!(reason)
}

/// The addresses by which ssh reaches the host, if a quick lookup finds them.
async fn addresses_of(host: &str, ssh: &[String]) -> Vec<IpAddr> {
    let name = match timeout(LOOKUP, configured_name(host, ssh)).await {
        Ok(Ok(name)) => name,
        _ => host.rsplit('@').next().unwrap_or(host).to_owned(),
    };
    let lookup = tokio::task::spawn_blocking(move || (name, 0).to_socket_addrs());
    match timeout(LOOKUP, lookup).await {
        Ok(Ok(Ok(addresses))) => addresses.map(|address| address.ip()).collect(),
        _ => Vec::new(),
    }
}

/// The host name behind an alias of ssh's configuration. Only ssh itself understands `-G`.
async fn configured_name(host: &str, ssh: &[String]) -> anyhow::Result<String> {
    if !std::path::Path::new(&ssh[0]).ends_with("ssh") {
        bail!("{} may not know -G", ssh[0]);
    }
    let output = Command::new(&ssh[0])
        .args(&ssh[1..])
        .args(["-G", host])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await?;
    let text = String::from_utf8_lossy(&output.stdout);
    let name = text.lines().find_map(|line| line.strip_prefix("hostname "));
    name.map(str::to_owned).context("no hostname in ssh -G")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::LinksName;

    fn command(dir: &str, bin: &str) -> String {
        let remote = Remote {
            host: "server".to_owned(),
            dir: dir.to_owned(),
        };
        let ssh = SshArgs {
            ssh: "ssh".to_owned(),
            remote_bin: bin.to_owned(),
            remote_port: Some(4433),
        };
        remote_command(&Invocation {
            remote: &remote,
            ssh: &ssh,
            arrival: ArrivalArgs {
                overwrite: false,
                rename: true,
                perms: true,
                delete: false,
                owner: true,
                group: false,
                xattrs: true,
                acls: true,
                checksum: true,
                links: LinksName::All,
            },
            spare_home: true,
        })
        .unwrap()
    }

    #[test]
    fn a_shell_sees_the_exact_directory() {
        for dir in [
            "./in",
            "/srv/a b",
            "./it's; rm -rf $HOME `x` \"y\" \\",
            "./-x",
            "./ä*?\n",
        ] {
            let sh = std::process::Command::new("sh")
                .arg("-c")
                .arg(command(dir, "printf").replacen(" recv", " '%s|'", 1))
                .output()
                .unwrap();
            let said = String::from_utf8(sh.stdout).unwrap();
            assert_eq!(
                said,
                format!(
                    "--once|--quiet|--while-stdin|--allow-dotfiles|--rename|--perms|--owner|--xattrs|--acls|--checksum|--links=all|--spare-home|--port|4433|--|{dir}|"
                )
            );
        }
    }

    #[tokio::test]
    async fn lines_need_no_encoding_and_no_end() {
        let mut said = b"Gr\xfc\xdfe\r\n\n".to_vec();
        said.extend_from_slice(&[b'x'; 3 * MAX_KEPT]);
        said.extend_from_slice(b" mw1\nlast");
        let mut lines = Lines(BufReader::new(&said[..]));
        let mut next = async || lines.next().await.unwrap();
        assert_eq!(next().await.unwrap(), "Gr\u{fffd}\u{fffd}e");
        assert_eq!(next().await.unwrap(), "");
        assert_eq!(next().await.unwrap(), "x".repeat(MAX_KEPT));
        assert_eq!(next().await.unwrap(), "last");
        assert_eq!(next().await, None);
    }

    #[test]
    fn the_program_is_quoted_too() {
        assert!(
            command("./in", "/opt/my tools/manyway").starts_with("'/opt/my tools/manyway' recv")
        );
    }

    #[test]
    fn ssh_may_have_options() {
        assert_eq!(
            ssh_words("ssh -p 2222 -i 'my key'").unwrap(),
            ["ssh", "-p", "2222", "-i", "my key"]
        );
        assert!(ssh_words("").is_err());
        assert!(ssh_words("ssh 'x").is_err());
    }
}

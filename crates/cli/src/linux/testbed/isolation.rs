//! The same command once more, in namespaces of its own of processes and of mounts. However it
//! ends, the kernel ends what it started there and forgets what it made: nothing depends on us.

use std::env;
use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use manyway_testbed::live;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::exit::usage;

/// What the command finds in its environment there.
const MARK: &str = "MANYWAY_TESTBED_INSIDE";

/// Memory of its own there, for the names of network namespaces and for files.
pub(crate) const PRIVATE: &str = "/run/netns";

/// Whether this process is the one inside: the first of its namespace of processes, and marked.
pub(crate) fn is_inside() -> bool {
    std::process::id() == 1 && env::var_os(MARK).is_some()
}

/// Whether this host can have live networks.
///
/// # Errors
/// Everything that is missing, with how to get it.
pub(crate) fn check() -> anyhow::Result<()> {
    let missing = live::missing();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(usage(missing.join("\n"))),
    }
}

/// The command `unshare` that runs this process's own command line inside.
///
/// # Errors
/// What is missing for live networks.
fn inside(around: &[&str]) -> anyhow::Result<Command> {
    check()?;
    std::fs::create_dir_all(PRIVATE).context(PRIVATE)?;
    let program = env::current_exe().context("can't find this program's file")?;
    let mut words: Vec<OsString> = around.iter().map(OsString::from).collect();
    words.extend(
        [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]
        .map(OsString::from),
    );
    let prepare = format!("mount -t tmpfs testbed {PRIVATE} && exec \"$@\"");
    words.extend(["sh", "-c", &prepare, "sh"].map(OsString::from));
    words.push(program.into());
    words.extend(env::args_os().skip(1));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env(MARK, "1");
    Ok(command)
}

/// What signals do to what runs inside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Ending {
    /// It gets them from this process alone, and may take so long to end after the first one.
    Told(Duration),
    /// A terminal tells it of Ctrl-C, and it decides what that means. SIGTERM ends it.
    Own,
}

/// Runs this process's command line inside, and ends this process as that one ends. To be called
/// on a thread that lives as long as the process.
///
/// # Errors
/// If it can't start; else it doesn't return.
pub(crate) async fn run_inside(ending: Ending) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    // Killed, this process takes `unshare` with it, and that all the others.
    let mut command = inside(&["setpriv", "--pdeathsig", "KILL"])?;
    if ending != Ending::Own {
        command.process_group(0);
    }
    let mut child = command.spawn().context("can't start `setpriv`")?;
    let mut last = None;
    loop {
        let over = async {
            match last {
                Some(last) => tokio::time::sleep_until(last).await,
                None => std::future::pending().await,
            }
        };
        let came = tokio::select! {
            // 128 and the signal, as shells have it.
            status = child.wait() => std::process::exit(status?.code().unwrap_or(137)),
            _ = interrupt.recv() => Signal::SIGINT,
            _ = terminate.recv() => Signal::SIGTERM,
            _ = hangup.recv() => end(child).await,
            () = over => end(child).await,
        };
        match ending {
            Ending::Told(grace) => {
                if let Some(group) = child.id() {
                    let _ = killpg(Pid::from_raw(group as i32), came);
                }
                last.get_or_insert(Instant::now() + grace);
            }
            Ending::Own if came == Signal::SIGTERM => end(child).await,
            Ending::Own => {}
        }
    }
}

async fn end(mut child: Child) -> ! {
    let _ = child.kill().await;
    std::process::exit(crate::exit::Class::Interrupted.status().into())
}

/// Starts this process's command line inside, apart from the terminal; its standard output and
/// error are pipes.
///
/// # Errors
/// If it can't start.
pub(crate) fn leave_inside() -> anyhow::Result<Child> {
    let mut command = inside(&["setsid"])?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().context("can't start `setsid`")
}

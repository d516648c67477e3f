//! `--hook`: a program of the user's that runs after each transfer.
//!
//! It runs without a shell and in a process group of its own, one at a time. What it does changes
//! nothing for the peer, which has been told the result by then.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use manyway_units::format_duration;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use crate::args::ReportArgs;
use crate::children::Group;
use crate::end::End;
use crate::exit::usage;

/// Transfers whose hooks may wait for others, or run.
const MOST_WAITING: usize = 64;
/// Bytes of the objects of those that wait: one may name a million files.
const MOST_BYTES: usize = 16 << 20;
/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// The user's program.
#[derive(Debug, Clone)]
pub(crate) struct Hook {
    words: Vec<String>,
    limit: Duration,
    /// Where a receiver's files are.
    dir: Option<PathBuf>,
    one: Arc<Mutex<()>>,
    waiting: Arc<Waiting>,
}

impl Hook {
    /// That of the options, if they name one.
    pub(crate) fn new(args: &ReportArgs, dir: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let Some(command) = &args.hook else {
            return Ok(None);
        };
        let words = shlex::split(command).filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| {
            usage(format!(
                "`--hook {command:?}` is not a command: check its quotes"
            ))
        })?;
        let dir = dir.map(std::path::absolute).transpose();
        Ok(Some(Self {
            words,
            limit: args.hook_timeout,
            dir: dir.context("can't find the directory to receive into")?,
            one: Arc::default(),
            waiting: Arc::default(),
        }))
    }

    /// Runs it for the end of a transfer, after those that wait already.
    ///
    /// # Errors
    /// It can't be started, fails or takes too long, or too many wait.
    pub(crate) async fn run(&self, end: &End) -> anyhow::Result<()> {
        let Some(_waits) = Waits::new(&self.waiting, end.bytes()) else {
            bail!("the hook didn't run: too many hooks are waiting");
        };
        let _turn = self.one.lock().await;
        let program = &self.words[0];
        let mut child = self
            .command(end)?
            .spawn()
            .with_context(|| format!("can't start the hook {program:?}: check `--hook`"))?;
        let _group = group(&child).map(Group::new);
        let mut stdin = child.stdin.take();
        let object = serde_json::to_vec(end)?;
        let ended = async {
            let tell = async {
                if let Some(stdin) = &mut stdin {
                    // It needn't read.
                    stdin.write_all(&object).await.ok();
                }
                drop(stdin.take());
                std::future::pending::<()>().await
            };
            tokio::select! {
                status = child.wait() => status,
                () = tell => unreachable!("it waits for ever"),
            }
        };
        let Ok(status) = timeout(self.limit, ended).await else {
            end_group(&mut child).await;
            let limit = format_duration(self.limit);
            bail!("the hook {program:?} took longer than {limit} (`--hook-timeout`) and was ended");
        };
        match status? {
            status if status.success() => Ok(()),
            status => Err(anyhow!("the hook {program:?} failed: {status}")),
        }
    }

    fn command(&self, end: &End) -> anyhow::Result<Command> {
        let mut command = Command::new(&self.words[0]);
        // Our own options would become those of a manyway that the hook starts: it would run the
        // hook again.
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.as_encoded_bytes().starts_with(b"MANYWAY_")) {
            command.env_remove(name);
        }
        // Standard output is for our objects.
        let output = io::stderr().as_fd().try_clone_to_owned()?;
        command
            .args(&self.words[1..])
            .envs(end.variables())
            .envs(self.dir.iter().map(|dir| ("TRANSFER_DIR", dir)))
            .stdin(Stdio::piped())
            .stdout(output)
            .process_group(0)
            .kill_on_drop(true);
        Ok(command)
    }
}

/// Ends the program and all that it has started in its process group.
async fn end_group(child: &mut Child) {
    // It has not been waited for, so nobody else has its number.
    let Some(group) = group(child) else {
        return;
    };
    let signal = |signal| killpg(group, signal).ok();
    signal(Signal::SIGTERM);
    sleep(GRACE).await;
    signal(Signal::SIGKILL);
    child.wait().await.ok();
}

/// Its process group, which has its number.
fn group(child: &Child) -> Option<Pid> {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    id.map(Pid::from_raw)
}

/// How many wait, or run, and the bytes of their objects.
#[derive(Debug, Default)]
struct Waiting {
    hooks: AtomicUsize,
    bytes: AtomicUsize,
}

/// One of those that wait, or run.
struct Waits<'a> {
    waiting: &'a Waiting,
    bytes: usize,
}

impl<'a> Waits<'a> {
    /// `None` if there are too many. A large object is no reason if it is the only one.
    fn new(waiting: &'a Waiting, bytes: usize) -> Option<Self> {
        let hooks = waiting.hooks.fetch_add(1, Relaxed);
        let before = waiting.bytes.fetch_add(bytes, Relaxed);
        let waits = Self { waiting, bytes };
        (hooks < MOST_WAITING && before < MOST_BYTES).then_some(waits)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.waiting.hooks.fetch_sub(1, Relaxed);
        self.waiting.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(command: &str) -> Hook {
        let args = ReportArgs {
            json: false,
            progress: None,
            metrics: None,
            hook: Some(command.to_owned()),
            hook_timeout: Duration::from_secs(60),
        };
        Hook::new(&args, None).unwrap().unwrap()
    }

    fn end() -> End {
        End::failed(Some(3), &anyhow!("it failed"))
    }

    #[tokio::test]
    async fn its_own_end_is_told() {
        let said = async |command| {
            let result = hook(command).run(&end()).await;
            result.map_err(|error| error.to_string())
        };
        assert_eq!(said("true").await, Ok(()));
        let failed = r#"the hook "sh" failed: exit status: 3"#;
        assert_eq!(said("sh -c 'exit 3'").await, Err(failed.to_owned()));
        let missing = said("/no/such/hook").await.unwrap_err();
        assert_eq!(
            missing,
            r#"can't start the hook "/no/such/hook": check `--hook`"#
        );
    }

    /// How many of five more than may wait are refused, if each has such an object.
    async fn refused(end: &End) -> usize {
        let hook = hook("true");
        let turn = hook.one.lock().await;
        let mut refused = 0;
        let mut runs = Vec::new();
        for _ in 0..MOST_WAITING + 5 {
            let mut run = Box::pin(hook.run(end));
            match timeout(Duration::ZERO, run.as_mut()).await {
                Ok(result) => {
                    let error = result.unwrap_err().to_string();
                    assert!(error.contains("too many hooks are waiting"), "{error}");
                    refused += 1;
                }
                Err(_) => runs.push(run),
            }
        }
        drop((runs, turn));
        hook.run(end).await.unwrap();
        refused
    }

    #[tokio::test]
    async fn so_many_wait() {
        assert_eq!(refused(&end()).await, 5);
        let large = End::failed(None, &anyhow!("{}", "x".repeat(1 << 20)));
        assert_eq!(refused(&large).await, MOST_WAITING + 5 - 16);
    }
}

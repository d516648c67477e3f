//! Processes of the program, for its tests. Each test uses a part of this.
#![allow(dead_code)]

pub(crate) mod local_relay;
pub(crate) mod place;
pub(crate) mod relay;
pub(crate) mod service;
pub(crate) mod transfer;
#[cfg(all(feature = "research", target_os = "linux"))]
pub(crate) mod uplinks;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nothing here takes long; this is for machines under load.
const PATIENCE: Duration = Duration::from_secs(300);

/// The program in this directory, to be started; its output is kept.
pub(crate) fn manyway(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_manyway"));
    command
        .args(arguments)
        .current_dir(dir)
        // Whoever runs the tests may have an identity.
        .env("XDG_CONFIG_HOME", dir.join("config"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Puts a program there. Another process does it: a child that another test is starting may hold
/// what this one has open for writing, and nobody can run such a file.
pub(crate) fn install(from: &Path, to: &Path) {
    let mut install = Command::new("install");
    let installed = install.args(["-m", "755"]).arg(from).arg(to).status();
    assert!(installed.unwrap().success());
}

/// Puts a script there.
pub(crate) fn script(at: &Path, text: &str) {
    let source = at.with_extension("source");
    std::fs::write(&source, format!("#!/bin/sh\n{text}\n")).unwrap();
    install(&source, at);
}

/// A process that does not outlive its test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn interrupt(&self) {
        self.signal("INT");
    }

    /// Sends it a signal, by its name without SIG.
    pub(crate) fn signal(&self, name: &str) {
        // Every shell has it, and not every system a program of that name.
        let kill = format!("kill -{name} {}", self.0.id());
        let sent = Command::new("sh").args(["-c", &kill]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for its end; what it wrote to an output that was taken before is left out.
    pub(crate) fn finish(mut self) -> Finished {
        let stdout = self.0.stdout.take().map(collect);
        let stderr = self.0.stderr.take().map(collect);
        let started = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < PATIENCE, "it doesn't end");
            sleep(Duration::from_millis(10));
        }
        let text = |output: Option<JoinHandle<String>>| {
            output.map_or_else(String::new, |output| output.join().unwrap())
        };
        Finished {
            code: self.0.wait().unwrap().code().expect("it was killed"),
            stdout: text(stdout),
            stderr: text(stderr),
        }
    }
}

/// Reads while the process runs: a full pipe would stop it.
fn collect(mut output: impl Read + Send + 'static) -> JoinHandle<String> {
    spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        text
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{what} never came");
        sleep(Duration::from_millis(10));
    }
}

/// Says that a test doesn't run here; an error where `.ci/run` has seen that it can.
pub(crate) fn skipped(why: &str) {
    assert!(std::env::var_os("MANYWAY_REQUIRE_ROOT").is_none(), "{why}");
    // Not by `eprintln`, which a test that passes doesn't show.
    let line = format!("skipped: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Writes a file that is its owner's alone.
pub(crate) fn secret(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(file, text).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

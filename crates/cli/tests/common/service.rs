//! Registries and relays as their operators run them.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::ChildStderr;

use manyway_registry::RegistryUrl;

use super::{Running, manyway};

/// A process that says on standard error what it does.
pub(crate) struct Service {
    pub(crate) process: Running,
    stderr: BufReader<ChildStderr>,
    pub(crate) said: String,
}

impl Service {
    pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Self {
        let mut process = Running(manyway(dir, arguments).spawn().unwrap());
        let stderr = BufReader::new(process.0.stderr.take().unwrap());
        Self {
            process,
            stderr,
            said: String::new(),
        }
    }

    pub(crate) fn registry(dir: &Path) -> Self {
        let arguments = [
            "registry",
            "-vvv",
            "--listen",
            "127.0.0.1:0",
            "--allow-private",
            "--key-file",
            "registry.key",
            "--token-file",
            "tokens",
        ];
        let mut registry = Self::start(dir, &arguments);
        registry.hear("--registry https://");
        registry
    }

    pub(crate) fn relay(dir: &Path, url: &str, key_file: &str) -> Self {
        let arguments = [
            "relay",
            "-vvv",
            "--listen",
            "127.0.0.1:0",
            "--allow-private",
            "--key-file",
            key_file,
            "--registry",
            url,
            "--token-file",
            "tokens",
        ];
        let mut relay = Self::start(dir, &arguments);
        relay.hear("Enrolled at the registry");
        relay
    }

    /// Reads on until it has said this.
    pub(crate) fn hear(&mut self, words: &str) {
        while !self.said.contains(words) {
            assert_ne!(
                self.stderr.read_line(&mut self.said).unwrap(),
                0,
                "{}",
                self.said
            );
        }
    }

    pub(crate) fn url(&self) -> RegistryUrl {
        let url = self
            .said
            .split_whitespace()
            .find(|word| word.starts_with("https://"));
        url.unwrap().parse().unwrap()
    }

    /// Everything it has said, once it has ended.
    pub(crate) fn end(mut self) -> String {
        self.process.interrupt();
        self.stderr.read_to_string(&mut self.said).unwrap();
        self.process.finish().ok();
        self.said
    }
}

/// A relay on loopback, and the text that gives access to it.
pub(crate) struct Relay {
    _process: Running,
    _stderr: BufReader<ChildStderr>,
    pub(crate) text: String,
}

impl Relay {
    pub(crate) fn start(dir: &Path, name: &str) -> Self {
        let key = format!("{name}.key");
        let common = ["relay", "--key-file", &key, "--allow-private", "--listen"];
        let mut command = manyway(dir, &common);
        let mut process = Running(command.arg("127.0.0.1:0").spawn().unwrap());
        let mut stderr = BufReader::new(process.0.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains(" listens on ") {
            assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "{said}");
        }
        let line = said.lines().find(|line| line.contains(" listens on "));
        let (_, address) = line.unwrap().rsplit_once(' ').unwrap();
        let mut command = manyway(dir, &common);
        let invite = command.args([address, "--invite"]).spawn().unwrap();
        let text = Running(invite).finish().ok().stdout.trim().to_owned();
        Self {
            _process: process,
            _stderr: stderr,
            text,
        }
    }
}

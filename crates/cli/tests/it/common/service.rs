//! Registries and relays as their operators run them.

use std::io::{BufRead, BufReader, Read, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread::spawn;

use manyway_registry::RegistryUrl;

use super::{Finished, PATIENCE, Running, manyway};

/// A process that says on standard error what it does.
pub(crate) struct Service {
    pub(crate) process: Running,
    stderr: Receiver<String>,
    pub(crate) said: String,
}

impl Service {
    pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Self {
        Self::run(manyway(dir, arguments))
    }

    pub(crate) fn run(mut command: Command) -> Self {
        let mut process = Running(command.spawn().unwrap());
        let mut stderr = BufReader::new(process.0.stderr.take().unwrap());
        let (tell, lines) = channel();
        // It is read to its end, so that a full pipe never stops the process.
        spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).unwrap() > 0 {
                tell.send(mem::take(&mut line)).ok();
            }
        });
        Self {
            process,
            stderr: lines,
            said: String::new(),
        }
    }

    pub(crate) fn registry(dir: &Path) -> Self {
        Self::registry_with(dir, &[])
    }

    pub(crate) fn registry_with(dir: &Path, more: &[&str]) -> Self {
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
        let mut registry = Self::start(dir, &[&arguments, more].concat());
        registry.hear("--registry https://");
        registry
    }

    pub(crate) fn relay(dir: &Path, url: &str, key_file: &str) -> Self {
        Self::relay_with(dir, url, key_file, &[])
    }

    pub(crate) fn relay_with(dir: &Path, url: &str, key_file: &str, more: &[&str]) -> Self {
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
        let mut relay = Self::start(dir, &[&arguments, more].concat());
        relay.hear("Enrolled at the registry");
        relay
    }

    /// Reads on until it has said this.
    pub(crate) fn hear(&mut self, words: &str) {
        while !self.said.contains(words) {
            self.hear_more();
        }
    }

    /// Reads another line.
    pub(crate) fn hear_more(&mut self) {
        match self.stderr.recv_timeout(PATIENCE) {
            Ok(line) => self.said += &line,
            Err(error) => panic!("{error}: {}", self.said),
        }
    }

    /// Where it forwards, if it is a relay.
    pub(crate) fn address(&self) -> SocketAddr {
        listens_on(&self.said)
    }

    pub(crate) fn url(&self) -> RegistryUrl {
        let url = self
            .said
            .split_whitespace()
            .find(|word| word.starts_with("https://"));
        url.unwrap().parse().unwrap()
    }

    /// How it ends by itself, with everything it has said.
    pub(crate) fn finish(mut self) -> Finished {
        let finished = self.process.finish();
        self.said.extend(self.stderr.iter());
        Finished {
            stderr: self.said,
            ..finished
        }
    }

    /// Everything it has said, once it has ended.
    pub(crate) fn end(self) -> String {
        self.process.interrupt();
        self.finish().ok().stderr
    }
}

/// The metrics of a process that has said where they are.
pub(crate) fn metrics(said: &str) -> String {
    let mut words = said.split_whitespace();
    let url = words.find(|word| word.starts_with("http://")).unwrap();
    let (address, path) = url["http://".len()..].split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /{path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn listens_on(said: &str) -> SocketAddr {
    let line = said.lines().find(|line| line.contains(" listens on "));
    let (_, address) = line.unwrap().rsplit_once(' ').unwrap();
    address.parse().unwrap()
}

/// A relay on loopback, and the text that gives access to it.
pub(crate) struct Relay {
    service: Service,
    pub(crate) text: String,
}

impl Relay {
    pub(crate) fn start(dir: &Path, name: &str) -> Self {
        Self::start_with(dir, name, &[])
    }

    pub(crate) fn start_with(dir: &Path, name: &str, more: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", dir, name, more)
    }

    /// With these addresses, separated by commas.
    pub(crate) fn start_at(listen: &str, dir: &Path, name: &str, more: &[&str]) -> Self {
        let key = format!("{name}.key");
        let common = ["relay", "--key-file", &key, "--allow-private", "--listen"];
        let mut command = manyway(dir, &common);
        command.arg(listen).args(more);
        let mut service = Service::run(command);
        service.hear(" listens on ");
        let line = service.said.lines().find(|l| l.contains(" listens on "));
        let (_, addresses) = line.unwrap().split_once(" listens on ").unwrap();
        let addresses = addresses.replace(" and ", ",");
        let mut command = manyway(dir, &common);
        command.args([&addresses, "--invite"]).args(more);
        let invite = command.spawn().unwrap();
        let text = Running(invite).finish().ok().stdout.trim().to_owned();
        Self { service, text }
    }

    /// A number that it serves; it has to run with `--metrics`.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = metrics(&self.service.said);
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().parse().unwrap()
    }

    /// Everything it has said, once it has ended.
    pub(crate) fn end(self) -> String {
        self.service.end()
    }
}

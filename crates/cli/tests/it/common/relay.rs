//! A relay that runs.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStderr, Command};

use manyway_wire::relay::RelayTicket;

use crate::common::{Finished, Running, manyway};

pub(crate) fn relay(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = manyway(
        dir,
        &["relay", "--key-file", "relay.key", "--allow-private"],
    );
    command.args(arguments);
    command
}

pub(crate) fn run(dir: &Path, arguments: &[&str]) -> Finished {
    Running(relay(dir, arguments).spawn().unwrap()).finish()
}

/// A relay that runs, and what it says.
pub(crate) struct Relay {
    pub(crate) process: Running,
    pub(crate) address: SocketAddr,
    pub(crate) stderr: BufReader<ChildStderr>,
    pub(crate) said: String,
}

impl Relay {
    pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Self {
        let mut command = relay(dir, &["--listen", "127.0.0.1:0"]);
        let mut process = Running(command.args(arguments).spawn().unwrap());
        let mut stderr = BufReader::new(process.0.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains(" listens on ") {
            assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "{said}");
        }
        let line = said.lines().find(|line| line.contains(" listens on "));
        let (_, address) = line.unwrap().rsplit_once(' ').unwrap();
        Self {
            address: address.parse().unwrap(),
            process,
            stderr,
            said,
        }
    }

    /// Everything it has said, once it has ended by itself.
    pub(crate) fn end(mut self) -> String {
        self.process.interrupt();
        self.stderr.read_to_string(&mut self.said).unwrap();
        self.process.finish().ok();
        self.said
    }
}

pub(crate) fn invitation(dir: &Path, address: SocketAddr) -> RelayTicket {
    let address = address.to_string();
    let invited = run(dir, &["--invite", "--listen", &address]).ok();
    invited.stdout.parse().unwrap()
}

//! A file from one process of the program to another.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::{Running, eventually, manyway};

/// A directory with a file to send, and one to receive into.
pub(crate) struct Transfer {
    pub(crate) dir: TempDir,
    content: Vec<u8>,
}

impl Transfer {
    pub(crate) fn new(bytes: usize) -> Self {
        let dir = TempDir::new().unwrap();
        let content: Vec<u8> = (0..bytes).map(|n| ((n * n) >> 5) as u8).collect();
        fs::write(dir.path().join("file"), &content).unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        Self { dir, content }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn receiver(&self, arguments: &[&str]) -> Running {
        let common = ["recv", "in", "--once", "-q", "--path", "127.0.0.1"];
        let mut command = manyway(self.path(), &common);
        command.args(["--ticket-file", "ticket"]).args(arguments);
        Running(command.spawn().unwrap())
    }

    pub(crate) fn ticket(&self) -> String {
        eventually("the ticket", || {
            fs::read_to_string(self.path().join("ticket"))
                .ok()
                .filter(|text| text.starts_with("mw1"))
        })
    }

    /// Sends, and returns the paths of the sender's summary.
    pub(crate) fn send(&self, arguments: &[&str]) -> Vec<Value> {
        let common = ["send", "file", "--json", "--path", "127.0.0.1"];
        let mut command = manyway(self.path(), &common);
        let sent = Running(command.args(arguments).spawn().unwrap());
        let summary = sent.finish().ok().json();
        summary["paths"].as_array().expect("paths").clone()
    }

    pub(crate) fn check(&self, receiver: Running) {
        receiver.finish().ok();
        assert!(fs::read(self.path().join("in/file")).unwrap() == self.content);
    }
}

pub(crate) fn bytes(paths: &[Value], relay: bool) -> u64 {
    let through = paths.iter().filter(|path| path["relay"] == relay);
    through
        .map(|path| path["bytes_sent"].as_u64().unwrap())
        .sum()
}

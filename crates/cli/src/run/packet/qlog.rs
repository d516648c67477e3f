//! `--packets qlog`: what each end of a session sees of its packets, a file for each path.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use manyway_qlog::{Clock, Logs, Observers};
use manyway_scenario::Experiment;
use manyway_simulate::stack::End;
use tempfile::{TempDir, TempPath};

use crate::run::folder::{TEMPORARY, temporary};

/// The files of a run under way.
pub(super) struct Sessions {
    /// Their final folder.
    dir: PathBuf,
    /// Where they are until they are complete.
    place: TempDir,
    logs: Logs,
    writer: JoinHandle<io::Result<()>>,
    /// By flow.
    names: Vec<String>,
}

impl Sessions {
    /// A place in `dir` for the files of this experiment's sessions, and a thread that fills them.
    pub(super) fn begin(dir: &Path, experiment: &Experiment) -> io::Result<Self> {
        let place = tempfile::Builder::new().prefix(TEMPORARY).tempdir_in(dir)?;
        let (logs, writer) = Logs::new(place.path(), Clock::Virtual)?;
        let flows = experiment.flows.iter().enumerate();
        Ok(Self {
            dir: dir.to_owned(),
            place,
            logs,
            writer: thread::Builder::new().spawn(|| writer.run())?,
            names: flows.map(|(n, flow)| in_a_file(n, &flow.name)).collect(),
        })
    }

    /// Observers for an end of this flow, by its index.
    pub(super) fn end(&self, flow: usize, end: End) -> Option<Observers> {
        let end = match end {
            End::Client => "sender",
            End::Server => "receiver",
        };
        let name = self.names.get(flow)?;
        Some(self.logs.observers(format!("qlog-{name}-{end}")))
    }

    /// The files, with their names, beside their final places. The simulation must be gone.
    pub(super) fn finish(self) -> io::Result<Vec<(String, TempPath)>> {
        drop(self.logs);
        let written = self.writer.join();
        written.map_err(|_| io::Error::other("the writer of qlog files ended early"))??;
        let mut names = Vec::new();
        for entry in fs::read_dir(self.place.path())? {
            names.push(entry?.file_name());
        }
        names.sort();
        let keep = |name: OsString| {
            let path = temporary(&self.dir)?.into_temp_path();
            fs::rename(self.place.path().join(&name), &path)?;
            Ok((name.to_string_lossy().into_owned(), path))
        };
        names.into_iter().map(keep).collect()
    }
}

/// A flow as a part of a file's name; two flows have different ones.
fn in_a_file(index: usize, name: &str) -> String {
    let safe = |c: char| match c {
        c if c.is_alphanumeric() || "-_.".contains(c) => c,
        _ => '_',
    };
    let name: String = name.chars().map(safe).take(50).collect();
    format!("{index}-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_flows_are_safe_in_files() {
        assert_eq!(in_a_file(3, "wifi & 5g/é 2"), "3-wifi___5g_é_2");
        assert_eq!(in_a_file(0, "../x"), "0-.._x");
        assert_eq!(in_a_file(0, &"ü".repeat(200)).len(), 102);
    }
}

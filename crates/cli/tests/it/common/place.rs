use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::{Finished, Running, eventually};

/// A directory with a file and a tree to send.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let place = Self { dir };
        let bytes: Vec<u8> = (0..3_000_000_u32)
            .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        fs::write(place.path("film.mkv"), &bytes[..3_000_001]).unwrap();
        fs::create_dir_all(place.path("photos/sea")).unwrap();
        fs::write(place.path("photos/sea/a b.txt"), "waves").unwrap();
        fs::write(place.path("photos/empty"), "").unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program in this directory, with loopback only on either side.
    pub(crate) fn manyway(&self, arguments: &[&str]) -> Command {
        let mut command = super::manyway(self.dir.path(), arguments);
        command.env("MANYWAY_PATH", "127.0.0.1");
        command
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running(self.manyway(arguments).spawn().unwrap())
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.start(arguments).finish()
    }

    /// Waits for a file and returns what is in it.
    pub(crate) fn wait_for(&self, name: &str) -> String {
        eventually(name, || {
            fs::read_to_string(self.path(name))
                .ok()
                .filter(|text| !text.is_empty())
        })
    }

    pub(crate) fn same(&self, a: &str, b: &str) {
        let read = |name: &str| {
            fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        assert!(read(a) == read(b), "{a} and {b} differ");
    }
}

//! What files and directories have beyond POSIX.

pub mod attributes;
mod directory;
pub mod hole;
mod open;
mod rename;

use std::io;

pub use directory::{is_mount_point, path_of};
pub use open::open_without_links;
pub use rename::rename_new;

/// The system's error alone: `tempfile` adds the random name of a file that nobody has asked for.
pub fn system_error(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.rsplit_once(" at path \"") {
        Some((said, _)) => io::Error::new(error.kind(), said),
        None => error,
    }
}

//! What files and directories have beyond POSIX.

pub mod attributes;
mod directory;
pub mod hole;
mod rename;

pub use directory::{is_mount_point, path_of};
pub use rename::rename_new;

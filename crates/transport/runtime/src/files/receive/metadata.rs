//! Which metadata files and directories get.

use super::options::ReceiveOptions;
use super::tree::Dir;
use manyway_transfer::{Entry, Policy};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::geteuid;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// What of its entry's metadata something gets.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    /// Also what exists already.
    existing: bool,
    modes: bool,
}

impl Metadata {
    pub(super) fn new(options: &ReceiveOptions) -> Self {
        Self {
            existing: options.policy == Policy::Overwrite && options.keep_modes,
            modes: options.keep_modes,
        }
    }

    /// Is what exists already brought up to date?
    pub(super) fn updates(&self) -> bool {
        self.existing
    }

    /// Brings a file up to date whose content is there. `false`: it can't be, and stays as it is.
    pub(super) fn update_file(&self, dir: &Dir, entry: &Entry) -> io::Result<bool> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = File::from(openat(dir, entry.name.file_name(), flags, Mode::empty())?);
        let stat = fstat(&file)?;
        // Another name of it, elsewhere, isn't the sender's business.
        if !file.metadata()?.is_file() || (stat.st_nlink > 1 && !entry.shared) {
            return Ok(false);
        }
        if self.is_up_to_date(stat.st_mode, entry) {
            return Ok(true);
        }
        if stat.st_uid != geteuid().as_raw() && !geteuid().is_root() {
            return Ok(false);
        }
        self.update(dir, file.as_fd(), entry)?;
        dir.disk().sync_file(&file)?;
        Ok(true)
    }

    /// Brings a directory up to date that was there.
    pub(super) fn update_dir(&self, dir: &Dir, entry: &Entry) -> io::Result<bool> {
        let stat = fstat(dir)?;
        if stat.st_uid != geteuid().as_raw() && !geteuid().is_root() {
            return Ok(false);
        }
        self.update(dir, dir.as_fd(), entry).map(|()| true)
    }

    fn is_up_to_date(&self, mode: u32, entry: &Entry) -> bool {
        !self.modes || mode & 0o7777 == u32::from(entry.mode)
    }

    fn update(&self, dir: &Dir, of: BorrowedFd<'_>, entry: &Entry) -> io::Result<()> {
        let mut entry = entry.clone();
        if !self.modes {
            entry.mode = fstat(of)?.st_mode as u16 & Entry::MODE_MASK;
        }
        dir.disk().restore(of, &entry)
    }
}

//! The processes that end with the program, however that ends.

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The process group that runs; 0: none does. Hooks run one at a time.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// A process group, while its first process runs.
pub(crate) struct Group(());

impl Group {
    pub(crate) fn new(group: Pid) -> Self {
        RUNNING.store(group.as_raw(), Relaxed);
        Self(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        RUNNING.store(0, Relaxed);
    }
}

/// Ends what runs, at once.
pub(crate) fn kill() {
    let group = RUNNING.swap(0, Relaxed);
    if group != 0 {
        killpg(Pid::from_raw(group), Signal::SIGKILL).ok();
    }
}

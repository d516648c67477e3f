//! What the emulator asks of Linux.
//!
//! One call is unsafe, as neither std nor nix has it: the one that asks for real time.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CloneFlags, setns};
use nix::sys::time::TimeSpec;

/// Above all that isn't of real time, below what the kernel has.
const PRIORITY: libc::c_int = 10;

/// Does something in a network namespace that has a name. Sockets that it makes and processes that
/// it starts stay there.
///
/// # Errors
/// If there is no such namespace, without the right to, and what `act` says.
pub fn inside<T: Send>(
    namespace: &str,
    act: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let path = Path::new("/run/netns").join(namespace);
    let there = || {
        setns(File::open(path)?, CloneFlags::CLONE_NEWNET)?;
        act()
    };
    // A thread of its own, as it stays in the namespace.
    let done = std::thread::scope(|scope| scope.spawn(there).join());
    done.unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
}

/// As [`manyway_os::tun::open`], in a network namespace that has a name.
///
/// # Errors
/// If there is no such namespace, too.
pub(crate) fn tun(namespace: &str, device: &str) -> io::Result<File> {
    inside(namespace, || manyway_os::tun::open(device))
}

/// Gives the calling thread the processor whenever it wants it, where that is permitted; whether it
/// is.
pub(crate) fn real_time() -> bool {
    // Of no use beside SCHED_FIFO, which has no slack; without it, 50 µs less.
    let _ = nix::sys::prctl::set_timerslack(1);
    // SAFETY: zeros are a valid value of this structure of integers.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = PRIORITY;
    // SAFETY: 0 is the calling thread, and the kernel only reads the structure.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) == 0 }
}

/// Waits until there is something to read from one of several devices, one is gone, or the time is
/// over; `ready` says of each whether it is to be read.
pub(crate) fn wait(files: &[&File], most: Duration, ready: &mut [bool]) -> io::Result<()> {
    let mut polled: Vec<_> = files
        .iter()
        .map(|file| PollFd::new(file.as_fd(), PollFlags::POLLIN))
        .collect();
    match ppoll(&mut polled, Some(TimeSpec::from_duration(most)), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    for (ready, polled) in ready.iter_mut().zip(&polled) {
        *ready = polled.any().unwrap_or(true);
    }
    Ok(())
}

/// What reads and writes say when the device was deleted, or its namespace was.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADFD)
}

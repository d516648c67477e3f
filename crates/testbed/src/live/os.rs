//! What the emulator asks of Linux.
//!
//! Two calls are unsafe, as neither std nor nix has them: the one that makes a TUN device, and the
//! one that asks for real time.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CloneFlags, setns};
use nix::sys::time::TimeSpec;

/// Above all that isn't of real time, below what the kernel has.
const PRIORITY: libc::c_int = 10;

/// Makes a TUN device in a network namespace that has a name. It is there as long as the file is
/// open; reads and writes are packets, and never wait.
///
/// # Errors
/// If there is no such namespace, if it has such a device, or without the right to.
pub(crate) fn tun(namespace: &str, device: &str) -> io::Result<File> {
    let path = Path::new("/run/netns").join(namespace);
    let make = || {
        setns(File::open(path)?, CloneFlags::CLONE_NEWNET)?;
        let tun = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        attach(&tun, device)?;
        Ok(tun)
    };
    // A thread of its own, as it stays in the namespace.
    let made = std::thread::scope(|scope| scope.spawn(make).join());
    made.unwrap_or_else(|_| Err(io::Error::other("the thread that makes it panicked")))
}

fn attach(tun: &File, device: &str) -> io::Result<()> {
    // SAFETY: zeros are a valid value of this structure of integers and addresses.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte of the name stays 0.
    if device.is_empty() || device.len() >= request.ifr_name.len() {
        let message = format!("{device:?} is no name of a device: 1 to 15 bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open, and TUNSETIFF reads and writes a `struct ifreq`, which lives
    // until the call returns.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &mut request) };
    Errno::result(result)?;
    Ok(())
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

/// Waits until there is something to read, the device is gone, or the time is over.
pub(crate) fn wait(file: &File, most: Duration) -> io::Result<()> {
    let mut files = [PollFd::new(file.as_fd(), PollFlags::POLLIN)];
    match ppoll(&mut files, Some(TimeSpec::from_duration(most)), None) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

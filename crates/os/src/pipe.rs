use std::io;
use std::os::fd::AsFd;

/// A pipe by which bytes go from one socket to another and never leave the kernel (Linux:
/// `splice`). Neither end blocks. Other systems have none.
#[derive(Debug)]
pub struct SocketPipe(here::Pipe);

impl SocketPipe {
    /// A new one; `None` if the system has none, or none left.
    pub fn new() -> Option<Self> {
        here::Pipe::new().map(Self)
    }

    /// Moves at most `len` bytes that have arrived at `from` into the pipe, which has to be empty.
    ///
    /// # Errors
    /// `Unsupported` if the kernel can't move bytes between these; else what it says against
    /// reading.
    pub fn fill(&self, from: impl AsFd, len: usize) -> io::Result<usize> {
        self.0.fill(from, len)
    }

    /// Moves at most `len` bytes from the pipe to `to`.
    ///
    /// # Errors
    /// What the kernel says against writing.
    pub fn empty(&self, to: impl AsFd, len: usize) -> io::Result<usize> {
        self.0.empty(to, len)
    }
}

#[cfg(target_os = "linux")]
mod here {
    use std::io;
    use std::os::fd::{AsFd, OwnedFd};

    use nix::errno::Errno;
    use nix::fcntl::{OFlag, SpliceFFlags, splice};
    use nix::unistd::pipe2;

    #[derive(Debug)]
    pub(super) struct Pipe {
        read: OwnedFd,
        write: OwnedFd,
    }

    impl Pipe {
        pub(super) fn new() -> Option<Self> {
            let (read, write) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).ok()?;
            Some(Self { read, write })
        }

        pub(super) fn fill(&self, from: impl AsFd, len: usize) -> io::Result<usize> {
            match moved(from, &self.write, len) {
                Err(Errno::EINVAL | Errno::ENOSYS) => Err(io::ErrorKind::Unsupported.into()),
                result => result.map_err(io::Error::from),
            }
        }

        pub(super) fn empty(&self, to: impl AsFd, len: usize) -> io::Result<usize> {
            moved(&self.read, to, len).map_err(io::Error::from)
        }
    }

    fn moved(from: impl AsFd, to: impl AsFd, len: usize) -> nix::Result<usize> {
        let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
        loop {
            match splice(from.as_fd(), None, to.as_fd(), None, len, flags) {
                Err(Errno::EINTR) => {}
                result => return result,
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod here {
    use std::io;
    use std::os::fd::AsFd;

    #[derive(Debug)]
    pub(super) enum Pipe {}

    impl Pipe {
        pub(super) fn new() -> Option<Self> {
            None
        }

        pub(super) fn fill(&self, _from: impl AsFd, _len: usize) -> io::Result<usize> {
            match *self {}
        }

        pub(super) fn empty(&self, _to: impl AsFd, _len: usize) -> io::Result<usize> {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn bytes_go_through_and_emptiness_is_told() {
        let pipe = SocketPipe::new().unwrap();
        let ((mut a, b), (c, mut d)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        b.set_nonblocking(true).unwrap();
        let nothing = pipe.fill(&b, 100).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        a.write_all(b"hello").unwrap();
        assert_eq!(pipe.fill(&b, 100).unwrap(), 5);
        assert_eq!(pipe.empty(&c, 5).unwrap(), 5);
        let mut got = [0; 5];
        d.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
        drop(a);
        assert_eq!(pipe.fill(&b, 100).unwrap(), 0, "the end");
    }
}

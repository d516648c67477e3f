//! Extended attributes and ACLs, as Linux keeps them (xattr(7)). Other systems have none.

use std::os::fd::BorrowedFd;
use std::path::Path;

/// A file or directory.
#[derive(Clone, Copy, Debug)]
pub enum Of<'a> {
    /// What is there: a symbolic link itself, not what it leads to.
    Path(&'a Path),
    /// What is open.
    Open(BorrowedFd<'a>),
}

pub use here::{names, set, value};

#[cfg(target_os = "linux")]
mod here {
    use std::io;
    use std::os::fd::BorrowedFd;

    use rustix::buffer::spare_capacity;
    use rustix::fs::{
        XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, lgetxattr, llistxattr,
    };
    use rustix::io::Errno;

    use super::Of;

    /// The most that Linux has of names, and of one value, in bytes.
    const MOST: usize = 64 << 10;

    /// The names of all that it has; none if its file system has none.
    ///
    /// # Errors
    /// The system's.
    pub fn names(of: Of<'_>) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::with_capacity(MOST);
        let listed = match of {
            Of::Path(path) => llistxattr(path, spare_capacity(&mut names)),
            Of::Open(fd) => flistxattr(fd, spare_capacity(&mut names)),
        };
        match listed {
            Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
            listed => listed?,
        };
        let names = names.split(|byte| *byte == 0);
        let names = names.filter(|name| !name.is_empty());
        Ok(names.map(<[u8]>::to_vec).collect())
    }

    /// The value of one.
    ///
    /// # Errors
    /// It isn't there, or what else the system says.
    pub fn value(of: Of<'_>, name: &str) -> io::Result<Vec<u8>> {
        let mut value = Vec::with_capacity(MOST);
        match of {
            Of::Path(path) => lgetxattr(path, name, spare_capacity(&mut value))?,
            Of::Open(fd) => fgetxattr(fd, name, spare_capacity(&mut value))?,
        };
        value.shrink_to_fit();
        Ok(value)
    }

    /// Sets one, or removes it.
    ///
    /// # Errors
    /// The system's.
    pub fn set(of: BorrowedFd<'_>, name: &str, value: Option<&[u8]>) -> io::Result<()> {
        let set = match value {
            Some(value) => fsetxattr(of, name, value, XattrFlags::empty()),
            None => fremovexattr(of, name),
        };
        Ok(set?)
    }
}

#[cfg(not(target_os = "linux"))]
mod here {
    use std::io;
    use std::os::fd::BorrowedFd;

    use super::Of;

    /// There are none.
    ///
    /// # Errors
    /// None.
    pub fn names(_of: Of<'_>) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    /// There are none.
    ///
    /// # Errors
    /// Always.
    pub fn value(_of: Of<'_>, _name: &str) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// There are none.
    ///
    /// # Errors
    /// Always.
    pub fn set(_of: BorrowedFd<'_>, _name: &str, _value: Option<&[u8]>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

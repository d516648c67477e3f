//! Extended attributes and ACLs, as Linux keeps them. Other systems have none.

use super::summary::Skipped;
use manyway_transfer::{Agreement, Attribute, Hello};

/// Which of them count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds {
    /// Those whose names begin with `user.`.
    pub(super) user: bool,
    pub(super) acls: bool,
}

impl Kinds {
    /// Those that both sides want.
    pub(super) fn agreed(agreed: Agreement) -> Self {
        Self {
            user: agreed.has(Hello::ATTRIBUTES),
            acls: agreed.has(Hello::ACLS),
        }
    }

    pub(super) fn any(self) -> bool {
        self.user || self.acls
    }

    /// Does whoever wants extended attributes miss that one? What labels files for this system
    /// alone, such as `security.selinux`, nobody does.
    fn misses(self, name: &str) -> bool {
        self.user && (name.starts_with("trusted.") || name == "security.capability")
    }

    pub(super) fn want(self, name: &str) -> bool {
        Attribute::is_name(name)
            && match Attribute::ACLS.contains(&name) {
                true => self.acls,
                false => self.user,
            }
    }
}

/// What this side asks for, and the other doesn't.
pub(super) fn not_agreed(ours: Hello, agreed: Agreement) -> Skipped {
    let mut missing = Skipped::default();
    for (feature, what) in [
        (
            Hello::ATTRIBUTES,
            "extended attributes aren't sent: use `--xattrs` on both sides",
        ),
        (Hello::ACLS, "ACLs aren't sent: use `--acls` on both sides"),
    ] {
        if ours.features & feature > 0 && !agreed.has(feature) {
            missing.add("everything", what);
        }
    }
    missing
}

#[cfg(target_os = "linux")]
mod system {
    use super::Kinds;
    use manyway_transfer::Attribute;
    use rustix::fs::{
        XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, lgetxattr, llistxattr,
    };
    use rustix::io::Errno;
    use std::io;
    use std::os::fd::BorrowedFd;
    use std::path::Path;

    /// The most that Linux has of names, and of one value.
    const MOST: usize = 64 << 10;

    /// Those of a file or directory, ascending by name; never through a symbolic link. `missed`
    /// gets the names of others that [don't travel](Attribute::is_name).
    pub(in crate::files) fn of_path(
        path: &Path,
        kinds: Kinds,
        missed: impl FnMut(&str),
    ) -> io::Result<Vec<Attribute>> {
        read(
            kinds,
            |names| llistxattr(path, names),
            |name, value| lgetxattr(path, name, value),
            missed,
        )
    }

    /// The same of what is open.
    pub(in crate::files) fn of_fd(of: BorrowedFd<'_>, kinds: Kinds) -> io::Result<Vec<Attribute>> {
        read(
            kinds,
            |names| flistxattr(of, names),
            |name, value| fgetxattr(of, name, value),
            |_| {},
        )
    }

    /// Sets one, or removes it.
    pub(in crate::files) fn set(
        of: BorrowedFd<'_>,
        name: &str,
        value: Option<&[u8]>,
    ) -> io::Result<()> {
        let set = match value {
            Some(value) => fsetxattr(of, name, value, XattrFlags::empty()),
            None => fremovexattr(of, name),
        };
        Ok(set?)
    }

    fn read(
        kinds: Kinds,
        list: impl Fn(&mut [u8]) -> Result<usize, Errno>,
        get: impl Fn(&str, &mut [u8]) -> Result<usize, Errno>,
        mut missed: impl FnMut(&str),
    ) -> io::Result<Vec<Attribute>> {
        let mut buffer = vec![0; MOST];
        let names = match list(&mut buffer) {
            // The file system has none.
            Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
            listed => buffer[..listed?].to_vec(),
        };
        let mut found = Vec::new();
        for name in names.split(|byte| *byte == 0) {
            let not_utf8 = || io::Error::other("a name isn't UTF-8");
            let name = match std::str::from_utf8(name) {
                Ok(name) => name,
                Err(_) if kinds.user && name.starts_with(b"user.") => return Err(not_utf8()),
                Err(_) => continue,
            };
            if kinds.want(name) {
                let len = get(name, &mut buffer)?;
                found.push(Attribute {
                    name: name.to_owned(),
                    value: buffer[..len].to_vec(),
                });
            } else if kinds.misses(name) {
                missed(name);
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::Kinds;
    use manyway_transfer::Attribute;
    use std::io;
    use std::os::fd::BorrowedFd;
    use std::path::Path;

    pub(in crate::files) fn of_path(
        _: &Path,
        _: Kinds,
        _: impl FnMut(&str),
    ) -> io::Result<Vec<Attribute>> {
        Ok(Vec::new())
    }

    pub(in crate::files) fn of_fd(_: BorrowedFd<'_>, _: Kinds) -> io::Result<Vec<Attribute>> {
        Ok(Vec::new())
    }

    pub(in crate::files) fn set(_: BorrowedFd<'_>, _: &str, _: Option<&[u8]>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(super) use system::{of_fd, of_path, set};

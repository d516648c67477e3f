//! Holes in files: ranges of zeros that take no room.

use std::fs::File;

pub use seek::{next_data, next_hole};

#[cfg(any(target_os = "linux", target_vendor = "apple", target_os = "freebsd"))]
mod seek {
    use super::*;
    use nix::errno::Errno;
    use nix::unistd::{Whence, lseek};

    /// Where the next data of a file begins, in bytes, from `at` on. `None`: there is no more;
    /// `Some(None)`: the file system doesn't say.
    pub fn next_data(file: &File, at: u64) -> Option<Option<u64>> {
        match seek(file, at, Whence::SeekData) {
            Err(Errno::ENXIO) => None,
            other => Some(other.ok()),
        }
    }

    /// Where the next hole of a file begins, in bytes, from `at` on, if the file system says.
    pub fn next_hole(file: &File, at: u64) -> Option<u64> {
        seek(file, at, Whence::SeekHole).ok()
    }

    fn seek(file: &File, at: u64, whence: Whence) -> Result<u64, Errno> {
        let at = at.try_into().map_err(|_| Errno::EOVERFLOW)?;
        let found = lseek(file, at, whence)?;
        found.try_into().map_err(|_| Errno::EOVERFLOW)
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple", target_os = "freebsd")))]
mod seek {
    use super::*;

    /// Nobody says.
    pub fn next_data(_file: &File, _at: u64) -> Option<Option<u64>> {
        Some(None)
    }

    /// Nobody says.
    pub fn next_hole(_file: &File, _at: u64) -> Option<u64> {
        None
    }
}

/// Makes `len` bytes of a file a hole, from `at` on; `false` if that isn't possible here.
#[cfg(target_os = "linux")]
pub fn punch(file: &File, at: u64, len: u64) -> bool {
    use nix::fcntl::{FallocateFlags, fallocate};
    let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    match (at.try_into(), len.try_into()) {
        (Ok(at), Ok(len)) => fallocate(file, how, at, len).is_ok(),
        _ => false,
    }
}

/// It isn't possible here.
#[cfg(not(target_os = "linux"))]
pub fn punch(_file: &File, _at: u64, _len: u64) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_hole_is_seen_where_it_was_made() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 3 << 16], 0).unwrap();
        assert_eq!(next_hole(&file, 0), Some(3 << 16));
        assert!(punch(&file, 1 << 16, 1 << 16));
        assert_eq!(next_hole(&file, 0), Some(1 << 16));
        assert_eq!(next_data(&file, 1 << 16), Some(Some(2 << 16)));
        assert_eq!(next_data(&file, 3 << 16), None);
    }
}

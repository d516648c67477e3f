//! Whether a file that is there is the one that is offered, as its size and time tell.

use super::disk::{Found, mtime};
use super::temporary::random_name;
use super::tree::Dir;
use manyway_transfer::{Entry, Timestamp};
use nix::libc::dev_t;
use nix::sys::stat::{FileStat, fstat};
use std::fs::File;
use std::os::fd::AsFd;

/// Compares times. Many file systems cut them, and only a file that is given a time tells how.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// A file without a name on the device that was asked about last.
    last: Option<(dev_t, File)>,
}

impl Times {
    /// Is it a file with the size and time of that one? If nobody knows, it isn't: then it is sent
    /// again, while a file that is wrongly taken for the same never is. With `only_look`, no file
    /// is made to find out.
    pub(super) fn are_equal(
        &mut self,
        dir: &Dir,
        found: &Found,
        entry: &Entry,
        only_look: bool,
    ) -> bool {
        let Some(stat) = found.stat().filter(|_| found.size() == Some(entry.size)) else {
            return false;
        };
        let (here, there) = (mtime(stat), entry.mtime);
        // No file system has longer units than FAT: two seconds.
        here == there
            || here.seconds.abs_diff(there.seconds) <= 2
                && match only_look {
                    true => seems_cut(stat, there),
                    false => self.kept(dir, there) == Some(here),
                }
    }

    /// What a time becomes in that directory, if that can be found out.
    fn kept(&mut self, dir: &Dir, time: Timestamp) -> Option<Timestamp> {
        let (device, _) = dir.id();
        let make = || {
            let name = random_name("time");
            let file = dir.disk().create(dir.as_fd(), &name).ok()?;
            dir.disk().remove(dir.as_fd(), &name).ok();
            Some((device, file))
        };
        let last = self.last.take().filter(|(last, _)| *last == device);
        let (_, file) = self.last.insert(last.or_else(make)?);
        dir.disk().set_time(file.as_fd(), time).ok()?;
        Some(mtime(&fstat(&*file).ok()?))
    }
}

/// Could the file system have cut that time to the file's? Then the time of the file's last change
/// of status, which nobody sets, is in the same units.
fn seems_cut(stat: &FileStat, time: Timestamp) -> bool {
    const SECOND: i128 = 1_000_000_000;
    /// exFAT has 10 ms, FAT two seconds.
    const UNITS: [i128; 6] = [100, 1000, 1_000_000, 10_000_000, SECOND, 2 * SECOND];
    let at = |seconds: i64, nanos: i128| i128::from(seconds) * SECOND + nanos;
    let time = at(time.seconds, time.nanos.into());
    let here = at(stat.st_mtime, stat.st_mtime_nsec.into());
    let changed = at(stat.st_ctime, stat.st_ctime_nsec.into());
    let is_unit = |unit| here == time - time.rem_euclid(unit) && changed % unit == 0;
    UNITS.into_iter().any(is_unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_cut_only_if_that_of_the_status_is() {
        let at = |seconds, nanos| Timestamp { seconds, nanos };
        let mut stat = fstat(tempfile::tempfile().unwrap()).unwrap();
        let mut seems = |here: Timestamp, changed: Timestamp, time| {
            (stat.st_mtime, stat.st_mtime_nsec) = (here.seconds, here.nanos.into());
            (stat.st_ctime, stat.st_ctime_nsec) = (changed.seconds, changed.nanos.into());
            seems_cut(&stat, time)
        };
        for (here, changed, time) in [
            (at(8, 0), at(20, 0), at(9, 5)),
            (at(9, 0), at(21, 0), at(9, 987_654_321)),
            (at(-2, 0), at(21, 0), at(-2, 5)),
            (at(9, 980_000_000), at(21, 10_000_000), at(9, 987_654_321)),
            (at(9, 987_000_000), at(21, 1_000_000), at(9, 987_654_321)),
            (at(9, 987_654_000), at(21, 1000), at(9, 987_654_321)),
            (at(9, 987_654_300), at(21, 100), at(9, 987_654_321)),
        ] {
            assert!(seems(here, changed, time), "{here:?} {time:?}");
            let finer = at(changed.seconds, changed.nanos + 1);
            assert!(!seems(here, finer, time), "{here:?} {time:?}");
            let other = at(time.seconds + 2, time.nanos);
            assert!(!seems(here, changed, other), "{here:?} {time:?}");
        }
        // Only FAT has even seconds, and then in the status, too.
        assert!(!seems(at(8, 0), at(21, 0), at(9, 5)));
    }
}

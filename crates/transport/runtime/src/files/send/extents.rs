//! Where a file has holes.

use manyway_os::file::hole::{next_data, next_hole};
use std::fs::File;
use std::ops::Range;

/// A file's ranges of data and holes, looked up as they are passed, in their order.
#[derive(Debug)]
pub(super) struct Extents {
    /// The range of data that was looked up last; before it is a hole.
    data: Range<u64>,
    size: u64,
}

impl Extents {
    /// Of a file of `size` bytes; `sparse` is whether it can have holes at all.
    pub(super) fn new(size: u64, sparse: bool) -> Self {
        Self {
            data: if sparse { 0..0 } else { 0..size },
            size,
        }
    }

    /// Where the hole ends that begins at `at`, or `at` if there is data.
    pub(super) fn hole_at(&mut self, file: &File, at: u64) -> u64 {
        if at < self.data.end || at >= self.size {
            return at.max(self.data.start);
        }
        let data = next_data(file, at).map_or(self.size, |data| data.unwrap_or(at));
        let data = data.clamp(at, self.size);
        self.data = data..next_hole(file, data).unwrap_or(self.size);
        data
    }

    /// Up to where there is no need to look for a hole, from `at` on.
    pub(super) fn data_from(&self, at: u64) -> u64 {
        self.data.end.clamp(at, self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_file_without_holes_has_none() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; 9000], 0).unwrap();
        for sparse in [false, true] {
            let mut extents = Extents::new(9000, sparse);
            assert_eq!(extents.hole_at(&file, 0), 0);
            assert_eq!(extents.data_from(0), 9000);
            assert_eq!(extents.hole_at(&file, 9000), 9000);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn holes_are_found_where_they_are() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10 << 20).unwrap();
        file.write_all_at(&[1; 4096], 3 << 20).unwrap();
        let mut extents = Extents::new(10 << 20, true);
        assert_eq!(extents.hole_at(&file, 0), 3 << 20);
        assert_eq!(extents.hole_at(&file, 1 << 20), 3 << 20);
        assert_eq!(extents.hole_at(&file, 3 << 20), 3 << 20);
        assert_eq!(extents.data_from(3 << 20), (3 << 20) + 4096);
        assert_eq!(extents.hole_at(&file, (3 << 20) + 4096), 10 << 20);
        // Nothing is looked up where it is known.
        let mut dense = Extents::new(10 << 20, false);
        assert_eq!(dense.hole_at(&file, 0), 0);
    }
}

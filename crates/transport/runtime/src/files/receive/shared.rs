//! Where those files are that have several names, until their further names come.

use super::disk::Id;
use super::tree::Dir;
use manyway_transfer::SafeName;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use tempfile::SpooledTempFile;

/// Names up to so many bytes stay in memory.
const IN_MEMORY: usize = 1 << 20;

/// The files that hard links may lead to, by their numbers. A manifest bounds how many there are;
/// their names are in a file, if they are long.
#[derive(Debug)]
pub(super) struct Shared {
    names: SpooledTempFile,
    /// Where the name ends, and which file it is; `None`: it isn't there.
    places: Vec<Option<(u64, Id)>>,
}

impl Shared {
    /// None yet; the file for names, should it take one, is in `dir`.
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            names: tempfile::spooled_tempfile_in(IN_MEMORY, dir),
            places: Vec::new(),
        }
    }

    /// Notes where the next of them is.
    pub(super) fn add(&mut self, place: Option<(&SafeName, Id)>) -> io::Result<()> {
        let Some((name, id)) = place else {
            self.places.push(None);
            return Ok(());
        };
        let len = u16::try_from(name.as_str().len()).map_err(io::Error::other)?;
        self.names.seek(SeekFrom::End(0))?;
        self.names.write_all(name.as_str().as_bytes())?;
        self.names.write_all(&len.to_be_bytes())?;
        self.places.push(Some((self.names.stream_position()?, id)));
        Ok(())
    }

    /// The directory and the name of file number `number`, if it is there, and which file it is.
    pub(super) fn find(
        &mut self,
        root: &Arc<Dir>,
        number: u64,
    ) -> io::Result<Option<(Arc<Dir>, String, Id)>> {
        let place = usize::try_from(number)
            .ok()
            .and_then(|n| self.places.get(n));
        let Some(&Some((end, id))) = place else {
            return Ok(None);
        };
        let mut len = [0; 2];
        self.names.seek(SeekFrom::Start(end - 2))?;
        self.names.read_exact(&mut len)?;
        let len = u16::from_be_bytes(len);
        let mut name = vec![0; len.into()];
        self.names.seek(SeekFrom::Start(end - 2 - u64::from(len)))?;
        self.names.read_exact(&mut name)?;
        let name = String::from_utf8(name).map_err(io::Error::other)?;
        let mut dir = root.clone();
        let (above, name) = name.rsplit_once('/').unwrap_or(("", &name));
        for component in above.split('/').filter(|component| !component.is_empty()) {
            dir = dir.open(component)?;
        }
        Ok(Some((dir, name.to_owned(), id)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::Os;
    use super::*;

    #[test]
    fn names_are_found_again() {
        let at = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(at.path().join("a/b")).unwrap();
        let root = Dir::root(at.path(), Arc::new(Os)).unwrap();
        let mut shared = Shared::new(at.path());
        for (n, name) in ["a/b/c", "d"].into_iter().enumerate() {
            let name = SafeName::parse(name).unwrap();
            shared.add(Some((&name, (7, n as u64)))).unwrap();
            shared.add(None).unwrap();
        }
        let mut found = |n| shared.find(&root, n).unwrap();
        let (dir, name, id) = found(0).unwrap();
        assert_eq!(
            (dir.local().unwrap().as_str(), &*name, id),
            ("a/b", "c", (7, 0))
        );
        let (dir, name, id) = found(2).unwrap();
        assert_eq!((dir.local(), &*name, id), (None, "d", (7, 1)));
        assert!(found(1).is_none() && found(3).is_none() && found(4).is_none());
    }
}

//! Stores a manifest: in memory while it is small, then in an unnamed temporary file.

use manyway_transfer::message::HEADER_LEN;
use manyway_transfer::{Entry, Header, Message};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::vec;
use tempfile::{SpooledData, SpooledTempFile};

/// Manifests up to this size stay in memory.
const IN_MEMORY: usize = 2 << 20;

/// A manifest being written.
#[derive(Debug)]
pub(super) struct Spool {
    file: SpooledTempFile,
}

impl Spool {
    /// A spool whose file, should it need one, is in `dir`, or in the system's directory for such
    /// files.
    pub(super) fn new(dir: Option<&Path>) -> Self {
        let file = match dir {
            Some(dir) => tempfile::spooled_tempfile_in(IN_MEMORY, dir),
            None => tempfile::spooled_tempfile(IN_MEMORY),
        };
        Self { file }
    }

    /// Adds entries, and says how many bytes that took.
    pub(super) fn append(&mut self, entries: &Message) -> io::Result<u64> {
        let bytes = entries.to_bytes();
        self.file.write_all(&bytes)?;
        Ok(bytes.len() as u64)
    }

    /// The manifest, to be read.
    pub(super) fn stored(self) -> Stored {
        Stored(Arc::new(match self.file.into_inner() {
            SpooledData::InMemory(bytes) => Bytes::Memory(bytes.into_inner()),
            SpooledData::OnDisk(file) => Bytes::Disk(file),
        }))
    }
}

/// A stored manifest. Several may read it at a time.
#[derive(Clone, Debug)]
pub(super) struct Stored(Arc<Bytes>);

#[derive(Debug)]
enum Bytes {
    Memory(Vec<u8>),
    Disk(File),
}

impl Stored {
    /// The entries, from the first.
    pub(super) fn entries(&self) -> Entries {
        let reader = Reader {
            stored: self.clone(),
            at: 0,
        };
        Entries {
            reader: BufReader::with_capacity(128 << 10, reader),
            batch: Vec::new().into_iter(),
        }
    }
}

#[derive(Debug)]
struct Reader {
    stored: Stored,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match &*self.stored.0 {
            Bytes::Memory(bytes) => (&bytes[self.at as usize..]).read(into)?,
            Bytes::Disk(file) => file.read_at(into, self.at)?,
        };
        self.at += read as u64;
        Ok(read)
    }
}

/// The entries of a manifest.
#[derive(Debug)]
pub(super) struct Entries {
    reader: BufReader<Reader>,
    batch: vec::IntoIter<Entry>,
}

impl Iterator for Entries {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.batch.next() {
                return Some(Ok(entry));
            }
            match self.next_batch() {
                Ok(Some(batch)) => self.batch = batch.into_iter(),
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Entries {
    fn next_batch(&mut self) -> io::Result<Option<Vec<Entry>>> {
        let mut header = [0; HEADER_LEN];
        match self.reader.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        // What we wrote ourselves decodes, unless the disk is broken.
        let header = Header::decode(header).map_err(io::Error::other)?;
        let mut body = vec![0; header.len];
        self.reader.read_exact(&mut body)?;
        match Message::decode(header.kind, &body).map_err(io::Error::other)? {
            Message::Entries(entries) => Ok(Some(entries)),
            _ => Err(io::Error::other("the stored manifest is damaged")),
        }
    }
}

//! Stores a manifest: in memory while it is small, then in an unnamed temporary file.

use manyway_transfer::message::HEADER_LEN;
use manyway_transfer::{Entry, Header, Message};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::vec;
use tempfile::SpooledTempFile;

/// Manifests up to this size stay in memory.
const IN_MEMORY: usize = 2 << 20;

/// A manifest being written.
#[derive(Debug)]
pub(super) struct Spool {
    file: SpooledTempFile,
    len: u64,
}

impl Spool {
    /// A spool whose file, should it need one, is in `dir`, or in the system's directory for such
    /// files.
    pub(super) fn new(dir: Option<&Path>) -> Self {
        let file = match dir {
            Some(dir) => tempfile::spooled_tempfile_in(IN_MEMORY, dir),
            None => tempfile::spooled_tempfile(IN_MEMORY),
        };
        Self { file, len: 0 }
    }

    pub(super) fn append(&mut self, entries: &Message) -> io::Result<()> {
        let bytes = entries.to_bytes();
        self.len += bytes.len() as u64;
        self.file.write_all(&bytes)
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The entries, from the first.
    pub(super) fn entries(mut self) -> io::Result<Entries> {
        self.file.seek(SeekFrom::Start(0))?;
        Ok(Entries {
            spool: BufReader::with_capacity(128 << 10, self.file),
            batch: Vec::new().into_iter(),
        })
    }
}

/// The entries of a spool.
#[derive(Debug)]
pub(super) struct Entries {
    spool: BufReader<SpooledTempFile>,
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
        match self.spool.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        // What we wrote ourselves decodes, unless the disk is broken.
        let header = Header::decode(header).map_err(io::Error::other)?;
        let mut body = vec![0; header.len];
        self.spool.read_exact(&mut body)?;
        match Message::decode(header.kind, &body).map_err(io::Error::other)? {
            Message::Entries(entries) => Ok(Some(entries)),
            _ => Err(io::Error::other("the stored manifest is damaged")),
        }
    }
}

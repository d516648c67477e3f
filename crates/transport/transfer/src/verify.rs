//! Checks a file's bytes against the manifest and the sender's hash.

use crate::manifest::Entry;
use serde::{Serialize, Serializer};
use std::fmt;

/// A BLAKE3 hash of 32 bytes; shown, and serialized, as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The verification of one file: counts and hashes its bytes as they pass, on either side.
#[derive(Clone, Debug)]
pub struct Verifier {
    hasher: blake3::Hasher,
    size: u64,
    seen: u64,
}

impl Verifier {
    /// A verification of `entry`'s content, with nothing seen yet.
    pub fn new(entry: &Entry) -> Self {
        Self {
            hasher: blake3::Hasher::new(),
            size: entry.size,
            seen: 0,
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`VerifyError::TooLong`] if they go past the announced size.
    pub fn update(&mut self, bytes: &[u8]) -> Result<(), VerifyError> {
        if bytes.len() as u64 > self.remaining() {
            return Err(VerifyError::TooLong {
                announced: self.size,
            });
        }
        self.hasher.update(bytes);
        self.seen += bytes.len() as u64;
        Ok(())
    }

    /// Bytes still to come.
    pub fn remaining(&self) -> u64 {
        self.size - self.seen
    }

    /// The hash, once all bytes are there.
    ///
    /// # Errors
    /// [`VerifyError::TooShort`] if bytes are missing.
    pub fn digest(&self) -> Result<Digest, VerifyError> {
        if self.remaining() > 0 {
            return Err(VerifyError::TooShort {
                announced: self.size,
                seen: self.seen,
            });
        }
        Ok(Digest(*self.hasher.finalize().as_bytes()))
    }

    /// Compares with the sender's hash.
    ///
    /// # Errors
    /// [`VerifyError::TooShort`] or [`VerifyError::Mismatch`].
    pub fn verify(&self, expected: Digest) -> Result<Digest, VerifyError> {
        let actual = self.digest()?;
        if actual != expected {
            return Err(VerifyError::Mismatch { expected, actual });
        }
        Ok(actual)
    }
}

/// Content that is not what was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// More bytes than announced.
    #[error("more bytes arrive than the {announced} announced")]
    TooLong {
        /// The manifest's size.
        announced: u64,
    },
    /// Fewer bytes than announced.
    #[error("only {seen} bytes of {announced} announced")]
    TooShort {
        /// The manifest's size.
        announced: u64,
        /// What came.
        seen: u64,
    },
    /// Another hash than the sender's.
    #[error(
        "its BLAKE3 hash is {actual} here and {expected} at the sender: the content was damaged; \
         send it again"
    )]
    Mismatch {
        /// The sender's.
        expected: Digest,
        /// Ours.
        actual: Digest,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Kind, Timestamp};
    use crate::name::SafeName;

    fn verifier(size: u64) -> Verifier {
        Verifier::new(&Entry {
            name: SafeName::parse("f").unwrap(),
            kind: Kind::File,
            size,
            mode: 0o600,
            mtime: Timestamp::default(),
        })
    }

    #[test]
    fn accepts_exactly_the_announced_content() {
        let mut v = verifier(6);
        v.update(b"abc").unwrap();
        assert!(matches!(
            v.digest(),
            Err(VerifyError::TooShort {
                announced: 6,
                seen: 3
            })
        ));
        v.update(b"def").unwrap();
        let expected = Digest(*blake3::hash(b"abcdef").as_bytes());
        assert_eq!(v.verify(expected), Ok(expected));
        assert!(matches!(
            v.verify(Digest([0; 32])),
            Err(VerifyError::Mismatch { .. })
        ));
        assert!(matches!(
            v.update(b"g"),
            Err(VerifyError::TooLong { announced: 6 })
        ));
    }

    #[test]
    fn the_empty_file_has_blake3s_hash_of_nothing() {
        // The published test vector for an input of length 0.
        assert_eq!(
            verifier(0).digest().unwrap().to_string(),
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
        assert_eq!(format!("{:?}", Digest([10; 32])), "0a".repeat(32));
    }
}

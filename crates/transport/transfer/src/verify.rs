//! Checks a file's bytes against the manifest and the sender's hash, and compares files group by
//! group.
//!
//! BLAKE3 is a hash tree. A [`GROUP`] of bytes that begins at a multiple of its length is a
//! subtree, and its hash depends on nothing but these bytes and their place. So two sides that
//! exchange the groups' hashes know which bytes they both have, and from the same hashes follows
//! that of the file.

use crate::entry::Entry;
use blake3::Hasher;
use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use serde::{Serialize, Serializer};
use std::fmt;

/// Length of a group in bytes; the last one of a file may be shorter.
pub const GROUP: u64 = 64 << 10;

/// A group in a hole.
pub static ZEROS: [u8; GROUP as usize] = [0; GROUP as usize];

/// How many groups a file of `size` bytes has.
pub fn groups(size: u64) -> u64 {
    size.div_ceil(GROUP)
}

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

/// The hash of group `index` of a file of `size` bytes: the group's chaining value, or the file's
/// hash if it has no other group.
pub fn group_hash(size: u64, index: u64, bytes: &[u8]) -> Digest {
    let mut hasher = begin(index);
    hasher.update(bytes);
    finish(&hasher, size)
}

fn begin(index: u64) -> Hasher {
    let mut hasher = Hasher::new();
    hasher.set_input_offset(index * GROUP);
    hasher
}

fn finish(hasher: &Hasher, size: u64) -> Digest {
    Digest(match groups(size) {
        0 | 1 => *hasher.finalize().as_bytes(),
        _ => hasher.finalize_non_root(),
    })
}

/// The verification of one file: counts and hashes its bytes as they pass, on either side.
#[derive(Clone, Debug)]
pub struct Verifier {
    /// Of the current group.
    hasher: Hasher,
    size: u64,
    seen: u64,
    /// Hashes of whole subtrees, from the left, and that of the last group. Two subtrees become one
    /// only when more follows: what comes last is merged as the root.
    stack: Vec<[u8; 32]>,
}

impl Verifier {
    /// A verification of `entry`'s content, with nothing seen yet.
    pub fn new(entry: &Entry) -> Self {
        Self {
            hasher: begin(0),
            size: entry.size,
            seen: 0,
            stack: Vec::new(),
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`VerifyError::TooLong`] if they go past the announced size.
    pub fn update(&mut self, mut bytes: &[u8]) -> Result<(), VerifyError> {
        if bytes.len() as u64 > self.remaining() {
            return Err(self.too_long());
        }
        while !bytes.is_empty() {
            let room = GROUP - self.seen % GROUP;
            let len = bytes.len().min(room as usize);
            self.hasher.update(&bytes[..len]);
            self.seen += len as u64;
            bytes = &bytes[len..];
            if self.is_between_groups() {
                let whole = finish(&self.hasher, self.size);
                self.push(whole);
            }
        }
        Ok(())
    }

    /// Takes the hash of the next group in place of its bytes, and says how many these are.
    ///
    /// # Errors
    /// [`VerifyError::TooLong`] if the file is at its end, or in the middle of a group.
    pub fn keep(&mut self, group: Digest) -> Result<u64, VerifyError> {
        let len = self.remaining().min(GROUP);
        if len == 0 || !self.is_between_groups() {
            return Err(self.too_long());
        }
        self.seen += len;
        self.push(group);
        Ok(len)
    }

    /// Takes the next group, which is zeros, and says how long it is.
    ///
    /// # Errors
    /// As [`Verifier::keep`].
    pub fn zeros(&mut self) -> Result<u64, VerifyError> {
        let len = self.remaining().min(GROUP);
        if len == 0 || !self.is_between_groups() {
            return Err(self.too_long());
        }
        self.update(&ZEROS[..len as usize])?;
        Ok(len)
    }

    /// The hash of the group that ended last.
    pub fn last_group(&self) -> Option<Digest> {
        self.stack.last().copied().map(Digest)
    }

    /// Has every group that began ended, too?
    pub fn is_between_groups(&self) -> bool {
        self.seen.is_multiple_of(GROUP) || self.remaining() == 0
    }

    /// Bytes seen.
    pub fn seen(&self) -> u64 {
        self.seen
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
        Ok(Digest(match &self.stack[..] {
            [] => *blake3::hash(b"").as_bytes(),
            [only] => *only,
            [first, others @ .., last] => {
                let merge =
                    |right, left: &[u8; 32]| merge_subtrees_non_root(left, &right, Mode::Hash);
                let right = others.iter().rev().fold(*last, merge);
                *merge_subtrees_root(first, &right, Mode::Hash).as_bytes()
            }
        }))
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

    /// A group has ended.
    fn push(&mut self, group: Digest) {
        // Whole subtrees stand for the ones in the binary number of the groups before this.
        let before = (self.seen - 1) / GROUP;
        while self.stack.len() > before.count_ones() as usize
            && let (Some(right), Some(left)) = (self.stack.pop(), self.stack.pop())
        {
            let merged = merge_subtrees_non_root(&left, &right, Mode::Hash);
            self.stack.push(merged);
        }
        self.stack.push(group.0);
        self.hasher = begin(before + 1);
    }

    fn too_long(&self) -> VerifyError {
        VerifyError::TooLong {
            announced: self.size,
        }
    }
}

/// Content that is not what was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// More bytes than announced.
    #[error("more bytes arrived than the {announced} announced")]
    TooLong {
        /// The manifest's size.
        announced: u64,
    },
    /// Fewer bytes than announced.
    #[error("only {seen} of the {announced} announced bytes arrived")]
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
    use crate::entry::Kind;
    use crate::name::SafeName;
    use proptest::prelude::*;

    fn verifier(size: u64) -> Verifier {
        Verifier::new(&Entry {
            size,
            ..Entry::new(SafeName::parse("f").unwrap(), Kind::File)
        })
    }

    fn content(len: u64) -> Vec<u8> {
        (0..len).map(|i| (i % 251) as u8).collect()
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

    /// The hash is BLAKE3's at every length around a group's end, whether bytes or groups' hashes
    /// come.
    #[test]
    fn groups_make_the_same_hash_as_bytes() {
        for groups_before in [0, 1, 2, 3, 4, 5, 7, 8, 13] {
            for more in [0, 1, GROUP - 1] {
                let size = groups_before * GROUP + more;
                let bytes = content(size);
                let expected = Digest(*blake3::hash(&bytes).as_bytes());
                let (mut read, mut kept) = (verifier(size), verifier(size));
                for (index, group) in bytes.chunks(GROUP as usize).enumerate() {
                    read.update(group).unwrap();
                    let hash = group_hash(size, index as u64, group);
                    assert_eq!(read.last_group(), Some(hash), "{size}");
                    assert_eq!(kept.keep(hash), Ok(group.len() as u64));
                }
                assert_eq!(read.digest(), Ok(expected), "{size}");
                assert_eq!(kept.digest(), Ok(expected), "{size}");
                assert!(kept.keep(expected).is_err(), "{size}");
            }
        }
    }

    #[test]
    fn a_group_is_kept_whole_or_not_at_all() {
        let mut v = verifier(2 * GROUP);
        v.update(b"a").unwrap();
        assert!(v.keep(Digest([0; 32])).is_err());
        assert_eq!(
            (v.seen(), groups(2 * GROUP), groups(2 * GROUP + 1)),
            (1, 2, 3)
        );
    }

    /// At every place, because a group's hash depends on that.
    #[test]
    fn holes_have_the_hash_of_their_zeros() {
        let size = 5 * GROUP + 7;
        let mut bytes = content(size);
        bytes[GROUP as usize..3 * GROUP as usize].fill(0);
        bytes[5 * GROUP as usize..].fill(0);
        let mut v = verifier(size);
        for (index, group) in bytes.chunks(GROUP as usize).enumerate() {
            match index {
                1 | 2 | 5 => assert_eq!(v.zeros(), Ok(group.len() as u64)),
                _ => v.update(group).unwrap(),
            }
        }
        assert_eq!(v.digest(), Ok(Digest(*blake3::hash(&bytes).as_bytes())));
        assert!(v.zeros().is_err());
        let mut v = verifier(GROUP);
        v.update(b"a").unwrap();
        assert!(v.zeros().is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// However bytes come, and whichever groups are kept.
        #[test]
        fn any_mixture_gives_the_hash_of_the_whole(
            size in 0..20 * GROUP,
            pieces in prop::collection::vec((1..3 * GROUP, any::<bool>()), 1..40),
        ) {
            let bytes = content(size);
            let mut v = verifier(size);
            for &(len, keep) in pieces.iter().cycle() {
                if v.remaining() == 0 {
                    break;
                }
                let (seen, index) = (v.seen() as usize, v.seen() / GROUP);
                if keep && v.is_between_groups() {
                    let group = &bytes[seen..bytes.len().min(seen + GROUP as usize)];
                    v.keep(group_hash(size, index, group)).unwrap();
                } else {
                    v.update(&bytes[seen..bytes.len().min(seen + len as usize)]).unwrap();
                }
            }
            prop_assert_eq!(v.digest(), Ok(Digest(*blake3::hash(&bytes).as_bytes())));
        }
    }
}

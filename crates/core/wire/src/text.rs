//! Texts that people copy: a prefix with a version, then base32 with a checksum.

use std::sync::LazyLock;

use bytes::BufMut;
use data_encoding::{DecodeKind, Encoding, Specification};

use crate::DecodeError;

/// Why a text can't be read. Never quotes the text, which may contain a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// It doesn't have the prefix.
    #[error("this is not a {what}: {what}s begin with \"{prefix}\"")]
    WrongPrefix {
        /// The expected kind of text.
        what: &'static str,
        /// The prefix of that kind.
        prefix: &'static str,
    },
    /// It has another version's prefix.
    #[error(
        "the {what} is of a version that this release doesn't know: install the same release on \
         both hosts"
    )]
    UnknownVersion {
        /// The expected kind of text.
        what: &'static str,
    },
    /// It has too many or too few characters.
    #[error("the {what} has {found} characters, which no {what} has: copy all of it again")]
    WrongLength {
        /// The expected kind of text.
        what: &'static str,
        /// The number of its characters.
        found: usize,
    },
    /// It has a character that doesn't occur in such texts.
    #[error(
        "the {what} has {character:?} at position {position}, which no {what} has: copy it again"
    )]
    BadCharacter {
        /// The expected kind of text.
        what: &'static str,
        /// Position in characters, from 1.
        position: usize,
        /// The character.
        character: char,
    },
    /// The checksum is wrong.
    #[error("the {what} is damaged: copy it again")]
    Checksum {
        /// The expected kind of text.
        what: &'static str,
    },
    /// The checksum is right, but the contents make no sense.
    #[error("the {what} is malformed: {error}; ask for a new one")]
    Malformed {
        /// The expected kind of text.
        what: &'static str,
        /// What is wrong.
        error: DecodeError,
    },
}

/// How people see bytes of one kind: a prefix, and base32 (RFC 4648's alphabet in lower case, no
/// padding) of the bytes and their CRC-32. The checksum also covers the prefix, and detects any one
/// or two wrong characters.
#[derive(Copy, Clone, Debug)]
pub(crate) struct TextFormat {
    /// The kind's name in messages.
    pub(crate) what: &'static str,
    /// Two letters and a digit, the version.
    pub(crate) prefix: &'static str,
    /// The fewest bytes, without the checksum.
    pub(crate) min: usize,
    /// The most bytes, without the checksum.
    pub(crate) max: usize,
}

impl TextFormat {
    /// The text of `bytes`.
    pub(crate) fn encode(&self, mut bytes: Vec<u8>) -> String {
        bytes.put_u32(self.checksum(&bytes));
        format!("{}{}", self.prefix, BASE32.encode(&bytes))
    }

    /// The bytes of a text. Ignores white space around it. Checks length and characters before it
    /// allocates anything.
    pub(crate) fn decode(&self, text: &str) -> Result<Vec<u8>, TextError> {
        let what = self.what;
        let text = text.trim();
        let digits = text
            .strip_prefix(self.prefix)
            .ok_or_else(|| self.wrong_prefix(text))?;
        if let Some((at, character)) = digits.chars().enumerate().find(|(_, c)| !is_digit(*c)) {
            return Err(TextError::BadCharacter {
                what,
                position: self.prefix.len() + at + 1,
                character,
            });
        }
        let found = text.len();
        let wrong_length = TextError::WrongLength { what, found };
        let allowed = encoded_len(self.min + CHECKSUM_LEN)..=encoded_len(self.max + CHECKSUM_LEN);
        if !allowed.contains(&digits.len()) {
            return Err(wrong_length);
        }
        let damaged = TextError::Checksum { what };
        let mut bytes = BASE32
            .decode(digits.as_bytes())
            .map_err(|error| match error.kind {
                DecodeKind::Length => wrong_length,
                _ => damaged.clone(),
            })?;
        let (body, sum) = bytes.split_last_chunk().ok_or(damaged.clone())?;
        if self.checksum(body) != u32::from_be_bytes(*sum) {
            return Err(damaged);
        }
        bytes.truncate(bytes.len() - CHECKSUM_LEN);
        Ok(bytes)
    }

    /// The error for a text with a right checksum and wrong contents.
    pub(crate) fn malformed(&self, error: DecodeError) -> TextError {
        let what = self.what;
        TextError::Malformed { what, error }
    }

    fn wrong_prefix(&self, text: &str) -> TextError {
        let Self { what, prefix, .. } = *self;
        let newer = text
            .strip_prefix(&prefix[..2])
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        if newer {
            TextError::UnknownVersion { what }
        } else {
            TextError::WrongPrefix { what, prefix }
        }
    }

    /// CRC-32 of the prefix and `bytes`.
    pub(crate) fn checksum(&self, bytes: &[u8]) -> u32 {
        !crc(crc(!0, self.prefix.as_bytes()), bytes)
    }
}

pub(crate) const CHECKSUM_LEN: usize = 4;

pub(crate) const DIGITS: &str = "abcdefghijklmnopqrstuvwxyz234567";

pub(crate) static BASE32: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification.symbols.push_str(DIGITS);
    specification
        .encoding()
        .expect("32 different characters are an alphabet")
});

fn is_digit(character: char) -> bool {
    matches!(character, 'a'..='z' | '2'..='7')
}

/// The number of characters for `bytes` bytes.
pub(crate) const fn encoded_len(bytes: usize) -> usize {
    (bytes * 8).div_ceil(5)
}

/// One step of CRC-32's shift register (the polynomial of IEEE 802.3, reflected), bit by bit: the
/// texts are short.
pub(crate) fn crc(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ (0xedb8_8320 * (crc & 1))
        })
    })
}

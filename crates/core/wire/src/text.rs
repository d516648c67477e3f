//! Texts that people copy: a prefix with a version, then base32 with a checksum.

use std::sync::LazyLock;

use bytes::BufMut;
use data_encoding::{DecodeKind, Encoding, Specification};

use crate::DecodeError;

/// Why a text is not what was asked for. Never quotes the text, which may hold a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// It doesn't begin like one.
    #[error("this is not a {what}: {what}s begin with \"{prefix}\"")]
    WrongPrefix {
        /// What it should be.
        what: &'static str,
        /// How those begin.
        prefix: &'static str,
    },
    /// It begins like one of another version.
    #[error(
        "the {what} is of a version that this release doesn't know: install the same release on \
         both hosts"
    )]
    UnknownVersion {
        /// What it should be.
        what: &'static str,
    },
    /// It has too many or too few characters.
    #[error("the {what} has {found} characters, which no {what} has: copy all of it again")]
    WrongLength {
        /// What it should be.
        what: &'static str,
        /// Characters it has.
        found: usize,
    },
    /// It has a character that none of its kind has.
    #[error(
        "the {what} has {character:?} at position {position}, which no {what} has: copy it again"
    )]
    BadCharacter {
        /// What it should be.
        what: &'static str,
        /// Position in characters, from 1.
        position: usize,
        /// The character.
        character: char,
    },
    /// The checksum is wrong.
    #[error("the {what} is damaged: copy it again")]
    Checksum {
        /// What it should be.
        what: &'static str,
    },
    /// The checksum is right, but what it covers makes no sense.
    #[error("the {what} is malformed: {error}; ask for a new one")]
    Malformed {
        /// What it should be.
        what: &'static str,
        /// What is wrong.
        error: DecodeError,
    },
}

/// How bytes of one kind are written for people: prefix, base32 (RFC 4648's alphabet in lower case,
/// no padding) of the bytes and of their CRC-32, which also covers the prefix and finds any one or
/// two wrong characters.
#[derive(Copy, Clone, Debug)]
pub(crate) struct TextFormat {
    /// What it is, in words.
    pub(crate) what: &'static str,
    /// Two letters and a digit, the version.
    pub(crate) prefix: &'static str,
    /// Fewest bytes, without the checksum.
    pub(crate) min: usize,
    /// Most bytes, without the checksum.
    pub(crate) max: usize,
}

impl TextFormat {
    /// The text of `bytes`.
    pub(crate) fn encode(&self, mut bytes: Vec<u8>) -> String {
        bytes.put_u32(self.checksum(&bytes));
        format!("{}{}", self.prefix, BASE32.encode(&bytes))
    }

    /// The bytes of a text, with white space around it ignored. Length and characters are checked
    /// before anything is allocated.
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

    /// The error for a text whose checksum is right and whose content isn't.
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

const CHECKSUM_LEN: usize = 4;

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

/// Characters of `bytes` bytes.
pub(crate) const fn encoded_len(bytes: usize) -> usize {
    (bytes * 8).div_ceil(5)
}

/// One run of CRC-32's shift register (the polynomial of IEEE 802.3, reflected), bit by bit: the
/// texts are short.
pub(crate) fn crc(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ (0xedb8_8320 * (crc & 1))
        })
    })
}

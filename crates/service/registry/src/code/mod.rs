//! One-time codes: the number of a mailbox at a registry, and three words that stay a secret
//! between the two users.

mod words;

use std::fmt;
use std::str::FromStr;

use manyway_units::printable;
use rand::CryptoRng;
use strsim::osa_distance;

use self::words::WORDS;

/// The number of words: 24 bits. An attacker has one try per code.
const COUNT: usize = 3;
/// The most digits of a number.
const MAX_DIGITS: usize = 6;
/// A word with at most this many typing errors is still recognised: missing, additional, wrong and
/// swapped characters.
const NEAR: usize = 1;
/// The most characters of a mistyped word. No word is as long as half of this.
const MAX_WORD: usize = 16;

/// The secret part of a code: each byte is a word.
#[derive(Clone, PartialEq, Eq)]
pub struct Words([u8; COUNT]);

impl Words {
    /// Random words. The same generator state gives the same words.
    pub fn random(rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut words = [0; COUNT];
        rng.fill_bytes(&mut words);
        Self(words)
    }

    /// The words with dashes between them, which is the PAKE's password.
    pub(crate) fn text(&self) -> String {
        self.0.map(|word| WORDS[usize::from(word)]).join("-")
    }
}

/// A code, as in `7-guitar-saddle-orbit`.
#[derive(Clone, PartialEq, Eq)]
pub struct Code {
    /// The mailbox at the registry.
    pub(crate) number: u32,
    pub(crate) words: Words,
}

impl Code {
    /// Whether a text is meant as a code rather than, say, as the name of a directory: a number and
    /// several words of codes, or a number and three words of which one at least nearly is a
    /// code's, or more of which three are, or a code's words without a number. It may still be
    /// wrong.
    pub fn is_meant(text: &str) -> bool {
        let parts = parts(text);
        let Some((number, words)) = parts.split_first() else {
            return false;
        };
        if lacks_number(&parts) {
            return true;
        }
        let is_alphabetic = |word: &&str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
        let near = words.iter().filter(|word| nearest(word).is_some()).count();
        number.bytes().all(|byte| byte.is_ascii_digit())
            && words.len() > 1
            && (words.iter().all(|word| find(word).is_some())
                || words.len() >= COUNT
                    && words.iter().all(is_alphabetic)
                    && (near >= COUNT || near > 0 && words.len() == COUNT))
    }
}

/// The number and the words: spaces count as dashes. At most one part more than a code has.
fn parts(text: &str) -> Vec<&str> {
    let parts = text.split(|c: char| c == '-' || c.is_ascii_whitespace());
    let parts = parts.filter(|part| !part.is_empty());
    parts.take(COUNT + 2).collect()
}

/// Whether these are the words of a code, and what should be a number and a dash before them isn't.
fn lacks_number(parts: &[&str]) -> bool {
    let [first, others @ ..] = parts else {
        return false;
    };
    let first = first.trim_start_matches(|c: char| c.is_ascii_digit());
    let mut others = others.iter();
    parts.len() == COUNT && find(first).is_some() && others.all(|word| find(word).is_some())
}

fn is_number(text: &str) -> bool {
    (1..=MAX_DIGITS).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.number, self.words.text())
    }
}

/// Without the words, which are secret.
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({}-…)", self.number)
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Words(..)")
    }
}

/// Why a text isn't a code. It costs no try: nobody was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// It has another form.
    #[error(
        "a code is a number of at most six digits and three words, such as 7-guitar-saddle-orbit"
    )]
    Form,
    /// It has the words only, or no dash behind the number.
    #[error("a code begins with a number and a dash, such as 7-guitar-saddle-orbit")]
    Number,
    /// A word that no code has.
    #[error(
        "no code has the word \"{word}\" (number {position}): {}",
        nearest.map_or("check it".to_owned(), |word| format!("is it \"{word}\"?"))
    )]
    Word {
        /// Its place, from 1.
        position: usize,
        /// The word; printable.
        word: String,
        /// The word that it nearly is.
        nearest: Option<&'static str>,
    },
}

impl FromStr for Code {
    type Err = CodeError;

    /// Any case; spaces count as dashes.
    fn from_str(text: &str) -> Result<Self, CodeError> {
        let parts = parts(text);
        if lacks_number(&parts) {
            return Err(CodeError::Number);
        }
        let (number, words) = parts.split_first().ok_or(CodeError::Form)?;
        let words: &[&str; COUNT] = words.try_into().map_err(|_| CodeError::Form)?;
        if !is_number(number) {
            return Err(CodeError::Form);
        }
        let number = number.parse().map_err(|_| CodeError::Form)?;
        let mut found = [0; COUNT];
        for ((position, text), found) in (1..).zip(words).zip(&mut found) {
            *found = find(text).ok_or_else(|| CodeError::Word {
                position,
                word: printable(text, MAX_WORD),
                nearest: nearest(text),
            })?;
        }
        Ok(Self {
            number,
            words: Words(found),
        })
    }
}

fn find(text: &str) -> Option<u8> {
    let at = WORDS
        .iter()
        .position(|word| word.eq_ignore_ascii_case(text))?;
    u8::try_from(at).ok()
}

fn nearest(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    if text.len() > MAX_WORD {
        return None;
    }
    WORDS
        .into_iter()
        .find(|word| osa_distance(word, &text) <= NEAR)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_typing_error_never_makes_another_word() {
        for (n, word) in WORDS.iter().enumerate() {
            assert!((4..=7).contains(&word.len()), "{word}");
            assert!(word.bytes().all(|byte| byte.is_ascii_lowercase()), "{word}");
            for other in &WORDS[..n] {
                assert!(*other < *word, "{other} {word}");
                let distance = osa_distance(word, other);
                assert!(distance >= 3, "{word} {other}: {distance}");
            }
        }
    }

    #[test]
    fn a_code_is_read_as_people_write_it() {
        let code: Code = "7-guitar-saddle-orbit".parse().unwrap();
        assert_eq!(code.to_string(), "7-guitar-saddle-orbit");
        assert_eq!(" 7 Guitar SADDLE-orbit\n".parse(), Ok(code.clone()));
        assert!(!format!("{code:?} {:?}", code.words).contains("guitar"));
        for text in [
            "",
            "7",
            "7-guitar-saddle",
            "guitar-saddle-orbit-acorn",
            "+7-guitar-saddle-orbit",
            "7777777-guitar-saddle-orbit",
            "7-guitar-saddle-orbit-orbit",
        ] {
            assert_eq!(text.parse::<Code>(), Err(CodeError::Form), "{text}");
        }
        for text in [
            "guitar-saddle-orbit",
            "7guitar-saddle-orbit",
            "guitar Saddle orbit",
        ] {
            assert_eq!(text.parse::<Code>(), Err(CodeError::Number), "{text}");
        }
        let error = |text: &str| text.parse::<Code>().unwrap_err().to_string();
        assert_eq!(
            error("7-guitar-sadlde-orbit"),
            "no code has the word \"sadlde\" (number 2): is it \"saddle\"?"
        );
        assert_eq!(
            error("7-guitar-saddle-xxxxx"),
            "no code has the word \"xxxxx\" (number 3): check it"
        );
        let hostile = error("7-guitar-saddle-\u{1b}[2Jaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        assert!(
            hostile.len() < 80 && !hostile.contains('\u{1b}'),
            "{hostile}"
        );
    }

    #[test]
    fn directories_are_no_codes() {
        for text in [
            "7-guitar-saddle-orbit",
            "7 guitar saddle orbit",
            "12-Guitar-sadle-orbit",
            "12-gitar-sadle-obit",
            "7-guitar-saddle",
            "guitar-saddle-orbit",
            "7guitar-saddle-orbit",
        ] {
            assert!(Code::is_meant(text), "{text}");
        }
        for text in [
            "inbox",
            "2026-11-24",
            "2026-holiday-photos",
            "2026-trip-to-rome",
            "2026-autumn",
            "./7-guitar-saddle-orbit",
            "7",
            "7-",
            "7-guitar-saddle-orbit-2",
            "guitar-saddle",
            "guitar-lesson-orbit",
            "mw1abc",
        ] {
            assert!(!Code::is_meant(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_code_is_read_as_it_was_written(number in 0..=999_999_u32, words: [u8; COUNT]) {
            let code = Code { number, words: Words(words) };
            let text = code.to_string();
            prop_assert!(Code::is_meant(&text));
            prop_assert_eq!(text.parse(), Ok(code));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,40}") {
            Code::is_meant(&text);
            text.parse::<Code>().ok();
        }
    }
}

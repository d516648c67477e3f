//! The tokens that allow relays and clients to enrol.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "server")]
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use manyway_wire::relay::RateClass;
use zeroize::Zeroizing;

/// The most tokens of a file.
const MOST: usize = 1000;
/// The lengths that a token may have.
const LENGTHS: std::ops::RangeInclusive<usize> = 20..=128;
/// The longest name.
const NAME: usize = 64;

/// What a token allows.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Enrol relays.
    Relay,
    /// Get vouchers, and be met.
    Client,
}

impl fmt::Display for Role {
    /// As in a registry's token file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Relay => "relay",
            Self::Client => "client",
        })
    }
}

/// A secret that its holder presents.
#[derive(Clone)]
pub struct Token(Zeroizing<String>);

impl Token {
    /// The token itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// The token of a file. The file contains either nothing else, or lines of a registry's token
    /// file, exactly one of them with this role.
    ///
    /// # Errors
    /// What is wrong, without the file's contents.
    pub fn from_text(text: &str, role: Role) -> Result<Self, TokenFileError> {
        let bare = text.trim();
        if !bare.contains(char::is_whitespace) && !bare.starts_with('#') {
            check_token(bare, 1).map_err(|_| TokenFileError::Bare)?;
            return Ok(Self(Zeroizing::new(bare.to_owned())));
        }
        let mut found = None;
        for line in lines(text) {
            let line = line?;
            if line.role == role && found.replace(line.token).is_some() {
                return Err(TokenFileError::Several(role));
            }
        }
        let token = found.ok_or(TokenFileError::None(role))?;
        Ok(Self(Zeroizing::new(token.to_owned())))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// What is wrong with a token file, by line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// The line has another format.
    #[error(
        "line {0} isn't \"relay NAME TOKEN\" or \"client NAME TOKEN [RATE-CLASS from 0 to 15]\""
    )]
    Line(usize),
    /// The name is invalid.
    #[error("the name in line {0} is used before or longer than {NAME} characters")]
    Name(usize),
    /// The token is invalid.
    #[error(
        "the token in line {0} must have 20 to 128 printable ASCII characters, and be there once: \
         make one with openssl rand -hex 16"
    )]
    Token(usize),
    /// The file has one text, and that is no token.
    #[error(
        "it has no token, which would be 20 to 128 printable ASCII characters: ask the registry's \
         operator for yours"
    )]
    Bare,
    /// The file has too many tokens.
    #[error("there are more than {MOST} tokens")]
    TooMany,
    /// The file has lines, but none for the role.
    #[error("it has no line that begins with {0}: ask the registry's operator for a {0}'s token")]
    None(Role),
    /// The file has several lines for the role.
    #[error("it has several lines that begin with {0}: put one of them into a file of its own")]
    Several(Role),
}

/// A holder of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) role: Role,
    pub(crate) name: Arc<str>,
    pub(crate) class: RateClass,
}

/// All tokens that a registry knows, as hashes.
#[derive(Default)]
pub struct Tokens(Vec<(Holder, [u8; 32])>);

impl Tokens {
    /// Reads a file with a line for each token: `relay NAME TOKEN` or `client NAME TOKEN [CLASS]`.
    /// Empty lines and lines that begin with # don't count. A client's traffic counts for its name,
    /// and its rate is 2^CLASS Mbit/s.
    ///
    /// # Errors
    /// What is wrong, by line, without its contents.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut tokens = Self::default();
        for line in lines(text) {
            let line = line?;
            let hash = hash(line.token);
            if tokens.0.len() >= MOST {
                return Err(TokenFileError::TooMany);
            }
            let same = |holder: &Holder| holder.role == line.role && &*holder.name == line.name;
            if tokens.0.iter().any(|(holder, _)| same(holder)) {
                return Err(TokenFileError::Name(line.number));
            }
            if tokens.0.iter().any(|(_, other)| *other == hash) {
                return Err(TokenFileError::Token(line.number));
            }
            let holder = Holder {
                role: line.role,
                name: line.name.into(),
                class: line.class,
            };
            tokens.0.push((holder, hash));
        }
        Ok(tokens)
    }

    /// The names of those with a token of this role.
    #[cfg(feature = "server")]
    pub(crate) fn names(&self, role: Role) -> impl Iterator<Item = &Arc<str>> {
        let holders = self.0.iter().map(|(holder, _)| holder);
        let holders = holders.filter(move |holder| holder.role == role);
        holders.map(|holder| &holder.name)
    }

    /// How many tokens of this role there are.
    #[cfg(feature = "server")]
    pub fn count(&self, role: Role) -> usize {
        self.names(role).count()
    }

    /// The holder of a token of this role. Takes the same time for all tokens, known or not.
    #[cfg(feature = "server")]
    pub(crate) fn holder(&self, role: Role, token: &str) -> Option<&Holder> {
        let hash = hash(token);
        let mut found = None;
        for (holder, known) in &self.0 {
            let equal = verify_slices_are_equal(known, &hash).is_ok();
            if equal && holder.role == role {
                found = Some(holder);
            }
        }
        found
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(holder, _)| holder))
            .finish()
    }
}

struct Line<'a> {
    number: usize,
    role: Role,
    name: &'a str,
    token: &'a str,
    class: RateClass,
}

fn lines(text: &str) -> impl Iterator<Item = Result<Line<'_>, TokenFileError>> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| read(number, line))
}

fn read(number: usize, line: &str) -> Result<Line<'_>, TokenFileError> {
    let wrong = TokenFileError::Line(number);
    let mut words = line.split_whitespace();
    let role = match words.next() {
        Some("relay") => Role::Relay,
        Some("client") => Role::Client,
        _ => return Err(wrong),
    };
    let (Some(name), Some(token)) = (words.next(), words.next()) else {
        return Err(wrong);
    };
    let class = match words.next() {
        None => RateClass::MAX,
        Some(_) if role == Role::Relay => return Err(wrong),
        Some(class) => class
            .parse()
            .ok()
            .and_then(RateClass::new)
            .ok_or(TokenFileError::Line(number))?,
    };
    if words.next().is_some() {
        return Err(wrong);
    }
    if name.len() > NAME {
        return Err(TokenFileError::Name(number));
    }
    check_token(token, number)?;
    Ok(Line {
        number,
        role,
        name,
        token,
        class,
    })
}

fn check_token(token: &str, line: usize) -> Result<(), TokenFileError> {
    let good = LENGTHS.contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
    good.then_some(()).ok_or(TokenFileError::Token(line))
}

fn hash(token: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "# ours\nrelay cheap 0123456789abcdef0123\n\nclient lab abcdefabcdefabcdefabcd 4\n";

    #[test]
    fn a_token_is_good_for_its_role_only() {
        let tokens = Tokens::parse(FILE).unwrap();
        let holder = tokens
            .holder(Role::Client, "abcdefabcdefabcdefabcd")
            .unwrap();
        assert_eq!((&*holder.name, holder.class.number()), ("lab", 4));
        assert!(
            tokens
                .holder(Role::Relay, "abcdefabcdefabcdefabcd")
                .is_none()
        );
        assert!(tokens.holder(Role::Relay, "0123456789abcdef0123").is_some());
        assert!(tokens.holder(Role::Relay, "0123456789abcdef012").is_none());
        assert!(tokens.holder(Role::Relay, "").is_none());
        assert!(!format!("{tokens:?}").contains("0123"));
    }

    #[test]
    fn a_name_has_64_bytes_at_most() {
        let file = |len: usize| {
            let name = "n".repeat(len);
            Tokens::parse(&format!("client {name} abcdefabcdefabcdefabcd"))
        };
        assert!(file(1).is_ok() && file(64).is_ok());
        assert_eq!(file(65).unwrap_err(), TokenFileError::Name(1));
    }

    #[test]
    fn damaged_files_are_named_by_line_without_their_content() {
        let error = |text: &str| Tokens::parse(text).unwrap_err();
        assert_eq!(error("relay a"), TokenFileError::Line(1));
        assert_eq!(
            error("\nadmin a 0123456789abcdef0123"),
            TokenFileError::Line(2)
        );
        assert_eq!(
            error("client a 0123456789abcdef0123 16"),
            TokenFileError::Line(1)
        );
        assert_eq!(
            error("relay a 0123456789abcdef0123 1"),
            TokenFileError::Line(1)
        );
        assert_eq!(error("relay a short"), TokenFileError::Token(1));
        let twice = format!("{FILE}relay cheap 1123456789abcdef0123");
        assert_eq!(error(&twice), TokenFileError::Name(5));
        let same = format!("{FILE}client other 0123456789abcdef0123");
        assert_eq!(error(&same), TokenFileError::Token(5));
        let many: String = (0..=MOST)
            .map(|n| format!("relay r{n} 0123456789abcdef{n:08}\n"))
            .collect();
        assert_eq!(error(&many), TokenFileError::TooMany);
        assert!(!error("relay a short").to_string().contains("short"));
    }

    #[test]
    fn a_relays_file_has_the_bare_token_or_one_for_relays() {
        let short = Token::from_text("short\n", Role::Relay);
        assert_eq!(short.unwrap_err(), TokenFileError::Bare);
        let token =
            |text: &str| Token::from_text(text, Role::Relay).map(|token| token.reveal().to_owned());
        assert_eq!(
            token(" 0123456789abcdef0123\n").unwrap(),
            "0123456789abcdef0123"
        );
        assert_eq!(token(FILE).unwrap(), "0123456789abcdef0123");
        let several = format!("{FILE}relay other 1123456789abcdef0123");
        assert_eq!(token(&several), Err(TokenFileError::Several(Role::Relay)));
        assert_eq!(token("# nothing\n"), Err(TokenFileError::None(Role::Relay)));
        assert_eq!(
            format!("{:?}", Token::from_text(FILE, Role::Relay).unwrap()),
            "Token(..)"
        );
    }
}

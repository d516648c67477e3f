use std::fmt;
use std::str::FromStr;

use crate::text::{TextError, TextFormat};

/// Who a peer is: the public half of its static key (X25519).
///
/// Its text is `id1` and base32 (RFC 4648, lower case, no padding) of the key and a CRC-32 that
/// detects any one or two wrong characters. It is no secret.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub [u8; 32]);

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&TEXT.encode(self.0.to_vec()))
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PeerId {
    type Err = TextError;

    /// Reads an id's text. Ignores white space around it.
    fn from_str(text: &str) -> Result<Self, TextError> {
        let body = TEXT.decode(text)?;
        let key = body.try_into().expect("the format has one length");
        Ok(PeerId(key))
    }
}

const TEXT: TextFormat = TextFormat {
    what: "peer id",
    prefix: "id1",
    min: 32,
    max: 32,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_and_damage_is_seen() {
        let id = PeerId(std::array::from_fn(|at| at as u8));
        let text = id.to_string();
        insta::assert_snapshot!(text);
        assert_eq!(format!(" {text}\n").parse(), Ok(id));
        for at in 3..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] = if damaged[at] == b'a' { b'b' } else { b'a' };
            let damaged = String::from_utf8(damaged).unwrap();
            damaged.parse::<PeerId>().unwrap_err();
        }
        for wrong in [
            "",
            "id1",
            "mw1aaaa",
            &text[..text.len() - 1],
            &format!("{text}a"),
        ] {
            wrong.parse::<PeerId>().unwrap_err();
        }
    }
}

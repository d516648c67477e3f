//! Self-authenticating texts: the registry issues them and recognizes them later without storing
//! them.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{self, HMAC_SHA256};

use crate::api;

/// The purpose of a text. A text for one purpose doesn't pass for another.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Challenge = 1,
    Lease = 2,
    Credential = 3,
}

/// Bytes of the code at a text's end.
const CODE: usize = 16;

/// The key that makes the codes. Registries with one key file accept each other's texts.
pub(crate) struct Codes(hmac::Key);

impl Codes {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(HMAC_SHA256, secret))
    }

    /// `body` with its code.
    pub(crate) fn seal(&self, kind: Kind, body: &[u8]) -> String {
        let code = self.code(kind, body);
        api::encode(&[body, &code].concat())
    }

    /// The body of a text of this kind if its code is right. Compares in constant time.
    pub(crate) fn open<const N: usize>(&self, kind: Kind, text: &str) -> Option<[u8; N]> {
        // The longest kind has 45 bytes.
        let mut bytes = [0; 64 + CODE];
        let text = text.as_bytes();
        let len = data_encoding::BASE64URL_NOPAD.decode_len(text.len()).ok()?;
        if len != N + CODE {
            return None;
        }
        let bytes = bytes.get_mut(..len)?;
        data_encoding::BASE64URL_NOPAD
            .decode_mut(text, bytes)
            .ok()?;
        let (body, code) = bytes.split_at(N);
        verify_slices_are_equal(&self.code(kind, body), code).ok()?;
        body.try_into().ok()
    }

    fn code(&self, kind: Kind, body: &[u8]) -> [u8; CODE] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&[kind as u8]);
        context.update(body);
        let mut code = [0; CODE];
        code.copy_from_slice(&context.sign().as_ref()[..CODE]);
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ones_own_texts_of_the_right_kind_and_length_open() {
        let codes = Codes::new(b"a");
        let text = codes.seal(Kind::Lease, &[7; 40]);
        assert_eq!(codes.open(Kind::Lease, &text), Some([7u8; 40]));
        assert_eq!(codes.open::<40>(Kind::Credential, &text), None);
        assert_eq!(codes.open::<39>(Kind::Lease, &text), None);
        assert_eq!(Codes::new(b"b").open::<40>(Kind::Lease, &text), None);
        assert_eq!(codes.open::<40>(Kind::Lease, ""), None);
        for at in 0..text.len() {
            let mut wrong = text.clone().into_bytes();
            wrong[at] = if wrong[at] == b'A' { b'B' } else { b'A' };
            let wrong = String::from_utf8(wrong).unwrap();
            assert_eq!(codes.open::<40>(Kind::Lease, &wrong), None, "{at}");
        }
    }
}

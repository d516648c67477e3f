//! The names of incomplete files.

use manyway_transfer::SafeName;
use manyway_transfer::conflict::cut;
use std::hash::{BuildHasher, RandomState};

/// What is between the name and the number of an incomplete file.
const MARK: &str = ".manyway-part-";

/// The name of what is left of a file or directory when a transfer ends early: always the same, so
/// that the next transfer finds it.
pub(super) fn left_name(name: &str) -> String {
    let [a, b, c, d, ..] = *blake3::hash(name.as_bytes()).as_bytes();
    temporary_name(name, u32::from_be_bytes([a, b, c, d]))
}

/// Another name for an incomplete file.
pub(super) fn random_name(name: &str) -> String {
    // Uniqueness is the kernel's O_EXCL; this only has to be unlikely to clash.
    temporary_name(name, RandomState::new().hash_one(0) as u32)
}

/// `.NAME.manyway-part-XXXXXXXX`, with NAME cut to what a component may hold.
fn temporary_name(name: &str, number: u32) -> String {
    let room = SafeName::MAX_COMPONENT - 1 - MARK.len() - 8;
    format!(".{}{MARK}{number:08x}", cut(name, room))
}

/// Is it a name that [`temporary_name`] gives?
pub(in crate::files) fn is_temporary(name: &str) -> bool {
    let parts = name
        .strip_prefix('.')
        .and_then(|name| name.rsplit_once(MARK));
    parts.is_some_and(|(name, number)| {
        !name.is_empty()
            && number.len() == 8
            && number
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_safe_and_short_enough() {
        for name in ["a", &"é".repeat(127), &"x".repeat(255)] {
            let temporary = random_name(name);
            assert!(is_temporary(&left_name(name)));
            assert!(SafeName::parse(&temporary).is_ok(), "{temporary}");
            assert!(temporary.starts_with(&format!(".{}", cut(name, 60))));
            assert!(is_temporary(&temporary) && !is_temporary(name));
        }
    }
}

//! The length of every key that the registry and its clients derive.

use aws_lc_rs::hkdf::KeyType;

/// 32 bytes, as HKDF takes a length.
pub(crate) struct Len32;

impl KeyType for Len32 {
    fn len(&self) -> usize {
        32
    }
}

//! What protects packets, as a trait.

use super::Tag;
use super::error::{OpenError, SealError};

/// The key of one direction in one epoch.
///
/// Shaped like `rustls::quic::PacketKey`, with the path id beside the packet number, so that
/// another implementation (or another protocol's keys) can take its place.
pub trait PacketKey: Send + Sync {
    /// Encrypts `payload` in place and returns the tag over it and over `header`.
    ///
    /// The caller never uses a pair of `path` and `packet_number` twice.
    ///
    /// # Errors
    /// [`SealError::TooLong`] if the payload exceeds what the AEAD can seal (64 GiB).
    fn seal_in_place(
        &self,
        path: u32,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, SealError>;

    /// Decrypts `payload` (ciphertext, then tag) in place and returns the plaintext.
    ///
    /// # Errors
    /// [`OpenError::Forged`] if the tag doesn't match; the payload's contents are lost then.
    fn open_in_place<'a>(
        &self,
        path: u32,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a mut [u8], OpenError>;
}

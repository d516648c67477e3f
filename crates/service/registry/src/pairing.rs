//! How the two ends of a one-time code agree on a key and use it once. No I/O: the caller carries
//! the messages, and hands in time and randomness.
//!
//! The *host* makes the code and has a parcel (a ticket) for the *guest*, who types the code.
//! SPAKE2 (RFC 9382's protocol, in the form of python-spake2) over Ed25519 gives both the same key
//! if the words are the same. Whoever uses wrong words learns that they are wrong, and nothing
//! else.
//!
//! | message | from | content |
//! |---|---|---|
//! | offer | host | SPAKE2's element, 33 bytes |
//! | answer | guest | SPAKE2's element, 33 bytes, and a proof of the key, 32 bytes |
//! | parcel | host | the sealed text (ChaCha20-Poly1305), or nothing if the proof is wrong |

use std::time::Duration;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use rand::CryptoRng;
use spake2::{Ed25519Group, Identity, Password, Spake2};

use crate::api::MAX_PARCEL;
use crate::code::{Code, Words};
use crate::hkdf::Len32;

/// The bytes of an element, with the byte that names its side.
const ELEMENT: usize = 33;
const PROOF: usize = 32;
const TAG: usize = 16;
/// The most bytes in a parcel.
pub(crate) const MAX_CONTENT: usize = MAX_PARCEL / 4 * 3 - TAG;

/// The peer doesn't know the words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrongWords;

/// The end that has made the code.
pub(crate) struct Host(Spake2<Ed25519Group>);

impl Host {
    /// The host of a code with these words, and its offer.
    pub(crate) fn new(words: &Words, rng: &mut (impl CryptoRng + ?Sized)) -> (Self, Vec<u8>) {
        let (password, host, guest) = inputs(words);
        let (spake, offer) = Spake2::start_a_with_rng(&password, &host, &guest, Rng06(rng));
        (Self(spake), offer)
    }

    /// The parcel for a guest that knows the words. Consumes the host: a code allows one try.
    ///
    /// # Errors
    /// The guest doesn't know the words.
    pub(crate) fn seal(
        self,
        number: u32,
        answer: &[u8],
        content: &[u8],
    ) -> Result<Vec<u8>, WrongWords> {
        let (element, proof) = answer.split_at_checked(ELEMENT).ok_or(WrongWords)?;
        let keys = Keys::new(self.0, number, element)?;
        hmac::verify(&keys.proof, element, proof).map_err(|_| WrongWords)?;
        let mut sealed = content.to_vec();
        keys.parcel
            .seal_in_place_append_tag(only_nonce(), Aad::empty(), &mut sealed)
            .expect("so little can be sealed");
        Ok(sealed)
    }
}

/// The end that has typed the code.
pub(crate) struct Guest(Keys);

impl Guest {
    /// A guest that knows a code and has the host's offer, and its answer.
    ///
    /// # Errors
    /// The offer isn't a host's.
    pub(crate) fn new(
        code: &Code,
        offer: &[u8],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<(Self, Vec<u8>), WrongWords> {
        let (password, host, guest) = inputs(&code.words);
        let (spake, mut answer) = Spake2::start_b_with_rng(&password, &host, &guest, Rng06(rng));
        let keys = Keys::new(spake, code.number, offer)?;
        let proof = hmac::sign(&keys.proof, &answer);
        answer.extend_from_slice(proof.as_ref());
        debug_assert_eq!(answer.len(), ELEMENT + PROOF);
        Ok((Self(keys), answer))
    }

    /// What the host has sealed.
    ///
    /// # Errors
    /// Somebody else has sealed or changed it.
    pub(crate) fn open(self, sealed: &[u8]) -> Result<Vec<u8>, WrongWords> {
        let mut text = sealed.to_vec();
        let opened = self
            .0
            .parcel
            .open_in_place(only_nonce(), Aad::empty(), &mut text);
        let len = opened.map_err(|_| WrongWords)?.len();
        text.truncate(len);
        Ok(text)
    }
}

/// Password, the host's and the guest's identity.
fn inputs(words: &Words) -> (Password, Identity, Identity) {
    (
        Password::new(words.text()),
        Identity::new(b"manyway code 1 host"),
        Identity::new(b"manyway code 1 guest"),
    )
}

/// What both derive from the key that they share.
struct Keys {
    proof: hmac::Key,
    parcel: LessSafeKey,
}

impl Keys {
    fn new(spake: Spake2<Ed25519Group>, number: u32, element: &[u8]) -> Result<Self, WrongWords> {
        let shared = spake.finish(element).map_err(|_| WrongWords)?;
        let shared = zeroize::Zeroizing::new(shared);
        // The registry can't pass a message on to a mailbox with another number.
        let root = Salt::new(HKDF_SHA256, &number.to_be_bytes()).extract(&shared);
        let derive = |purpose: &[u8]| {
            let mut key = [0; 32];
            let info = [purpose];
            let okm = root.expand(&info, Len32).and_then(|okm| okm.fill(&mut key));
            okm.expect("HKDF gives up to 8160 bytes");
            key
        };
        let parcel = UnboundKey::new(&CHACHA20_POLY1305, &derive(b"manyway code parcel"));
        Ok(Self {
            proof: hmac::Key::new(HMAC_SHA256, &derive(b"manyway code proof")),
            parcel: LessSafeKey::new(parcel.expect("32 bytes are a key")),
        })
    }
}

/// The key is used for one parcel only.
fn only_nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// How long an end bears a registry that doesn't answer.
pub(crate) struct Patience {
    limit: Duration,
    since: Option<Duration>,
}

impl Patience {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, since: None }
    }

    /// Whether to try again after a failure.
    pub(crate) fn bears(&mut self, now: Duration) -> bool {
        let since = *self.since.get_or_insert(now);
        now.saturating_sub(since) < self.limit
    }
}

/// A generator with the traits that SPAKE2's crate wants.
struct Rng06<'a, R: ?Sized>(&'a mut R);

impl<R: CryptoRng + ?Sized> rand_core_06::RngCore for Rng06<'_, R> {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core_06::Error> {
        self.0.fill_bytes(bytes);
        Ok(())
    }
}

impl<R: CryptoRng + ?Sized> rand_core_06::CryptoRng for Rng06<'_, R> {}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;

    fn rng(seed: u64) -> ChaCha20Rng {
        ChaCha20Rng::seed_from_u64(seed)
    }

    fn code(text: &str) -> Code {
        text.parse().unwrap()
    }

    #[test]
    fn who_knows_the_words_gets_the_parcel() {
        let code = code("7-guitar-saddle-orbit");
        let (host, offer) = Host::new(&code.words, &mut rng(1));
        let (guest, answer) = Guest::new(&code, &offer, &mut rng(2)).unwrap();
        assert_eq!((offer.len(), answer.len()), (ELEMENT, ELEMENT + PROOF));
        let sealed = host.seal(7, &answer, b"mw1").unwrap();
        assert!(!sealed.windows(3).any(|part| part == b"mw1"));
        assert_eq!(guest.open(&sealed).unwrap(), b"mw1");
        // The same seeds give the same messages.
        assert_eq!(Host::new(&code.words, &mut rng(1)).1, offer);
        assert_eq!(Guest::new(&code, &offer, &mut rng(2)).unwrap().1, answer);
    }

    #[test]
    fn wrong_words_and_changed_messages_get_nothing() {
        let right = code("7-guitar-saddle-orbit");
        let fails = |number, change: &dyn Fn(&mut Vec<u8>), guess: &str| {
            let (host, offer) = Host::new(&right.words, &mut rng(1));
            let (_, mut answer) = Guest::new(&code(guess), &offer, &mut rng(2)).unwrap();
            change(&mut answer);
            host.seal(number, &answer, b"mw1") == Err(WrongWords)
        };
        let same = "7-guitar-saddle-orbit";
        assert!(!fails(7, &|_| {}, same));
        assert!(fails(7, &|_| {}, "7-guitar-saddle-acorn"));
        assert!(fails(8, &|_| {}, same), "in another mailbox");
        assert!(fails(7, &Vec::clear, same));
        for at in 0..ELEMENT + PROOF {
            assert!(fails(7, &|answer| answer[at] ^= 1, same), "{at}");
            assert!(fails(7, &|answer| answer.truncate(at), same), "{at}");
        }
    }

    #[test]
    fn a_registry_that_plays_one_end_to_the_other_is_found_out() {
        let code = code("7-guitar-saddle-orbit");
        let (host, offer) = Host::new(&code.words, &mut rng(1));
        // The host's own message doesn't pass for a guest's, nor the reverse.
        assert!(
            host.seal(7, &[&offer[..], &[0; 32]].concat(), b"x")
                .is_err()
        );
        let (_, answer) = Guest::new(&code, &offer, &mut rng(2)).unwrap();
        assert!(Guest::new(&code, &answer[..ELEMENT], &mut rng(3)).is_err());
        for wrong in [&b""[..], &[0x41; 32], &[0x41; 34]] {
            assert!(Guest::new(&code, wrong, &mut rng(3)).is_err());
        }
        // It doesn't have the key, so it can't seal a parcel of its own.
        let (guest, _) = Guest::new(&code, &offer, &mut rng(2)).unwrap();
        assert_eq!(guest.open(&[7; 40]), Err(WrongWords));
    }

    #[test]
    fn patience_ends_to_the_tick() {
        let seconds = Duration::from_secs;
        let mut patience = Patience::new(seconds(60));
        assert!(patience.bears(seconds(100)));
        assert!(patience.bears(seconds(160) - Duration::from_nanos(1)));
        assert!(!patience.bears(seconds(160)));
    }
}

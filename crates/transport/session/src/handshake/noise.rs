//! `snow`, fed with our randomness and with X25519 from aws-lc.

use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use rand::rngs::ChaCha20Rng;
use rand::{Rng, SeedableRng};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use crate::crypto::{KeyLimits, Opener, Sealer, SplitInput, Suite, split};

/// Bytes of an X25519 key, private or public.
pub(super) const KEY_LEN: usize = 32;

pub(super) const PROTOCOL: &str = "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
/// Where `psk2` keeps its key.
pub(super) const PSK_POSITION: u8 = 2;

/// What both sides of a handshake need of their own.
pub(super) struct Noise<'a> {
    pub(super) private_key: &'a [u8; KEY_LEN],
    pub(super) psk: &'a [u8; 32],
    pub(super) prologue: &'a [u8],
    /// Decides the ephemeral key: never used for two handshakes.
    pub(super) seed: Zeroizing<[u8; 32]>,
}

impl Noise<'_> {
    pub(super) fn initiator(self, listener: &[u8; KEY_LEN]) -> Result<HandshakeState, snow::Error> {
        self.builder()?
            .remote_public_key(listener)?
            .build_initiator()
    }

    pub(super) fn responder(self) -> Result<HandshakeState, snow::Error> {
        self.builder()?.build_responder()
    }

    fn builder(&self) -> Result<Builder<'_>, snow::Error> {
        let resolver = Resolver {
            seed: self.seed.clone(),
        };
        Builder::with_resolver(PROTOCOL.parse()?, Box::new(resolver))
            .local_private_key(self.private_key)?
            .psk(PSK_POSITION, self.psk)?
            .prologue(self.prologue)
    }
}

/// Turns a finished handshake into packet keys.
pub(super) fn finish(
    mut state: HandshakeState,
    suite: Suite,
    limits: KeyLimits,
) -> (Sealer, Opener) {
    // The raw split doesn't check this itself and would hand out keys that the peer hasn't
    // confirmed.
    assert!(
        state.is_handshake_finished(),
        "keys are split only after the last handshake message"
    );
    let (initiator_key, responder_key) = state.dangerously_get_raw_split();
    let (initiator_key, responder_key) =
        (Zeroizing::new(initiator_key), Zeroizing::new(responder_key));
    split(SplitInput {
        initiator_key: &initiator_key,
        responder_key: &responder_key,
        handshake_hash: state.get_handshake_hash(),
        is_initiator: state.is_initiator(),
        suite,
        limits,
    })
}

/// The public key that belongs to `private_key`.
pub(super) fn public_key(private_key: &[u8; KEY_LEN]) -> [u8; KEY_LEN] {
    let mut pair = KeyPair::default();
    pair.set(private_key);
    pair.public
}

/// Snow's default primitives, but for the randomness and the curve.
pub(super) struct Resolver {
    seed: Zeroizing<[u8; 32]>,
}

#[cfg(test)]
impl Resolver {
    pub(super) fn seeded(seed: [u8; 32]) -> Self {
        Self {
            seed: Zeroizing::new(seed),
        }
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Seeded(ChaCha20Rng::from_seed(*self.seed))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::<KeyPair>::default() as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

/// A cryptographic generator from a seed, so that a run repeats.
struct Seeded(ChaCha20Rng);

impl Random for Seeded {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill_bytes(dest);
        Ok(())
    }
}

/// X25519 (RFC 7748) by aws-lc. Unlike snow's own it refuses all-zero results (RFC 7748 §6.1) and
/// leaves no private key in freed memory.
#[derive(Default)]
pub(super) struct KeyPair {
    private: Zeroizing<[u8; KEY_LEN]>,
    public: [u8; KEY_LEN],
    key: Option<PrivateKey>,
}

impl Dh for KeyPair {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        KEY_LEN
    }

    fn priv_len(&self) -> usize {
        KEY_LEN
    }

    fn set(&mut self, private: &[u8]) {
        let key = PrivateKey::from_private_key(&X25519, private)
            .expect("any 32 bytes are an X25519 private key");
        let public = key
            .compute_public_key()
            .expect("every X25519 private key has a public key");
        self.private.copy_from_slice(private);
        self.public.copy_from_slice(public.as_ref());
        self.key = Some(key);
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        let mut private = Zeroizing::new([0; KEY_LEN]);
        rng.try_fill_bytes(&mut *private)?;
        self.set(&*private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &*self.private
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let key = self.key.as_ref().ok_or(snow::Error::Dh)?;
        let public = public.get(..KEY_LEN).ok_or(snow::Error::Dh)?;
        let out = out.get_mut(..KEY_LEN).ok_or(snow::Error::Dh)?;
        agreement::agree(
            key,
            UnparsedPublicKey::new(&X25519, public),
            snow::Error::Dh,
            |shared| {
                out.copy_from_slice(shared);
                Ok(())
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_order_points_are_refused() {
        let mut pair = KeyPair::default();
        pair.set(&[9; 32]);
        let mut out = [0; 32];
        assert_eq!(pair.dh(&[0; 32], &mut out), Err(snow::Error::Dh));
        let mut one = [0; 32];
        one[0] = 1;
        assert_eq!(pair.dh(&one, &mut out), Err(snow::Error::Dh));
    }

    #[test]
    fn the_curve_agrees_with_snows_own() {
        let mut theirs = DefaultResolver.resolve_dh(&DHChoice::Curve25519).unwrap();
        for i in 0..20_u8 {
            let (private, peer) = ([i; 32], public_key(&[i ^ 0x55; 32]));
            let mut ours = KeyPair::default();
            ours.set(&private);
            theirs.set(&private);
            assert_eq!(ours.pubkey(), theirs.pubkey());
            let (mut a, mut b) = ([0; 32], [0; 32]);
            ours.dh(&peer, &mut a).unwrap();
            theirs.dh(&peer, &mut b).unwrap();
            assert_eq!(a, b);
        }
    }
}

//! A relay's keys: its identity, and the secrets behind its proofs, consents and grants.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use data_encoding::HEXLOWER;
use manyway_wire::relay::{
    Consent, ForwardHeader, GRANT_LIFE, Grant, Mac, Proof, RateClass, RelayId, Voucher,
    VoucherTerms,
};
use rand::CryptoRng;
use siphasher::sip::SipHasher24;
use zeroize::Zeroizing;

const SECRET_LEN: usize = 32;

/// All secrets of a relay. Zeroed when dropped; `Debug` shows the relay's id only.
pub struct Keys {
    seed: Zeroizing<[u8; SECRET_LEN]>,
    id: RelayId,
    // The newest first. The older one stays until its last grant has expired.
    codes: Vec<CodeKey>,
}

/// The contents of a grant, and the source that may use it.
#[derive(Copy, Clone, Debug)]
pub struct GrantTerms {
    /// The source of its packets.
    pub source: SocketAddr,
    /// Their destination.
    pub destination: SocketAddr,
    /// The rate class.
    pub class: RateClass,
    /// The account's tag.
    pub tag: [u8; 8],
    /// When it ends: Unix time in seconds.
    pub expires: u32,
}

/// Why stored keys can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// The file isn't a relay's, or has another version.
    #[error("this isn't a relay's key file: its first line isn't \"{HEADER}\"")]
    Header,
    /// A line has the wrong form. The error doesn't show the line, which may be secret.
    #[error(
        "line {line} is damaged: restore the file from a copy, or remove it to start with a new \
         identity"
    )]
    Line {
        /// Its number, from 1.
        line: usize,
    },
    /// The file has too few or too many lines.
    #[error("it should have 3 or 4 lines, and has {found}: restore it from a copy")]
    Count {
        /// The number of its lines.
        found: usize,
    },
}

const HEADER: &str = "manyway relay keys 1";

impl Keys {
    /// New keys. The same generator state gives the same keys.
    pub fn generate(now: Duration, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut seed = Zeroizing::new([0; SECRET_LEN]);
        rng.fill_bytes(&mut *seed);
        // Not always 0: after a key file is lost, old grants should name a key that doesn't exist.
        let mut first = [0];
        rng.fill_bytes(&mut first);
        let id = public_key(&seed);
        let codes = vec![CodeKey::generate(first[0], now, rng)];
        Self { seed, id, codes }
    }

    /// The relay's id: its Ed25519 public key.
    pub fn id(&self) -> RelayId {
        self.id
    }

    /// When the newest key was made: Unix time.
    pub(crate) fn newest(&self) -> Duration {
        Duration::from_secs(self.codes[0].created.into())
    }

    /// Puts a new key in front and forgets all but the previous one. Does nothing before every
    /// grant of the forgotten key has expired. Returns whether it made a key.
    pub fn rotate(&mut self, now: Duration, rng: &mut (impl CryptoRng + ?Sized)) -> bool {
        if now < self.newest() + GRANT_LIFE {
            return false;
        }
        let id = self.codes[0].id.wrapping_add(1);
        self.codes.insert(0, CodeKey::generate(id, now, rng));
        self.codes.truncate(2);
        true
    }

    /// The keys as text for a file, one key a line.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(512));
        text.push_str(HEADER);
        text.push_str("\nidentity ");
        HEXLOWER.encode_append(&*self.seed, &mut text);
        text.push('\n');
        for key in &self.codes {
            text.push_str(&format!("codes {} {} ", key.id, key.created));
            HEXLOWER.encode_append(&*key.secret, &mut text);
            text.push('\n');
        }
        text
    }

    /// Reads what [`Keys::to_text`] wrote.
    ///
    /// # Errors
    /// The text is something else. The error names the line and never shows its contents.
    pub fn from_text(text: &str) -> Result<Self, KeysError> {
        let lines: Vec<&str> = text.lines().take(5).collect();
        if lines.first() != Some(&HEADER) {
            return Err(KeysError::Header);
        }
        if !(3..=4).contains(&lines.len()) {
            return Err(KeysError::Count { found: lines.len() });
        }
        let seed = lines[1]
            .strip_prefix("identity ")
            .and_then(secret)
            .ok_or(KeysError::Line { line: 2 })?;
        let codes = (2..lines.len())
            .map(|at| CodeKey::from_line(lines[at]).ok_or(KeysError::Line { line: at + 1 }))
            .collect::<Result<Vec<_>, _>>()?;
        let id = public_key(&seed);
        Ok(Self { seed, id, codes })
    }

    /// The relay's signature, which proves that it is this relay.
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        sign(&self.seed, bytes)
    }

    /// A voucher by the relay itself. The relay trusts it.
    pub fn vouch(
        &self,
        account: [u8; 8],
        class: RateClass,
        expires: u32,
        client: RelayId,
    ) -> Voucher {
        VoucherTerms {
            relay: self.id,
            signer: self.id,
            account,
            class,
            expires,
            client,
        }
        .seal(|bytes| sign(&self.seed, bytes))
    }

    /// A grant as a relay with these keys mints it, but without anybody's consent: for measurements
    /// and tests of what uses grants.
    pub fn grant(&self, terms: &GrantTerms) -> Grant {
        let header = ForwardHeader {
            key: 0,
            class: terms.class,
            expires: terms.expires,
            tag: terms.tag,
            destination: terms.destination,
            check: [0; 4],
            mac: Mac([0; 8]),
        };
        self.current().seal(header, terms.source).into()
    }

    pub(crate) fn current(&self) -> &CodeKey {
        &self.codes[0]
    }

    pub(crate) fn by_id(&self, id: u8) -> Option<&CodeKey> {
        self.codes.iter().find(|key| key.id == id)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The Ed25519 public key of a seed.
pub fn public_key(seed: &[u8; 32]) -> RelayId {
    let mut id = RelayId([0; 32]);
    id.0.copy_from_slice(key_pair(seed).public_key().as_ref());
    id
}

/// The Ed25519 signature of `bytes` by a seed's key.
pub fn sign(seed: &[u8; 32], bytes: &[u8]) -> [u8; 64] {
    let mut signature = [0; 64];
    signature.copy_from_slice(key_pair(seed).sign(bytes).as_ref());
    signature
}

/// Whether `signature` is `key`'s over `bytes`.
pub fn verify(key: &RelayId, bytes: &[u8], signature: &[u8; 64]) -> bool {
    UnparsedPublicKey::new(&ED25519, &key.0)
        .verify(bytes, signature)
        .is_ok()
}

fn key_pair(seed: &[u8; 32]) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(seed).expect("any 32 bytes are a seed")
}

fn secret(hex: &str) -> Option<Zeroizing<[u8; SECRET_LEN]>> {
    let bytes = Zeroizing::new(HEXLOWER.decode(hex.as_bytes()).ok()?);
    Some(Zeroizing::new(bytes.as_slice().try_into().ok()?))
}

/// A key for consents and grants.
///
/// The codes are SipHash-2-4 (Aumasson, Bernstein 2012) under separate keys. It is a pseudorandom
/// function with a key of 128 bits and a result of 64, which DNS servers use for the same purpose
/// (RFC 9018).
pub(crate) struct CodeKey {
    pub(crate) id: u8,
    created: u32,
    secret: Zeroizing<[u8; SECRET_LEN]>,
    consent: SipHasher24,
    proof: SipHasher24,
    grant: SipHasher24,
    check: SipHasher24,
}

impl CodeKey {
    fn generate(id: u8, now: Duration, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        rng.fill_bytes(&mut *secret);
        Self::new(id, now.as_secs() as u32, secret)
    }

    fn new(id: u8, created: u32, secret: Zeroizing<[u8; SECRET_LEN]>) -> Self {
        let root = Salt::none(HKDF_SHA256).extract(&*secret);
        let derive = |purpose: &[u8]| {
            let mut key = Zeroizing::new([0; 16]);
            root.expand(&[purpose], SipKey)
                .and_then(|okm| okm.fill(&mut *key))
                .expect("HKDF gives up to 8160 bytes");
            SipHasher24::new_with_key(&key)
        };
        Self {
            consent: derive(b"manyway relay consent"),
            proof: derive(b"manyway relay proof"),
            grant: derive(b"manyway relay grant"),
            check: derive(b"manyway relay check"),
            id,
            created,
            secret,
        }
    }

    fn from_line(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        if words.next() != Some("codes") {
            return None;
        }
        let id = words.next()?.parse().ok()?;
        let created = words.next()?.parse().ok()?;
        let secret = secret(words.next()?)?;
        words
            .next()
            .is_none()
            .then(|| Self::new(id, created, secret))
    }

    /// A consent over `address`, issued at `issued`.
    pub(crate) fn consent(&self, issued: u32, address: SocketAddr) -> Consent {
        Consent {
            key: self.id,
            issued,
            address,
            mac: at_address(&self.consent, issued, address),
        }
    }

    /// A proof that its holder has received the consent at `address`.
    pub(crate) fn proof(&self, issued: u32, address: SocketAddr) -> Proof {
        Proof {
            key: self.id,
            issued,
            mac: at_address(&self.proof, issued, address),
        }
    }

    /// Whether this key made the proof for `address`, in constant time.
    pub(crate) fn made_proof(&self, proof: &Proof, address: SocketAddr) -> bool {
        let genuine = self.proof(proof.issued, address);
        verify_slices_are_equal(&genuine.mac.0, &proof.mac.0).is_ok()
    }

    /// Whether this key made the consent, in constant time.
    pub(crate) fn made_consent(&self, consent: &Consent) -> bool {
        let genuine = self.consent(consent.issued, consent.address);
        verify_slices_are_equal(&genuine.mac.0, &consent.mac.0).is_ok()
    }

    /// The header with both its codes, for packets from `source`.
    pub(crate) fn seal(&self, header: ForwardHeader, source: SocketAddr) -> ForwardHeader {
        let header = ForwardHeader {
            key: self.id,
            check: self.check(&header),
            ..header
        };
        ForwardHeader {
            mac: self.mac(&header, source),
            ..header
        }
    }

    /// Whether this key made the header for packets from `source`, in constant time.
    pub(crate) fn made(&self, header: &ForwardHeader, source: SocketAddr) -> bool {
        verify_slices_are_equal(&self.mac(header, source).0, &header.mac.0).is_ok()
    }

    /// Whether this key made the header for any source, in constant time. A guess is right with a
    /// probability of 2⁻³² and gains only a STALE.
    pub(crate) fn made_for_another(&self, header: &ForwardHeader) -> bool {
        verify_slices_are_equal(&self.check(header), &header.check).is_ok()
    }

    fn mac(&self, header: &ForwardHeader, source: SocketAddr) -> Mac {
        let mut message = Message::new(header.destination, source);
        message.put_header(header);
        message.put(&header.check);
        message.put_address(source);
        Mac(message.hash(&self.grant))
    }

    fn check(&self, header: &ForwardHeader) -> [u8; 4] {
        let mut message = Message::new(header.destination, header.destination);
        message.put_header(header);
        let [a, b, c, d, ..] = message.hash(&self.check);
        [a, b, c, d]
    }
}

fn at_address(key: &SipHasher24, issued: u32, address: SocketAddr) -> Mac {
    let mut message = Message::new(address, address);
    message.put(&issued.to_be_bytes());
    message.put_address(address);
    Mac(message.hash(key))
}

struct SipKey;

impl KeyType for SipKey {
    fn len(&self) -> usize {
        16
    }
}

/// The input of a code. Its first byte encodes the families of the addresses in it, and so its
/// layout.
struct Message {
    bytes: [u8; Self::MAX],
    len: usize,
}

impl Message {
    /// Families, header without codes, check, source.
    const MAX: usize = 1 + 31 + 4 + 18;

    fn new(one: SocketAddr, other: SocketAddr) -> Self {
        let mut bytes = [0; Self::MAX];
        bytes[0] = u8::from(one.is_ipv6()) << 1 | u8::from(other.is_ipv6());
        Self { bytes, len: 1 }
    }

    fn put(&mut self, field: &[u8]) {
        self.bytes[self.len..][..field.len()].copy_from_slice(field);
        self.len += field.len();
    }

    /// 6 or 18 bytes.
    fn put_address(&mut self, address: SocketAddr) {
        match address.ip() {
            IpAddr::V4(ip) => self.put(&ip.octets()),
            IpAddr::V6(ip) => self.put(&ip.octets()),
        }
        self.put(&address.port().to_be_bytes());
    }

    /// All of a header but its key and its codes: 19 or 31 bytes.
    fn put_header(&mut self, header: &ForwardHeader) {
        self.put(&[header.class.number()]);
        self.put(&header.expires.to_be_bytes());
        self.put(&header.tag);
        self.put_address(header.destination);
    }

    fn hash(&self, key: &SipHasher24) -> [u8; 8] {
        key.hash(&self.bytes[..self.len]).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn keys(seed: u64) -> Keys {
        Keys::generate(NOW, &mut ChaCha20Rng::seed_from_u64(seed))
    }

    #[test]
    fn a_relay_signs_as_itself() {
        let keys = keys(1);
        let signature = keys.sign(b"statement");
        assert!(verify(&keys.id(), b"statement", &signature));
        assert!(!verify(&keys.id(), b"another", &signature));
    }

    #[test]
    fn keys_survive_storage() {
        let mut keys = keys(1);
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        for _ in 0..2 {
            let again = Keys::from_text(&keys.to_text()).unwrap();
            assert_eq!(again.to_text(), keys.to_text());
            assert_eq!(again.id(), keys.id());
            let consent = keys.current().consent(5, "192.0.2.1:1".parse().unwrap());
            assert!(again.by_id(consent.key).unwrap().made_consent(&consent));
            keys.rotate(NOW + GRANT_LIFE, &mut rng);
        }
    }

    #[test]
    fn damaged_files_are_named_by_line_without_their_content() {
        let text = keys(1).to_text();
        let error = |text: &str| Keys::from_text(text).unwrap_err();
        assert_eq!(error(""), KeysError::Header);
        assert_eq!(error("ssh-ed25519 AAAA"), KeysError::Header);
        assert_eq!(error(HEADER), KeysError::Count { found: 1 });
        assert_eq!(
            error(&format!("{}x\nx\n", *text)),
            KeysError::Count { found: 5 }
        );
        for (line, old, new) in [(2, "identity ", "identity g"), (3, "codes ", "codes 999")] {
            let error = error(&text.replace(old, new));
            assert_eq!(error, KeysError::Line { line });
            assert!(error.to_string().len() < 120);
        }
    }

    #[test]
    fn two_keys_live_and_the_older_one_until_its_grants_are_over() {
        let mut keys = keys(1);
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let first = keys.current().id;
        assert!(!keys.rotate(NOW + GRANT_LIFE - Duration::from_secs(1), &mut rng));
        assert!(keys.rotate(NOW + GRANT_LIFE, &mut rng));
        assert_eq!(keys.current().id, first.wrapping_add(1));
        assert!(keys.by_id(first).is_some());
        assert!(!keys.rotate(NOW + GRANT_LIFE + Duration::from_secs(1), &mut rng));
        assert!(keys.rotate(NOW + 2 * GRANT_LIFE, &mut rng));
        assert!(keys.by_id(first).is_none());
    }

    #[test]
    fn codes_cover_every_field() {
        let keys = keys(1);
        let key = keys.current();
        let (a, b) = (
            "192.0.2.1:1".parse().unwrap(),
            "192.0.2.1:2".parse().unwrap(),
        );
        let consent = key.consent(9, a);
        assert!(key.made_consent(&consent));
        for wrong in [
            Consent {
                issued: 8,
                ..consent
            },
            Consent {
                address: b,
                ..consent
            },
            Consent {
                mac: Mac([0; 8]),
                ..consent
            },
        ] {
            assert!(!key.made_consent(&wrong));
        }
        let proof = key.proof(9, a);
        assert!(key.made_proof(&proof, a) && !key.made_proof(&proof, b));
        assert!(!key.made_proof(&Proof { issued: 8, ..proof }, a));
        assert_ne!(proof.mac, consent.mac, "who gets a consent has no proof");
        let blank = ForwardHeader {
            key: 0,
            class: RateClass::MAX,
            expires: 1,
            tag: [1; 8],
            destination: a,
            check: [0; 4],
            mac: Mac([0; 8]),
        };
        let sealed = key.seal(blank, b);
        assert!(key.made(&sealed, b) && key.made_for_another(&sealed));
        assert!(!key.made(&sealed, a));
        for wrong in [
            ForwardHeader {
                class: RateClass::default(),
                ..sealed
            },
            ForwardHeader {
                expires: 2,
                ..sealed
            },
            ForwardHeader {
                tag: [2; 8],
                ..sealed
            },
            ForwardHeader {
                destination: b,
                ..sealed
            },
        ] {
            assert!(!key.made(&wrong, b) && !key.made_for_another(&wrong));
        }
        let others = super::tests::keys(2);
        assert!(!others.current().made(&sealed, b));
    }

    #[test]
    fn debug_shows_no_secret() {
        let keys = keys(1);
        let text = format!("{keys:?}");
        assert_eq!(text, format!("Keys {{ id: {}, .. }}", keys.id()));
    }
}

//! Lets two peers behind NAT find each other: each leaves its addresses, as registry and relays
//! observe them, sealed under the ticket's secret; each then sends to the other's addresses, which
//! opens both NATs (simultaneous open).

use std::time::Duration;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use hyper::Method;
use manyway_wire::Ticket;
use rand::CryptoRng;

use super::{Client, ClientError, post};
use crate::api::{self, Call, Callers, Listen, Listener, MAX_SEALED, MAX_WAIT_S};
use crate::hkdf::Len32;

/// The most bytes that a peer can leave.
pub const MAX_LEFT: usize = MAX_SEALED / 4 * 3 - NONCE_LEN - 16;

/// A meeting place that holders of a ticket can find. The registry learns neither the ticket nor
/// what they leave there.
pub struct Meeting {
    name: String,
    owner: [u8; 16],
    listener: LessSafeKey,
    caller: LessSafeKey,
}

/// Why a meeting failed.
#[derive(Debug, thiserror::Error)]
pub enum MeetingError {
    /// The registry's answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The text is too long.
    #[error("a peer can leave at most {MAX_LEFT} bytes")]
    TooLong,
    /// The registry has changed the text, or somebody without the ticket has left it.
    #[error("what was left isn't the listener's: don't trust this registry")]
    Forged,
}

impl Meeting {
    /// The meeting place of this ticket. Only a listener needs a random `rng`: the first one there
    /// owns the place.
    pub fn new(ticket: &Ticket, rng: &mut (impl CryptoRng + ?Sized)) -> Self {
        let root = Salt::new(HKDF_SHA256, &ticket.id).extract(&ticket.secret);
        let derive = |purpose: &[u8]| {
            let mut key = [0; 32];
            let info = [purpose];
            let okm = root.expand(&info, Len32).and_then(|okm| okm.fill(&mut key));
            okm.expect("HKDF gives up to 8160 bytes");
            key
        };
        let key = |purpose: &[u8]| {
            let key = UnboundKey::new(&CHACHA20_POLY1305, &derive(purpose));
            LessSafeKey::new(key.expect("32 bytes are a key"))
        };
        let mut owner = [0; 16];
        rng.fill_bytes(&mut owner);
        Self {
            name: api::encode(&derive(b"manyway rendezvous name")[..16]),
            owner,
            listener: key(b"manyway rendezvous listener"),
            caller: key(b"manyway rendezvous caller"),
        }
    }

    /// As the listener: leaves `here` (addresses, consents) and waits up to `wait` for callers. Ask
    /// again at once, and at least twice a minute. Returns only texts that ticket holders have
    /// sealed.
    ///
    /// # Errors
    /// [`MeetingError`].
    pub async fn listen(
        &self,
        client: &mut Client,
        here: &[u8],
        wait: Duration,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Vec<Vec<u8>>, MeetingError> {
        let wait_s = (wait.as_secs() as u32).min(MAX_WAIT_S);
        let body = Listen {
            owner: api::encode(&self.owner),
            sealed: seal(&self.listener, here, rng)?,
            wait_s,
        };
        let path = format!("/v1/meetings/{}", self.name);
        let wait = super::WAIT + Duration::from_secs(wait_s.into());
        let callers: Callers = client
            .with_credential(&path, Method::PUT, &body, wait)
            .await?;
        let open = callers
            .callers
            .iter()
            .take(16)
            .filter_map(|sealed| open(&self.caller, sealed));
        Ok(open.collect())
    }

    /// As a caller: leaves `here` and returns what the listener has left.
    ///
    /// # Errors
    /// [`MeetingError`]; `nobody_listens` is [`ClientError::Refused`].
    pub async fn call(
        &self,
        client: &mut Client,
        here: &[u8],
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Vec<u8>, MeetingError> {
        let body = Call {
            sealed: seal(&self.caller, here, rng)?,
        };
        let path = format!("/v1/meetings/{}/callers", self.name);
        let listener: Listener = client.registries.ask(post(&path, "", &body)).await?;
        open(&self.listener, &listener.sealed).ok_or(MeetingError::Forged)
    }
}

impl std::fmt::Debug for Meeting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meeting(..)")
    }
}

fn seal(
    key: &LessSafeKey,
    text: &[u8],
    rng: &mut (impl CryptoRng + ?Sized),
) -> Result<String, MeetingError> {
    if text.len() > MAX_LEFT {
        return Err(MeetingError::TooLong);
    }
    // Random: a ticket seals a few thousand texts at most, far from the 2³² at which nonces might
    // repeat.
    let mut nonce = [0; NONCE_LEN];
    rng.fill_bytes(&mut nonce);
    let mut sealed = text.to_vec();
    key.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::empty(),
        &mut sealed,
    )
    .expect("so little can be sealed");
    Ok(api::encode(&[&nonce[..], &sealed].concat()))
}

fn open(key: &LessSafeKey, sealed: &str) -> Option<Vec<u8>> {
    if sealed.len() > MAX_SEALED {
        return None;
    }
    let bytes = data_encoding::BASE64URL_NOPAD
        .decode(sealed.as_bytes())
        .ok()?;
    let (nonce, text) = bytes.split_first_chunk::<NONCE_LEN>()?;
    let mut text = text.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let len = key
        .open_in_place(nonce, Aad::empty(), &mut text)
        .ok()?
        .len();
    text.truncate(len);
    Some(text)
}

//! One-time codes at a registry: [`Hosted`] for who makes one, [`redeem`] for who types it.

use std::time::Duration;

use hyper::Method;
use manyway_wire::Ticket;
use rand::CryptoRng;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use zeroize::Zeroizing;

use super::{Client, ClientError, Registries, WAIT, post};
use crate::api::{
    self, Answer, AnswerOffer, MAX_WAIT_S, Offer, OpenMailbox, OpenedMailbox, SendParcel,
    TakeOffer, WatchMailbox,
};
use crate::code::{Code, Words};
use crate::http::Ask;
use crate::pairing::{Guest, Host, MAX_CONTENT, Patience};
use crate::{RegistryUrl, Token};

/// How long an end goes on while the registry doesn't answer. The registry gives a silent host's
/// mailbox up after the same time.
const AWAY: Duration = Duration::from_secs(60);
/// The same for a guest's first request: its user may have named the wrong registry.
const AWAY_AT_FIRST: Duration = PAUSE;
/// Before a request is sent again, to a registry that doesn't answer or has no time to wait.
const PAUSE: Duration = Duration::from_secs(2);
/// How long a guest waits for the parcel: a little longer than the registry gives the host.
const PARCEL: Duration = Duration::from_secs(40);

/// Why a code didn't lead to its parcel.
#[derive(Debug, thiserror::Error)]
pub enum PairingError {
    /// The registry's answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The registry's release is older than codes.
    #[error(
        "this registry has no one-time codes: its release is too old; its operator has to update \
         it, or both sides use a ticket"
    )]
    NoMailboxes,
    /// The guest had other words.
    #[error(
        "somebody tried your code with wrong words, so it is no longer valid: make a new one, and \
         check that it is typed as it is shown"
    )]
    WrongWords,
    /// Nobody used the code in time.
    #[error("nobody used the code in time: make a new one")]
    Expired,
    /// The registry doesn't know the host's mailbox any more.
    #[error("the registry has forgotten the code, perhaps in a restart: make a new one")]
    Forgotten,
    /// The parcel is too long.
    #[error(
        "the ticket is longer than the {MAX_CONTENT} bytes that a code can pass on: name fewer \
         relays with --via"
    )]
    TooLong,
    /// What came isn't the host's.
    #[error("what the registry passed on isn't from whoever made the code: don't trust it")]
    Forged,
    /// The host's parcel isn't understood.
    #[error("can't understand what came with the code: do both sides run the same release?")]
    Unreadable,
    /// The host doesn't reply.
    #[error("whoever made this code isn't waiting any more: make a new one")]
    NoReply,
}

impl PairingError {
    /// Whether the code is no good: wrong, used, or over.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Client(error) => {
                error.is_refusal() || error.code().is_some_and(|code| code.contains("code"))
            }
            Self::WrongWords | Self::Expired | Self::Forgotten | Self::Forged | Self::NoReply => {
                true
            }
            Self::NoMailboxes | Self::TooLong | Self::Unreadable => false,
        }
    }

    /// Whether no registry answered.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Client(error) if error.is_outage())
    }

    /// That of a refused request for a mailbox.
    fn of(error: ClientError) -> Self {
        match &error {
            // The path isn't there, or the method.
            ClientError::Refused {
                status: 404 | 405,
                code,
                ..
            } if code != "no_code" => Self::NoMailboxes,
            _ => Self::Client(error),
        }
    }
}

/// A code that waits for its guest.
pub struct Hosted {
    registries: Registries,
    number: u32,
    words: Words,
    owner: String,
    host: Host,
    content: Zeroizing<Vec<u8>>,
    life: Duration,
    since: Instant,
}

impl Hosted {
    /// Makes a code with random words for this ticket, and opens its mailbox at the first of the
    /// registries: each has mailboxes of its own.
    ///
    /// # Errors
    /// [`PairingError`].
    pub async fn open(
        urls: &[RegistryUrl],
        token: Token,
        ticket: &Ticket,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Self, PairingError> {
        let mut client = Client::new(first(urls), token, rng)?;
        let content = Zeroizing::new(ticket.to_string().into_bytes());
        if content.len() > MAX_CONTENT {
            return Err(PairingError::TooLong);
        }
        let words = Words::random(rng);
        let (host, offer) = Host::new(&words, rng);
        let owner = secret(rng);
        let body = OpenMailbox {
            owner: owner.clone(),
            offer: api::encode(&offer),
        };
        let opened = client.with_credential("/v1/mailboxes", Method::POST, &body, WAIT);
        let opened: OpenedMailbox = opened.await.map_err(PairingError::of)?;
        Ok(Self {
            registries: client.registries,
            number: opened.number,
            words,
            owner,
            host,
            content,
            life: Duration::from_secs(opened.life_s.into()),
            since: Instant::now(),
        })
    }

    /// The code, for the other user.
    pub fn code(&self) -> Code {
        Code {
            number: self.number,
            words: self.words.clone(),
        }
    }

    /// How long the code waits for its guest.
    pub fn life(&self) -> Duration {
        self.life
    }

    /// Waits for a guest and passes the parcel on to it if it has the right words. A code allows
    /// one try. If `over` comes before a guest, the code is withdrawn, and that is the result.
    ///
    /// # Errors
    /// [`PairingError`]: the code is over.
    pub async fn serve<T>(
        mut self,
        over: impl Future<Output = T>,
    ) -> Result<Option<T>, PairingError> {
        let answer = tokio::select! {
            answer = self.answer() => answer?,
            over = over => {
                self.withdraw().await;
                return Ok(Some(over));
            }
        };
        let sealed = self.host.seal(self.number, &answer, &self.content);
        let reply = SendParcel {
            owner: self.owner,
            parcel: sealed.as_ref().ok().map(|sealed| api::encode(sealed)),
        };
        let path = format!("/v1/mailboxes/{}/parcel", self.number);
        let told: Result<(), _> = ask_long(&mut self.registries, &path, &reply, AWAY).await;
        match sealed {
            Ok(_) => told.map(|()| None).map_err(at_host),
            // Whether the guest was told or not.
            Err(_) => Err(PairingError::WrongWords),
        }
    }

    /// Says that nobody waits any more, if the registry hears it at once: it will see it by itself.
    async fn withdraw(mut self) {
        let path = format!("/v1/mailboxes/{}/parcel", self.number);
        let nothing = SendParcel {
            owner: self.owner,
            parcel: None,
        };
        let told = ask_long::<()>(&mut self.registries, &path, &nothing, Duration::ZERO);
        timeout(PAUSE, told).await.ok();
    }

    /// A guest's answer, for as long as the code is valid: the registry's clock isn't trusted.
    async fn answer(&mut self) -> Result<Vec<u8>, PairingError> {
        let path = format!("/v1/mailboxes/{}/host", self.number);
        loop {
            let asked = Instant::now();
            // The registry's own word that it has expired comes first.
            if asked > self.since + self.life + AWAY {
                return Err(PairingError::Expired);
            }
            // The registry says that a code has expired at the request's end, and not before.
            let left = (self.since + self.life).saturating_duration_since(asked);
            let left = u32::try_from(left.as_secs() + 1).unwrap_or(u32::MAX);
            let watch = WatchMailbox {
                owner: self.owner.clone(),
                wait_s: left.min(MAX_WAIT_S),
            };
            let heard = ask_long(&mut self.registries, &path, &watch, AWAY).await;
            let heard: Answer = heard.map_err(at_host)?;
            match heard.answer {
                Some(answer) => return Ok(decode(&answer)),
                None => sleep_until(asked + PAUSE).await,
            }
        }
    }
}

/// Uses a code: returns the host's ticket. It needs no token, and asks the first of these
/// registries only, as [`Hosted::open`] does.
///
/// # Errors
/// [`PairingError`].
pub async fn redeem(
    urls: &[RegistryUrl],
    code: &Code,
    rng: &mut (impl CryptoRng + ?Sized),
) -> Result<Ticket, PairingError> {
    let mut registries = Registries::new(first(urls))?;
    let guest = secret(rng);
    let take = TakeOffer {
        guest: guest.clone(),
    };
    let path = format!("/v1/mailboxes/{}/guest", code.number);
    let taken = ask_long(&mut registries, &path, &take, AWAY_AT_FIRST).await;
    let taken: Offer = taken.map_err(PairingError::of)?;
    let pairing = Guest::new(code, &decode(&taken.offer), rng);
    let (pairing, answer) = pairing.map_err(|_| PairingError::Forged)?;
    let answer = AnswerOffer {
        guest,
        answer: api::encode(&answer),
        wait_s: MAX_WAIT_S,
    };
    let path = format!("/v1/mailboxes/{}/answer", code.number);
    let end = Instant::now() + PARCEL;
    let sealed = loop {
        let asked = Instant::now();
        let heard: api::Parcel = ask_long(&mut registries, &path, &answer, AWAY).await?;
        match heard.parcel {
            Some(parcel) => break decode(&parcel),
            None if Instant::now() > end => return Err(PairingError::NoReply),
            None => sleep_until(asked + PAUSE).await,
        }
    };
    let content = pairing.open(&sealed).map(Zeroizing::new);
    let content = content.map_err(|_| PairingError::Forged)?;
    let text = std::str::from_utf8(&content).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or(PairingError::Unreadable)
}

fn first(urls: &[RegistryUrl]) -> &[RegistryUrl] {
    &urls[..urls.len().min(1)]
}

/// A host that the registry doesn't know hasn't mistyped its number.
fn at_host(error: ClientError) -> PairingError {
    match error.code() {
        Some("no_code") => PairingError::Forgotten,
        _ => PairingError::of(error),
    }
}

/// Asks until there is an answer, through an outage of at most `away`.
async fn ask_long<T: serde::de::DeserializeOwned>(
    registries: &mut Registries,
    path: &str,
    body: &impl serde::Serialize,
    away: Duration,
) -> Result<T, ClientError> {
    let (mut patience, since) = (Patience::new(away), Instant::now());
    loop {
        let ask = Ask {
            wait: WAIT + Duration::from_secs(MAX_WAIT_S.into()),
            ..post(path, "", body)
        };
        match registries.ask(ask).await {
            Err(error) if is_passing(&error) && patience.bears(since.elapsed()) => {
                sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

/// Whether the same request may succeed a little later.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } => true,
        ClientError::Refused { status, .. } => matches!(status, 408 | 429 | 500..),
        _ => false,
    }
}

fn secret(rng: &mut (impl CryptoRng + ?Sized)) -> String {
    let mut secret = [0; 16];
    rng.fill_bytes(&mut secret);
    api::encode(&secret)
}

/// What isn't base64url is no message either.
fn decode(text: &str) -> Vec<u8> {
    data_encoding::BASE64URL_NOPAD
        .decode(text.as_bytes())
        .unwrap_or_default()
}

impl std::fmt::Debug for Hosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosted")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

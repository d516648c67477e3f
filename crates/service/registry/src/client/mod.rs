//! Clients of a registry: for relays ([`Membership`]), for users of relays ([`Client`]), for peers
//! that want to meet ([`Meeting`]) and for one-time codes ([`Hosted`], [`redeem`]). Each takes the
//! URLs of all registries that serve one fleet of relays, and asks the next one if one doesn't
//! answer; only codes belong to the first.

mod meeting;
mod membership;
mod pairing;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::{Method, StatusCode};
use manyway_relay::keys::public_key;
use manyway_units::printable;
use manyway_wire::relay::{Access, MAX_RELAY_ADDRESSES, RelayId, RelayTicket, Voucher};
use manyway_wire::{LentRegistry, MAX_CREDENTIAL_LEN};
use rand::CryptoRng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::api::{
    self, About, AskVouchers, ClientEnrolled, EnrolClient, MAX_ANSWER, VouchedRelay, Vouchers,
};
use crate::http::{Ask, Endpoint, HttpError, Link};
use crate::{RegistryUrl, Token, tls};

pub use meeting::{MAX_LEFT, Meeting, MeetingError};
pub use membership::{Membership, RelayDescriptor};
pub use pairing::{Hosted, PairingError, redeem};

/// The time limit for one answer.
const WAIT: Duration = Duration::from_secs(10);

/// Why a client got no useful answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no URL.
    #[error("name at least one registry: --registry https://HOST:PORT#KEY")]
    NoRegistry,
    /// TLS can't be used.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// No registry answers.
    #[error("no registry answers: {host}: {error}")]
    Unreachable {
        /// The registry asked last.
        host: String,
        /// Its error.
        #[source]
        error: HttpError,
    },
    /// The registry refuses.
    #[error("the registry says: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// For programs.
        code: String,
        /// For people; printable.
        message: String,
    },
    /// There is no token to enrol with.
    #[error(
        "the registry no longer accepts the access that came with the ticket or the code: ask for \
         a new one, or name your own token with --token-file"
    )]
    NoToken,
    /// The answer makes no sense.
    #[error("can't understand the registry's answer ({0}): does it run the same release?")]
    Answer(&'static str),
}

impl ClientError {
    fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Whether a registry refuses access, and will do so again.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                status: 401 | 403,
                ..
            }
        )
    }

    /// Whether no registry answered.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

/// Registries of one fleet, the one that answered last first.
pub(crate) struct Registries {
    endpoints: Vec<Endpoint>,
    pins: Vec<Option<RelayId>>,
    current: usize,
    link: Option<(usize, Link)>,
}

impl Registries {
    pub(crate) fn new(urls: &[RegistryUrl]) -> Result<Self, ClientError> {
        if urls.is_empty() {
            return Err(ClientError::NoRegistry);
        }
        let endpoints = urls.iter().map(|url| {
            let tls = match url.pin {
                Some(pin) => tls::pinned_client(pin)?,
                None => tls::system_client()?,
            };
            Ok(Endpoint {
                host: url.host.clone(),
                port: url.port,
                tls: Some(tls),
            })
        });
        Ok(Self {
            endpoints: endpoints.collect::<Result<_, ClientError>>()?,
            pins: urls.iter().map(|url| url.pin).collect(),
            current: 0,
            link: None,
        })
    }

    /// Asks one registry after the other until one answers. A server error, or an unknown path,
    /// doesn't count as an answer.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &mut self,
        ask: Ask<'_>,
    ) -> Result<T, ClientError> {
        let count = self.endpoints.len();
        let start = self.current;
        let mut last = ClientError::NoRegistry;
        for turn in 0..count {
            let at = (start + turn) % count;
            match self.ask_one(at, ask.clone()).await {
                Err(
                    error @ (ClientError::Unreachable { .. }
                    | ClientError::Refused {
                        status: 404 | 500..,
                        ..
                    }),
                ) => {
                    tracing::debug!(%error, "asking the next registry");
                    last = error;
                }
                done => {
                    self.current = at;
                    return done;
                }
            }
        }
        Err(last)
    }

    async fn ask_one<T: DeserializeOwned>(
        &mut self,
        at: usize,
        ask: Ask<'_>,
    ) -> Result<T, ClientError> {
        let host = self.endpoints[at].host.clone();
        let unreachable = |error| ClientError::Unreachable { host, error };
        let kept = self
            .link
            .take()
            .filter(|(whose, link)| *whose == at && link.is_open());
        let answer = match kept {
            // The server may just have closed it. All requests can be repeated.
            Some((_, mut link)) => match link.ask(ask.clone()).await {
                Ok(answer) => Ok((answer, link)),
                Err(_) => self.ask_anew(at, ask).await,
            },
            None => self.ask_anew(at, ask).await,
        };
        let (answer, link) = answer.map_err(unreachable)?;
        if link.is_open() {
            self.link = Some((at, link));
        }
        match answer.status {
            StatusCode::NO_CONTENT => read(b"null"),
            status if status.is_success() => read(&answer.body),
            status => Err(refused(status, &answer.body)),
        }
    }

    async fn ask_anew(
        &self,
        at: usize,
        ask: Ask<'_>,
    ) -> Result<(crate::http::Answer, Link), HttpError> {
        let mut link = self.endpoints[at].open().await?;
        Ok((link.ask(ask).await?, link))
    }

    fn urls(&self) -> impl Iterator<Item = RegistryUrl> {
        let with_pins = self.endpoints.iter().zip(&self.pins);
        with_pins.map(|(endpoint, pin)| RegistryUrl {
            host: endpoint.host.clone(),
            port: endpoint.port,
            pin: *pin,
        })
    }

    /// Closes the connection, because no request will follow for a while.
    pub(crate) fn rest(&mut self) {
        self.link = None;
    }

    /// Sends the next request to another registry first.
    pub(crate) fn turn(&mut self) {
        self.current = (self.current + 1) % self.endpoints.len();
    }

    /// The registries' key: pinned, or as they state it over TLS.
    pub(crate) async fn id(&mut self) -> Result<RelayId, ClientError> {
        if let Some(pin) = self.pins[self.current] {
            return Ok(pin);
        }
        let about: About = self.ask(get("/v1/registry")).await?;
        about
            .registry
            .parse()
            .map_err(|_| ClientError::Answer("registry"))
    }
}

pub(crate) fn get(path: &str) -> Ask<'_> {
    Ask {
        method: Method::GET,
        path,
        bearer: None,
        body: Vec::new(),
        limit: MAX_ANSWER,
        wait: WAIT,
    }
}

pub(crate) fn post<'a>(path: &'a str, bearer: &'a str, body: &impl Serialize) -> Ask<'a> {
    Ask {
        method: Method::POST,
        bearer: Some(bearer),
        body: serde_json::to_vec(body).expect("our types are JSON"),
        ..get(path)
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(body).map_err(|_| ClientError::Answer("JSON"))
}

/// People see a registry's messages on their screens, so only printable characters pass, and not
/// too many.
fn refused(status: StatusCode, body: &[u8]) -> ClientError {
    let error = serde_json::from_slice::<api::ErrorBody>(body).map(|body| body.error);
    let (code, message) = match error {
        Ok(error) => (error.code, error.message),
        Err(_) => (String::new(), format!("HTTP status {status}")),
    };
    ClientError::Refused {
        status: status.as_u16(),
        code: printable(&code, 32),
        message: printable(&message, 400),
    }
}

/// The key that signs the registries' vouchers, which a relay has to trust.
///
/// # Errors
/// The URLs don't pin it, and no registry answers.
pub async fn registry_keys(urls: &[RegistryUrl]) -> Result<Vec<RelayId>, ClientError> {
    let mut keys: Vec<RelayId> = urls.iter().filter_map(|url| url.pin).collect();
    let open: Vec<RegistryUrl> = urls
        .iter()
        .filter(|url| url.pin.is_none())
        .cloned()
        .collect();
    if !open.is_empty() {
        keys.push(Registries::new(&open)?.id().await?);
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// A user of relays. It enrols by itself, and again when its credential has expired.
pub struct Client {
    registries: Registries,
    /// None if its access is lent.
    token: Option<Token>,
    seed: Zeroizing<[u8; 32]>,
    key: RelayId,
    credential: Option<Zeroizing<String>>,
}

impl Client {
    /// A client with a new key for the relays. The same generator state gives the same key.
    ///
    /// # Errors
    /// There is no URL, or TLS can't be used.
    pub fn new(
        urls: &[RegistryUrl],
        token: Token,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<Self, ClientError> {
        let mut seed = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *seed);
        Ok(Self {
            registries: Registries::new(urls)?,
            token: Some(token),
            key: public_key(&seed),
            seed,
            credential: None,
        })
    }

    /// A client with the access that somebody has lent, at these URLs.
    ///
    /// # Errors
    /// There is no URL, or TLS can't be used.
    pub fn borrowed(urls: &[RegistryUrl], lent: &LentRegistry) -> Result<Self, ClientError> {
        Ok(Self {
            registries: Registries::new(urls)?,
            token: None,
            key: public_key(&lent.seed),
            seed: Zeroizing::new(lent.seed),
            credential: Some(Zeroizing::new(lent.credential.clone())),
        })
    }

    /// Access for somebody else, for a day, in this token's account. The token stays here.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn lend(
        &mut self,
        rng: &mut (impl CryptoRng + ?Sized),
    ) -> Result<LentRegistry, ClientError> {
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let credential = self.enrol_key(public_key(&seed)).await?.to_string();
        // What a ticket can carry.
        let fits = (1..=MAX_CREDENTIAL_LEN).contains(&credential.len());
        if !fits || !credential.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ClientError::Answer("credential"));
        }
        let urls = self.registries.urls().map(|url| url.to_string()).collect();
        Ok(LentRegistry {
            urls,
            seed,
            credential,
        })
    }

    /// Enrols now rather than with the first request, so that a wrong token shows at once.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn enrol(&mut self) -> Result<(), ClientError> {
        // A lent credential is there already, until a registry refuses it.
        if self.token.is_some() || self.credential.is_none() {
            self.credential = Some(self.enrol_key(self.key).await?);
        }
        Ok(())
    }

    async fn enrol_key(&mut self, key: RelayId) -> Result<Zeroizing<String>, ClientError> {
        let token = self.token.as_ref().ok_or(ClientError::NoToken)?;
        let body = EnrolClient {
            client: key.to_string(),
        };
        let ask = post("/v1/clients", token.reveal(), &body);
        let enrolled: ClientEnrolled = self.registries.ask(ask).await?;
        Ok(Zeroizing::new(enrolled.credential))
    }

    /// Where a UDP socket can learn its public address: every registry that answers and offers
    /// that, with its key. They answer HELLO as relays do.
    pub async fn observers(&mut self) -> Vec<(SocketAddr, RelayId)> {
        let mut found = Vec::new();
        for at in 0..self.registries.endpoints.len() {
            let about: Result<About, _> = self.registries.ask_one(at, get("/v1/registry")).await;
            let Ok(about) = about.inspect_err(|error| tracing::debug!(%error, "no observer"))
            else {
                continue;
            };
            let (Some(port), Ok(id)) = (about.observe_port, about.registry.parse()) else {
                continue;
            };
            let host = self.registries.endpoints[at].host.clone();
            if let Ok(addresses) = tokio::net::lookup_host((host, port)).await {
                found.extend(addresses.take(2).map(|address| (address, id)));
            }
        }
        found
    }

    /// `count` relays at random, or all if there are fewer, with vouchers for two hours.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn subset(&mut self, count: u16) -> Result<Vec<RelayTicket>, ClientError> {
        self.subset_with(count, 0).await
    }

    /// As [`Client::subset`], with at least `tcp` relays that forward streams over TCP, or all of
    /// these if there are fewer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn subset_with(
        &mut self,
        count: u16,
        tcp: u16,
    ) -> Result<Vec<RelayTicket>, ClientError> {
        self.vouchers(&AskVouchers {
            relays: Vec::new(),
            more: Some(count),
            tcp: tcp.min(count),
        })
        .await
    }

    /// The same relays with new vouchers, without those that are gone. Once an hour is often
    /// enough.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn refresh(&mut self, relays: &[RelayId]) -> Result<Vec<RelayTicket>, ClientError> {
        self.vouchers(&AskVouchers {
            relays: relays.iter().map(ToString::to_string).collect(),
            more: Some(0),
            tcp: 0,
        })
        .await
    }

    async fn vouchers(&mut self, body: &AskVouchers) -> Result<Vec<RelayTicket>, ClientError> {
        let vouchers: Vouchers = self
            .with_credential("/v1/vouchers", Method::POST, body, WAIT)
            .await?;
        if vouchers.relays.len() > body.relays.len() + usize::from(body.more.unwrap_or(0)) {
            return Err(ClientError::Answer("too many relays"));
        }
        let tickets = vouchers.relays.iter().map(|relay| self.ticket(relay));
        tickets
            .collect::<Option<_>>()
            .ok_or(ClientError::Answer("a relay"))
    }

    /// Sends a request with a credential, after enrolling if there is none.
    pub(crate) async fn with_credential<T: DeserializeOwned>(
        &mut self,
        path: &str,
        method: Method,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<T, ClientError> {
        for fresh in [false, true] {
            if fresh || self.credential.is_none() {
                self.enrol().await?;
            }
            let credential = self.credential.clone().unwrap_or_default();
            let ask = Ask {
                method: method.clone(),
                wait,
                ..post(path, &credential, body)
            };
            match self.registries.ask(ask).await {
                // A token may still be good under another name.
                Err(error) if matches!(error.code(), Some("credential" | "revoked")) && !fresh => {
                    self.credential = None;
                }
                done => return done,
            }
        }
        Err(ClientError::Answer("credential"))
    }

    /// A voucher from a registry only helps to ask relays, but it has to name the right relay and
    /// key.
    fn ticket(&self, relay: &VouchedRelay) -> Option<RelayTicket> {
        let id: RelayId = relay.relay.parse().ok()?;
        let voucher: [u8; manyway_wire::relay::VOUCHER_LEN] = api::decode(&relay.voucher)?;
        let voucher = Voucher::decode(&voucher).ok()?;
        let right = voucher.terms.relay == id
            && voucher.terms.client == self.key
            && (1..=MAX_RELAY_ADDRESSES).contains(&relay.addresses.len());
        right.then(|| RelayTicket {
            relay: id,
            addresses: relay.addresses.clone(),
            tcp: relay.tcp,
            access: Some(Access {
                voucher,
                seed: *self.seed,
            }),
        })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use manyway_relay::Keys;
    use manyway_wire::relay::RateClass;
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;
    use crate::Role;

    fn client(seed: u64) -> Client {
        let url = "https://127.0.0.1:1#".to_owned() + &public_key(&[1; 32]).to_string();
        let token = Token::from_text("abcdefabcdefabcdefabcd", Role::Client).unwrap();
        Client::new(
            &[url.parse().unwrap()],
            token,
            &mut ChaCha20Rng::seed_from_u64(seed),
        )
        .unwrap()
    }

    /// A registry that mixes up its vouchers, or a stranger's, costs a request to a relay at most
    /// if it goes unnoticed; which relay failed would be told wrongly.
    #[test]
    fn a_voucher_is_for_this_client_at_this_relay() {
        let (us, them) = (client(1), client(2));
        let relay = |seed| {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            Keys::generate(Duration::from_secs(1_800_000_000), &mut rng)
        };
        let (near, far) = (relay(3), relay(4));
        let address: SocketAddr = "192.0.2.1:1".parse().unwrap();
        let vouched = |by: &Keys, client: &Client, named: &Keys, addresses: usize| VouchedRelay {
            relay: named.id().to_string(),
            addresses: vec![address; addresses],
            tcp: false,
            voucher: api::encode(
                &by.vouch([1; 8], RateClass::MAX, u32::MAX, client.key)
                    .to_bytes(),
            ),
        };
        let good = |relay: VouchedRelay| us.ticket(&relay).is_some();
        for addresses in 0..=MAX_RELAY_ADDRESSES + 1 {
            let bounds = 1..=MAX_RELAY_ADDRESSES;
            let found = good(vouched(&near, &us, &near, addresses));
            assert_eq!(found, bounds.contains(&addresses), "{addresses}");
        }
        assert!(!good(vouched(&near, &us, &far, 1)), "for another relay");
        assert!(!good(vouched(&near, &them, &near, 1)), "for another client");
        let ticket = us.ticket(&vouched(&near, &us, &near, 2)).unwrap();
        assert_eq!((ticket.relay, ticket.addresses.len()), (near.id(), 2));
    }
}

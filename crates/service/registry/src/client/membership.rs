use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use hyper::Method;
use manyway_units::Backoff;
use manyway_wire::relay::RelayId;
use tokio::time::{sleep, timeout};
use zeroize::Zeroizing;

use super::{ClientError, Registries, get, post};
use crate::api::{self, Challenge, EnrolRelay, Enrolled, Renewed};
use crate::http::Ask;
use crate::{RegistryUrl, Token};

/// The pause before a failed heartbeat is repeated, so that relays don't overload a registry that
/// comes back.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));

/// A relay's Ed25519 signature.
type Sign = Box<dyn Fn(&[u8]) -> [u8; 64] + Send + Sync>;

/// A relay that enrols.
pub struct RelayDescriptor {
    id: RelayId,
    addresses: Vec<SocketAddr>,
    tcp: bool,
    sign: Sign,
}

impl RelayDescriptor {
    /// The relay with this key at these addresses. `sign` makes its Ed25519 signatures.
    pub fn new(
        id: RelayId,
        addresses: Vec<SocketAddr>,
        sign: impl Fn(&[u8]) -> [u8; 64] + Send + Sync + 'static,
    ) -> Self {
        Self {
            id,
            addresses,
            tcp: false,
            sign: Box::new(sign),
        }
    }

    /// Whether it also forwards streams over TCP at these addresses; false by default.
    #[must_use]
    pub fn over_tcp(self, tcp: bool) -> Self {
        Self { tcp, ..self }
    }
}

impl fmt::Debug for RelayDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayDescriptor")
            .field("id", &self.id)
            .field("addresses", &self.addresses)
            .field("tcp", &self.tcp)
            .finish_non_exhaustive()
    }
}

/// A relay's membership in the fleet.
pub struct Membership {
    registries: Registries,
    token: Token,
    relay: RelayDescriptor,
    lease: Option<Zeroizing<String>>,
}

impl Membership {
    /// Not enrolled yet.
    ///
    /// # Errors
    /// There is no URL, or TLS can't be used.
    pub fn new(
        urls: &[RegistryUrl],
        token: Token,
        relay: RelayDescriptor,
    ) -> Result<Self, ClientError> {
        Ok(Self {
            registries: Registries::new(urls)?,
            token,
            relay,
            lease: None,
        })
    }

    /// The relay's key.
    pub fn id(&self) -> RelayId {
        self.relay.id
    }

    /// Enrols. Returns when to send the next heartbeat. The relay has to be running, since the
    /// registry probes its addresses.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn enrol(&mut self) -> Result<Duration, ClientError> {
        let registry = self.registries.id().await?;
        let Challenge { challenge } = self.registries.ask(get("/v1/challenge")).await?;
        let signed = api::enrolment_bytes(
            &registry.0,
            &challenge,
            &self.relay.addresses,
            self.relay.tcp,
        );
        let body = EnrolRelay {
            relay: self.id().to_string(),
            addresses: self.relay.addresses.clone(),
            tcp: self.relay.tcp,
            challenge,
            signature: api::encode(&(self.relay.sign)(&signed)),
        };
        let ask = post("/v1/relays", self.token.reveal(), &body);
        let enrolled: Enrolled = self.registries.ask(ask).await?;
        self.lease = Some(Zeroizing::new(enrolled.lease));
        Ok(Duration::from_secs(
            enrolled.heartbeat_s.clamp(1, 3600).into(),
        ))
    }

    /// Renews the lease, or enrols again if it has ended.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn heartbeat(&mut self) -> Result<(), ClientError> {
        let Some(lease) = self.lease.clone() else {
            return self.enrol().await.map(drop);
        };
        let ask = Ask {
            method: Method::POST,
            bearer: Some(&lease),
            ..get("/v1/heartbeat")
        };
        match self.registries.ask::<Renewed>(ask).await {
            Err(ClientError::Refused {
                status: 401 | 410, ..
            }) => {
                tracing::info!("the lease has ended: enrolling again");
                self.lease = None;
                self.enrol().await.map(drop)
            }
            done => done.map(drop),
        }
    }

    /// Gives up the lease, so that no more clients get this relay.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn leave(&mut self) -> Result<(), ClientError> {
        let Some(lease) = self.lease.take() else {
            return Ok(());
        };
        let ask = Ask {
            method: Method::POST,
            bearer: Some(&lease),
            ..get("/v1/leave")
        };
        self.registries.ask::<()>(ask).await
    }

    /// Keeps the lease until `stop` resolves, and then gives it up. `tell` learns the first success
    /// after a failure, and the first failure after a success.
    pub async fn run(
        mut self,
        stop: impl Future<Output = ()>,
        mut tell: impl FnMut(Result<(), &ClientError>),
    ) {
        let mut stop = pin!(stop);
        let mut failures = 0;
        let mut told = None;
        loop {
            let beat = tokio::select! {
                beat = self.heartbeat() => beat,
                () = &mut stop => break,
            };
            if told != Some(beat.is_ok()) {
                told = Some(beat.is_ok());
                tell(beat.as_ref().map(|&()| ()));
            }
            let pause = match beat {
                Ok(()) => {
                    failures = 0;
                    // A hundred thousand open connections would cost the registry gigabytes.
                    self.registries.rest();
                    Duration::from_secs(api::HEARTBEAT_S.into())
                }
                Err(_) => {
                    self.registries.turn();
                    let pause = RETRY.delay(failures);
                    failures += 1;
                    pause
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = &mut stop => break,
            }
        }
        // Don't wait for a registry that hangs.
        match timeout(Duration::from_secs(3), self.leave()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "couldn't leave"),
            Err(_) => tracing::debug!("couldn't leave in time"),
        }
    }
}

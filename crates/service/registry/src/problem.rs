use std::net::SocketAddr;

use crate::api::{ErrorBody, ErrorDetail, HEARTBEAT_S};

/// Why a request isn't granted: what is wrong and how to mend it. Never quotes what was sent but
/// for addresses, since the rest may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The body can't be read.
    #[error("the request's body is invalid: {0}; /v1/openapi.json describes it")]
    Body(String),
    /// A field has a value that means nothing.
    #[error("{field} is invalid: it has to be {expected}")]
    Field {
        /// Which.
        field: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// Too much was sent.
    #[error("the request's body has more than {limit} bytes: send less at once")]
    TooLarge {
        /// The most.
        limit: usize,
    },
    /// It didn't come.
    #[error("the request's body didn't arrive in time: send it again")]
    Slow,
    /// No or a wrong token.
    #[error(
        "the registry knows no such token for this: ask its operator for one, and check \
         --token-file"
    )]
    Token,
    /// No lease, or an invented one.
    #[error("this registry didn't grant the lease: enrol again")]
    Lease,
    /// The lease is over.
    #[error("the lease has ended: enrol again, and send a heartbeat every {HEARTBEAT_S} s")]
    LeaseEnded,
    /// No credential, or one that is over.
    #[error("this registry didn't issue the credential, or it has expired: enrol again")]
    Credential,
    /// The challenge isn't ours or too old.
    #[error(
        "the challenge isn't this registry's or is older than 30 s: get a new one from \
         /v1/challenge"
    )]
    Challenge,
    /// The enrolment was made before.
    #[error("this enrolment was used before: get a new challenge from /v1/challenge and sign that")]
    Repeated,
    /// The relay didn't sign what it should have.
    #[error(
        "the signature isn't the relay's over this challenge, these addresses and this registry's \
         key"
    )]
    Signature,
    /// An address that relays can't have.
    #[error(
        "{0} can't be a relay's address: it has to be public, with a port; inside one network \
         start the registry with --allow-private"
    )]
    Address(SocketAddr),
    /// An address at which the relay doesn't answer.
    #[error(
        "the relay doesn't answer a HELLO at {0}: start it before it enrols, open its UDP port, \
         and say with --advertise where it is reached"
    )]
    Unproved(SocketAddr),
    /// An address at which it doesn't answer over TCP, although it says that it does.
    #[error(
        "the relay doesn't answer a HELLO over TCP at {0}: open its TCP port of that number too, \
         or leave out --tcp"
    )]
    NoTcp(SocketAddr),
    /// A table is full.
    #[error(
        "the registry has room for no more {what}: try again later, or ask its operator for more"
    )]
    Full {
        /// What there is no room for.
        what: &'static str,
    },
    /// Too many requests.
    #[error("too many requests from your address: wait a second and try again")]
    Rate,
    /// Nobody can be met there.
    #[error("nobody listens under this name: is the listener running, and with this registry?")]
    NobodyListens,
    /// The name is another's.
    #[error("another listener has this name: give each listener a ticket of its own")]
    NotOwner,
    /// The store doesn't answer.
    #[error("the registry can't reach its store now: try another registry, or again later")]
    Store,
    /// There is nothing at this path.
    #[error("there is nothing here: /v1/openapi.json lists the paths")]
    NotFound,
    /// The path knows other methods.
    #[error("this path doesn't support the method: /v1/openapi.json lists those it does")]
    Method,
}

impl Problem {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::Body(_) | Self::Field { .. } => 400,
            Self::Token | Self::Lease | Self::Credential => 401,
            Self::Challenge | Self::Signature | Self::Address(_) | Self::NotOwner => 403,
            Self::NobodyListens | Self::NotFound => 404,
            Self::Method => 405,
            Self::Slow => 408,
            Self::Repeated => 409,
            Self::LeaseEnded => 410,
            Self::TooLarge { .. } => 413,
            Self::Unproved(_) | Self::NoTcp(_) => 422,
            Self::Rate => 429,
            Self::Full { .. } | Self::Store => 503,
        }
    }

    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Body(_) => "body",
            Self::Field { .. } => "field",
            Self::TooLarge { .. } => "too_large",
            Self::Slow => "slow",
            Self::Token => "token",
            Self::Lease => "lease",
            Self::LeaseEnded => "lease_ended",
            Self::Credential => "credential",
            Self::Challenge => "challenge",
            Self::Repeated => "repeated",
            Self::Signature => "signature",
            Self::Address(_) => "address",
            Self::Unproved(_) => "unproved",
            Self::NoTcp(_) => "no_tcp",
            Self::Full { .. } => "full",
            Self::Rate => "rate",
            Self::NobodyListens => "nobody_listens",
            Self::NotOwner => "not_owner",
            Self::Store => "store",
            Self::NotFound => "not_found",
            Self::Method => "method",
        }
    }

    /// As it is sent.
    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            error: ErrorDetail {
                code: self.code().to_owned(),
                message: self.to_string(),
            },
        }
    }
}

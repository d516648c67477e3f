use std::net::SocketAddr;

use crate::api::{ErrorBody, ErrorDetail, HEARTBEAT_S};

/// Why the registry refuses a request, and what the client can do. It never quotes what the client
/// sent, which may be secret, except addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The body can't be parsed.
    #[error("the request's body is invalid: {0}; /v1/openapi.json describes it")]
    Body(String),
    /// A field has an invalid value.
    #[error("{field} is invalid: it has to be {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// The body is too long.
    #[error("the request's body has more than {limit} bytes: send less at once")]
    TooLarge {
        /// The most bytes.
        limit: usize,
    },
    /// The body didn't arrive in time.
    #[error("the request's body didn't arrive in time: send it again")]
    Slow,
    /// The token is missing or wrong.
    #[error(
        "the registry knows no such token for this: ask its operator for one, and check \
         --token-file"
    )]
    Token,
    /// The lease is missing, or this registry didn't grant it.
    #[error("this registry didn't grant the lease: enrol again")]
    Lease,
    /// The lease has ended.
    #[error("the lease has ended: enrol again, and send a heartbeat every {HEARTBEAT_S} s")]
    LeaseEnded,
    /// The credential is missing or has expired.
    #[error("this registry didn't issue the credential, or it has expired: enrol again")]
    Credential,
    /// The operator has taken the name out of the token file.
    #[error(
        "the registry's operator has revoked this access: ask for a new token, and check \
         --token-file"
    )]
    Revoked,
    /// The challenge isn't this registry's, or is too old.
    #[error(
        "the challenge isn't this registry's or is older than 30 s: get a new one from \
         /v1/challenge"
    )]
    Challenge,
    /// The enrolment was made before.
    #[error("this enrolment was used before: get a new challenge from /v1/challenge and sign that")]
    Repeated,
    /// The signature isn't the relay's over the right bytes.
    #[error(
        "the signature isn't the relay's over this challenge, these addresses and this registry's \
         key"
    )]
    Signature,
    /// A relay can't have this address.
    #[error(
        "{0} can't be a relay's address: it has to be public, with a port; inside one network \
         start the registry with --allow-private"
    )]
    Address(SocketAddr),
    /// The relay doesn't answer at this address.
    #[error(
        "the relay doesn't answer a HELLO at {0}: start it before it enrols, open its UDP port, \
         and say with --advertise where it is reached"
    )]
    Unproved(SocketAddr),
    /// The relay doesn't answer over TCP at this address, although it claims to.
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
        /// The things for which there is no room.
        what: &'static str,
    },
    /// The source has sent too many requests.
    #[error("too many requests from your address: wait a second and try again")]
    Rate,
    /// Nobody listens under this name.
    #[error("nobody listens under this name: is the listener running, and with this registry?")]
    NobodyListens,
    /// Another listener has this name.
    #[error("another listener has this name: give each listener a ticket of its own")]
    NotOwner,
    /// No code has this number.
    #[error(
        "no code has this number now: check the number, and that both sides name the same \
         registry; if that has restarted, make a new code"
    )]
    NoCode,
    /// The code has served a guest.
    #[error(
        "somebody has used this code already, and a code works once: make a new one (if neither of \
         you used it, somebody else tried)"
    )]
    CodeUsed,
    /// A guest had other words.
    #[error(
        "the words of the code were wrong, and a code allows one try only: make a new one, and \
         check its words"
    )]
    CodeWrong,
    /// Nobody came.
    #[error("the code has expired, since nobody used it in time: make a new one")]
    CodeExpired,
    /// A guest began and didn't go on.
    #[error(
        "somebody began to use this code and didn't go on, and a code allows one try only: make a \
         new one"
    )]
    CodeAbandoned,
    /// The host doesn't ask any more.
    #[error("whoever made this code isn't waiting any more: make a new one")]
    CodeGone,
    /// The store doesn't answer.
    #[error("the registry can't reach its store now: try another registry, or again later")]
    Store,
    /// This path doesn't exist.
    #[error("there is nothing here: /v1/openapi.json lists the paths")]
    NotFound,
    /// This path has other methods.
    #[error("this path doesn't support the method: /v1/openapi.json lists those it does")]
    Method,
}

impl Problem {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::Body(_) | Self::Field { .. } => 400,
            Self::Token | Self::Lease | Self::Credential | Self::Revoked => 401,
            Self::Challenge
            | Self::Signature
            | Self::Address(_)
            | Self::NotOwner
            | Self::CodeWrong => 403,
            Self::NobodyListens | Self::NoCode | Self::NotFound => 404,
            Self::Method => 405,
            Self::Slow => 408,
            Self::Repeated | Self::CodeUsed => 409,
            Self::LeaseEnded | Self::CodeExpired | Self::CodeAbandoned | Self::CodeGone => 410,
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
            Self::Revoked => "revoked",
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
            Self::NoCode => "no_code",
            Self::CodeUsed => "code_used",
            Self::CodeWrong => "code_wrong",
            Self::CodeExpired => "code_expired",
            Self::CodeAbandoned => "code_abandoned",
            Self::CodeGone => "code_gone",
            Self::Store => "store",
            Self::NotFound => "not_found",
            Self::Method => "method",
        }
    }

    /// The body that the registry sends.
    pub(crate) fn body(&self) -> ErrorBody {
        ErrorBody {
            error: ErrorDetail {
                code: self.code().to_owned(),
                message: self.to_string(),
            },
        }
    }
}

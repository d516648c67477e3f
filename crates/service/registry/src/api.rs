//! The HTTPS interface's JSON bodies. Binary fields are base64url without padding (RFC 4648); keys
//! are the 52 characters of base32 that `manyway` shows elsewhere.

use std::fmt;
use std::net::SocketAddr;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

/// How often relays renew their lease, in seconds.
pub const HEARTBEAT_S: u32 = 30;

/// How long a lease lasts without renewal, in seconds: a silent relay vanishes after two
/// heartbeats.
pub const LEASE_S: u32 = 2 * HEARTBEAT_S;

/// The number of relays in a subset if a client names none.
pub const SUBSET: u16 = 50;

/// The most relays that one request names or asks for.
pub const MAX_RELAYS: usize = 200;

/// The most characters that peers leave for each other.
pub const MAX_SEALED: usize = 2048;

/// The most characters of an offer or an answer in a mailbox.
pub const MAX_STEP: usize = 128;

/// The most characters of a parcel in a mailbox: a ticket, and access to eight relays.
pub const MAX_PARCEL: usize = 8192;

/// The most bytes of a request's body.
pub const MAX_BODY: usize = 16 << 10;

/// The most bytes of an answer's body: 200 relays with vouchers and eight addresses each.
pub const MAX_ANSWER: usize = 256 << 10;

/// The longest time that a listener's request waits for callers, in seconds.
pub const MAX_WAIT_S: u32 = 25;

/// The registry's identity and intervals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct About {
    /// Its key, which signs its vouchers and is the key of its own certificate.
    pub registry: String,
    /// Its release.
    pub version: String,
    /// How often relays should renew their lease, in seconds.
    pub heartbeat_s: u32,
    /// How long leases last, in seconds.
    pub lease_s: u32,
    /// The UDP port on which it answers HELLO with the sender's address, if it does.
    pub observe_port: Option<u16>,
}

/// The text that a relay signs to enrol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Challenge {
    /// It is valid for one enrolment of a relay, for 30 s.
    pub challenge: String,
}

/// A relay that enrols.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EnrolRelay {
    /// Its key.
    pub relay: String,
    /// Its addresses: 1 to 8, with ports. Each has to answer a HELLO.
    #[cfg_attr(
        feature = "server",
        schema(
            value_type = Vec<String>,
            min_items = 1,
            max_items = 8,
            example = json!(["203.0.113.7:45170"])
        )
    )]
    pub addresses: Vec<SocketAddr>,
    /// Whether it also forwards streams over TCP at each of them. Each then has to answer a HELLO
    /// over TCP as well.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tcp: bool,
    /// From `GET /v1/challenge`.
    pub challenge: String,
    /// The relay's signature over the bytes that docs/registry.md describes.
    pub signature: String,
}

/// A lease.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Enrolled {
    /// A secret that every heartbeat has to contain.
    pub lease: String,
    /// How often the relay should renew it, in seconds.
    pub heartbeat_s: u32,
    /// How long it lasts, in seconds.
    pub lease_s: u32,
}

/// A renewed lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Renewed {
    /// How long it lasts from now, in seconds.
    pub lease_s: u32,
}

/// A client that wants relays, or wants to be found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct EnrolClient {
    /// The Ed25519 key with which it will sign MINTs.
    pub client: String,
}

/// The credential that a client uses from now on.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct ClientEnrolled {
    /// The credential, a secret.
    pub credential: String,
    /// When it expires: Unix time in seconds.
    pub expires: u32,
}

/// Asks for vouchers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AskVouchers {
    /// The relays that the client names, as far as they are still enrolled: at most 200.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(max_items = 200))]
    pub relays: Vec<String>,
    /// The number of other relays, drawn at random: 50 by default, at most 200 together with those
    /// named.
    #[cfg_attr(feature = "server", schema(maximum = 200))]
    pub more: Option<u16>,
    /// How many of the random relays have to forward streams over TCP, if there are that many.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "server", schema(maximum = 200))]
    pub tcp: u16,
}

/// Relays, with vouchers for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Vouchers {
    /// First the named relays, then the random ones.
    pub relays: Vec<VouchedRelay>,
}

/// A relay, with a voucher for it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct VouchedRelay {
    /// Its key.
    pub relay: String,
    /// Its addresses.
    #[cfg_attr(feature = "server", schema(value_type = Vec<String>))]
    pub addresses: Vec<SocketAddr>,
    /// Whether it also forwards streams over TCP there.
    #[serde(default)]
    pub tcp: bool,
    /// The voucher, for MINT: docs/relays.md has its fields.
    pub voucher: String,
}

/// A listener that wants to be found.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// 16 random bytes, chosen by the first one to listen under the name. Only those who know them
    /// can replace the entry.
    pub owner: String,
    /// Its addresses and consents, sealed for the holders of its ticket: at most 2048 characters.
    #[cfg_attr(feature = "server", schema(max_length = 2048))]
    pub sealed: String,
    /// How long to wait for callers if there are none, in seconds: at most 25.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(maximum = 25))]
    pub wait_s: u32,
}

/// The callers since the listener last asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Callers {
    /// Each caller's sealed addresses.
    pub callers: Vec<String>,
}

/// A caller that wants to reach a listener.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Its addresses, sealed for the listener: at most 2048 characters.
    #[cfg_attr(feature = "server", schema(max_length = 2048))]
    pub sealed: String,
}

/// A listener's entry.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Listener {
    /// Its sealed addresses and consents.
    pub sealed: String,
}

/// A host that makes a one-time code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OpenMailbox {
    /// 16 random bytes. Who knows them is the host.
    pub owner: String,
    /// The PAKE's first message: at most 128 characters.
    #[cfg_attr(feature = "server", schema(max_length = 128))]
    pub offer: String,
}

/// A new mailbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct OpenedMailbox {
    /// Its number, with which the code begins.
    pub number: u32,
    /// How long it waits for a guest, in seconds.
    pub life_s: u32,
}

/// A guest that wants the offer of a code's host.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TakeOffer {
    /// 16 random bytes. Who knows them is the guest; nobody else can be it from then on.
    pub guest: String,
}

/// What the host has left.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Offer {
    /// The PAKE's first message.
    pub offer: String,
}

/// A guest's answer, which can't be replaced.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AnswerOffer {
    /// As it took the offer.
    pub guest: String,
    /// The PAKE's second message and a proof of its key: at most 128 characters.
    #[cfg_attr(feature = "server", schema(max_length = 128))]
    pub answer: String,
    /// How long to wait for the parcel, in seconds: at most 25.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(maximum = 25))]
    pub wait_s: u32,
}

/// The host's reply to a guest.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Parcel {
    /// The sealed text, if the host has replied.
    pub parcel: Option<String>,
}

/// A host that waits for its guest.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WatchMailbox {
    /// As it opened the mailbox.
    pub owner: String,
    /// How long to wait for the answer, in seconds: at most 25.
    #[serde(default)]
    #[cfg_attr(feature = "server", schema(maximum = 25))]
    pub wait_s: u32,
}

/// The guest's answer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct Answer {
    /// It, if there is one yet.
    pub answer: Option<String>,
}

/// A host's reply, the last message of an exchange.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SendParcel {
    /// As it opened the mailbox.
    pub owner: String,
    /// The sealed text: at most 8192 characters. Without it, the guest's words are wrong.
    #[cfg_attr(feature = "server", schema(max_length = 8192))]
    pub parcel: Option<String>,
}

/// The body of every error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// The error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "server", derive(utoipa::ToSchema))]
pub struct ErrorDetail {
    /// For programs: one word, stable.
    pub code: String,
    /// For people: what is wrong and how to fix it.
    pub message: String,
}

/// Left out if false, so that a registry that doesn't know TCP accepts the request.
fn is_false(tcp: &bool) -> bool {
    !tcp
}

fn is_zero(count: &u16) -> bool {
    *count == 0
}

/// Bytes as text.
pub fn encode(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}

/// Exactly `N` bytes from text.
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != BASE64URL_NOPAD.encode_len(N) {
        return None;
    }
    BASE64URL_NOPAD
        .decode(text.as_bytes())
        .ok()?
        .try_into()
        .ok()
}

/// The bytes that a relay signs to enrol: a context, the registry, the challenge, the addresses and
/// whether they forward TCP. So a registry can't replay them at another one.
pub fn enrolment_bytes(
    registry: &[u8; 32],
    challenge: &str,
    addresses: &[SocketAddr],
    tcp: bool,
) -> Vec<u8> {
    let mut bytes = b"manyway registry enrol 1\n".to_vec();
    bytes.extend_from_slice(registry);
    bytes.extend_from_slice(challenge.as_bytes());
    for address in addresses {
        bytes.extend_from_slice(format!("\n{address}").as_bytes());
    }
    if tcp {
        bytes.extend_from_slice(b"\ntcp");
    }
    bytes
}

/// `Debug` without the secrets.
macro_rules! redacted {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    )*};
}

redacted! {
    EnrolRelay { relay, addresses, tcp }
    Enrolled { heartbeat_s, lease_s }
    ClientEnrolled { expires }
    VouchedRelay { relay, addresses, tcp }
    Listen { wait_s }
    Call {}
    Listener {}
    OpenMailbox {}
    TakeOffer {}
    Offer {}
    AnswerOffer { wait_s }
    Parcel {}
    WatchMailbox { wait_s }
    Answer {}
    SendParcel {}
}

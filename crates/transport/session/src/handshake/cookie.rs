//! Cookies: under load, a listener works only for those who are where their INITs seem to come
//! from.
//!
//! As in WireGuard (Donenfeld, NDSS 2017, §5.4.7): a cookie is a code over the address seen, made
//! with a secret that changes every minute, so the listener keeps nothing for it. A COOKIE is a
//! sixteenth of an INIT's size.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use aws_lc_rs::hmac;
use manyway_units::{Bucket, Time};
use manyway_wire::{COOKIE_NONCE_LEN, COOKIE_VALUE_LEN, ConnectionId, Cookie, MAC2_LEN};
use rand::rngs::ChaCha20Rng;
use rand::{Rng, RngExt};

use super::secrets::Mac1;

pub(super) type Value = [u8; COOKIE_VALUE_LEN];

/// A cookie is good for one to two of these.
const SECRET_LIFETIME: Duration = Duration::from_secs(60);

/// When a listener asks for cookies, and what it does for those who bring one. All of it is per
/// ticket.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct LoadLimits {
    /// Half-open handshakes without a cookie. 128 by default.
    pub unproven_half_open: usize,
    /// Handshakes begun without a cookie: so many at once. 64 by default.
    pub unproven_burst: f64,
    /// And so many per second in the long run. 32 by default.
    pub unproven_rate: f64,
    /// Handshakes begun with a cookie, per second, and at once. 256 by default.
    pub proven_rate: f64,
    /// Handshakes begun for INITs that came through one of the listener's relays, beyond those
    /// without a cookie: so many at once. 8 by default.
    pub relayed_burst: f64,
    /// And so many per second in the long run, for each relay. 4 by default.
    pub relayed_rate: f64,
    /// Half-open ones of each relay. 16 by default.
    pub relayed_half_open: usize,
    /// Half-open handshakes with a cookie of one host: an IPv4 address, or an IPv6 prefix of 64
    /// bits. 64 by default.
    pub per_host: usize,
}

impl Default for LoadLimits {
    fn default() -> Self {
        LoadLimits {
            unproven_half_open: 128,
            unproven_burst: 64.0,
            unproven_rate: 32.0,
            proven_rate: 256.0,
            relayed_burst: 8.0,
            relayed_rate: 4.0,
            relayed_half_open: 16,
            per_host: 64,
        }
    }
}

/// What a listener knows of its load.
pub(super) struct Gate {
    limits: LoadLimits,
    unproven: Bucket,
    proven: Bucket,
    secrets: [hmac::Key; 2],
    /// Counted from the clock's origin.
    period: u64,
    /// Half-open handshakes with a cookie, by host: never more entries than there are such
    /// handshakes.
    hosts: BTreeMap<IpAddr, usize>,
    unproven_half_open: usize,
    /// The relays at which the listener can be found: a few.
    relays: BTreeMap<SocketAddr, Relayed>,
}

/// What came through a relay, or seemed to.
struct Relayed {
    bucket: Bucket,
    half_open: usize,
}

/// What a half-open handshake counts as.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Unproven,
    Proven(IpAddr),
    /// Without a cookie, through this relay of ours.
    Relayed(SocketAddr),
}

impl Gate {
    pub(super) fn new(limits: LoadLimits, rng: &mut ChaCha20Rng) -> Gate {
        Gate {
            unproven: Bucket::new(limits.unproven_rate, limits.unproven_burst, Time::ZERO),
            proven: Bucket::new(limits.proven_rate, limits.proven_rate, Time::ZERO),
            secrets: [secret(rng), secret(rng)],
            period: 0,
            hosts: BTreeMap::new(),
            unproven_half_open: 0,
            relays: BTreeMap::new(),
            limits,
        }
    }

    /// Whether a handshake may begin without a cookie; if so it counts.
    pub(super) fn admits_unproven(&mut self, now: Time) -> bool {
        self.unproven_half_open < self.limits.unproven_half_open
            && self.unproven.take(now, 1.0).is_ok()
    }

    /// INITs may come through this relay, whose clients can't be given a cookie.
    pub(super) fn expect_through(&mut self, relay: SocketAddr) {
        let (rate, burst) = (self.limits.relayed_rate, self.limits.relayed_burst);
        self.relays.entry(relay).or_insert_with(|| Relayed {
            bucket: Bucket::new(rate, burst, Time::ZERO),
            half_open: 0,
        });
    }

    /// Whether a handshake may begin without a cookie because its INIT came through a relay of
    /// ours; if so it counts.
    pub(super) fn admits_relayed(&mut self, now: Time, remote: SocketAddr) -> bool {
        let most = self.limits.relayed_half_open;
        self.relays
            .get_mut(&remote)
            .is_some_and(|relay| relay.half_open < most && relay.bucket.take(now, 1.0).is_ok())
    }

    /// Whether a handshake with a cookie may begin for this host; if so it counts.
    pub(super) fn admits_proven(&mut self, now: Time, host: IpAddr) -> bool {
        self.hosts.get(&host).copied().unwrap_or(0) < self.limits.per_host
            && self.proven.take(now, 1.0).is_ok()
    }

    pub(super) fn on_inserted(&mut self, standing: Standing) {
        match standing {
            Standing::Unproven => self.unproven_half_open += 1,
            Standing::Proven(host) => *self.hosts.entry(host).or_default() += 1,
            Standing::Relayed(at) => {
                if let Some(relay) = self.relays.get_mut(&at) {
                    relay.half_open += 1;
                }
            }
        }
    }

    pub(super) fn on_removed(&mut self, standing: Standing) {
        match standing {
            Standing::Unproven => self.unproven_half_open -= 1,
            Standing::Relayed(at) => {
                if let Some(relay) = self.relays.get_mut(&at) {
                    relay.half_open -= 1;
                }
            }
            Standing::Proven(host) => {
                if let Some(count) = self.hosts.get_mut(&host) {
                    *count -= 1;
                    if *count == 0 {
                        self.hosts.remove(&host);
                    }
                }
            }
        }
    }

    /// The cookie of an address now.
    pub(super) fn value(&mut self, now: Time, rng: &mut ChaCha20Rng, remote: SocketAddr) -> Value {
        self.renew(now, rng);
        value(&self.secrets[0], remote)
    }

    /// Whether the INIT, `signed` and behind it `mac2`, was made with a cookie of this address.
    pub(super) fn proves(
        &mut self,
        now: Time,
        rng: &mut ChaCha20Rng,
        remote: SocketAddr,
        signed: &[u8],
        mac2: &[u8; MAC2_LEN],
    ) -> bool {
        if *mac2 == [0; MAC2_LEN] {
            return false;
        }
        self.renew(now, rng);
        self.secrets.iter().any(|secret| {
            let expected = self::mac2(&value(secret, remote), signed);
            aws_lc_rs::constant_time::verify_slices_are_equal(&expected, mac2).is_ok()
        })
    }

    /// Makes the secret anew if it is its time; the last one stays good for as long again.
    fn renew(&mut self, now: Time, rng: &mut ChaCha20Rng) {
        let period = now.as_nanos() / SECRET_LIFETIME.as_nanos() as u64;
        if period == self.period {
            return;
        }
        self.secrets.swap(0, 1);
        self.secrets[0] = secret(rng);
        if period != self.period + 1 {
            self.secrets[1] = secret(rng);
        }
        self.period = period;
    }
}

/// The host that an address belongs to, as far as limits are concerned.
pub(crate) fn host(remote: SocketAddr) -> IpAddr {
    match remote.ip().to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

/// The COOKIE for an INIT with this `mac1`.
pub(super) fn seal(
    mac1: &Mac1,
    receiver_cid: ConnectionId,
    init_mac1: &[u8],
    nonce: [u8; COOKIE_NONCE_LEN],
    value: &Value,
) -> Vec<u8> {
    let masked = xor(value, &mac1.mask(&nonce, init_mac1));
    let cookie = Cookie {
        receiver_cid,
        nonce,
        masked,
    };
    cookie.seal(|bytes| mac1.sign(&[bytes, init_mac1].concat()))
}

/// The cookie in a COOKIE that answers an INIT with this `mac1`; `None` if it is forged or answers
/// another.
pub(super) fn open(
    mac1: &Mac1,
    cookie: &manyway_wire::Signed<'_, Cookie>,
    init_mac1: &[u8],
) -> Option<Value> {
    let signed = [cookie.authenticated, init_mac1].concat();
    let genuine = mac1.verify(&signed, cookie.mac1);
    genuine.then(|| xor(&cookie.masked, &mac1.mask(&cookie.nonce, init_mac1)))
}

/// The code that proves a cookie to be known: over all of an INIT before it.
pub(super) fn mac2(value: &Value, signed: &[u8]) -> [u8; MAC2_LEN] {
    first(&hmac::Key::new(hmac::HMAC_SHA256, value), signed)
}

fn value(secret: &hmac::Key, remote: SocketAddr) -> Value {
    let ip = match remote.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut address = [0; 18];
    address[..16].copy_from_slice(&ip.octets());
    address[16..].copy_from_slice(&remote.port().to_be_bytes());
    first(secret, &address)
}

fn first(key: &hmac::Key, bytes: &[u8]) -> [u8; 16] {
    let tag = hmac::sign(key, bytes);
    *tag.as_ref()
        .first_chunk()
        .expect("HMAC-SHA256 gives 32 bytes")
}

fn xor(a: &Value, b: &Value) -> Value {
    std::array::from_fn(|at| a[at] ^ b[at])
}

fn secret(rng: &mut ChaCha20Rng) -> hmac::Key {
    let mut bytes = zeroize::Zeroizing::new([0; 32]);
    rng.fill_bytes(&mut *bytes);
    hmac::Key::new(hmac::HMAC_SHA256, &*bytes)
}

/// A nonce for a COOKIE.
pub(super) fn nonce(rng: &mut ChaCha20Rng) -> [u8; COOKIE_NONCE_LEN] {
    rng.random()
}

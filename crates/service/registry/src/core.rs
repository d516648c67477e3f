//! The registry's decisions. No I/O: the caller hands in time, and a seed gives the randomness.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use manyway_relay::address::{Kind, kind};
use manyway_relay::bucket::{Allowance, Bucket, Sketch};
use manyway_relay::keys::verify;
use manyway_wire::relay::{MAX_RELAY_ADDRESSES, RateClass, RelayId, VoucherTerms, canonical};
use rand::rngs::ChaCha20Rng;
use rand::{Rng, RngExt, SeedableRng};

use crate::api::{self, AskVouchers, EnrolClient, EnrolRelay, MAX_RELAYS, SUBSET};
use crate::codes::{Codes, Kind as Code};
use crate::meetings::{Bounds, Meetings, Name, Publication};
use crate::relay_table::{Record, RelayTable};
use crate::tokens::Role;
use crate::{Problem, RegistryKey, Tokens};

/// How long a challenge can be used: shorter than a lease, so that what an enrolment leaves behind
/// outlasts it.
const CHALLENGE_LIFE: Duration = Duration::from_secs(30);
/// How long a lease lasts.
pub(crate) const LEASE: Duration = Duration::from_secs(api::LEASE_S as u64);
/// How long a credential is good.
const CREDENTIAL_LIFE: Duration = Duration::from_secs(24 * 3600);
/// How long a voucher is good unless the operator says otherwise. A thief of a client's key has
/// this long.
const VOUCHER_LIFE: Duration = Duration::from_secs(2 * 3600);

/// What requests count for: the time and room that they take.
const WEIGHT_ENROL: u64 = 10;
const WEIGHT_FAILED: u64 = 20;
const WEIGHT_MEETING: u64 = 2;
/// Relays whose vouchers count as one request more: a signature takes about 25 µs.
const VOUCHERS_PER_WEIGHT: usize = 5;
/// Buckets per row of the sketch of sources.
const CELLS: usize = 1 << 16;

/// What a registry's operator decides.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Accept relays with private addresses too: inside one network, and for tests.
    pub allow_private: bool,
    /// Most relays altogether.
    pub relays: usize,
    /// Most relays enrolled with one token.
    pub relays_per_token: usize,
    /// Most listeners that can be met at a time.
    pub listeners: usize,
    /// Most of them of one account.
    pub listeners_per_account: u32,
    /// Requests per second from one address (IPv4, or IPv6 /64), twice as many at once. A heartbeat
    /// is one.
    pub rate: u64,
    /// HELLOs per second that are sent to addresses that relays claim, altogether.
    pub probes: u64,
    /// How long a voucher is good. Clients renew theirs each hour.
    pub voucher_life: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            allow_private: false,
            relays: 1_000_000,
            relays_per_token: 100_000,
            listeners: 100_000,
            listeners_per_account: 1000,
            rate: 100,
            probes: 2000,
            voucher_life: VOUCHER_LIFE,
        }
    }
}

/// An enrolment that is in order, but for the addresses, which have to be proved.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What the store gets once they are.
    pub record: Record,
}

/// Whose lease it is, and its number.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The relay.
    pub relay: RelayId,
    /// The number.
    pub number: i64,
}

/// What a credential says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Credential {
    client: RelayId,
    account: [u8; 8],
    class: RateClass,
    expires: u32,
}

/// A registry without sockets, clock and disk.
pub struct Core {
    key: RegistryKey,
    codes: Codes,
    accounts: hmac::Key,
    tokens: Tokens,
    limits: Limits,
    relays: RelayTable,
    meetings: Meetings,
    sources: Sketch,
    targets: Sketch,
    probes: Bucket,
    rng: ChaCha20Rng,
}

impl Core {
    /// A registry that knows no relay yet. Same seed, same decisions.
    pub fn new(key: RegistryKey, tokens: Tokens, limits: Limits, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        Self {
            codes: Codes::new(&*key.derive(b"manyway registry codes")),
            accounts: hmac::Key::new(
                hmac::HMAC_SHA256,
                &*key.derive(b"manyway registry accounts"),
            ),
            key,
            tokens,
            limits,
            relays: RelayTable::default(),
            meetings: Meetings::default(),
            sources: Sketch::new(CELLS, || rng.next_u64()),
            targets: Sketch::new(CELLS, || rng.next_u64()),
            probes: Bucket::default(),
            rng,
        }
    }

    /// The registry's public key.
    pub fn id(&self) -> RelayId {
        self.key.id()
    }

    /// The relays that are known.
    pub fn relays(&self) -> &RelayTable {
        &self.relays
    }

    /// Listeners that can be met now.
    pub fn listeners(&self) -> usize {
        self.meetings.len()
    }

    /// For what the store tells.
    pub(crate) fn relays_mut(&mut self) -> &mut RelayTable {
        &mut self.relays
    }

    /// Forgets what is over. Call it now and then; decisions don't depend on it but by at most
    /// that.
    pub fn tick(&mut self, now: Duration) {
        self.relays.expire(now);
    }

    /// Takes a request from what its source may send.
    ///
    /// # Errors
    /// It has sent too many.
    pub fn admit(&mut self, now: Duration, from: SocketAddr) -> Result<(), Problem> {
        self.charge(now, from, 1)
    }

    fn charge(&mut self, now: Duration, from: SocketAddr, weight: u64) -> Result<(), Problem> {
        let cells = self.sources.cells(&source(from));
        let allowance = Allowance::events(weight, self.limits.rate.max(1));
        match self.sources.take(cells, now, allowance) {
            true => Ok(()),
            false => Err(Problem::Rate),
        }
    }

    /// Wrong secrets cost their source more.
    fn failed(&mut self, now: Duration, from: SocketAddr, problem: Problem) -> Problem {
        self.charge(now, from, WEIGHT_FAILED).ok();
        problem
    }

    /// Something to sign, good for 30 s.
    pub fn challenge(&self, now: Duration) -> String {
        let issued = now.as_millis() as u64;
        self.codes.seal(Code::Challenge, &issued.to_be_bytes())
    }

    /// Looks at an enrolment; what is right about it is a [`Candidate`], whose addresses should now
    /// be probed.
    ///
    /// # Errors
    /// What is wrong.
    pub fn enrol_relay(
        &mut self,
        now: Duration,
        from: SocketAddr,
        token: &str,
        request: &EnrolRelay,
    ) -> Result<Candidate, Problem> {
        self.charge(now, from, WEIGHT_ENROL)?;
        let Some(holder) = self.tokens.holder(Role::Relay, token) else {
            return Err(self.failed(now, from, Problem::Token));
        };
        let owner = Arc::clone(&holder.name);
        let relay = relay_id(&request.relay, "relay")?;
        let addresses = self.addresses(&request.addresses)?;
        let challenged = self.challenged(now, &request.challenge)?;
        let signature = api::decode(&request.signature).ok_or(Problem::Field {
            field: "signature",
            expected: "64 bytes in base64url without padding",
        })?;
        let signed = api::enrolment_bytes(
            &self.key.id().0,
            &request.challenge,
            &request.addresses,
            request.tcp,
        );
        if !verify(&relay, &signed, &signature) {
            return Err(self.failed(now, from, Problem::Signature));
        }
        self.room(&relay, &owner, challenged)?;
        self.probe(now, &addresses, request.tcp)?;
        let record = Record {
            relay,
            addresses,
            tcp: request.tcp,
            owner,
            // etcd's are positive.
            lease: self.rng.random_range(1..i64::MAX),
            challenged,
            left: false,
        };
        Ok(Candidate { record })
    }

    fn addresses(&self, addresses: &[SocketAddr]) -> Result<Box<[SocketAddr]>, Problem> {
        if !(1..=MAX_RELAY_ADDRESSES).contains(&addresses.len()) {
            return Err(Problem::Field {
                field: "addresses",
                expected: "1 to 8 addresses with ports",
            });
        }
        let mut canonicals: Vec<SocketAddr> = Vec::with_capacity(addresses.len());
        for address in addresses.iter().map(|address| canonical(*address)) {
            let kind = kind(address);
            let good = kind == Kind::Public || kind == Kind::Private && self.limits.allow_private;
            if !good {
                return Err(Problem::Address(address));
            }
            if !canonicals.contains(&address) {
                canonicals.push(address);
            }
        }
        Ok(canonicals.into())
    }

    /// When a challenge was issued, in ms.
    fn challenged(&self, now: Duration, challenge: &str) -> Result<u64, Problem> {
        let issued = self.codes.open(Code::Challenge, challenge);
        let issued = u64::from_be_bytes(issued.ok_or(Problem::Challenge)?);
        let age = now.checked_sub(Duration::from_millis(issued));
        // Another registry of the fleet may have issued it by a clock that is a little ahead.
        match age.unwrap_or_default() <= CHALLENGE_LIFE
            && Duration::from_millis(issued) <= now + CHALLENGE_LIFE
        {
            true => Ok(issued),
            false => Err(Problem::Challenge),
        }
    }

    fn room(&self, relay: &RelayId, owner: &str, challenged: u64) -> Result<(), Problem> {
        match self.relays.get(relay) {
            Some(known) if known.challenged >= challenged => Err(Problem::Repeated),
            Some(_) => Ok(()),
            None if self.relays.len() >= self.limits.relays
                || self.relays.owned(owner) >= self.limits.relays_per_token =>
            {
                Err(Problem::Full { what: "relays" })
            }
            None => Ok(()),
        }
    }

    /// Takes the HELLOs to these addresses from what may be sent to each host, and altogether: the
    /// registry must not be a weapon.
    fn probe(&mut self, now: Duration, addresses: &[SocketAddr], tcp: bool) -> Result<(), Problem> {
        let hellos = 1 + u64::from(tcp);
        for address in addresses {
            let cells = self.targets.cells(&source(*address));
            // Many relays may be behind one address, and each host may restart its own often.
            let allowance = Allowance::events(hellos, self.limits.rate.max(1));
            let admitted = self.targets.take(cells, now, allowance)
                && self
                    .probes
                    .take(now, Allowance::events(hellos, self.limits.probes.max(1)));
            if !admitted {
                return Err(Problem::Rate);
            }
        }
        Ok(())
    }

    /// The text that stands for a lease.
    pub fn lease(&self, record: &Record) -> String {
        let body = [&record.relay.0[..], &record.lease.to_be_bytes()].concat();
        self.codes.seal(Code::Lease, &body)
    }

    /// Which lease a text stands for, whether it has ended or not.
    ///
    /// # Errors
    /// None of this registry's, or too many requests.
    pub fn open_lease(
        &mut self,
        now: Duration,
        from: SocketAddr,
        text: &str,
    ) -> Result<Lease, Problem> {
        self.admit(now, from)?;
        let Some(bytes) = self.codes.open::<40>(Code::Lease, text) else {
            return Err(self.failed(now, from, Problem::Lease));
        };
        let (relay, number) = bytes.split_first_chunk::<32>().expect("40 bytes");
        Ok(Lease {
            relay: RelayId(*relay),
            number: i64::from_be_bytes(number.try_into().expect("8 bytes are left")),
        })
    }

    /// Whether a relay's lease isn't this one any more, as far as is known.
    pub fn superseded(&self, lease: &Lease) -> bool {
        let known = self.relays.get(&lease.relay);
        known.is_some_and(|record| record.lease != lease.number || record.left)
    }

    /// Enrols a client: its credential and when that ends.
    ///
    /// # Errors
    /// What is wrong.
    pub fn enrol_client(
        &mut self,
        now: Duration,
        from: SocketAddr,
        token: &str,
        request: &EnrolClient,
    ) -> Result<(String, u32), Problem> {
        self.charge(now, from, WEIGHT_ENROL)?;
        let Some(holder) = self.tokens.holder(Role::Client, token) else {
            return Err(self.failed(now, from, Problem::Token));
        };
        let client = relay_id(&request.client, "client")?;
        let expires = seconds(now + CREDENTIAL_LIFE);
        // One account for each name, however many clients enrol with its token.
        let tag = hmac::sign(&self.accounts, holder.name.as_bytes());
        let body = [
            &client.0[..],
            &tag.as_ref()[..8],
            &[holder.class.number()],
            &expires.to_be_bytes(),
        ]
        .concat();
        Ok((self.codes.seal(Code::Credential, &body), expires))
    }

    fn credential(
        &mut self,
        now: Duration,
        from: SocketAddr,
        text: &str,
    ) -> Result<Credential, Problem> {
        let Some(bytes) = self.codes.open::<45>(Code::Credential, text) else {
            return Err(self.failed(now, from, Problem::Credential));
        };
        let field = |at: std::ops::Range<usize>| &bytes[at];
        let credential = Credential {
            client: RelayId(field(0..32).try_into().expect("32 bytes")),
            account: field(32..40).try_into().expect("8 bytes"),
            class: RateClass::new(bytes[40]).ok_or(Problem::Credential)?,
            expires: u32::from_be_bytes(field(41..45).try_into().expect("4 bytes")),
        };
        match credential.expires > seconds(now) {
            true => Ok(credential),
            false => Err(Problem::Credential),
        }
    }

    /// Vouchers for relays that are named and for others at random, first those that have to
    /// forward streams over TCP.
    ///
    /// # Errors
    /// What is wrong.
    pub fn vouchers(
        &mut self,
        now: Duration,
        from: SocketAddr,
        credential: &str,
        request: &AskVouchers,
    ) -> Result<Vec<api::VouchedRelay>, Problem> {
        self.admit(now, from)?;
        let credential = self.credential(now, from, credential)?;
        let more = usize::from(request.more.unwrap_or(SUBSET));
        let count = request.relays.len() + more;
        if count > MAX_RELAYS {
            return Err(Problem::Field {
                field: "relays and more",
                expected: "at most 200 relays together",
            });
        }
        let mut named = Vec::with_capacity(request.relays.len());
        for text in &request.relays {
            let relay = relay_id(text, "relays")?;
            if !named.contains(&relay) {
                named.push(relay);
            }
        }
        self.charge(now, from, (count / VOUCHERS_PER_WEIGHT) as u64)?;
        self.tick(now);
        let known = named.iter().filter_map(|relay| self.relays.get(relay));
        let known = known.filter(|record| !record.left);
        // Those named may come up again.
        let drawn = more + named.len();
        let tcp = match request.tcp {
            0 => 0,
            least => usize::from(least).min(more) + named.len(),
        };
        let random = self.relays.sample(drawn, tcp, &mut self.rng);
        let random = random
            .into_iter()
            .filter(|record| !named.contains(&record.relay));
        let chosen = known.chain(random.take(more));
        Ok(chosen
            .map(|record| self.vouch(now, &credential, record))
            .collect())
    }

    fn vouch(&self, now: Duration, to: &Credential, record: &Record) -> api::VouchedRelay {
        let voucher = self.key.vouch(VoucherTerms {
            relay: record.relay,
            signer: self.key.id(),
            account: to.account,
            class: to.class,
            expires: seconds(now + self.limits.voucher_life),
            client: to.client,
        });
        api::VouchedRelay {
            relay: record.relay.to_string(),
            addresses: record.addresses.to_vec(),
            tcp: record.tcp,
            voucher: api::encode(&voucher.to_bytes()),
        }
    }

    /// Leaves what a listener has sealed for its callers.
    ///
    /// # Errors
    /// What is wrong.
    pub fn listen(
        &mut self,
        now: Duration,
        from: SocketAddr,
        credential: &str,
        name: &str,
        request: &api::Listen,
    ) -> Result<Name, Problem> {
        self.charge(now, from, WEIGHT_MEETING)?;
        let credential = self.credential(now, from, credential)?;
        let name = meeting_name(name)?;
        let owner = api::decode(&request.owner).ok_or(Problem::Field {
            field: "owner",
            expected: "16 bytes in base64url without padding",
        })?;
        let publication = Publication {
            name,
            owner,
            account: credential.account,
            sealed: sealed(&request.sealed)?,
        };
        let bounds = Bounds {
            all: self.limits.listeners,
            per_account: self.limits.listeners_per_account,
        };
        self.meetings.publish(now, publication, bounds)?;
        Ok(name)
    }

    /// Who has called since: for whom [`Core::listen`] has named the meeting.
    pub fn callers(&mut self, now: Duration, name: &Name) -> Vec<String> {
        self.meetings.callers(now, name)
    }

    /// Leaves a call; gives back the meeting's name and what the listener has left.
    ///
    /// # Errors
    /// What is wrong.
    pub fn call(
        &mut self,
        now: Duration,
        from: SocketAddr,
        name: &str,
        request: &api::Call,
    ) -> Result<(Name, String), Problem> {
        self.charge(now, from, WEIGHT_MEETING)?;
        let name = meeting_name(name)?;
        let found = self.meetings.call(now, &name, sealed(&request.sealed)?);
        match found {
            Ok(listener) => Ok((name, listener)),
            // Guessing names costs.
            Err(problem) => Err(self.failed(now, from, problem)),
        }
    }
}

fn relay_id(text: &str, field: &'static str) -> Result<RelayId, Problem> {
    text.parse().map_err(|_| Problem::Field {
        field,
        expected: "a key of 52 letters and digits",
    })
}

fn meeting_name(text: &str) -> Result<Name, Problem> {
    api::decode(text).ok_or(Problem::Field {
        field: "name",
        expected: "16 bytes in base64url without padding",
    })
}

fn sealed(text: &str) -> Result<&str, Problem> {
    let good = (1..=api::MAX_SEALED).contains(&text.len()) && text.is_ascii();
    good.then_some(text).ok_or(Problem::Field {
        field: "sealed",
        expected: "1 to 2048 ASCII characters",
    })
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// The unit of a rate limit: an IPv4 address, or an IPv6 network of 64 bits.
pub(crate) fn source(from: SocketAddr) -> [u8; 8] {
    match from.ip().to_canonical() {
        IpAddr::V4(ip) => (0xffff << 32 | u64::from(ip.to_bits())).to_be_bytes(),
        IpAddr::V6(ip) => ((ip.to_bits() >> 64) as u64).to_be_bytes(),
    }
}

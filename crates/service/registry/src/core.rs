//! The registry's decisions. No I/O: the caller hands in the time, and a seed provides the
//! randomness.

mod budgets;
mod meeting;
mod metrics;
mod pairing;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use manyway_relay::address::{Kind, kind};
use manyway_relay::bucket::{Bucket, Sketch};
use manyway_relay::keys::verify;
use manyway_wire::relay::{MAX_RELAY_ADDRESSES, RateClass, RelayId, VoucherTerms, canonical};
use rand::rngs::ChaCha20Rng;
use rand::{Rng, RngExt, SeedableRng};

use crate::accounts::{Accounts, Used};
use crate::api::{self, AskVouchers, EnrolClient, EnrolRelay, MAX_RELAYS, SUBSET};
use crate::codes::{Codes, Kind as Code};
use crate::mailboxes::Mailboxes;
use crate::meetings::Meetings;
use crate::relay_table::{Record, RelayTable};
use crate::tokens::Role;
use crate::{Problem, RegistryKey, Tokens};
pub(crate) use budgets::source;

/// How long a challenge is valid: shorter than a lease, so that the record of an enrolment outlasts
/// it.
const CHALLENGE_LIFE: Duration = Duration::from_secs(30);
/// How long a lease lasts.
pub(crate) const LEASE: Duration = Duration::from_secs(api::LEASE_S as u64);
/// How long a credential is valid.
const CREDENTIAL_LIFE: Duration = Duration::from_secs(24 * 3600);
/// How long a code waits for its guest by default.
const CODE_LIFE: Duration = Duration::from_secs(3600);
/// How long a voucher is valid by default, and so how long somebody who stole a client's key can
/// use it.
const VOUCHER_LIFE: Duration = Duration::from_secs(2 * 3600);

/// What requests weigh beside the 1 of [`Core::admit`]: the time and room that they take.
const WEIGHT_ENROL: u64 = 9;
const WEIGHT_MEETING: u64 = 1;
/// This many vouchers weigh as much as one more request: a signature takes about 25 µs.
const VOUCHERS_PER_WEIGHT: usize = 5;
/// Buckets per row of a sketch of hosts.
const CELLS: usize = 1 << 16;

/// The policy that a registry's operator sets.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Accept relays with private addresses, too: inside one network, and for tests.
    pub allow_private: bool,
    /// The most relays altogether.
    pub relays: usize,
    /// The most relays that may enrol with one token.
    pub relays_per_token: usize,
    /// The most listeners that can be found at a time.
    pub listeners: usize,
    /// The most of them of one account.
    pub listeners_per_account: u32,
    /// The most codes at a time, ended ones included as long as they are remembered.
    pub codes: usize,
    /// The most of them of one account.
    pub codes_per_account: usize,
    /// The most of them from one address (IPv4, or IPv6 /64).
    pub codes_per_source: usize,
    /// How long a code waits for its guest.
    pub code_life: Duration,
    /// Requests per second from one address (IPv4, or IPv6 /64), with bursts of twice as many. A
    /// heartbeat is one request.
    pub rate: u64,
    /// HELLOs per second that the registry sends altogether to addresses that relays claim.
    pub probes: u64,
    /// How long a voucher is valid. Clients renew theirs each hour.
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
            codes: 10_000,
            codes_per_account: 200,
            codes_per_source: 100,
            code_life: CODE_LIFE,
            rate: 100,
            probes: 2000,
            voucher_life: VOUCHER_LIFE,
        }
    }
}

/// An enrolment that is valid if the addresses are the relay's, which a probe has to show.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What goes into the store after the probe.
    pub record: Record,
}

/// A lease's relay and number.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The relay.
    pub relay: RelayId,
    /// The number.
    pub number: i64,
}

/// The contents of a credential.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Credential {
    client: RelayId,
    account: [u8; 8],
    class: RateClass,
    expires: u32,
}

/// A registry without sockets, clock and disk. [`Core::admit`] comes before each request: the other
/// calls count only what a request weighs beside that.
pub struct Core {
    key: RegistryKey,
    codes: Codes,
    accounts: Accounts,
    limits: Limits,
    relays: RelayTable,
    meetings: Meetings,
    mailboxes: Mailboxes,
    sources: Sketch,
    /// Not with `sources`: who forges a sender over UDP mustn't use up what that one has over TCP.
    observers: Sketch,
    observations: Bucket,
    targets: Sketch,
    probes: Bucket,
    /// HELLOs answered over UDP.
    observed: u64,
    rng: ChaCha20Rng,
}

impl Core {
    /// A registry that knows no relay yet. The same seed gives the same decisions.
    pub fn new(key: RegistryKey, tokens: Tokens, limits: Limits, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        Self {
            codes: Codes::new(&*key.derive(b"manyway registry codes")),
            accounts: Accounts::new(&key, tokens),
            key,
            limits,
            relays: RelayTable::default(),
            meetings: Meetings::default(),
            mailboxes: Mailboxes::default(),
            sources: Sketch::new(CELLS, || rng.next_u64()),
            observers: Sketch::new(CELLS, || rng.next_u64()),
            observations: Bucket::default(),
            targets: Sketch::new(CELLS, || rng.next_u64()),
            probes: Bucket::default(),
            observed: 0,
            rng,
        }
    }

    /// The registry's public key.
    pub fn id(&self) -> RelayId {
        self.key.id()
    }

    /// Uses other tokens from now on. Credentials of names that are gone are refused, and leases of
    /// their relays aren't renewed.
    pub fn set_tokens(&mut self, tokens: Tokens) {
        self.accounts.set_tokens(tokens);
    }

    /// The known relays.
    pub fn relays(&self) -> &RelayTable {
        &self.relays
    }

    /// The listeners that can be found now.
    pub fn listeners(&self) -> usize {
        self.meetings.len()
    }

    /// The known relays, for updates from the store.
    pub(crate) fn relays_mut(&mut self) -> &mut RelayTable {
        &mut self.relays
    }

    /// Forgets expired entries. Call it now and then: an entry may outlast its end by the time
    /// between two calls.
    pub fn tick(&mut self, now: Duration) {
        self.relays.expire(now);
        self.mailboxes.sweep(now);
    }

    /// A text to sign, valid for 30 s.
    pub fn challenge(&self, now: Duration) -> String {
        let issued = now.as_millis() as u64;
        self.codes.seal(Code::Challenge, &issued.to_be_bytes())
    }

    /// Checks an enrolment. If it is valid, returns a [`Candidate`], whose addresses the caller
    /// should now probe.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn enrol_relay(
        &mut self,
        now: Duration,
        from: SocketAddr,
        token: &str,
        request: &EnrolRelay,
    ) -> Result<Candidate, Problem> {
        self.charge(now, from, WEIGHT_ENROL)?;
        let Some(holder) = self.accounts.holder(Role::Relay, token) else {
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
            // etcd's numbers are positive.
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

    /// The time at which a challenge was issued, in ms.
    fn challenged(&self, now: Duration, challenge: &str) -> Result<u64, Problem> {
        let issued = self.codes.open(Code::Challenge, challenge);
        let issued = u64::from_be_bytes(issued.ok_or(Problem::Challenge)?);
        let age = now.checked_sub(Duration::from_millis(issued));
        // Another registry of the fleet may have issued it by a clock that is slightly ahead. Even
        // then it ends before the lease that an enrolment with it gets.
        match age.unwrap_or_default() < CHALLENGE_LIFE
            && Duration::from_millis(issued) < now + CHALLENGE_LIFE
        {
            true => Ok(issued),
            false => Err(Problem::Challenge),
        }
    }

    /// Whether another relay of this owner may enrol, or this one again.
    pub(crate) fn room(
        &self,
        relay: &RelayId,
        owner: &str,
        challenged: u64,
    ) -> Result<(), Problem> {
        match self.relays.get(relay) {
            Some(known) if known.challenged >= challenged => Err(Problem::Repeated),
            Some(known) if *known.owner == *owner => Ok(()),
            // One that has another token now counts for that one.
            known
                if known.is_none() && self.relays.len() >= self.limits.relays
                    || self.relays.owned(owner) >= self.limits.relays_per_token =>
            {
                Err(Problem::Full { what: "relays" })
            }
            _ => Ok(()),
        }
    }

    /// The text that stands for a lease.
    pub fn lease(&self, record: &Record) -> String {
        let body = [&record.relay.0[..], &record.lease.to_be_bytes()].concat();
        self.codes.seal(Code::Lease, &body)
    }

    /// The lease that a text stands for, whether it has ended or not.
    ///
    /// # Errors
    /// This registry didn't issue it.
    pub fn open_lease(
        &mut self,
        now: Duration,
        from: SocketAddr,
        text: &str,
    ) -> Result<Lease, Problem> {
        let Some(bytes) = self.codes.open::<40>(Code::Lease, text) else {
            return Err(self.failed(now, from, Problem::Lease));
        };
        let (relay, number) = bytes.split_first_chunk::<32>().expect("40 bytes");
        Ok(Lease {
            relay: RelayId(*relay),
            number: i64::from_be_bytes(number.try_into().expect("8 bytes are left")),
        })
    }

    /// Renews a lease unless it has ended. Returns whether it did.
    pub(crate) fn renew(&mut self, now: Duration, lease: &Lease) -> bool {
        self.tick(now);
        self.relays.renew(&lease.relay, lease.number, now + LEASE)
    }

    /// Whether a relay is known to have given up this lease, or to have another one.
    pub(crate) fn superseded(&self, lease: &Lease) -> bool {
        let known = self.relays.get(&lease.relay);
        known.is_some_and(|record| record.lease != lease.number || record.left)
    }

    /// Whether the token with which the lease's relay enrolled is gone.
    pub(crate) fn has_lost_token(&self, lease: &Lease) -> bool {
        let known = self.relays.get(&lease.relay);
        known.is_some_and(|record| !self.accounts.has_relays(&record.owner))
    }

    /// Enrols a client. Returns its credential, and when that expires.
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
        let Some(holder) = self.accounts.holder(Role::Client, token) else {
            return Err(self.failed(now, from, Problem::Token));
        };
        let client = relay_id(&request.client, "client")?;
        let expires = seconds(now + CREDENTIAL_LIFE);
        // Each name has one account, however many clients enrol with its token.
        let account = self.accounts.of(&holder.name);
        let body = [
            &client.0[..],
            &account,
            &[holder.class.number()],
            &expires.to_be_bytes(),
        ]
        .concat();
        if let Some(used) = self.accounts.used(&account) {
            used.enrolments += 1;
        }
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
        if credential.expires <= seconds(now) {
            return Err(Problem::Credential);
        }
        match self.accounts.used(&credential.account) {
            Some(_) => Ok(credential),
            None => Err(Problem::Revoked),
        }
    }

    /// Counts for the account what has become of its request.
    fn counted<T>(
        &mut self,
        of: &Credential,
        result: Result<T, Problem>,
        count: impl FnOnce(&mut Used, &T),
    ) -> Result<T, Problem> {
        if let Some(used) = self.accounts.used(&of.account) {
            match &result {
                Ok(done) => count(used, done),
                Err(_) => used.refused += 1,
            }
        }
        result
    }

    /// Vouchers for the named relays and for random ones, which begin with those that have to
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
        let credential = self.credential(now, from, credential)?;
        let chosen = self.choose(now, from, &credential, request);
        self.counted(&credential, chosen, |used, relays| {
            used.voucher_requests += 1;
            used.vouchers += relays.len() as u64;
        })
    }

    fn choose(
        &mut self,
        now: Duration,
        from: SocketAddr,
        credential: &Credential,
        request: &AskVouchers,
    ) -> Result<Vec<api::VouchedRelay>, Problem> {
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
        // The draw may contain the named relays again.
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
            .map(|record| self.vouch(now, credential, record))
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
}

fn relay_id(text: &str, field: &'static str) -> Result<RelayId, Problem> {
    text.parse().map_err(|_| Problem::Field {
        field,
        expected: "a key of 52 letters and digits",
    })
}

fn secret(text: &str, field: &'static str) -> Result<[u8; 16], Problem> {
    api::decode(text).ok_or(Problem::Field {
        field,
        expected: "16 bytes in base64url without padding",
    })
}

fn bounded(text: &str, most: usize) -> Option<&str> {
    let good = (1..=most).contains(&text.len()) && text.is_ascii();
    good.then_some(text)
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;

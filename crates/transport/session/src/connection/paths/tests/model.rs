//! Every order of events on one path between two ends, up to a number of steps, with an attacker
//! who has each packet: it holds back or drops it, delivers it from an address of its own or in the
//! sender's name, and gets what goes to its address.
//!
//! Paths, validation, candidates and the replay window are the real ones. The model stands for the
//! connection around them (`Connection::handle_opened`, `Traffic::on_response`,
//! `Traffic::on_path_timer`, `Transmitter::serve`). Packets say what those of paths say; ACKs are
//! left aside, so no probe timeout fires.

use std::collections::{BTreeMap, BTreeSet};

use manyway_checker::{Model, assert_broken, assert_holds};
use manyway_wire::{DATA_HEADER_LEN, Frame, Frames, TAG_LEN};

use super::*;

const ID: PathId = PathId(1);
/// Bytes of a packet that carries data.
const DATA: usize = 200;
/// The initiator's address, and the one that its NAT gives it later.
const HOME: u8 = 1;
const MOVED: u8 = 2;
/// The listener's address.
const LISTENER: u8 = 3;
/// The attacker's.
const ELSEWHERE: u8 = 66;

/// What the ends get wrong.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A response counts wherever it comes from.
    AnyResponse,
    /// A new address is the path's at once.
    NoChallenge,
    /// Only the new address is challenged, and the old one isn't.
    HomeUnasked,
    /// An address that hasn't answered gets whatever is due.
    NoLimit,
    /// The path stays where it began.
    NeverMoves,
    /// An initiator follows whoever answers before the address that it was told.
    Follows,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Network {
    /// Time passes only when all packets between the ends' own addresses have arrived: the attacker
    /// copies them and may be faster.
    Delivers,
    /// The attacker may drop any packet.
    Drops,
}

struct Roaming {
    fault: Fault,
    network: Network,
    /// The path is new to the listener, which takes its address from the first packet.
    new: bool,
    /// The attacker delivers what comes to its own address, too.
    passes_on: bool,
    /// A new path may not lead to an attacker who does that, either: more than can be promised.
    strict: bool,
}

#[derive(Copy, Clone, Debug)]
enum Step {
    /// An end sends a packet with data.
    Send { end: usize },
    /// A packet arrives as from its sender.
    Deliver { packet: usize },
    /// A packet arrives from the attacker's address.
    Divert { packet: usize },
    /// The initiator's NAT gives it another address.
    Rebind,
    /// Time passes until something is due.
    Wait,
    /// The attacker is gone, and what is under way is lost. Nothing follows.
    Calm,
}

struct End {
    set: PathSet,
    rng: ChaCha20Rng,
    /// Challenges that left, and where they went.
    asked: BTreeSet<([u8; 8], SocketAddr)>,
    /// Addresses whose challenge came back, and those from where it did.
    returned: BTreeSet<SocketAddr>,
    answered: BTreeSet<SocketAddr>,
    /// Bytes to and from each address.
    bytes: BTreeMap<SocketAddr, (usize, usize)>,
}

/// A packet as the attacker has it.
struct Flying {
    from: usize,
    number: u64,
    source: SocketAddr,
    to: SocketAddr,
    len: usize,
    plain: Vec<u8>,
}

struct State {
    now: Time,
    ends: [End; 2],
    /// Where the ends are.
    at: [SocketAddr; 2],
    flying: Vec<Flying>,
    sends: [usize; 2],
    over: bool,
}

impl End {
    fn path(&mut self) -> Option<&mut Path> {
        let index = self.set.index_of(ID)?;
        Some(&mut self.set[index])
    }

    /// A path towards an address that nobody has been asked about.
    fn open(&mut self, remote: SocketAddr, local: SocketAddr) -> usize {
        let local = Local {
            id: LOCAL,
            name: "if".into(),
            addr: local,
            mtu: None,
        };
        let new = NewPath {
            id: ID,
            local,
            remote,
            remote_cid: Some(ConnectionId([1; 8])),
            transport: PathTransport::Coupled,
            relay: None,
            initial_rtt: None,
        };
        self.set.add(T0, new, None)
    }
}

impl Roaming {
    /// Everything that an end owes leaves, and a packet with data if it wants to send one.
    fn flush(&self, state: &mut State, at: usize, data: bool) -> Result<(), String> {
        let initiator = at == 0;
        let (now, source) = (state.now, state.at[at]);
        if let (true, Some(path)) = (data, state.ends[at].path()) {
            path.probe();
        }
        loop {
            let end = &mut state.ends[at];
            let Some(path) = end.path() else {
                return Ok(());
            };
            if self.fault == Fault::HomeUnasked {
                path.migration.take_home_challenge();
            }
            let number = path.sender.next_packet_number();
            let mut buf = Vec::new();
            let candidates = 0..path.candidates();
            let mut due = candidates.filter_map(|it| Some((it, path.candidate_room(now, it)?)));
            let to = if let Some((candidate, room)) = due.next() {
                let mut packet = Packet::aside();
                path.begin(0, &mut buf).expect("it has an id");
                let end = room - TAG_LEN;
                path.write_to_candidate(now, candidate, end, None, &mut packet, &mut buf);
                let len = buf.len() + TAG_LEN;
                path.on_sent(now, len, false, packet);
                path.on_sent_to_candidate(candidate, number, len)
                    .expect("it is there")
                    .remote
            } else {
                let Some(room) = path.room(initiator).filter(|_| path.owes(now, initiator)) else {
                    return Ok(());
                };
                let mut packet = Packet::default();
                path.begin(0, &mut buf).expect("it has an id");
                let end = room - TAG_LEN;
                let nothing = (None, None);
                path.write_path_frames(now, end, initiator, nothing, &mut packet, &mut buf);
                if buf.len() == DATA_HEADER_LEN {
                    return Ok(());
                }
                let full = if packet.pad { end } else { end.min(DATA) };
                buf.resize(full.max(buf.len()), 0);
                let len = buf.len() + TAG_LEN;
                path.on_sent(now, len, false, packet);
                path.describe(len, len).remote
            };
            let (len, plain) = (buf.len() + TAG_LEN, buf.split_off(DATA_HEADER_LEN));
            for frame in Frames::new(&plain).flatten() {
                if let Frame::PathChallenge { data } = frame {
                    end.asked.insert((data, to));
                }
            }
            end.bytes.entry(to).or_default().0 += len;
            let from = at;
            state.flying.push(Flying {
                from,
                number,
                source,
                to,
                len,
                plain,
            });
            self.limited(state, at, to)?;
        }
    }

    /// Three times what came from an address goes there until it has answered. The initiator was
    /// told of the listener's.
    fn limited(&self, state: &State, at: usize, to: SocketAddr) -> Result<(), String> {
        let end = &state.ends[at];
        let (sent, came) = end.bytes.get(&to).copied().unwrap_or_default();
        let told = at == 0 && to == address(LISTENER) || !self.new && to == address(HOME);
        match told || end.returned.contains(&to) || sent <= 3 * came {
            true => Ok(()),
            false => Err("an address that hasn't answered gets more than three times".into()),
        }
    }

    fn arrive(&self, state: &mut State, at: usize, source: SocketAddr) -> Result<(), String> {
        let (now, flying) = (state.now, &state.flying[at]);
        let (to, number, len) = (1 - flying.from, flying.number, flying.len);
        let local = state.at[to];
        let end = &mut state.ends[to];
        if end.path().is_some_and(|path| !path.is_fresh(number)) {
            return Ok(());
        }
        let index = end.set.index_of(ID).unwrap_or_else(|| {
            let index = end.open(source, local);
            end.set.challenge(now, index, &mut end.rng);
            index
        });
        end.bytes.entry(source).or_default().1 += len;
        let path = &mut end.set[index];
        let (home, seen) = (path.local().clone(), (len, None));
        let initiator = to == 0 && self.fault != Fault::Follows;
        let origin = path.on_packet(now, number, (&home, source), seen, initiator, &mut end.rng);
        if let Origin::Candidate(candidate) = origin {
            if self.fault == Fault::NoLimit {
                let candidate = path.migration.candidate(candidate).expect("it is there");
                candidate.validation.on_received(1 << 20);
            }
            if self.fault == Fault::NoChallenge {
                path.remote = source;
            }
        }
        let frames: Vec<(bool, [u8; 8])> = Frames::new(&flying.plain)
            .flatten()
            .filter_map(|frame| match frame {
                Frame::PathChallenge { data } => Some((true, data)),
                Frame::PathResponse { data } => Some((false, data)),
                _ => None,
            })
            .collect();
        for (is_challenge, data) in frames {
            let path = &mut end.set[index];
            if is_challenge {
                path.on_challenge(origin, data);
                continue;
            }
            let asked = end
                .asked
                .iter()
                .filter(|(it, _)| *it == data)
                .map(|(_, to)| *to);
            end.returned.extend(asked);
            if end.asked.contains(&(data, source)) {
                end.answered.insert(source);
            }
            let origins = match self.fault {
                Fault::AnyResponse => {
                    let all = (0..path.candidates()).map(Origin::Candidate);
                    all.chain([Origin::Home]).collect()
                }
                _ => vec![origin],
            };
            for origin in origins {
                match end.set[index].on_response(now, origin, data, to == 0) {
                    Response::Validated(_) => drop(end.set.on_validated(index, None)),
                    Response::Candidate => self.migrate(now, end, index),
                    Response::Nothing => {}
                }
            }
        }
        let path = &mut end.set[index];
        let policy = path.ack_policy(10, Duration::from_millis(10));
        path.record(now, number, true, policy, false);
        path.received.on_ack_sent();
        self.proven(state, to)?;
        self.flush(state, to, false)
    }

    fn migrate(&self, now: Time, end: &mut End, index: usize) {
        if self.fault == Fault::NeverMoves {
            return;
        }
        if end.set.migrate(now, index).is_some() {
            end.set.on_validated(index, None);
            end.set[index].received.on_ack_sent();
        }
    }

    /// The address that a path uses has answered, from there, what went exactly there. Who sent
    /// first to an address that it was told takes the answer from anywhere.
    fn proven(&self, state: &mut State, at: usize) -> Result<(), String> {
        let end = &mut state.ends[at];
        let Some(path) = end.path() else {
            return Ok(());
        };
        let (remote, validated) = (path.remote, path.is_validated());
        let told = at == 0 && remote == address(LISTENER);
        let first = !self.new && (told || remote == address(HOME));
        let proven = end.answered.contains(&remote) || told && end.returned.contains(&remote);
        match !validated || first || proven {
            true => Ok(()),
            false => Err("an address is used that hasn't answered".into()),
        }
    }

    /// Time passes until something is due, at most a second.
    fn wait(&self, state: &mut State) -> Result<(), String> {
        let now = state.now;
        let due = state.ends.iter_mut().filter_map(|end| {
            let path = end.path()?;
            let timers = [path.validation.timer(now), path.migration.timer(now)];
            timers.into_iter().flatten().filter(|at| *at > now).min()
        });
        state.now = due
            .min()
            .unwrap_or(Time::MAX)
            .min(now + Duration::from_secs(1));
        for at in 0..2 {
            let (now, end) = (state.now, &mut state.ends[at]);
            let Some(index) = end.set.index_of(ID) else {
                continue;
            };
            self.migrate(now, end, index);
            if end.set.on_timer(now, index) {
                end.set.challenge(now, index, &mut end.rng);
            }
            self.proven(state, at)?;
            self.flush(state, at, false)?;
        }
        Ok(())
    }

    /// Both ends send, and what goes to where they are arrives, until they have found each other.
    fn calm(&self, state: &mut State) -> Result<(), String> {
        state.over = true;
        let mut next = state.flying.len();
        for _ in 0..60 {
            let found = (0..2).all(|at| {
                let remote = state.at[1 - at];
                let path = state.ends[at].path();
                path.is_some_and(|it| {
                    it.remote == remote && it.is_validated() && it.candidates() == 0
                })
            });
            if found {
                return Ok(());
            }
            for at in 0..2 {
                self.flush(state, at, true)?;
            }
            while next < state.flying.len() {
                let Flying {
                    from, source, to, ..
                } = state.flying[next];
                if state.at[1 - from] == to {
                    self.arrive(state, next, source)?;
                }
                next += 1;
            }
            self.wait(state)?;
        }
        Err("the path is lost for good".into())
    }

    /// Whether a packet is one that the network would deliver by itself, and still can.
    fn is_on_its_way(&self, state: &State, at: usize) -> bool {
        let flying = &state.flying[at];
        let (to, end) = (1 - flying.from, &state.ends[1 - flying.from]);
        let index = end.set.index_of(ID);
        flying.to == state.at[to] && index.is_none_or(|it| end.set[it].is_fresh(flying.number))
    }
}

/// What is different about a state: an end by its path and what was proven to it, and each packet
/// that can still arrive.
type Key = (u64, Vec<String>, Vec<SocketAddr>, [usize; 2], bool);

impl Model for Roaming {
    type State = State;
    type Step = Step;
    type Key = Key;

    fn start(&self) -> State {
        let end = |initiator| End {
            set: set(initiator),
            rng: ChaCha20Rng::seed_from_u64(u64::from(initiator)),
            asked: BTreeSet::new(),
            returned: BTreeSet::new(),
            answered: BTreeSet::new(),
            bytes: BTreeMap::new(),
        };
        let mut state = State {
            now: Time::from_millis(1),
            ends: [end(true), end(false)],
            at: [address(HOME), address(LISTENER)],
            flying: Vec::new(),
            sends: [0; 2],
            over: false,
        };
        for at in 0..2 {
            let (now, remote, local) = (state.now, state.at[1 - at], state.at[at]);
            let end = &mut state.ends[at];
            if self.new && at == 0 {
                let index = end.open(remote, local);
                end.set.challenge(now, index, &mut end.rng);
                self.flush(&mut state, 0, false).expect("it may ask");
            } else if !self.new {
                let index = end.open(remote, local);
                end.set.on_validated(index, None);
            }
        }
        state
    }

    fn steps(&self, state: &State) -> Vec<Step> {
        if state.over {
            return Vec::new();
        }
        let mut steps = vec![Step::Calm];
        steps.extend(
            (0..2)
                .filter(|&end| state.sends[end] < 2)
                .map(|end| Step::Send { end }),
        );
        for (packet, flying) in state.flying.iter().enumerate() {
            let end = &state.ends[1 - flying.from];
            let index = end.set.index_of(ID);
            let passes = self.passes_on || flying.to != address(ELSEWHERE);
            if passes && index.is_none_or(|it| end.set[it].is_fresh(flying.number)) {
                steps.extend([Step::Deliver { packet }, Step::Divert { packet }]);
            }
        }
        if state.at[0] == address(HOME) {
            steps.push(Step::Rebind);
        }
        let waits = (0..state.flying.len()).any(|at| self.is_on_its_way(state, at));
        if self.network == Network::Drops || !waits {
            steps.push(Step::Wait);
        }
        steps
    }

    fn take(&self, state: &mut State, step: &Step) -> Result<(), String> {
        match *step {
            Step::Send { end } => {
                state.sends[end] += 1;
                self.flush(state, end, true)?;
            }
            Step::Deliver { packet } => {
                let source = state.flying[packet].source;
                self.arrive(state, packet, source)?;
            }
            Step::Divert { packet } => self.arrive(state, packet, address(ELSEWHERE))?,
            Step::Rebind => state.at[0] = address(MOVED),
            Step::Wait => self.wait(state)?,
            Step::Calm => self.calm(state)?,
        }
        // Without anybody at home, whoever answers has the path until the peer is heard again.
        let home_answers = self.network == Network::Delivers && state.at[0] == address(HOME);
        if !home_answers || self.new && self.passes_on && !self.strict {
            return Ok(());
        }
        let elsewhere = |path: &mut Path| path.remote == address(ELSEWHERE) && path.is_validated();
        match state
            .ends
            .iter_mut()
            .any(|end| end.path().is_some_and(elsewhere))
        {
            true => Err("the path leads to the attacker though home answers".into()),
            false => Ok(()),
        }
    }

    fn key(&self, state: &State) -> Key {
        let mut parts = Vec::new();
        for end in &state.ends {
            if let Some(index) = end.set.index_of(ID) {
                let path = &end.set[index];
                let (validation, migration) = (&path.validation, &path.migration);
                let next = (path.sender.next_packet_number(), path.sender.pto());
                let received: Vec<_> = path.received.ranges().collect();
                let (to, owed) = (path.remote, path.respond);
                parts.push(format!(
                    "{validation:?} {migration:?} {next:?} {received:?} {to} {owed:?}"
                ));
            }
            let (asked, returned, answered) = (&end.asked, &end.returned, &end.answered);
            parts.push(format!(
                "{asked:?} {returned:?} {answered:?} {:?}",
                end.bytes
            ));
        }
        for flying in &state.flying {
            let end = &state.ends[1 - flying.from];
            let index = end.set.index_of(ID);
            if index.is_none_or(|it| end.set[it].is_fresh(flying.number)) {
                let Flying {
                    from,
                    number,
                    source,
                    to,
                    ..
                } = flying;
                parts.push(format!("{from} {number} {source} {to} {:?}", flying.plain));
            }
        }
        (
            state.now.as_micros(),
            parts,
            state.at.to_vec(),
            state.sends,
            state.over,
        )
    }
}

fn roaming(fault: Fault, network: Network, new: bool) -> Roaming {
    Roaming {
        fault,
        network,
        new,
        passes_on: true,
        strict: false,
    }
}

/// An attacker who doesn't deliver what comes to its own address.
fn keeping(fault: Fault) -> Roaming {
    Roaming {
        passes_on: false,
        ..roaming(fault, Network::Delivers, true)
    }
}

/// No address is used before it has answered, none gets more than three times before; nobody moves
/// a path whose home answers; no path is lost for good.
fn holds(new: bool, depth: usize) {
    for network in [Network::Delivers, Network::Drops] {
        let name = format!("roaming, new {new}, network {network:?}");
        assert_holds(&name, &roaming(Fault::None, network, new), depth);
    }
}

fn broken(fault: Fault, (network, new): (Network, bool), property: &str) {
    assert_broken(
        &format!("{fault:?}"),
        &roaming(fault, network, new),
        6,
        property,
    );
}

#[test]
fn model_of_roaming_holds() {
    holds(false, 6);
    holds(true, 5);
}

#[test]
#[ignore = "the larger bound: some minutes"]
fn model_of_roaming_holds_further() {
    holds(false, 7);
    holds(true, 6);
    assert_holds("keeping", &keeping(Fault::None), 7);
}

/// Who copies and overtakes packets, and keeps what comes to its own address, doesn't get even a
/// new path.
#[test]
fn model_of_roaming_holds_against_who_overtakes_a_new_path() {
    let name = "roaming, new path, nothing is passed on";
    assert_holds(name, &keeping(Fault::None), 6);
}

#[test]
fn model_of_roaming_finds_what_responses_from_anywhere_admit() {
    let property = "an address is used that hasn't answered";
    broken(Fault::AnyResponse, (Network::Drops, true), property);
}

#[test]
fn model_of_roaming_finds_the_move_without_a_challenge() {
    let property = "an address is used that hasn't answered";
    broken(Fault::NoChallenge, (Network::Drops, false), property);
    let property = "an address that hasn't answered gets more than three times";
    assert_broken("keeping", &keeping(Fault::NoChallenge), 6, property);
}

#[test]
fn model_of_roaming_finds_the_move_of_a_path_whose_home_is_not_asked() {
    let property = "the path leads to the attacker though home answers";
    broken(Fault::HomeUnasked, (Network::Delivers, false), property);
}

#[test]
fn model_of_roaming_finds_the_amplification_without_a_limit() {
    let property = "an address that hasn't answered gets more than three times";
    broken(Fault::NoLimit, (Network::Drops, false), property);
}

#[test]
fn model_of_roaming_finds_the_loss_of_a_path_that_never_moves() {
    let property = "the path is lost for good";
    broken(Fault::NeverMoves, (Network::Drops, false), property);
}

/// The initiator would take the attacker's address for the listener's, while the listener has used
/// up what it may send to an address that hasn't answered.
#[test]
fn model_of_roaming_finds_the_new_path_that_is_led_away() {
    let property = "the path is lost for good";
    broken(Fault::Follows, (Network::Delivers, true), property);
}

/// What can't be promised: who overtakes the first packet and the answer to the challenge, and
/// passes all on in both directions, is to both ends what a NAT is.
#[test]
fn model_of_roaming_shows_that_who_passes_everything_on_is_like_a_nat() {
    let strict = Roaming {
        strict: true,
        ..roaming(Fault::None, Network::Delivers, true)
    };
    let property = "the path leads to the attacker though home answers";
    assert_broken("a known limit", &strict, 6, property);
}

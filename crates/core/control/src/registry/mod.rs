//! Names of laws and controllers, their parameters and how to make them, in one place.
//!
//! The table at the top is all there is to a name: a new law is a file in [`crate::laws`] and an
//! entry here.

use crate::controller::{Ack, Controller, Loss, NewPath, PathVerdict, Round, Slot};
use crate::coupled::Coupled;
use crate::law::{Law, Path, Scalar, WindowLaw};
use crate::laws::{
    Balia, Bmc, Cubic, Ewtcp, FullyCoupled, Generalized, Lia, Mpath, MpathRules, Olia, Reno,
    Semicoupled,
};
use crate::laws::{Drain, Manager, Weights, Wvegas, WvegasConfig};
use crate::options::Options;
use manyway_units::Time;

mod parameter;
mod spec;
#[macro_use]
mod table;

pub use parameter::{Parameter, Range};
pub use spec::{LawError, LawSpec};

table! {
    // Window laws: `Type "name" "about" { field: default, range, "meaning"; }`.
    laws {
        Reno "reno"
            "uncoupled Reno on every path (RFC 5681): n paths take n shares of a common \
             bottleneck" {}
        Ewtcp "ewtcp"
            "weighted Reno on every path (Honda et al.): n paths with a = 1/n² take one share of a \
             common bottleneck" {
            a: 1.0, Range::above(0.0, 1000.0), "packets per round trip that a path adds to its \
                window";
        }
        FullyCoupled "coupled"
            "fully coupled (Kelly and Voice): the friendliest and slowest, moves all traffic to \
             the best paths" {}
        Semicoupled "semicoupled"
            "semicoupled (Wischik et al.): between ewtcp and lia" {}
        Lia "lia"
            "linked increases (RFC 6356): as much as one flow on the best path, never more than \
             one on any" {}
        Balia "balia"
            "balanced linked adaptation (Peng et al.): friendlier than lia, and quick to respond" {}
        Generalized "generalized"
            "the class between coupled, semicoupled, lia and balia (Peng et al., eq. 16)" {
            beta: 0.2, Range::between(0.0, 1000.0), "less is friendlier, more responds quicker";
            n: f64::INFINITY, Range::between(1.0, f64::INFINITY),
                "order of the norm: more is friendlier, less responds quicker";
            eta: 0.5, Range::between(0.0, 1000.0), "more responds quicker and oscillates more";
            cap: f64::INFINITY, Range::between(1.0, f64::INFINITY),
                "the decrease is at most this many halves of the window";
        }
    }
    // Laws that remember, made by `Default`.
    remembering {
        Olia "olia"
            "opportunistic linked increases (Khalili et al.): moves window to the paths with the \
             fewest losses"
    }
    // Controllers of their own: `Variant "name" "about" { parameters } Type = |options| how it is
    // made, or why not;`
    controllers {
        Cubic "cubic"
            "uncoupled CUBIC on every path (RFC 9438): the kernel's default, as a baseline" {}
            Cubic = |options| Ok(Cubic::new(options));
        Mpath "mpath"
            "mPath (Xu et al.): one direct path and many through relays; moves load to the direct \
             one where they share a bottleneck" {
            alpha: 0.5, Range::above(0.0, 1.0),
                "share of a relayed path's window that moves to the direct path at a loss that \
                 both meet";
            beta: 0.25, Range::above(0.0, 1.0), "new relayed paths per packet of the direct path's \
                window, at a loss";
            }
            Mpath = |options| Mpath::new(MpathRules { alpha, beta }, options);
        Wvegas "wvegas"
            "weighted Vegas (Cao et al.): acts on delay, and drains a queue when others have let \
             it grow" {
            total_alpha: 10.0, Range::above(0.0, 1e6), "packets that the connection keeps queued";
            min_alpha: 2.0, Range::above(0.0, 1e6), "packets that a path keeps queued at least";
            gamma: 1.0, Range::above(0.0, 1e6), "queued packets that end slow start";
            base: 0.0, Range::between(0.0, 3600.0), "the paths' round-trip time without queues, in \
                seconds; 0 to measure it";
            forward: 0.0, Range::switch(), "1: queues on the way back don't count, where the peer \
                says when packets arrived";
            least: 0.0, Range::switch(), "1: a round's delay is the least of its samples instead \
                of their mean, against noise of hosts";
            drain: 1.0, Range::switch(), "0: never back off to empty the queue";
            }
            Wvegas = |options| {
                let drain = if drain == 0.0 { Drain::Never } else { Drain::AtEquilibrium };
                let (forward, least) = (forward != 0.0, least != 0.0);
                let loss_keeps_alpha = false;
                let config = WvegasConfig { total_alpha, min_alpha, gamma, base, forward, least, drain, loss_keeps_alpha };
                Ok(Wvegas::new("wvegas", config, options))
            };
        WvegasPrinted "wvegas-printed"
            "weighted Vegas with the drain rule as printed, which fractions of a packet in the \
             queue set off" {
            total_alpha: 10.0, Range::above(0.0, 1e6), "packets that the connection keeps queued";
            min_alpha: 2.0, Range::above(0.0, 1e6), "packets that a path keeps queued at least";
            gamma: 1.0, Range::above(0.0, 1e6), "queued packets that end slow start";
            base: 0.0, Range::between(0.0, 3600.0), "the paths' round-trip time without queues, in \
                seconds; 0 to measure it";
            forward: 0.0, Range::switch(), "1: queues on the way back don't count, where the peer \
                says when packets arrived";
            }
            Wvegas = |options| {
                let (forward, drain, loss_keeps_alpha) = (forward != 0.0, Drain::AsPrinted, true);
                let config = WvegasConfig { total_alpha, min_alpha, gamma, base, forward, least: false, drain, loss_keeps_alpha };
                Ok(Wvegas::new("wvegas-printed", config, options))
            };
        Bmc "bmc"
            "weighted AIMD on every path (Honda): together as aggressive as one flow, or as p \
             flows" {
            p: 1.0, Range::above(0.0, 1000.0), "flow shares of the whole connection: what the \
                weights sum to";
            ramp: 0.0, Range::switch(), "1: slow start is weighted, too";
            d1: 0.0, Range::between(0.0, 1000.0), "the first path's weight, in flow shares; 0 for \
                equal weights";
            d2: 0.0, Range::between(0.0, 1000.0), "the second path's weight; 0 if it has none \
                given";
            d3: 0.0, Range::between(0.0, 1000.0), "the third path's weight; 0 if it has none given";
            d4: 0.0, Range::between(0.0, 1000.0), "the fourth path's weight; 0 if it has none \
                given";
            d5: 0.0, Range::between(0.0, 1000.0), "the fifth path's weight; 0 if it has none given";
            d6: 0.0, Range::between(0.0, 1000.0), "the sixth path's weight; 0 if it has none given";
            d7: 0.0, Range::between(0.0, 1000.0), "the seventh path's weight; 0 if it has none \
                given";
            d8: 0.0, Range::between(0.0, 1000.0), "the eighth path's weight; 0 if it has none \
                given";
            }
            Bmc = |options| {
                let weights = Weights::given(p, [d1, d2, d3, d4, d5, d6, d7, d8])?;
                Ok(Bmc::new("bmc", weights, Manager::Fixed, options).with_weighted_slow_start(ramp != 0.0))
            };
        BmcProportion "bmc-proportion"
            "bmc with the proportion manager as published, which never rests" {
            p: 1.0, Range::above(0.0, 1000.0), "flow shares of the whole connection: what the \
                weights sum to";
            k: 1.0, Range::within(0.0, 4.0), "how much weight moves at once";
            epochs: 1.0, Range::between(1.0, 1000.0), "J, in congestion epochs of the path whose \
                are the longest";
            j: 0.0, Range::between(0.0, 86400.0), "J is at least so many seconds";
            min: 0.05, Range::within(0.0, 1.0), "no path's part of p falls below this";
            d1: 0.0, Range::between(0.0, 1000.0), "the first path's weight, in flow shares; 0 for \
                equal weights";
            d2: 0.0, Range::between(0.0, 1000.0), "the second path's weight; 0 if it has none \
                given";
            d3: 0.0, Range::between(0.0, 1000.0), "the third path's weight; 0 if it has none given";
            d4: 0.0, Range::between(0.0, 1000.0), "the fourth path's weight; 0 if it has none \
                given";
            d5: 0.0, Range::between(0.0, 1000.0), "the fifth path's weight; 0 if it has none given";
            d6: 0.0, Range::between(0.0, 1000.0), "the sixth path's weight; 0 if it has none given";
            d7: 0.0, Range::between(0.0, 1000.0), "the seventh path's weight; 0 if it has none \
                given";
            d8: 0.0, Range::between(0.0, 1000.0), "the eighth path's weight; 0 if it has none \
                given";
            }
            Bmc = |options| {
                let weights = Weights::given(p, [d1, d2, d3, d4, d5, d6, d7, d8])?;
                let manager = Manager::Proportion { k, epochs, at_least: j, min };
                Ok(Bmc::new("bmc-proportion", weights, manager, options))
            };
        BmcBalance "bmc-balance"
            "bmc with a proportion manager that comes to rest: small steps on the mean of many \
             intervals, and a dead band" {
            p: 1.0, Range::above(0.0, 1000.0), "flow shares of the whole connection: what the \
                weights sum to";
            gain: 2.0, Range::above(0.0, 1000.0), "the k-th step corrects gain/k of a deviation, \
                between an eighth and all of it";
            band: 0.03, Range::between(0.0, 10.0), "relative deviations that are left alone";
            epochs: 1.0, Range::between(1.0, 1000.0), "J, in congestion epochs of the path whose \
                are the longest";
            min: 0.05, Range::within(0.0, 1.0), "no path's part of p falls below this";
            d1: 0.0, Range::between(0.0, 1000.0), "the first path's weight, in flow shares; 0 for \
                equal weights";
            d2: 0.0, Range::between(0.0, 1000.0), "the second path's weight; 0 if it has none \
                given";
            d3: 0.0, Range::between(0.0, 1000.0), "the third path's weight; 0 if it has none given";
            d4: 0.0, Range::between(0.0, 1000.0), "the fourth path's weight; 0 if it has none \
                given";
            d5: 0.0, Range::between(0.0, 1000.0), "the fifth path's weight; 0 if it has none given";
            d6: 0.0, Range::between(0.0, 1000.0), "the sixth path's weight; 0 if it has none given";
            d7: 0.0, Range::between(0.0, 1000.0), "the seventh path's weight; 0 if it has none \
                given";
            d8: 0.0, Range::between(0.0, 1000.0), "the eighth path's weight; 0 if it has none \
                given";
            }
            Bmc = |options| {
                let weights = Weights::given(p, [d1, d2, d3, d4, d5, d6, d7, d8])?;
                let manager = Manager::Balance { gain, band, epochs, min };
                Ok(Bmc::new("bmc-balance", weights, manager, options))
            };
    }
}

struct Entry {
    name: &'static str,
    about: &'static str,
    parameters: &'static [Parameter],
    /// The controller, or what is wrong with parameters that are in range one by one and how to
    /// mend it.
    controller: fn(&[f64], &Options) -> Result<AnyController, String>,
    /// The window law, where the controller is one.
    law: Option<fn(&[f64]) -> AnyLaw>,
}

impl Controller for AnyController {
    fn name(&self) -> &'static str {
        each!(self, controller => controller.name())
    }
    fn check_paths(&self, count: usize) -> Result<(), String> {
        each!(self, controller => controller.check_paths(count))
    }
    fn add_path(&mut self, path: NewPath) -> Slot {
        each!(self, controller => controller.add_path(path))
    }
    fn remove_path(&mut self, slot: Slot) {
        each!(self, controller => controller.remove_path(slot));
    }
    fn set_packet_size(&mut self, slot: Slot, bytes: u32) {
        each!(self, controller => controller.set_packet_size(slot, bytes));
    }
    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        each!(self, controller => controller.on_ack(ack));
    }
    #[inline]
    fn on_loss(&mut self, loss: &Loss) {
        each!(self, controller => controller.on_loss(loss));
    }
    fn on_further_loss(&mut self, loss: &Loss) {
        each!(self, controller => controller.on_further_loss(loss));
    }
    #[inline]
    fn on_ecn(&mut self, loss: &Loss) {
        each!(self, controller => controller.on_ecn(loss));
    }
    fn on_timeout(&mut self, slot: Slot, now: Time) {
        each!(self, controller => controller.on_timeout(slot, now));
    }
    #[inline]
    fn on_round_end(&mut self, round: &Round) {
        each!(self, controller => controller.on_round_end(round));
    }
    #[inline]
    fn window(&self, slot: Slot) -> f64 {
        each!(self, controller => controller.window(slot))
    }
    #[inline]
    fn in_slow_start(&self, slot: Slot) -> bool {
        each!(self, controller => controller.in_slow_start(slot))
    }
    fn verdict(&self, slot: Slot) -> PathVerdict {
        each!(self, controller => controller.verdict(slot))
    }
}

/// A controller without paths, by its name or its text form, `name:key=value,…` (see [`LawSpec`]).
///
/// # Errors
/// [`LawError`] if there is no such name, or if it doesn't take these parameters.
pub fn controller(name: &str, options: &Options) -> Result<Box<dyn Controller>, LawError> {
    Ok(Box::new(name.parse::<LawSpec>()?.controller(options)))
}

/// A window law by its name or its text form; `None` where the named controller is not a window law
/// (`cubic`).
///
/// # Errors
/// [`LawError`] if there is no such name, or if it doesn't take these parameters.
pub fn law(name: &str) -> Result<Option<Box<dyn Law>>, LawError> {
    Ok(name.parse::<LawSpec>()?.law())
}

/// All names with a line about each, in the order in which they should be listed.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    ENTRIES.iter().map(|entry| (entry.name, entry.about))
}

/// The parameters that the law of this name takes.
///
/// # Errors
/// [`UnknownLaw`] if there is no such name.
pub fn parameters_of(name: &str) -> Result<&'static [Parameter], UnknownLaw> {
    Ok(find(name)?.parameters)
}

/// There is no congestion control of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown congestion control {name:?}{}; known are {}", hint(.suggestion), known())]
pub struct UnknownLaw {
    /// The name asked for.
    pub name: String,
    /// The known name nearest to it, if one is near.
    pub suggestion: Option<&'static str>,
}

fn find(name: &str) -> Result<&'static Entry, UnknownLaw> {
    ENTRIES
        .iter()
        .find(|entry| entry.name == name)
        .ok_or_else(|| UnknownLaw {
            name: shortened(name),
            suggestion: nearest_of(name, names().map(|(known, _)| known)),
        })
}

/// A specification's values, as many as its entry has parameters.
fn exactly<const N: usize>(values: &[f64]) -> [f64; N] {
    values
        .try_into()
        .expect("a specification holds a value for each of its parameters")
}

/// As much of an input as an error should repeat.
fn shortened(input: &str) -> String {
    input.chars().take(64).collect()
}

fn hint(suggestion: &Option<&'static str>) -> String {
    suggestion.map_or_else(String::new, |name| format!(" (did you mean {name:?}?)"))
}

fn known() -> String {
    names().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// The known word with the fewest edits to `word`, if at most half of its letters differ.
fn nearest_of(word: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    known
        .map(|known| (edits(&word, known), known))
        .min_by_key(|&(edits, _)| edits)
        .filter(|&(edits, known)| 2 * edits <= known.len())
        .map(|(_, known)| known)
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
pub(crate) mod tests;

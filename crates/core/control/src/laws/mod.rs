//! The laws, a file each, and the registry's entry for each.
//!
//! A new law is a file beside the others, two lines that declare it here, and an entry in the table
//! below. The table makes [`AnyLaw`], [`AnyController`] and the entries from which
//! [`registry`](crate::registry) parses, lists and checks laws. Nothing here parses text, and no
//! law knows its entry.

mod added;
mod auto;
mod balia;
mod bbr;
mod bmc;
pub(crate) mod cubic;
mod dctcp;
mod ewtcp;
mod fully_coupled;
mod generalized;
mod lia;
mod mpath;
mod olia;
mod reno;
mod semicoupled;
mod wvegas;

pub(crate) use added::{add, entries};
pub use any::Visitor;
pub use auto::{Auto, AutoGroup};
pub use balia::Balia;
pub use bbr::Bbr;
pub use bmc::{Bmc, Manager, Weights};
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use ewtcp::Ewtcp;
pub use fully_coupled::FullyCoupled;
pub use generalized::Generalized;
pub use lia::Lia;
pub use mpath::Mpath;
pub use olia::Olia;
pub use reno::Reno;
pub use semicoupled::Semicoupled;
pub use wvegas::{Drain, Wvegas, WvegasConfig};

use crate::capabilities::Capabilities;
use crate::coupled::Coupled;
use crate::law::{Law, Path, Scalar, WindowLaw};
use crate::options::Options;
use crate::parameter::{Parameter, Range, join};
use crate::paths::ManagerConfig;

#[macro_use]
mod table;

table! {
    // Window laws: `Type "name" "about" { field: default, range, "meaning"; }`.
    window_laws {
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
            "linked increases (RFC 6356): aims at as much as one flow on the best path, and at \
             no more than one on any" {}
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
    // Laws that remember, made by `Default`: `Type "name" "about" nearest "laws with a fluid
    // form"`.
    remembering {
        Olia "olia"
            "opportunistic linked increases (Khalili et al.): moves window to the paths with the \
             fewest losses" nearest "coupled or lia";
    }
    // Controllers of their own; `make` gives the controller, or says what is wrong with parameters
    // that are in range one by one, and how to mend it.
    controllers {
        Cubic "cubic"
            "uncoupled CUBIC on every path (RFC 9438): the kernel's default, as a baseline" {
            parameters: [],
            capabilities: Capabilities::LOSS,
            fluid: |_| Fluid::None { nearest: "reno" },
            make: |[], options| -> Cubic { Ok(Cubic::new(options)) }
        }
        Dctcp "dctcp"
            "DCTCP on every path (RFC 8257): cuts by the share of marked packets, for queues that \
             mark early" {
            parameters: [
                Parameter::new("g", 0.0625, Range::above(0.0, 1.0),
                    "gain of the moving average of the share of marked packets"),
            ],
            capabilities: Capabilities::LOSS,
            fluid: |_| Fluid::None { nearest: "reno" },
            make: |[g], options| -> Coupled<Dctcp> {
                Ok(Coupled::new(Dctcp::new(g), options))
            }
        }
        Bbr "bbr"
            "uncoupled BBRv3 on every path (draft-ietf-ccwg-bbr): a model of bandwidth and \
             round-trip time, as a baseline" {
            parameters: [],
            capabilities: Capabilities::RATE,
            fluid: |_| Fluid::None { nearest: "reno" },
            make: |[], options| -> Bbr { Ok(Bbr::new(options)) }
        }
        Auto "auto"
            "adaptive coupling: subflows that share a bottleneck together take about one CUBIC \
             flow's share; random losses don't count as congestion" {
            parameters: [],
            capabilities: Capabilities::LOSS_AND_DELAY,
            fluid: |_| Fluid::None { nearest: "reno" },
            make: |[], options| -> Auto { Ok(Auto::new(options)) }
        }
        Background "background"
            "adaptive coupling in the background: as auto, with a tenth of its weight, and it \
             yields to every queue" {
            parameters: [],
            capabilities: Capabilities::DELAY,
            fluid: |_| Fluid::None { nearest: "reno" },
            make: |[], options| -> Auto { Ok(Auto::background(options)) }
        }
        Mpath "mpath"
            "mPath (Xu et al.): one direct path and many through relays; moves load to the direct \
             one where they share a bottleneck" {
            parameters: [
                Parameter::new("alpha", 0.5, Range::above(0.0, 1.0),
                    "share of a relayed path's window that moves to the direct path at a loss \
                     that both meet"),
                Parameter::new("beta", ManagerConfig::BETA, Range::above(0.0, 1.0),
                    "new relayed paths per packet of the direct path's window, at a loss"),
                Parameter::new("tau", ManagerConfig::TAU, Range::between(1.0, 1000.0),
                    "longest round trip of a relay's probe, in round trips of the direct path"),
            ],
            capabilities: Capabilities { paced: false, ..Capabilities::LOSS },
            fluid: |_| Fluid::None { nearest: "lia" },
            path_manager: |values| {
                let [_, beta, tau] = exactly(values);
                ManagerConfig::default().of_law(beta, tau)
            },
            make: |[alpha, ..], options| -> Box<Mpath> {
                Mpath::new(alpha, options).map(Box::new)
            }
        }
        Wvegas "wvegas"
            "weighted Vegas (Cao et al.): acts on delay, and drains a queue that other flows have \
             built up" {
            parameters: join::<5, 2, 7>(wvegas::PARAMETERS, [
                Parameter::new("least", 0.0, Range::switch(),
                    "1: use the smallest delay sample of a round instead of their mean, against \
                     noise of hosts"),
                Parameter::new("drain", 1.0, Range::switch(),
                    "0: never back off to empty the queue"),
            ]),
            capabilities: Capabilities::DELAY,
            fluid: |values| Fluid::Delay { total_alpha: values[0], min_alpha: values[1] },
            make: |[total_alpha, min_alpha, gamma, base, forward, least, drain], options|
                -> Box<Wvegas> {
                let config = WvegasConfig {
                    total_alpha,
                    min_alpha,
                    gamma,
                    base,
                    forward: forward != 0.0,
                    least: least != 0.0,
                    drain: if drain == 0.0 { Drain::Never } else { Drain::AtEquilibrium },
                    ..WvegasConfig::default()
                };
                Ok(Box::new(Wvegas::new("wvegas", config, options)))
            }
        }
        WvegasPrinted "wvegas-printed"
            "weighted Vegas with the drain rule as printed: a fraction of a packet in the queue \
             triggers it" {
            parameters: wvegas::PARAMETERS,
            capabilities: Capabilities::DELAY,
            fluid: |_| Fluid::None { nearest: "wvegas" },
            make: |[total_alpha, min_alpha, gamma, base, forward], options| -> Box<Wvegas> {
                let config = WvegasConfig {
                    total_alpha,
                    min_alpha,
                    gamma,
                    base,
                    forward: forward != 0.0,
                    drain: Drain::AsPrinted,
                    loss_keeps_alpha: true,
                    ..WvegasConfig::default()
                };
                Ok(Box::new(Wvegas::new("wvegas-printed", config, options)))
            }
        }
        Bmc "bmc"
            "weighted AIMD on every path (Honda): together as aggressive as one flow, or as p \
             flows" {
            parameters: join::<2, 8, 10>([
                bmc::TOTAL,
                Parameter::new("ramp", 0.0, Range::switch(), "1: slow start is weighted, too"),
            ], bmc::WEIGHTS),
            capabilities: Capabilities::LOSS,
            fluid: |_| Fluid::None { nearest: "ewtcp:a=D², D its weight" },
            make: |[p, ramp, weights @ ..], options| -> Box<Bmc> {
                let weights = Weights::given(p, weights)?;
                let bmc = Bmc::new("bmc", weights, Manager::Fixed, options);
                Ok(Box::new(bmc.with_weighted_slow_start(ramp != 0.0)))
            }
        }
        BmcProportion "bmc-proportion"
            "bmc with the proportion manager as published, which never converges" {
            parameters: join::<5, 8, 13>([
                bmc::TOTAL,
                Parameter::new("k", 1.0, Range::within(0.0, 4.0), "how much weight moves at once"),
                bmc::EPOCHS,
                Parameter::new("j", 0.0, Range::between(0.0, 86400.0),
                    "the smallest J, in seconds"),
                bmc::LEAST,
            ], bmc::WEIGHTS),
            capabilities: Capabilities::LOSS,
            fluid: |_| Fluid::None { nearest: "ewtcp:a=D², D its weight" },
            make: |[p, k, epochs, at_least, min, weights @ ..], options| -> Box<Bmc> {
                let weights = Weights::given(p, weights)?;
                let manager = Manager::Proportion { k, epochs, at_least, min };
                Ok(Box::new(Bmc::new("bmc-proportion", weights, manager, options)))
            }
        }
        BmcBalance "bmc-balance"
            "bmc with a proportion manager that converges: small steps on the mean of many \
             intervals, and a dead band" {
            parameters: join::<5, 8, 13>([
                bmc::TOTAL,
                Parameter::new("gain", 2.0, Range::above(0.0, 1000.0),
                    "the k-th step corrects gain/k of a deviation, between an eighth and all of \
                     it"),
                Parameter::new("band", 0.03, Range::between(0.0, 10.0),
                    "relative deviations that it ignores"),
                bmc::EPOCHS,
                bmc::LEAST,
            ], bmc::WEIGHTS),
            capabilities: Capabilities::LOSS,
            fluid: |_| Fluid::None { nearest: "ewtcp:a=D², D its weight" },
            make: |[p, gain, band, epochs, min, weights @ ..], options| -> Box<Bmc> {
                let weights = Weights::given(p, weights)?;
                let manager = Manager::Balance { gain, band, epochs, min };
                Ok(Box::new(Bmc::new("bmc-balance", weights, manager, options)))
            }
        }
    }
}

// After the table, whose `each!` it uses.
mod any;

/// A law as a fluid model sees it.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Fluid {
    /// Prices are loss probabilities, and rates follow from the window law's `I_r` and `D_r`.
    Window(AnyLaw),
    /// Prices are queueing delays, and each source keeps packets queued: wVegas.
    Delay {
        /// Packets that the source keeps queued.
        total_alpha: f64,
        /// Packets that it keeps queued on each path at least.
        min_alpha: f64,
    },
    /// The law is more than an increase and a decrease by windows and round-trip times.
    None {
        /// The nearest laws with a fluid form, for messages.
        nearest: &'static str,
    },
}

/// Makes a controller from a value for each parameter, or says what is wrong with them.
type Make = dyn Fn(&[f64], &Options) -> Result<AnyController, String> + Send + Sync;

/// What the registry knows of a law.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) capabilities: Capabilities,
    /// The controller, or what is wrong with parameters that are in range one by one and how to
    /// mend it. Here and below, a value for each parameter.
    pub(crate) controller: &'static Make,
    pub(crate) fluid: fn(&[f64]) -> Fluid,
    /// The settings of the path manager, where the law comes with one.
    pub(crate) path_manager: Option<fn(&[f64]) -> ManagerConfig>,
}

/// A specification's values, as many as its entry has parameters.
fn exactly<const N: usize>(values: &[f64]) -> [f64; N] {
    values
        .try_into()
        .expect("a specification holds a value for each of its parameters")
}

#[cfg(test)]
mod tests;

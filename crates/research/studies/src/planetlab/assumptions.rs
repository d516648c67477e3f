//! What is assumed of PlanetLab and of the Internet of its time. Nothing here was fitted to the
//! paper's results.

use serde::Serialize;

/// The parameters of the generator.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Assumptions {
    pub(crate) seed: u64,
    /// Relays; the paper's proxies (section 4.2).
    pub(crate) relays: usize,
    /// End hosts distinct from the relays (section 4.5); the pairs of section 4.3 are of these too.
    pub(crate) ends: usize,
    /// All rates are this much of what they are said to be, so that a run takes no longer than a
    /// second. In packets a path with 4 Mbps and packets of 5 kB is the same as one with 1 Mbps and
    /// packets of 1250 B.
    pub(crate) scale: f64,
    /// Outgoing limits of sites, Mbps, each with its share of the sites. PlanetLab's default was 10
    /// Mbps; others asked for limits of 20 and 40 Mbps, and some had none (100 Mbps Ethernet).
    pub(crate) limits: [(f64, f64); 4],
    /// Outgoing traffic is divided among the slices that have some, by fair queueing (HTB): ours
    /// and up to so many others.
    pub(crate) slices: u32,
    /// Incoming traffic isn't shaped by the node. So many sites have a line of 10 Mbps, the others
    /// of 100, and part of it is in use.
    pub(crate) slow_lines: f64,
    /// Share of the core links that are congested: so many that about half of the direct paths are
    /// limited in the core.
    pub(crate) congested: f64,
    /// What a congested link leaves to each flow, Mbps, log-uniform between these. (Akella, Seshan
    /// and Shaikh, IMC 2003: about half of the paths have a bottleneck in the core with less than
    /// 50 Mbps available.)
    pub(crate) share: (f64, f64),
    /// Standard deviation of the logarithm of what is available, over time.
    pub(crate) sway: f64,
    /// Share of the relays that don't answer (section 4.2: about 400 of 450 do).
    pub(crate) dead: f64,
    /// What a relay has of its site's rates in both directions.
    pub(crate) spare: f64,
    pub(crate) background: Background,
    /// What a queue holds, seconds of its link's rate.
    pub(crate) queue_s: f64,
    /// Keys of the path manager, as in a scenario file; without any it is the paper's.
    pub(crate) manager: &'static str,
}

/// How the traffic of others is represented on congested core links.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Serialize)]
pub(crate) enum Background {
    /// The link has what others leave to the direct ways over it. Proxied paths share that.
    Reduced,
    /// So many Reno flows are on the link, which has that many shares more. Whoever uses several
    /// paths over it gets several shares. Links of which a flow gets more than twice what the
    /// connections' ends can take are as with `Reduced`: nobody fills them.
    Elastic(u32),
}

impl Default for Assumptions {
    fn default() -> Self {
        Assumptions {
            seed: 1,
            relays: 450,
            ends: 200,
            scale: 0.5,
            limits: [(10.0, 0.6), (20.0, 0.15), (40.0, 0.15), (100.0, 0.1)],
            slices: 3,
            slow_lines: 0.25,
            congested: 0.6,
            share: (1.0, 50.0),
            sway: 0.15,
            dead: 0.1,
            spare: 1.0,
            background: Background::Reduced,
            queue_s: 0.1,
            manager: "{}",
        }
    }
}

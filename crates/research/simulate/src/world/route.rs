//! Routes: the links that datagrams pass, and what goes wrong on the way.

use std::net::SocketAddr;
use std::time::Duration;

use manyway_units::Time;
use rand::{RngExt, SeedableRng};

use super::{LinkId, Rng};

/// How datagrams get from one socket address to another: the way there only.
#[derive(Debug, Clone, Default)]
pub struct Route {
    /// The links they pass, in order; none means at once.
    pub links: Vec<LinkId>,
    /// Each datagram leaves the sender after a random time, uniform between 0 and this, but never
    /// before the one sent before it.
    pub jitter: Duration,
    /// What the way takes behind the last link.
    pub delay: Duration,
    /// The class of their packets, for queues with priorities.
    pub class: u8,
    /// What goes wrong on the way, besides what links lose.
    pub impairments: Impairments,
    /// The largest packet that gets through, in bytes with IPv4 and UDP headers; larger ones vanish
    /// without a word.
    pub mtu: Option<u32>,
}

impl Route {
    /// A route over these links without jitter or impairments.
    pub fn over(links: impl Into<Vec<LinkId>>) -> Self {
        Self {
            links: links.into(),
            ..Self::default()
        }
    }
}

/// What goes wrong with datagrams on a route, each with a probability per datagram. Losses are the
/// links'.
#[derive(Debug, Copy, Clone, Default, PartialEq)]
pub struct Impairments {
    /// Two copies are sent.
    pub duplicate: f64,
    /// It arrives late by a random time, uniform between 0 and [`Impairments::reorder_by`], so that
    /// others overtake it.
    pub reorder: f64,
    /// The longest such delay.
    pub reorder_by: Duration,
    /// One to eight random bits are flipped.
    pub corrupt: f64,
    /// It arrives cut off at a random length.
    pub truncate: f64,
}

/// What happened on a route so far.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
pub struct RouteStats {
    /// Datagrams that the host sent this way.
    pub sent: u64,
    /// Datagrams that got to the destination, copies and damaged ones included.
    pub delivered: u64,
    /// Payload bytes of those.
    pub bytes_delivered: u64,
    /// Datagrams that a link dropped.
    pub lost: u64,
    /// Datagrams larger than the route's MTU.
    pub too_large: u64,
    /// Extra copies.
    pub duplicated: u64,
    /// Datagrams that were held back.
    pub reordered: u64,
    /// Datagrams with flipped bits.
    pub corrupted: u64,
    /// Datagrams cut off.
    pub truncated: u64,
}

#[derive(Debug)]
pub(super) struct RouteState {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) links: Vec<LinkId>,
    pub(super) stats: RouteStats,
    pub(super) class: u8,
    pub(super) mtu: Option<u32>,
    jitter: Duration,
    delay: Duration,
    impairments: Impairments,
    latest_egress: Time,
    /// Jitter and impairments draw from different generators, so that one doesn't change with the
    /// other.
    jitter_rng: Rng,
    rng: Rng,
}

/// How a datagram leaves its sender.
pub(super) struct Egress {
    pub(super) at: Time,
    pub(super) copies: u32,
}

impl RouteState {
    pub(super) fn new(from: SocketAddr, to: SocketAddr, route: Route, seed: u64) -> Self {
        Self {
            from,
            to,
            links: route.links,
            class: route.class,
            mtu: route.mtu,
            stats: RouteStats::default(),
            jitter: route.jitter,
            delay: route.delay,
            impairments: route.impairments,
            latest_egress: Time::ZERO,
            jitter_rng: Rng::seed_from_u64(seed),
            rng: Rng::seed_from_u64(!seed),
        }
    }

    pub(super) fn egress(&mut self, now: Time) -> Egress {
        self.stats.sent += 1;
        let jitter = match u64::try_from(self.jitter.as_nanos()) {
            Ok(0) => 0,
            limit => self.jitter_rng.random_range(0..=limit.unwrap_or(u64::MAX)),
        };
        let at = (now + Duration::from_nanos(jitter)).max(self.latest_egress);
        self.latest_egress = at;
        let twice = self.happens(self.impairments.duplicate);
        self.stats.duplicated += u64::from(twice);
        let copies = 1 + u32::from(twice);
        Egress { at, copies }
    }

    /// Past the last link: damages the datagram or holds it back, as it may happen; the time of its
    /// arrival.
    pub(super) fn destination(&mut self, now: Time, data: &mut Vec<u8>) -> Time {
        let Impairments {
            reorder,
            reorder_by,
            corrupt,
            truncate,
            ..
        } = self.impairments;
        if !data.is_empty() && self.happens(corrupt) {
            self.stats.corrupted += 1;
            for _ in 0..self.rng.random_range(1..=8) {
                let byte = self.rng.random_range(0..data.len());
                data[byte] ^= 1 << self.rng.random_range(0..8);
            }
        }
        if !data.is_empty() && self.happens(truncate) {
            self.stats.truncated += 1;
            data.truncate(self.rng.random_range(0..data.len()));
        }
        if !reorder_by.is_zero() && self.happens(reorder) {
            self.stats.reordered += 1;
            return now + self.delay + reorder_by.mul_f64(self.rng.random());
        }
        now + self.delay
    }

    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.random_bool(probability.min(1.0))
    }
}

//! A scenario's point, resolved: the input of the packet level and of the fluid level.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use manyway_control::LawSpec;
use manyway_control::paths::ManagerConfig;
use manyway_control::{Options, Scheduler, SenderConfig};
use manyway_network::{LinkConfig, Topology};
use manyway_units::{Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::distribution::Distribution;
use crate::kernel::KernelLaw;

/// One point of a scenario, resolved: no names to look up, no units to read, every flow of every
/// group spelled out.
///
/// This is what the levels (fluid, packet, …) take. It holds no randomness: a run adds the seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// The scenario's name.
    pub name: String,
    /// Links and paths.
    pub topology: Topology,
    /// All flows, those of a group side by side; a fluid is one of them.
    pub flows: Vec<Flow>,
    /// The flows as the file groups them, in its order.
    pub groups: Vec<Group>,
    /// When the run ends.
    pub duration: Duration,
    /// What is measured.
    pub measure: Measure,
}

impl Experiment {
    /// The first group whose flows come at random times, so that nobody can say who is there when.
    pub fn random_group(&self) -> Option<&Group> {
        self.groups.iter().find(|group| group.stagger.is_some())
    }

    /// How many flows there are, with those of which a fluid consists.
    pub fn count(&self) -> u64 {
        self.flows.iter().map(|flow| u64::from(flow.count())).sum()
    }
}

/// Flows that the file describes together.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its name in the file.
    pub name: String,
    /// Its members' indices in [`Experiment::flows`].
    pub members: Range<usize>,
    /// The time from one member's start to the next, nanoseconds, beside what their own
    /// [`Flow::start`] says. Who would start after the end or after its stop doesn't come.
    pub stagger: Option<Distribution>,
}

/// One connection: a source with one or more subflows that share a controller.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// The group's name, with `.1`, `.2`, … where the group has several members.
    pub name: String,
    /// Index in [`Experiment::groups`].
    pub group: usize,
    /// The congestion-control law.
    pub law: LawSpec,
    /// The kernel's transport and its law, in the place of ours; then nothing runs `law`. Only
    /// [`Scenario::live_points`](crate::Scenario::live_points) has such flows.
    pub kernel: Option<KernelLaw>,
    /// What all laws have in common to choose.
    pub options: Options,
    /// Indices of [`Topology::paths`], one subflow on each, in order; none of them twice.
    pub paths: Vec<usize>,
    /// When each subflow takes part, one entry for each of `paths`.
    pub lifetimes: Vec<Lifetime>,
    /// A private first link in front of each of its paths: one per subflow, shared with nobody.
    /// The members of a group hold one configuration together.
    pub access: Option<Arc<LinkConfig>>,
    /// More propagation delay for data, one way, behind the last link.
    pub extra_delay: Duration,
    /// More delay for acknowledgements, beside the return path: that of the access link and
    /// `extra_delay` once more.
    pub extra_return: Duration,
    /// When it starts.
    pub start: Time,
    /// It really starts at a random time, uniform between `start` and this much later.
    pub start_spread: Duration,
    /// When it stops sending, if that is before the end.
    pub stop: Option<Time>,
    /// Payload bytes to transfer; endless without.
    pub size: Option<Distribution>,
    /// Nanoseconds from the end of a transfer to the beginning of the next one; one transfer
    /// without.
    pub pause: Option<Distribution>,
    /// The application's rate in payload bytes; it fills the window without.
    pub rate: Option<Rate>,
    /// It sends at `rate` whatever happens, and nothing again: its law and its windows don't
    /// matter.
    pub unresponsive: bool,
    /// At the packet level, it stands for so many equal flows, which are one fluid: nobody follows
    /// their packets. Only [`Scenario::packet_points`](crate::Scenario::packet_points) has such
    /// flows.
    pub fluid: Option<u32>,
    /// Bytes of the headers within each packet ([`SenderConfig::packet_size`]): goodput leaves them
    /// out.
    pub headers: u32,
    /// Each packet leaves after a random time, uniform between 0 and this, but never before the one
    /// sent before it.
    pub jitter: Duration,
    /// The subflow sender: packet size, initial window, pacing, loss detection.
    pub sender: SenderConfig,
    /// When the receiver acknowledges.
    pub ack: AckPolicy,
    /// Packets are ECN-capable.
    pub ecn: bool,
    /// Packets are ECN-capable L4S packets.
    pub l4s: bool,
    /// The class of its packets and acknowledgements, for queues with priorities: 0, the lowest, to
    /// 7.
    pub class: u8,
    /// What only sessions have: nothing of it bears on the packet level.
    pub session: Session,
    /// How its path manager behaves, if its law has one and it has several paths; `None` for the
    /// defaults. The members of a group hold it together.
    pub relays: Option<Arc<Relays>>,
}

impl Flow {
    /// How many flows it stands for: one, unless it is a fluid.
    pub fn count(&self) -> u32 {
        self.fluid.unwrap_or(1)
    }

    /// Its law as the file has it.
    pub fn law_name(&self) -> String {
        match &self.kernel {
            Some(kernel) => kernel.to_string(),
            None => self.law.to_string(),
        }
    }
}

/// What a flow is like at the stack level alone, where it is a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Session {
    /// Which path carries the next packet of its data.
    pub scheduler: Scheduler,
    /// Bytes that its receiver has room for; as sessions have it without.
    pub receive_buffer: Option<u64>,
    /// How its packets are sealed.
    pub sealing: Sealing,
    /// Those of its paths, as indices of [`Flow::paths`], that lead through a relay each. The first
    /// one doesn't.
    pub relayed: Vec<usize>,
    /// Its payload is so many files of about the same size, sent by the file-transfer protocol; a
    /// stream of bytes without.
    pub files: Option<u32>,
}

/// How a flow with several paths finds relays if its law has a path manager. The first of its paths
/// is the direct one; the others, each through a relay, are known to a registration server, and the
/// path manager opens and closes them.
#[derive(Debug, Copy, Clone, PartialEq, Default)]
pub struct Relays {
    /// The server gives so many relays at a time, drawn at random from all; `None` for all of them.
    pub subset: Option<usize>,
    /// The manager's rules; `β` and `τ` are the law's.
    pub manager: ManagerConfig,
}

/// When a subflow takes part, within the life of its flow: it joins at `from` or when the flow
/// starts, whichever is later, and sends nothing new from `until` or when the flow stops, whichever
/// is earlier.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
pub struct Lifetime {
    /// When it joins; 0 is with its flow.
    pub from: Time,
    /// When it leaves, if that is before its flow stops.
    pub until: Option<Time>,
}

/// When a receiver acknowledges. A packet out of order is always acknowledged at once.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct AckPolicy {
    /// After so many packets; 1 is at once.
    pub every: u32,
    /// At the latest this long after the first packet that is not acknowledged yet.
    pub max_delay: Duration,
    /// Bytes of an acknowledgement on the reverse links.
    pub bytes: u32,
    /// It says when the largest packet arrived.
    pub times: bool,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// Means are taken from here …
    pub from: Time,
    /// … to here.
    pub until: Time,
    /// Further spans with means of their own.
    pub spans: Vec<Span>,
    /// Distance of the samples of a series.
    pub interval: Duration,
    /// The series to record, from 0 to the end.
    pub series: Vec<SeriesKind>,
    /// What has percentiles beside its mean.
    pub percentiles: Percentiles,
}

/// What has its median, its 95th and its 99th percentile measured.
#[derive(Debug, Copy, Clone, Default, PartialEq, Eq)]
pub struct Percentiles {
    /// The time that packets are in each link's queue, their own transmission included.
    pub queue: bool,
    /// Each subflow's round-trip times.
    pub rtt: bool,
}

/// A named part of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// Its beginning.
    pub from: Time,
    /// Its end.
    pub until: Time,
}

/// What can be recorded over time.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash)]
pub enum SeriesKind {
    /// Goodput of each subflow over the interval, bits/s.
    Rate,
    /// Congestion window of each subflow at the interval's end, packets.
    Window,
    /// Smoothed round-trip time of each subflow at the interval's end, seconds.
    Rtt,
    /// Backlog of each link at the interval's end, packets.
    Queue,
    /// Load carried by each link over the interval, bits/s.
    Load,
    /// Packets that each link dropped in the interval.
    Drops,
}

/// How sessions seal packets at the stack level. The results don't depend on it.
#[derive(Debug, Copy, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sealing {
    /// Encrypted and authenticated, as transfers are.
    #[default]
    Aead,
    /// In the clear, with a checksum of the tag's size, which takes less time.
    Checksum,
}

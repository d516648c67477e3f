//! What happens to each packet at each link, as it happens: for whoever writes that down.
//!
//! A run without an [`Observer`] and without percentiles of delays has no tap, and its results are
//! the same to the bit with one.

mod order;
mod pcapng;
mod tap;

use std::fmt;
use std::io;

use manyway_network::DropReason;
use manyway_scenario::Experiment;
use manyway_units::Time;

pub use pcapng::Pcapng;
pub(crate) use tap::{Came, Tap};

/// Something that happens to a packet at a link of the topology.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Time,
    /// The link, by its index in the topology.
    pub link: usize,
    /// What.
    pub what: What,
    /// The packet as it is now.
    pub packet: Seen,
    /// Packets in the link's queue right after it, the one in service included.
    pub queue: u64,
}

/// What can happen to a packet at a link.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum What {
    /// It enters the queue.
    Enqueue,
    /// The queue marks it "congestion experienced".
    Mark,
    /// Its last bit leaves the queue.
    Transmit,
    /// It comes out at the far end.
    Deliver,
    /// It is lost: at the queue's entrance, in the queue, or, with [`DropReason::RandomLoss`], on
    /// the wire after [`What::Transmit`]. A packet that an outage of the link's timetable loses is
    /// lost when it comes, for the link knows of the outage then.
    Drop {
        /// Why.
        reason: DropReason,
        /// Whether it has entered the queue.
        queued: bool,
    },
}

/// What can be seen of a packet.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Whose it is: subflows are numbered over all flows, in the experiment's order.
    pub subflow: u32,
    /// It goes from the receiver to the sender.
    pub back: bool,
    /// Its number on its subflow; of an acknowledgement at the packet level, the largest number
    /// that it acknowledges. `None` where it has none.
    pub number: Option<u64>,
    /// Its size on the link, all headers included.
    pub bytes: u32,
    /// Its ECN field.
    pub ecn: Ecn,
    /// Its class, for queues with priorities.
    pub class: u8,
}

/// The ECN field of an IP header (RFC 3168, RFC 9331), with its value there.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    Not = 0,
    /// ECN-capable, ECT(0).
    Ect0 = 2,
    /// An L4S packet, ECT(1).
    Ect1 = 1,
    /// This or an earlier queue has marked it: Congestion Experienced.
    Ce = 3,
}

/// Who is told what happens to each packet, in the order of time.
pub trait Observer: fmt::Debug + Send {
    /// Whether it wants to hear of this link, by its index in the topology.
    fn wants(&self, link: usize) -> bool;

    /// Something happens.
    ///
    /// # Errors
    /// It can't be written down: the run ends.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// The run is over.
    ///
    /// # Errors
    /// As of [`Observer::event`].
    fn end(&mut self, now: Time) -> io::Result<()>;
}

/// A run with an observer that has no result.
#[derive(Debug, thiserror::Error)]
pub enum ObservedError<E> {
    /// It can't be carried out.
    #[error(transparent)]
    Run(E),
    /// The observer can't write down what happens.
    #[error("can't write down what happens to packets: {0}")]
    Write(io::Error),
}

/// Whose a subflow is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The flow's index.
    pub flow: usize,
    /// The flow's name.
    pub name: String,
    /// Its path's name.
    pub path: String,
    /// Its number in its flow, from 0.
    pub number: usize,
}

/// Whose each subflow of the experiment is, by [`Seen::subflow`].
pub fn owners(experiment: &Experiment) -> Vec<Owner> {
    let paths = &experiment.topology.paths;
    let flows = experiment.flows.iter().enumerate();
    let owners = flows.flat_map(|(index, flow)| {
        flow.paths
            .iter()
            .enumerate()
            .map(move |(number, path)| Owner {
                flow: index,
                name: flow.name.clone(),
                path: paths
                    .get(*path)
                    .map_or(String::new(), |path| path.name.clone()),
                number,
            })
    });
    owners.collect()
}

#[cfg(test)]
mod tests;

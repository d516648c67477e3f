//! What a peer may cost: the constants that bound what it can make an endpoint keep.
//!
//! `docs/protocol.md` has them in one table ("What a peer may cost"), beside the bounds that
//! [`Config`](crate::Config) sets, and names the test of each.

use std::time::Duration;

/// Path ids whose connection ids are announced ahead of use.
pub(crate) const SPARE_PATHS: u32 = 16;
/// The peer may announce this many ahead.
pub(crate) const MOST_AHEAD: u32 = 4 * SPARE_PATHS;
/// Ids that replace those used up, per second, once every path had one. Honest peers need them for
/// address pairs that fail: 256 of them, tried once a minute at last, take 4.
pub(crate) const IDS_PER_SECOND: f64 = 16.0;
/// Control frames that wait for a datagram: more than all ids, paths and relays have to say at
/// once. Those of the streams wait in no queue.
pub(crate) const MAX_CONTROL: usize = 2048;
/// Pairs of hosts of which an endpoint remembers what the last path between them carried …
pub(crate) const MEMORIES: usize = 64;
/// … for this long.
pub(crate) const MEMORY_LASTS: Duration = Duration::from_secs(600);
/// Packets without stream data, over all paths, that wait for an acknowledgement or for that of one
/// before them, and control frames on their way. A receiver acknowledges every tenth packet, so a
/// window of 64 MiB takes 6,000.
pub(crate) const MAX_BARE: usize = 16 << 10;
/// Those with stream data are taken to carry so many bytes of it on average.
pub(crate) const LEAST_IN_PACKET: u32 = 512;

/// Datagrams of the application that wait in each direction, and their bytes.
pub(crate) const MAX_DATAGRAMS: usize = 1024;
pub(crate) const MAX_DATAGRAM_BYTES: usize = 512 << 10;
/// What each of them is charged beside its bytes.
pub(crate) const DATAGRAM_MEMORY: usize = 64;
/// How long one waits to leave: then it is dropped. TCP in a tunnel fills whatever queue it is
/// given, and needs one of about a round trip.
pub(crate) const DATAGRAM_WAIT: Duration = Duration::from_millis(50);
/// Packets whose fate is open, over all paths, with which more datagrams leave: no more than half
/// of [`MAX_BARE`], as acknowledgements and probes need the rest.
pub(crate) const MAX_WITH_DATAGRAMS: usize = MAX_BARE / 2;

/// What a connection is charged for itself, in bytes: keys, controllers, tables.
pub(crate) const CONNECTION_MEMORY: usize = 35 << 9;
/// And for each of its paths: sender, replay window, challenges.
pub(crate) const PATH_MEMORY: usize = 29 << 9;
/// And for each relay that its peer has named.
pub(crate) const RELAY_MEMORY: usize = 3 << 9;
/// And for each packet whose fate is open, and each control frame that waits or is on its way.
pub(crate) const PACKET_MEMORY: usize = 256;
/// A connection that has transferred nothing is safe from others that want its place for this long.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// One that has transferred something and has no stream open, for this long since.
pub(crate) const IDLE: Duration = Duration::from_secs(10);

/// Bytes that may go to addresses which the peer has named and which haven't answered: as many as
/// it sent, and so many more once.
pub(crate) const NAMED_ONCE: u64 = 30_000;
/// And so many a second, by one connection and by all of an endpoint.
pub(crate) const NAMED_PER_SECOND: u64 = 10_000;
pub(crate) const NAMED_PER_SECOND_IN_ALL: u64 = 100_000;
/// All connections may send so many at once.
pub(crate) const NAMED_AT_ONCE_IN_ALL: u64 = 300_000;
/// A path to such an address may send so many: five challenges.
pub(crate) const NAMED_ATTEMPT: u64 = 5 * 1200;
/// What dialling such an address by TCP is taken to cost: a SYN and its repetitions.
pub(crate) const NAMED_DIAL: u64 = 300;
/// So often such an address is tried from each of our sockets, and dialled from each of our hosts'
/// addresses.
pub(crate) const NAMED_TRIES: u32 = 8;
/// So many such dials begin at once, and a second.
pub(crate) const NAMED_DIALS_AT_ONCE: f64 = 16.0;
pub(crate) const NAMED_DIALS_PER_SECOND: f64 = 1.0;

/// What a connection says of itself.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Usage {
    /// Memory that it takes, in bytes.
    pub(crate) memory: usize,
    /// Stream bytes that the application has read, and that the peer has acknowledged.
    pub(crate) moved: u64,
    /// Streams that are open.
    pub(crate) streams: usize,
    /// It is over, though not forgotten.
    pub(crate) closed: bool,
}

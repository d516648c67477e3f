//! What this component looks at, and what it says is to be done.

use manyway_wire::Frame;
use manyway_wire::relay::Grant;

use crate::event::{PathDownReason, PathEvent};
use crate::relays::RelayRoute;

use super::super::paths::{PathSet, PathTransport, RelayHeader};

/// The connection, as far as relays concern it.
#[derive(Copy, Clone)]
pub(crate) struct View<'a> {
    pub(crate) paths: &'a PathSet,
    /// There is more to send.
    pub(crate) unsatisfied: bool,
    /// Stream bytes that the peer has acknowledged.
    pub(crate) acked: u64,
}

/// What the owner of the paths has to do for the sake of relays. An index is that of an open path.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Begin a path on a route.
    Open(RelayRoute, PathTransport),
    /// Close a path, and tell the peer.
    Close(usize, PathDownReason),
    /// A path carries data only for want of a better one, or not only then any more.
    Backup(usize, bool),
    /// Another header goes in front of a path's datagrams; the peer gets the grant for the way
    /// back.
    Renew(usize, RelayHeader, Option<Grant>),
    /// Tell the peer.
    Say(Frame<'static>),
    /// Tell the application.
    Tell(PathEvent),
}

use std::time::Duration;

use crate::LinkConfig;

/// Named links and the paths over them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Topology {
    /// One-way links.
    pub links: Vec<NamedLink>,
    /// Ways over them.
    pub paths: Vec<PathSpec>,
}

/// A link with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedLink {
    /// Unique among the links.
    pub name: String,
    /// What it is like.
    pub config: LinkConfig,
}

/// A way from a sender to a receiver, and back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PathSpec {
    /// Unique among the paths.
    pub name: String,
    /// Indices of the links that data packets pass, in order.
    pub links: Vec<usize>,
    /// Indices of the links that acknowledgements pass, in order.
    pub reverse: Vec<usize>,
    /// What an acknowledgement's way takes beside the reverse links: all of it where there are none.
    pub return_delay: Duration,
}

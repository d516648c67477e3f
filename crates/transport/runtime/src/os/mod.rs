//! What only the operating system knows or can do: its addresses, its routes, a precise timer.
//!
//! Everything here degrades: what a system doesn't offer is answered with "unknown", never with a
//! failure of the endpoint.

pub(crate) mod addresses;
pub(crate) mod route;
pub(crate) mod timer;

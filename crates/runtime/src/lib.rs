//! Sockets, interfaces, the async API and disk: the tokio edge of manyway.

pub mod files;

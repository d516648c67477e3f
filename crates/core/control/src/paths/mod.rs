//! Which paths a connection has: sans-IO path managers, beside the controller that shares the
//! window among them.
//!
//! A manager takes [`Event`]s and the clock and gives [`Command`]s. It knows neither packets nor
//! sockets nor the simulator; its owner opens and closes paths, sends probes and reports what
//! became of them.
//!
//! ```
//! use manyway_control::paths::{Command, Event, ManagerConfig, PathKey, PathManager, RelayKey};
//! use manyway_units::Time;
//! use std::time::Duration;
//!
//! let mut manager = PathManager::new(ManagerConfig::default(), 1)?;
//! let mut now = Time::ZERO;
//! manager.handle(now, Event::DirectRtt(Duration::from_millis(40)));
//! assert_eq!(manager.next_command(), Some(Command::MoreRelays));
//! manager.handle(now, Event::Relays(&[RelayKey(7)]));
//! assert_eq!(manager.next_command(), Some(Command::Probe(RelayKey(7))));
//!
//! now += Duration::from_millis(60);
//! manager.handle(now, Event::Answered(RelayKey(7)));
//! assert_eq!(manager.next_command(), Some(Command::MoreRelays));
//!
//! // Congestion on the direct path: time for a detour.
//! manager.handle(now, Event::Loss { path: PathKey::Direct, window: 10.0 });
//! assert_eq!(manager.next_command(), Some(Command::Open(RelayKey(7))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod book;
mod config;
mod key;
mod path_manager;

pub use config::{InvalidManagerConfig, ManagerConfig, Reuse};
pub use key::{PathKey, RelayKey};
pub use path_manager::{Command, Event, PathManager, RelayCounts};

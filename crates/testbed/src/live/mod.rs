//! Links in real time between network namespaces, behind a TUN device at each end, and whole
//! networks of them with flows. Linux and root.

mod delays;
mod emulator;
mod flows;
mod link;
mod log;
mod needs;
mod network;
mod os;
mod packet;
mod plan;
mod reading;
mod run;

pub use delays::Delays;
pub use emulator::Emulator;
pub use flows::{Means, memory};
pub use link::{End, link};
pub use needs::{check_laws, missing};
pub use network::Network;
pub use os::inside;
pub use plan::{Hosts, Plan, Way};
pub use reading::{LinkReading, PartReport, Punctuality, Reading, SubflowReading};
pub use run::{Moment, Outcome, run};

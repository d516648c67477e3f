//! Multipath congestion control: laws, the coupled controller and the subflow sender.
//!
//! Three layers, each usable without the one above it:
//!
//! * A **law** ([`WindowLaw`]) is the pair `I_r`, `D_r` of the papers, written once and generic
//!   over the scalar. The transport and the simulator run it on `f64`, a fluid model on dual
//!   numbers.
//! * A **controller** ([`Controller`]) owns the congestion windows of all paths of one connection:
//!   [`Coupled`] makes one from any law, also from one that remembers ([`Law`]); [`laws::Wvegas`],
//!   [`laws::Bmc`], [`laws::Mpath`], [`laws::Cubic`], [`laws::Bbr`] and [`laws::Auto`] are
//!   controllers themselves.
//!   A [`LawSpec`] is a law of the [`registry`] with its parameters: it says what the law can do,
//!   and makes its controller.
//! * A **sender** ([`Sender`]) is one subflow: round-trip time, loss detection, probe timeouts,
//!   pacing, and when the controller hears of what. It is generic over what a packet carries.
//!
//! Beside them, a **path manager** ([`paths`]) decides which paths there are: which relays to try,
//! use and give up. For paths that control congestion themselves, as TCP does, [`rate_control`] has
//! a rate controller above them and a choice of relays. A [`scheduler`] decides which path carries
//! the next packet.
//!
//! The crate owns every rule by which windows, rates and paths change. It never reads a clock, a
//! socket or a random number: the owner passes time and seeds in, and the same calls give the same
//! result bit for bit.
//!
//! ```
//! use manyway_control::{AckInfo, LawSpec, Options, Outcome, Permit, Sender, SenderConfig, Sent};
//! use manyway_units::Time;
//! use std::time::Duration;
//!
//! let mut controller = "lia".parse::<LawSpec>()?.controller(&Options::default());
//! let start = Time::ZERO;
//! let mut sender = Sender::<&str>::new(SenderConfig::default(), start, &mut controller);
//!
//! assert!(matches!(sender.permit(start, &controller), Permit::Now { .. }));
//! let sent = Sent {
//!     bytes: 1200,
//!     ack_eliciting: true,
//!     app_limited: false,
//!     payload: "hello",
//! };
//! sender.on_sent(start, sent);
//!
//! let mut outcome = Outcome::default();
//! let ranges = [0..=0];
//! let ack = AckInfo {
//!     largest: 0,
//!     ranges: &ranges,
//!     delay: Duration::ZERO,
//!     ce_count: None,
//!     receive_time: None,
//!     elsewhere: false,
//! };
//! sender.on_ack(start + Duration::from_millis(20), ack, &mut controller, &mut outcome)?;
//! assert_eq!(outcome.acked, [(0, "hello")]);
//! assert_eq!(sender.rtt().smoothed(), Duration::from_millis(20));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod bottleneck;
mod capabilities;
mod controller;
mod coupled;
mod law;
pub mod laws;
mod options;
mod parameter;
pub mod paths;
mod random;
pub mod rate_control;
pub mod registry;
mod rtt;
pub mod scheduler;
mod sender;
mod slots;
mod slow_start;

pub use controller::{
    Ack, Controller, Delivery, Loss, LostPacket, NewPath, PathVerdict, Round, Slot, Target,
};
pub use coupled::Coupled;
pub use law::{Law, Path, Scalar, WindowLaw};
pub use options::{Growth, Options, SlowStartKind};
pub use registry::{LawError, LawSpec};
pub use rtt::Rtt;
pub use scheduler::Scheduler;
pub use sender::{
    AckError, AckInfo, Arrived, Carried, CarriedConfig, LossDetection, Outcome, Permit, Remembered,
    RetransmissionTimeout, Sender, SenderConfig, SenderStats, Sent, TimerEvent,
};

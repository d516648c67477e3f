//! The program as people start it, and relays and registries beside it.

#[cfg(all(feature = "registry", feature = "research"))]
mod book;
mod carriers;
#[cfg(feature = "registry")]
mod codes;
mod common;
#[cfg(feature = "research")]
mod compare;
#[cfg(feature = "research")]
mod criteria;
#[cfg(all(feature = "research", target_os = "linux"))]
mod diagnosis;
mod failures;
mod faithful;
#[cfg(feature = "research")]
mod fluid;
mod forward;
mod hook;
mod hostile;
mod kernel;
mod lent;
mod many_relays;
mod metered;
mod metrics;
#[cfg(feature = "research")]
mod optimum;
#[cfg(feature = "registry")]
mod over_tcp;
#[cfg(feature = "research")]
mod overlay;
#[cfg(feature = "research")]
mod packets;
mod paths;
mod peers;
mod pipe;
mod profile;
mod program;
mod progress;
mod qlog;
#[cfg(feature = "registry")]
mod registry;
#[cfg(feature = "registry")]
mod registry_relays;
mod relay;
#[cfg(feature = "registry")]
mod relay_selection;
mod relay_tcp;
#[cfg(feature = "research")]
mod reproduce;
#[cfg(feature = "research")]
mod run;
mod shards;
#[cfg(feature = "research")]
mod stack;
#[cfg(all(feature = "research", target_os = "linux"))]
mod testbed;
mod timeout;
mod top;
#[cfg(all(feature = "research", target_os = "linux"))]
mod tun;
mod units;
mod via;
mod view;

//! Follows the interfaces.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use crate::addresses::interface_addresses;

use super::shared::Shared;

/// How often the interfaces are looked at.
pub(crate) const SCAN: Duration = Duration::from_secs(1);

/// Looks at the interfaces again and again, and tells the driver what the selection means now.
pub(super) async fn watch(shared: Weak<Shared>, rescan: Arc<Notify>) {
    let mut ticks = interval(SCAN);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = rescan.notified() => {}
        }
        // It takes no longer than to read a few packets.
        let Ok(present) = interface_addresses()
            .inspect_err(|error| tracing::warn!(%error, "can't follow the interfaces"))
        else {
            continue;
        };
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let stop = shared.act(|state| {
            state.places = Some(state.selection.places(&present));
            state.stop
        });
        if stop {
            return;
        }
    }
}

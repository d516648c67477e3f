use std::sync::atomic::{AtomicBool, Ordering};

/// What a [`Handle`](super::Handle) asks of a running relay: both of its threads poll this.
#[derive(Debug, Default)]
pub(super) struct Requests {
    leave: AtomicBool,
    stop: AtomicBool,
}

impl Requests {
    pub(super) fn leave(&self) {
        self.leave.store(true, Ordering::Relaxed);
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leave.load(Ordering::Relaxed)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

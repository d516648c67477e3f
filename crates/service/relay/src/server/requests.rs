use std::sync::atomic::{AtomicBool, Ordering};

/// The requests of a [`Handle`](super::Handle) to a running relay, whose threads poll them.
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

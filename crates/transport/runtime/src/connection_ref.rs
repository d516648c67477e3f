use std::sync::Arc;

use manyway_session::ConnectionHandle;

use crate::driver::shared::Shared;

/// A counted reference to a connection: the last one that goes closes it.
#[derive(Debug)]
pub(crate) struct ConnectionRef {
    pub(crate) shared: Arc<Shared>,
    pub(crate) handle: ConnectionHandle,
}

impl Clone for ConnectionRef {
    fn clone(&self) -> Self {
        self.shared.look(|state| {
            state
                .slots
                .get_mut(&self.handle)
                .map(|slot| slot.handles += 1)
        });
        Self {
            shared: self.shared.clone(),
            handle: self.handle,
        }
    }
}

impl Drop for ConnectionRef {
    fn drop(&mut self) {
        let now = self.shared.clock.now();
        self.shared.act(|state| state.let_go(now, self.handle));
    }
}

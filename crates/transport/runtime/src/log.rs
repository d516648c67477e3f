//! The qlog files of an endpoint, which a thread of its own writes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use manyway_qlog::{Clock, Logs, Writer};
use manyway_session::Observers;

use crate::driver::shared::Shared;
use crate::error::BindError;

/// A log that nobody writes yet.
#[derive(Debug)]
pub(crate) struct Log {
    logs: Logs,
    writer: Writer,
}

impl Log {
    /// Makes the directory.
    ///
    /// # Errors
    /// It can't be made.
    pub(crate) fn new(dir: PathBuf) -> Result<Self, BindError> {
        match Logs::new(&dir, Clock::Real) {
            Ok((logs, writer)) => Ok(Self { logs, writer }),
            Err(error) => Err(BindError::Log { dir, error }),
        }
    }

    /// Observers for the connections of an endpoint, whose files no other one has.
    pub(crate) fn observers(&self) -> Observers {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since.unwrap_or_default().as_secs();
        let prefix = format!("manyway-{seconds}-{}", std::process::id());
        self.logs.observers(prefix)
    }

    /// Has a thread write it until the driver stops. It is none of the program's runtime, which
    /// would wait for it at its end.
    ///
    /// # Errors
    /// The system has no room for a thread.
    pub(crate) fn keep(self, shared: &Arc<Shared>) -> Result<(), BindError> {
        let Self { logs, writer } = self;
        let Some(kept) = shared.keep() else {
            return Ok(());
        };
        let write = move || {
            // What goes wrong, the writer tells.
            let _ = writer.run();
            drop(kept);
        };
        let thread = std::thread::Builder::new().name("manyway-qlog".to_owned());
        thread.spawn(write).map_err(BindError::Thread)?;
        shared.look(|state| state.logs = Some(logs));
        Ok(())
    }
}

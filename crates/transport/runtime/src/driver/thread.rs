//! The driver's thread. It has a reactor of its own: woken by it, the driver wakes no other thread,
//! and no task of the program's waits for it.

use std::io;
use std::sync::Arc;
use std::thread;

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::Driver;
use super::shared::Shared;
use super::sockets::Sockets;
use crate::error::BindError;

/// Starts a driver with the sockets that `bind` gives; it ends when nobody wants it any more.
///
/// # Errors
/// What `bind` says, or the system has no room for a thread.
pub(crate) async fn start(
    shared: Arc<Shared>,
    bind: impl FnOnce(&Shared) -> Result<Sockets, BindError> + Send + 'static,
) -> Result<(), BindError> {
    let (tell, told) = oneshot::channel();
    let run = move || {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(tell.send(Err(BindError::Thread(error)))),
        };
        runtime.block_on(async move {
            match bind(&shared) {
                Ok(sockets) => {
                    let driver = Driver::new(shared, sockets);
                    if tell.send(Ok(())).is_ok() {
                        // A task that wakes itself makes no system call for it.
                        let _ = tokio::spawn(driver).await;
                    }
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
    };
    let thread = thread::Builder::new().name("manyway".to_owned()).spawn(run);
    thread.map_err(BindError::Thread)?;
    let stopped = || BindError::Thread(io::Error::other("it has stopped"));
    told.await.unwrap_or_else(|_| Err(stopped()))
}

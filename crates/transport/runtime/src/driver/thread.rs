//! An endpoint's threads. The driver's has a reactor of its own: woken by it, the driver wakes no
//! other thread, and no task of the program's waits for it. TCP has another, as the driver rests in
//! its own. So an endpoint needs none of the program's runtimes: they may end, or stand still.

use std::io;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Driver;
use super::shared::{Shared, State};
use super::sockets::Sockets;
use super::watch::watch;
use crate::error::BindError;

/// Longest time that TCP connections have to say goodbye in.
const LONGEST_FAREWELL: Duration = Duration::from_secs(5);

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
                    let watch = watch(Arc::downgrade(&shared), shared.rescan.clone());
                    let driver = Driver::new(shared, sockets);
                    if tell.send(Ok(())).is_ok() {
                        tokio::spawn(watch);
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

impl Shared {
    /// Where TCP's tasks and sockets belong.
    ///
    /// # Errors
    /// The system has no room for a thread.
    pub(crate) fn tcp_tasks(self: &Arc<Self>) -> io::Result<Handle> {
        let mut tasks = self
            .tcp_tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = &*tasks {
            return Ok(handle.clone());
        }
        let handle = for_tcp(self.clone())?;
        Ok(tasks.insert(handle).clone())
    }
}

/// Starts a thread for the tasks of TCP; it ends when the driver has stopped and what it had handed
/// over is written.
///
/// # Errors
/// The system has no room for a thread.
fn for_tcp(shared: Arc<Shared>) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let run = move || {
        runtime.block_on(async {
            let idle = &shared.idle;
            let stopped = shared.act_until(idle, |state| state.stopped.then_some(()));
            stopped.await;
            let ended = |state: &mut State| state.carriers.is_empty().then_some(());
            let _ = timeout(LONGEST_FAREWELL, shared.act_until(idle, ended)).await;
        });
    };
    let thread = thread::Builder::new().name("manyway-tcp".to_owned());
    thread.spawn(run)?;
    Ok(handle)
}

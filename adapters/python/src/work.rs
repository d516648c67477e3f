//! Work on a thread of its own, while Python's thread looks for Ctrl-C and tells of progress.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use manyway_simulate::batch::Control;
use pyo3::prelude::*;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Has `work` done without Python's lock. Every now and then it calls `progress` with the share
/// that is done, 0 to 1, and once with 1 when all is. It stops the work at Ctrl-C, and when
/// `progress` fails.
///
/// # Errors
/// `KeyboardInterrupt` or what `progress` raised, once the work has ended.
pub(crate) fn supervised<T: Send>(
    py: Python<'_>,
    control: &Control,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let over = AtomicBool::new(false);
    let waiting = thread::current();
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let done = work();
            over.store(true, Ordering::Release);
            waiting.unpark();
            done
        });
        let mut told = Ok(());
        loop {
            py.detach(|| thread::park_timeout(LOOK));
            if over.load(Ordering::Acquire) || worker.is_finished() {
                break;
            }
            if told.is_ok() {
                told = py.check_signals().and_then(|()| match progress {
                    Some(call) => call.call1((control.fraction(),)).map(drop),
                    None => Ok(()),
                });
                if told.is_err() {
                    control.stop();
                }
            }
        }
        let done = py.detach(|| worker.join());
        // The last look was before the end.
        if let Some(call) = progress.filter(|_| told.is_ok() && control.fraction() >= 1.0) {
            told = call.call1((1.0,)).map(drop);
        }
        told.map(|()| done.unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

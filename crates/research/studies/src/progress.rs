//! What a study tells while it runs. Programs decide who sees it.

use std::time::Instant;

/// Does `job` and tells how long it took.
pub(crate) fn timed<R>(what: &str, job: impl FnOnce() -> R) -> R {
    let began = Instant::now();
    let result = job();
    tell(&format!("{what}: {:.1} s", began.elapsed().as_secs_f64()));
    result
}

/// Tells a line.
pub(crate) fn tell(line: &str) {
    tracing::info!("{line}");
}

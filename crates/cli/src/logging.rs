//! The log, on standard error above the live view.

use tracing_subscriber::EnvFilter;

use crate::args::OutputArgs;
use crate::screen::Screen;

/// Starts the log at the level of `-q` and `-v`; `RUST_LOG` overrides both.
pub(crate) fn start(screen: &Screen, output: &OutputArgs) {
    let level = match (output.quiet, output.verbose) {
        (true, _) => "error",
        (_, 0) => "warn",
        (_, 1) => "info",
        (_, 2) => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let plain = output.verbose < 2;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(screen.clone())
        .with_ansi(false);
    match plain {
        true => log.with_target(false).without_time().init(),
        false => log.init(),
    }
}

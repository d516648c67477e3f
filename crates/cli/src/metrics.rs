//! `--metrics` of `send`, `sync` and `recv`: counters of transfers in Prometheus' text format.
//!
//! What a transfer has moved counts while it runs. No label is the peer's to choose.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use manyway::files::Progress;
use manyway::{Connection, ConnectionStats};
use manyway_relay::exposition::Exposition;
use manyway_relay::server::serve_metrics;
use manyway_units::printable;

use crate::screen::Screen;

/// Upper bounds of the durations' buckets, in seconds.
const BUCKETS: [u32; 8] = [1, 5, 15, 60, 300, 1800, 7200, 43200];
/// Interfaces with counters of their own; those that come later share one.
const MOST_INTERFACES: usize = 64;
const OTHER_INTERFACES: &str = "other";

/// Serves what `text` says in Prometheus' text format from now on, and tells the user where.
///
/// # Errors
/// The address can't be bound.
pub(crate) async fn serve(
    screen: &Screen,
    address: SocketAddr,
    text: impl Fn() -> String + Clone + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let (address, serving) = serve_metrics(address, text).await?;
    screen.say(&format!("Metrics on http://{address}/metrics"));
    tokio::spawn(serving);
    Ok(())
}

/// All transfers of the command.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Of transfers that have ended.
    moved: Moved,
    /// How many ended with which result: `done` or an error's code.
    results: BTreeMap<&'static str, u64>,
    /// How many took at most so long, each counted in one bucket; the last is for longer ones.
    durations: [u64; BUCKETS.len() + 1],
    seconds: f64,
    active: BTreeMap<u64, Running>,
    begun: u64,
}

/// What transfers have moved.
#[derive(Debug, Clone, Default, PartialEq)]
struct Moved {
    bytes: u64,
    files: u64,
    /// Bytes received and sent by interface.
    interfaces: BTreeMap<String, [u64; 2]>,
}

impl Moved {
    fn add(&mut self, progress: &Progress, stats: &ConnectionStats) {
        self.bytes += progress.bytes_done();
        self.files += progress.files_done();
        for path in &stats.paths {
            self.add_interface(&path.name, [path.bytes_received, path.bytes_sent]);
        }
    }

    fn add_interface(&mut self, name: &str, bytes: [u64; 2]) {
        let known = self.interfaces.contains_key(name);
        let name = match known || self.interfaces.len() < MOST_INTERFACES {
            true => name,
            false => OTHER_INTERFACES,
        };
        let counted = self.interfaces.entry(name.to_owned()).or_default();
        *counted = [counted[0] + bytes[0], counted[1] + bytes[1]];
    }
}

#[derive(Debug)]
struct Running {
    began: Instant,
    connection: Connection,
    progress: Arc<Progress>,
}

impl Metrics {
    /// Serves them from now on.
    ///
    /// # Errors
    /// The address can't be bound.
    pub(crate) async fn serve(screen: &Screen, address: SocketAddr) -> anyhow::Result<Arc<Self>> {
        let metrics = Arc::<Self>::default();
        let served = metrics.clone();
        serve(screen, address, move || served.to_prometheus()).await?;
        Ok(metrics)
    }

    /// A transfer begins.
    pub(crate) fn begin(
        self: &Arc<Self>,
        connection: &Connection,
        progress: &Arc<Progress>,
    ) -> Active {
        let mut state = self.lock();
        state.begun += 1;
        let id = state.begun;
        let running = Running {
            began: Instant::now(),
            connection: connection.clone(),
            progress: progress.clone(),
        };
        state.active.insert(id, running);
        Active {
            metrics: self.clone(),
            id,
            result: "interrupted",
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn to_prometheus(&self) -> String {
        self.lock().to_prometheus()
    }
}

impl State {
    fn end(&mut self, result: &'static str, seconds: f64) {
        *self.results.entry(result).or_default() += 1;
        let within = BUCKETS.iter().position(|most| seconds <= f64::from(*most));
        self.durations[within.unwrap_or(BUCKETS.len())] += 1;
        self.seconds += seconds;
    }

    fn to_prometheus(&self) -> String {
        let mut moved = self.moved.clone();
        for running in self.active.values() {
            moved.add(&running.progress, &running.connection.stats());
        }
        let mut text = Exposition::default();
        let name = "manyway_transfers_total";
        text.family(name, "counter", "Transfers that ended, by result.");
        for (result, count) in &self.results {
            text.sample(name, &[("result", result)], count);
        }
        let (active, help) = (self.active.len(), "Transfers under way.");
        text.single("manyway_transfers_active", "gauge", help, active);
        let help = "Content moved, without what the receiver had already.";
        text.single("manyway_transfer_bytes_total", "counter", help, moved.bytes);
        let help = "Files complete and on disk.";
        text.single("manyway_transfer_files_total", "counter", help, moved.files);
        let help = "From the connection to the end of the transfer.";
        text.family("manyway_transfer_duration_seconds", "histogram", help);
        let name = "manyway_transfer_duration_seconds_bucket";
        let mut below = 0;
        for (most, count) in BUCKETS.iter().zip(self.durations) {
            below += count;
            text.sample(name, &[("le", &most.to_string())], below);
        }
        let all: u64 = self.durations.iter().sum();
        text.sample(name, &[("le", "+Inf")], all);
        text.sample("manyway_transfer_duration_seconds_sum", &[], self.seconds);
        text.sample("manyway_transfer_duration_seconds_count", &[], all);
        let families = [
            (
                "manyway_interface_received_bytes_total",
                "UDP or TCP payload received, by interface.",
            ),
            (
                "manyway_interface_sent_bytes_total",
                "UDP or TCP payload sent, by interface.",
            ),
        ];
        for (way, (name, help)) in families.into_iter().enumerate() {
            text.family(name, "counter", help);
            for (interface, bytes) in &moved.interfaces {
                let interface = printable(interface, 64);
                text.sample(name, &[("interface", &interface)], bytes[way]);
            }
        }
        text.into_text()
    }
}

/// A transfer under way. Dropping it is its end.
#[derive(Debug)]
pub(crate) struct Active {
    metrics: Arc<Metrics>,
    id: u64,
    result: &'static str,
}

impl Active {
    /// The transfer has ended: `done`, or an error's code.
    pub(crate) fn end(mut self, result: &'static str) {
        self.result = result;
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let mut state = self.metrics.lock();
        if let Some(running) = state.active.remove(&self.id) {
            state
                .moved
                .add(&running.progress, &running.connection.stats());
            state.end(self.result, running.began.elapsed().as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_that_come_and_go_take_bounded_room() {
        let mut moved = Moved::default();
        for n in 0..1000 {
            moved.add_interface(&format!("veth{n}"), [10, 1]);
        }
        moved.add_interface("veth0", [10, 1]);
        assert_eq!(moved.interfaces.len(), MOST_INTERFACES + 1);
        assert_eq!(moved.interfaces["veth0"], [20, 2]);
        let others = 1000 - MOST_INTERFACES as u64;
        assert_eq!(moved.interfaces[OTHER_INTERFACES], [10 * others, others]);
    }

    #[test]
    fn text() {
        let mut state = State::default();
        for (result, seconds) in [("done", 0.5), ("done", 1.0), ("disk", 61.5), ("done", 1e6)] {
            state.end(result, seconds);
        }
        state.moved = Moved {
            bytes: 3_000_000,
            files: 7,
            interfaces: [("eth0", [3_200_000, 40_000]), ("a\"\\b\n", [1, 2])]
                .map(|(name, bytes)| (name.to_owned(), bytes))
                .into(),
        };
        insta::assert_snapshot!("prometheus", state.to_prometheus());
    }
}

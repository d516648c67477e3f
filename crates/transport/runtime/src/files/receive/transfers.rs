//! Transfers that know of each other: one whose sender is silent gives way to another that needs
//! what it holds. The connection of a sender that was killed lasts until the idle timeout.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A transfer gives way once its sender has been silent for this long: a path may fail for a while.
const SILENCE: Duration = Duration::from_secs(5);
/// A directory isn't swept again so soon: senders could begin any number of transfers.
const PAUSE: Duration = Duration::from_secs(600);

/// The receiver's transfers, by which one can take over from another whose sender was killed.
/// Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Transfers(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    transfers: Vec<Weak<Transfer>>,
    /// The directories that are swept, or have been, and when that ended.
    swept: Vec<(PathBuf, Option<Instant>)>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Transfer {
    others: Transfers,
    dir: PathBuf,
    /// Since when this side waits for the sender, if it does.
    waits: Mutex<Option<Instant>>,
    gives_way: Notify,
}

impl Transfers {
    /// One more, into `dir`, until it is dropped.
    pub(super) fn begin(&self, dir: &Path) -> Arc<Transfer> {
        let transfer = Arc::new(Transfer {
            others: self.clone(),
            dir: dir.to_owned(),
            waits: Mutex::new(None),
            gives_way: Notify::new(),
        });
        let all = &mut self.all().transfers;
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&transfer));
        transfer
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transfer {
    /// It waits for what another holds: those into the same directory that are silent give way.
    pub(super) fn needs_way(&self) {
        // Its own sender may be silent for that reason, and counts as silent from the end of this.
        if let Some(since) = &mut *self.since() {
            *since = Instant::now();
        }
        for other in self.others.all().transfers.iter().filter_map(Weak::upgrade) {
            if other.dir == self.dir && other.silence() >= SILENCE {
                other.gives_way.notify_one();
            }
        }
    }

    /// Asks to sweep its directory. `None`: another does so, or has done so just now.
    pub(super) fn sweeps(&self) -> Option<Sweeping> {
        let swept = &mut self.others.all().swept;
        let is_recent = |ended: &Instant| ended.elapsed() < PAUSE;
        swept.retain(|(_, ended)| ended.as_ref().is_none_or(is_recent));
        if swept.iter().any(|(dir, _)| *dir == self.dir) {
            return None;
        }
        swept.push((self.dir.clone(), None));
        Some(Sweeping {
            all: self.others.clone(),
            dir: self.dir.clone(),
        })
    }

    /// It waits for its sender from now on.
    pub(super) fn waits(&self) {
        *self.since() = Some(Instant::now());
    }

    /// It has heard its sender.
    pub(super) fn hears(&self) {
        *self.since() = None;
    }

    /// Waits until it is to give way to another.
    pub(super) async fn gives_way(&self) {
        self.gives_way.notified().await;
    }

    fn silence(&self) -> Duration {
        self.since().map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directory is being swept, until this is dropped.
#[derive(Debug)]
pub(super) struct Sweeping {
    all: Transfers,
    dir: PathBuf,
}

impl Drop for Sweeping {
    fn drop(&mut self) {
        let swept = &mut self.all.all().swept;
        if let Some((_, ended)) = swept.iter_mut().find(|(dir, _)| *dir == self.dir) {
            *ended = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_swept_once_at_a_time_and_not_again_at_once() {
        let transfers = Transfers::default();
        let begin = |dir| transfers.begin(Path::new(dir));
        let (first, second, elsewhere) = (begin("a"), begin("a"), begin("b"));
        let sweeping = first.sweeps();
        assert!(sweeping.is_some() && second.sweeps().is_none());
        assert!(elsewhere.sweeps().is_some());
        drop(sweeping);
        assert!(first.sweeps().is_none() && second.sweeps().is_none());
        // A host that was just started has no times long ago.
        let long_ago = Instant::now().checked_sub(2 * PAUSE);
        if let Some(long_ago) = long_ago {
            transfers.all().swept[0].1 = Some(long_ago);
            assert!(second.sweeps().is_some() && first.sweeps().is_none());
            assert_eq!(transfers.all().swept.len(), 2);
        }
    }

    #[test]
    fn who_has_waited_for_another_gives_way_in_its_turn() {
        let transfers = Transfers::default();
        let begin = || transfers.begin(Path::new("there"));
        let long_ago = Instant::now().checked_sub(2 * SILENCE);
        let (first, second) = (begin(), begin());
        for waiting in [&first, &second] {
            *waiting.since() = long_ago;
        }
        second.needs_way();
        assert!(first.silence() >= SILENCE);
        assert!(second.silence() < SILENCE);
        // What it needed came, and nothing from its sender.
        assert!(second.since().is_some());
        second.hears();
        second.needs_way();
        assert!(second.since().is_none());
    }
}

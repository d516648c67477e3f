//! Path ids and connection ids: which path is opened next, what we gave out for it and what the
//! peer did.
//!
//! It owns both tables and bounds them: never more than [`SPARE_PATHS`] ids are issued ahead of the
//! paths in use, nor more than that beyond all the paths there may be, nor faster than
//! [`IDS_PER_SECOND`] once each of these had its id. None of the peer's is taken that is four times
//! as far ahead. It never writes a frame.

use std::collections::BTreeMap;

use manyway_units::{Bucket, Time};
use manyway_wire::{ConnectionId, PathId};
use rand::CryptoRng;

use crate::budget::{IDS_PER_SECOND, MOST_AHEAD, SPARE_PATHS};

/// The connection ids of both ends.
#[derive(Debug)]
pub(crate) struct ConnectionIds {
    /// Those that we issued and haven't retired, and the peer's.
    local: BTreeMap<PathId, ConnectionId>,
    remote: BTreeMap<PathId, ConnectionId>,
    next_local: u32,
    next_path: u32,
    /// Most that are issued at a time.
    most: usize,
    /// Each id that is issued takes a token.
    pace: Bucket,
    /// When there is a token for the next one.
    wake: Option<Time>,
}

impl ConnectionIds {
    /// Path 0 has its ids from the handshake. The peer may open `max_paths` paths at a time.
    pub(crate) fn new(now: Time, local: ConnectionId, max_paths: u32) -> Self {
        let most = max_paths.saturating_add(SPARE_PATHS);
        Self {
            local: BTreeMap::from([(PathId(0), local)]),
            remote: BTreeMap::new(),
            next_local: 1,
            next_path: 1,
            most: most as usize,
            pace: Bucket::new(IDS_PER_SECOND, f64::from(most), now),
            wake: None,
        }
    }

    pub(crate) fn local(&self, path: PathId) -> Option<ConnectionId> {
        self.local.get(&path).copied()
    }

    pub(crate) fn remote(&self, path: PathId) -> Option<ConnectionId> {
        self.remote.get(&path).copied()
    }

    /// All that are issued and not retired.
    pub(crate) fn issued(&self) -> impl Iterator<Item = ConnectionId> {
        self.local.values().copied()
    }

    /// The path that can be opened next: without the peer's connection id it has to wait for the
    /// PATH_ID frame.
    pub(crate) fn next_path(&self) -> Option<(PathId, ConnectionId)> {
        let id = PathId(self.next_path);
        Some((id, self.remote(id)?))
    }

    /// A path id is used up, whether or not it ever led to a packet.
    pub(crate) fn use_up(&mut self, path: PathId) {
        self.next_path = self.next_path.max(path.0 + 1);
    }

    /// The next connection id to announce; `None` when enough are ahead of the paths in use, or the
    /// peer has used them up too fast: then [`timeout`](Self::timeout) says when there is another.
    pub(crate) fn issue(
        &mut self,
        now: Time,
        rng: &mut impl CryptoRng,
    ) -> Option<(PathId, ConnectionId)> {
        self.wake = None;
        let ahead = self.next_local >= self.next_path.saturating_add(SPARE_PATHS);
        if ahead || self.local.len() >= self.most {
            return None;
        }
        if let Err(at) = self.pace.take(now, 1.0) {
            self.wake = Some(at);
            return None;
        }
        let path = PathId(self.next_local);
        self.next_local += 1;
        let mut cid = [0; 8];
        rng.fill_bytes(&mut cid);
        let cid = ConnectionId(cid);
        self.local.insert(path, cid);
        Some((path, cid))
    }

    /// When the next id may be issued, if one is wanted.
    pub(crate) fn timeout(&self) -> Option<Time> {
        self.wake
    }

    /// The peer announces its connection id for a path, which is open or not. Whether it is news.
    ///
    /// # Errors
    /// The path has another one, or is too far ahead: in words for CLOSE.
    pub(crate) fn on_announced(
        &mut self,
        path: PathId,
        cid: ConnectionId,
        open: bool,
    ) -> Result<bool, String> {
        match self.remote.get(&path) {
            Some(known) if *known != cid => {
                return Err(format!(
                    "PATH_ID: path {} already has another connection id",
                    path.0
                ));
            }
            Some(_) => return Ok(false),
            None => {}
        }
        if path.0 < self.next_path && !open {
            // A late copy for a path that is over.
            return Ok(false);
        }
        if path.0 >= self.next_path.saturating_add(MOST_AHEAD) {
            return Err(format!("PATH_ID: path {} is too far ahead", path.0));
        }
        self.remote.insert(path, cid);
        Ok(true)
    }

    /// Whether a connection id was ever issued for the path.
    pub(crate) fn was_issued(&self, path: PathId) -> bool {
        path.0 < self.next_local
    }

    /// Forgets a path's ids; ours, if it had one.
    pub(crate) fn retire(&mut self, path: PathId) -> Option<ConnectionId> {
        self.remote.remove(&path);
        self.local.remove(&path)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::ChaCha20Rng;

    use super::*;

    const CID: ConnectionId = ConnectionId([7; 8]);

    const T0: Time = Time::ZERO;

    fn ids() -> (ConnectionIds, ChaCha20Rng) {
        (
            ConnectionIds::new(T0, CID, 64),
            ChaCha20Rng::seed_from_u64(1),
        )
    }

    fn issue_all(ids: &mut ConnectionIds, now: Time, rng: &mut ChaCha20Rng) -> Vec<u32> {
        std::iter::from_fn(|| ids.issue(now, rng).map(|(path, _)| path.0)).collect()
    }

    #[test]
    fn sixteen_ids_are_issued_ahead_of_use() {
        let (mut ids, mut rng) = ids();
        let all: Vec<u32> = (1..17).collect();
        assert_eq!(issue_all(&mut ids, T0, &mut rng), all);
        assert_eq!(ids.issued().count(), 17, "path 0 has one already");
        ids.use_up(PathId(4));
        assert_eq!(issue_all(&mut ids, T0, &mut rng), [17, 18, 19, 20]);
        assert!(ids.was_issued(PathId(20)) && !ids.was_issued(PathId(21)));
        ids.use_up(PathId(2));
        assert_eq!(
            issue_all(&mut ids, T0, &mut rng),
            [0; 0],
            "an old one changes nothing"
        );
    }

    #[test]
    fn a_path_waits_for_the_peers_id() {
        let (mut ids, _) = ids();
        assert_eq!(ids.next_path(), None);
        assert_eq!(ids.on_announced(PathId(2), CID, false), Ok(true));
        assert_eq!(ids.next_path(), None, "path 1 comes first");
        assert_eq!(ids.on_announced(PathId(1), CID, false), Ok(true));
        assert_eq!(ids.next_path(), Some((PathId(1), CID)));
        ids.use_up(PathId(1));
        assert_eq!(ids.next_path(), Some((PathId(2), CID)));
    }

    #[test]
    fn announcements_are_bounded_and_can_not_change() {
        let (mut ids, _) = ids();
        for path in 1..1 + MOST_AHEAD {
            assert_eq!(ids.on_announced(PathId(path), CID, false), Ok(true));
        }
        assert!(
            ids.on_announced(PathId(1 + MOST_AHEAD), CID, false)
                .is_err()
        );
        assert!(ids.on_announced(PathId(u32::MAX), CID, false).is_err());
        assert_eq!(ids.remote.len(), MOST_AHEAD as usize);
        assert_eq!(ids.on_announced(PathId(1), CID, false), Ok(false), "a copy");
        let other = ConnectionId([8; 8]);
        assert!(ids.on_announced(PathId(1), other, false).is_err());
    }

    /// A peer that uses up ids without opening paths gets no more of them than there may be paths.
    #[test]
    fn ids_that_are_skipped_are_not_replaced_for_ever() {
        let (mut ids, mut rng) = ids();
        for second in 0..100 {
            let now = Time::from_millis(1000 * second);
            let last = issue_all(&mut ids, now, &mut rng).into_iter().max();
            // As PATH_ABANDON of the newest id does.
            if let Some(last) = last {
                ids.use_up(PathId(last));
                ids.retire(PathId(last));
            }
            assert!(ids.issued().count() <= 64 + 16);
        }
        assert_eq!(
            ids.issued().count(),
            64 + 16 - 1,
            "the last one was given up"
        );
    }

    #[test]
    fn ids_that_are_used_up_are_replaced_at_a_pace() {
        let (mut ids, mut rng) = ids();
        let mut issued = 0;
        let mut use_up_all = |now: Time, ids: &mut ConnectionIds| {
            let before = issued;
            loop {
                let news = issue_all(ids, now, &mut rng);
                issued += news.len();
                if news.is_empty() {
                    return issued - before;
                }
                for path in news {
                    ids.use_up(PathId(path));
                    ids.retire(PathId(path));
                }
            }
        };
        assert_eq!(use_up_all(T0, &mut ids), 64 + 16, "all paths at once");
        let next = ids.timeout().expect("one more is wanted");
        assert!(next > T0 && use_up_all(next, &mut ids) == 1);
        let later = next + std::time::Duration::from_secs(2);
        assert_eq!(use_up_all(later, &mut ids), 2 * IDS_PER_SECOND as usize);
    }

    #[test]
    fn what_is_retired_does_not_come_back() {
        let (mut ids, mut rng) = ids();
        ids.use_up(PathId(3));
        issue_all(&mut ids, T0, &mut rng);
        assert_eq!(
            ids.on_announced(PathId(3), CID, true),
            Ok(true),
            "the path is open"
        );
        let ours = ids.local(PathId(3));
        assert!(ours.is_some() && ids.remote(PathId(3)) == Some(CID));
        assert_eq!(ids.retire(PathId(3)), ours);
        assert_eq!(ids.retire(PathId(3)), None);
        assert_eq!((ids.local(PathId(3)), ids.remote(PathId(3))), (None, None));
        assert_eq!(
            ids.on_announced(PathId(3), CID, false),
            Ok(false),
            "a late copy"
        );
        assert_eq!(ids.remote(PathId(3)), None);
    }
}

//! Keeps transfers apart that delete in the same directory: each would take the other's files for
//! such as its sender doesn't have.

use super::basis::PATIENCE;
use super::end::End;
use super::tree::{Dir, RECEIVING_DIR};
use manyway_transfer::{Failure, FailureCode};
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Directories at the top that a transfer may delete in, and so holds open.
const MOST: usize = 256;

/// The directories that a transfer deletes in, until it is over.
#[derive(Debug, Default)]
pub(super) struct Claims(Vec<File>);

impl Claims {
    /// Claims the receiving directory: alone if names at the top may go, and otherwise together
    /// with others that delete further below.
    ///
    /// # Errors
    /// Another transfer has claimed it, and goes on. `is_over`: nobody is interested any more.
    pub(super) fn root(
        &mut self,
        dir: &Dir,
        alone: bool,
        is_over: impl Fn() -> bool,
    ) -> Result<(), End> {
        match self.0.is_empty() {
            true => self.claim(dir, alone, is_over),
            false => Ok(()),
        }
    }

    /// Claims a directory at the top.
    ///
    /// # Errors
    /// As [`Claims::root`]; there are too many.
    pub(super) fn top(&mut self, dir: &Dir, is_over: impl Fn() -> bool) -> Result<(), End> {
        if self.0.len() > MOST {
            let reason = format_args!(
                "more than {MOST} directories are sent, and the receiver deletes in them; send the \
                 directory that holds them"
            );
            return Err(Failure::new(FailureCode::Refused, reason).into());
        }
        self.claim(dir, true, is_over)
    }

    fn claim(&mut self, dir: &Dir, alone: bool, is_over: impl Fn() -> bool) -> Result<(), End> {
        match lock(dir, alone, PATIENCE, is_over)? {
            Some(lock) => self.0.push(lock),
            None => return Err(busy(dir).into()),
        }
        Ok(())
    }
}

fn busy(dir: &Dir) -> Failure {
    let reason = "another transfer with `--delete` is using this directory; wait for its end, \
                  then run the same commands again";
    let failure = Failure::new(FailureCode::Refused, reason);
    match (dir.local(), dir.path()) {
        (Some(local), _) => failure.of(local),
        (None, Some(path)) => failure.of(RECEIVING_DIR).only_here(path.display()),
        (None, None) => failure.of(RECEIVING_DIR),
    }
}

/// Locks a directory, `alone` or together with others. `None`: somebody else has it for all that
/// time. The connection of who has it may be lost without its knowledge.
fn lock(
    dir: &Dir,
    alone: bool,
    patience: Duration,
    is_over: impl Fn() -> bool,
) -> Result<Option<File>, End> {
    let opened = dir
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| opening(dir, &error))?;
    let file = File::from(opened);
    let begun = Instant::now();
    loop {
        let locked = match alone {
            true => file.try_lock(),
            false => file.try_lock_shared(),
        };
        match locked {
            Err(TryLockError::WouldBlock) if is_over() => return Err(End::Gone),
            Err(TryLockError::WouldBlock) if begun.elapsed() >= patience => return Ok(None),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(50)),
            // Not every file system has locks.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(Some(file)),
        }
    }
}

fn opening(dir: &Dir, error: &io::Error) -> Failure {
    let name = dir.local().map_or(RECEIVING_DIR, |name| name.as_str());
    Failure::disk(
        manyway_transfer::failure::Side::Receiver,
        "opening",
        name,
        error,
    )
}

#[cfg(test)]
mod tests {
    use super::super::disk::Os;
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_directory_is_one_transfers_or_several_ones() {
        let at = tempfile::tempdir().unwrap();
        // Each transfer opens it anew.
        let dir = || Dir::root(at.path(), Arc::new(Os)).unwrap();
        let (first, second, third) = (dir(), dir(), dir());
        let claim = |dir: &Dir, alone| lock(dir, alone, Duration::ZERO, || false).unwrap();
        let shared = [claim(&first, false), claim(&second, false)];
        assert!(shared.iter().all(Option::is_some) && claim(&third, true).is_none());
        drop((shared, first, second));
        let alone = claim(&third, true);
        let fourth = dir();
        assert!(alone.is_some() && claim(&fourth, false).is_none());
        assert!(claim(&fourth, true).is_none());
        let over = lock(&fourth, true, Duration::from_secs(60), || true);
        assert!(matches!(over, Err(End::Gone)));
        let told = busy(&fourth).to_string();
        let path = at.path().display().to_string();
        assert!(
            told.starts_with("the receiving directory: another transfer"),
            "{told}"
        );
        assert!(told.contains(&path) && !busy(&fourth).for_peer().to_string().contains(&path));
    }

    #[test]
    fn so_many_directories_are_held() {
        let at = tempfile::tempdir().unwrap();
        let mut claims = Claims::default();
        for n in 0..=MOST {
            let path = at.path().join(n.to_string());
            std::fs::create_dir(&path).unwrap();
            let dir = Dir::root(&path, Arc::new(Os)).unwrap();
            claims.top(&dir, || false).unwrap();
        }
        let dir = Dir::root(at.path(), Arc::new(Os)).unwrap();
        let Err(End::Here(failure)) = claims.top(&dir, || false) else {
            panic!("it is claimed");
        };
        assert_eq!(failure.code, FailureCode::Refused);
    }
}

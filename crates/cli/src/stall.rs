//! `--timeout`: notices that nothing of a transfer moves any more.

use std::time::Duration;

use manyway::Connection;
use manyway::files::{Phase, Progress};
use manyway_units::{ByteSize, printable};
use tokio::time::{Instant, sleep};

use crate::completion::{Completion, Moved};
use crate::exit::TimedOut;
use crate::meter::Direction;

/// How often to look, at most.
const LOOK: Duration = Duration::from_millis(250);
/// Most characters of a file's name.
const MAX_NAME: usize = 200;

/// Returns once nothing has moved for `limit`.
pub(crate) async fn noticed(
    connection: &Connection,
    progress: &Progress,
    direction: Direction,
    limit: Option<Duration>,
) -> TimedOut {
    let Some(limit) = limit.filter(|limit| !limit.is_zero()) else {
        return std::future::pending().await;
    };
    until_still(limit, || Moved::of(progress, &connection.stats())).await;
    TimedOut {
        limit,
        waiting_for: {
            let completion = Completion::of(progress, direction, &connection.stats());
            waiting_for(completion, &progress.current(), direction)
        },
    }
}

/// Returns once `look` has said the same for `limit`.
async fn until_still<T: PartialEq>(limit: Duration, mut look: impl FnMut() -> T) {
    let mut last = (Instant::now(), look());
    loop {
        let left = limit.saturating_sub(last.0.elapsed());
        if left.is_zero() {
            return;
        }
        sleep(left.min(LOOK)).await;
        let now = look();
        if now != last.1 {
            last = (Instant::now(), now);
        }
    }
}

/// What the transfer's next step is, for people.
fn waiting_for(completion: Completion, file: &str, direction: Direction) -> String {
    let amount = || {
        let [done, total] =
            [completion.done, completion.total].map(|bytes| ByteSize::new(bytes).decimal());
        match file.is_empty() {
            true => format!("the first of {total}"),
            false => {
                let file = printable(file, MAX_NAME);
                format!("more of {file}, with {done} of {total} done")
            }
        }
    };
    let sending = direction == Direction::Sending;
    match completion.phase {
        Phase::Greeting => "the peer's greeting".to_owned(),
        Phase::Listing if sending => "the receiver to accept the files".to_owned(),
        Phase::Listing => "the sender's list, and its comparison with what is here".to_owned(),
        Phase::Transferring if sending => format!("the receiver to take {}", amount()),
        Phase::Transferring => format!("the sender to send {}", amount()),
        Phase::Syncing | Phase::Done if sending => {
            "the receiver to write everything to its disk".to_owned()
        }
        Phase::Syncing | Phase::Done => "this host's disk".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_what_stays_the_same_is_still() {
        let began = Instant::now();
        let limit = Duration::from_secs(10);
        // A byte every nine seconds, five times.
        until_still(limit, || (began.elapsed().as_secs() / 9).min(5)).await;
        let took = began.elapsed().as_secs_f64();
        assert!((55.0..55.5).contains(&took), "{took}");
    }

    #[test]
    fn what_is_waited_for_is_the_next_step() {
        let all = |direction| {
            let phases = [
                Phase::Greeting,
                Phase::Listing,
                Phase::Transferring,
                Phase::Syncing,
            ];
            let said = phases.map(|phase| {
                let completion = Completion {
                    phase,
                    done: 1_500_000,
                    total: 3_000_000,
                    files: 2,
                    files_done: 1,
                };
                waiting_for(completion, "a\u{202e}b", direction)
            });
            said.join("\n")
        };
        insta::assert_snapshot!("sending", all(Direction::Sending));
        insta::assert_snapshot!("receiving", all(Direction::Receiving));
    }
}

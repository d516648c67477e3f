//! Tasks that wait for something to read, and may: they are woken together, and not again for a
//! while. Woken for each packet, they would take more time than all that is done about it.
//!
//! It knows no stream, and nothing but reading waits for it: acknowledgements leave at once.

use std::task::Waker;
use std::time::Duration;

use manyway_units::Time;

/// Between two times that readers are woken.
const INTERVAL: Duration = Duration::from_millis(1);

/// Those that are to be woken next.
#[derive(Debug, Default)]
pub(super) struct Readers {
    waiting: Vec<Waker>,
    /// None is woken before.
    next: Option<Time>,
}

impl Readers {
    /// There is something to read for these.
    pub(super) fn extend(&mut self, readers: impl IntoIterator<Item = Waker>) {
        self.waiting.extend(readers);
    }

    /// All of them, whenever they would be woken.
    pub(super) fn take(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.waiting)
    }

    /// Those to be woken at `now`; if that is too early, none, and when.
    pub(super) fn release(&mut self, now: Time) -> (Vec<Waker>, Option<Time>) {
        if self.waiting.is_empty() {
            return (Vec::new(), None);
        }
        match self.next.filter(|next| now < *next) {
            Some(next) => (Vec::new(), Some(next)),
            None => {
                self.next = Some(now + INTERVAL);
                (self.take(), None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_woken_at_once_and_then_together() {
        let mut readers = Readers::default();
        let at = |micros: u64| Time::from_micros(5_000 + micros);
        let mut release = |micros: u64, new: usize| {
            readers.extend(vec![Waker::noop().clone(); new]);
            let (woken, due) = readers.release(at(micros));
            (woken.len(), due)
        };
        assert_eq!(release(0, 0), (0, None));
        assert_eq!(release(0, 2), (2, None), "nobody waits after a silence");
        for micros in [100, 200, 999] {
            assert_eq!(release(micros, 1), (0, Some(at(1000))));
        }
        assert_eq!(release(1000, 0), (3, None));
        assert_eq!(release(1500, 0), (0, None));
        assert_eq!(release(1600, 1), (0, Some(at(2000))));
        assert_eq!(release(9000, 1), (2, None));
    }
}

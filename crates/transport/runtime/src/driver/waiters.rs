//! Tasks that wait for the same thing.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

/// Each has a key. So one that gives up takes its waker along, and there are no more wakers than
/// tasks that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Waiters {
    /// Remembers to wake the task, under its key, which it gets now if it has none; pending.
    pub(crate) fn wait<T>(&mut self, key: &mut Option<u64>, cx: &Context<'_>) -> Poll<T> {
        let key = *key.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        self.wakers.insert(key, cx.waker().clone());
        Poll::Pending
    }

    /// It waits no more. The waker may run foreign code when it is dropped.
    #[must_use]
    pub(crate) fn give_up(&mut self, key: u64) -> Option<Waker> {
        self.wakers.remove(&key)
    }

    /// All of them, to be woken.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.wakers).into_values()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.wakers.len()
    }
}

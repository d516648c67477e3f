//! Receive windows: how much the peer may send, grown to what the path and the reader can use.

use std::time::Duration;

use manyway_units::Time;

use super::types::MAX_OFFSET;

/// Below this a round trip says nothing: a reader's and a sender's time slices on a busy host are
/// as long, and a window must cover them.
const MIN_RTT: Duration = Duration::from_millis(2);

/// The receive window of a stream or of the connection.
///
/// The peer may send up to `limit`. When half of the window was consumed (of a shared window: half
/// of a share), a new limit is due; if that took the application less than two round trips, the
/// window was (nearly) what limited the peer, and it doubles, up to the cap. It also doubles when
/// half of it waits for a byte that is missing, as on a much slower path: no reader shows then how
/// fast it is, and a window has to cover what the faster paths carry meanwhile.
#[derive(Debug)]
pub(super) struct Window {
    size: u64,
    cap: u64,
    /// A new limit is due when one part in so many was consumed.
    parts: u64,
    limit: u64,
    consumed: u64,
    /// When the last limit became due, or the first byte came.
    since: Option<Time>,
    due: bool,
}

impl Window {
    pub(super) fn new(initial: u64, cap: u64) -> Self {
        Window {
            size: initial,
            cap,
            parts: 2,
            limit: initial,
            consumed: 0,
            since: None,
            due: false,
        }
    }

    /// A window of `shares` shares, all but one of which may stay unread: new limits come in time
    /// for the last one.
    pub(super) fn shared(mut self, shares: u64) -> Self {
        self.parts = 2 * shares;
        self
    }

    /// How far the window may grow, in bytes.
    pub(super) fn cap(&self) -> u64 {
        self.cap
    }

    /// The current size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// What the peer may send until it is told more, and what it will be told, in bytes.
    pub(super) fn promised(&self) -> u64 {
        self.size.max(self.limit.saturating_sub(self.consumed))
    }

    /// How far the window may grow from now on, in bytes. One that is larger shrinks as it is
    /// used up.
    pub(super) fn limit_to(&mut self, cap: u64) {
        self.cap = cap;
        self.size = self.size.min(cap);
    }

    /// Makes the window this large, as far as it may grow.
    pub(super) fn grow_to(&mut self, size: u64) {
        let size = size.min(self.cap);
        if size > self.size {
            self.size = size;
            self.due |= self.is_partly_used();
        }
    }

    /// The first offset (or total) that the peer may not send.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether a new limit should be told.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Bytes read or thrown away.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The peer has sent something: the clock for tuning runs.
    pub(super) fn on_data(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// The application has read `bytes`.
    pub(super) fn read(&mut self, now: Time, rtt: Duration, bytes: u64) {
        if self.consume(bytes) {
            let fast = 2 * rtt.max(MIN_RTT);
            if self.since.is_some_and(|since| now.since(since) < fast) {
                self.size = self.size.saturating_mul(2).min(self.cap);
            }
            self.since = Some(now);
        }
    }

    /// So many bytes have arrived behind one that is missing.
    pub(super) fn on_gap(&mut self, bytes: u64) {
        if bytes > self.size / 2 && self.size < self.cap {
            self.size = self.size.saturating_mul(2).min(self.cap);
            self.due = self.limit != MAX_OFFSET;
        }
    }

    /// `bytes` were thrown away: room, but no sign that more is wanted.
    pub(super) fn discard(&mut self, bytes: u64) {
        self.consume(bytes);
    }

    /// Returns whether this made a new limit due.
    fn consume(&mut self, bytes: u64) -> bool {
        self.consumed = self.consumed.saturating_add(bytes);
        if bytes == 0 || self.due || !self.is_partly_used() {
            return false;
        }
        self.due = true;
        true
    }

    fn is_partly_used(&self) -> bool {
        let left = self.limit.saturating_sub(self.consumed);
        left <= self.size - self.size.div_ceil(self.parts) && self.limit != MAX_OFFSET
    }

    /// The new limit, from now on in force.
    pub(super) fn announce(&mut self) -> u64 {
        self.due = false;
        let limit = self.consumed.saturating_add(self.size).min(MAX_OFFSET);
        self.limit = self.limit.max(limit);
        self.limit
    }

    /// The frame that told `limit` was lost: repeat it unless a newer one is on its way.
    pub(super) fn on_lost(&mut self, limit: u64) {
        self.due |= limit == self.limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn drain(window: &mut Window, now: Time) {
        let bytes = window.limit() - window.consumed;
        window.read(now, RTT, bytes);
        assert!(window.is_due());
        window.announce();
    }

    #[test]
    fn doubles_for_a_fast_reader_up_to_the_cap() {
        let mut window = Window::new(1000, 6000);
        let mut now = Time::ZERO;
        window.on_data(now);
        let mut sizes = vec![];
        for _ in 0..4 {
            now += RTT;
            drain(&mut window, now);
            sizes.push(window.size());
        }
        assert_eq!(sizes, [2000, 4000, 6000, 6000]);
        assert_eq!(window.limit(), 1000 + 2000 + 4000 + 6000 + 6000);
    }

    #[test]
    fn grows_once_for_each_limit_that_it_tells() {
        let mut window = Window::new(1000, 6000);
        window.on_data(Time::ZERO);
        window.read(Time::ZERO, RTT, 600);
        window.read(Time::ZERO, RTT, 400);
        assert_eq!((window.size(), window.announce()), (2000, 3000));
        window.read(Time::ZERO, RTT, 0);
        assert!(!window.is_due());
    }

    #[test]
    fn stays_for_a_slow_reader() {
        let mut window = Window::new(1000, 6000);
        window.on_data(Time::ZERO);
        drain(&mut window, Time::ZERO + 2 * RTT);
        drain(&mut window, Time::ZERO + 4 * RTT);
        assert_eq!(window.size(), 1000);
    }

    #[test]
    fn a_new_limit_is_due_at_half_a_window() {
        let mut window = Window::new(1000, 1000);
        window.on_data(Time::ZERO);
        window.read(Time::ZERO, RTT, 499);
        assert!(!window.is_due());
        window.read(Time::ZERO, RTT, 1);
        assert!(window.is_due());
        assert_eq!(window.limit(), 1000, "not in force before it is told");
        assert_eq!(window.announce(), 1500);
        window.on_lost(1000);
        assert!(!window.is_due(), "a newer limit is on its way");
        window.on_lost(1500);
        assert!(window.is_due());
    }

    #[test]
    fn discarded_bytes_make_room_without_growth() {
        let mut window = Window::new(1000, 6000);
        window.on_data(Time::ZERO);
        window.discard(1000);
        assert!(window.is_due());
        assert_eq!((window.announce(), window.size()), (2000, 1000));
    }
}

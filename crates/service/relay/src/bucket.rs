//! Token buckets, one or many, in memory that doesn't grow.
//!
//! A bucket is one number: the time at which it would be full again if nothing more were taken
//! (GCRA, ITU-T I.371). Taking `cost` is allowed while that time is at most `burst` ahead of now.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use manyway_wire::relay::RateClass;
use siphasher::sip128::SipHasher13;

/// What may be taken from a bucket, in nanoseconds of its rate.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The cost of this event.
    pub cost: u64,
    /// How far ahead of now the bucket may be.
    pub burst: u64,
}

impl Allowance {
    /// The smallest burst in bytes: two batches of the largest size that the kernel hands over.
    const BURST_BYTES: u64 = 128 << 10;
    /// At the rate of class 0.
    const NANOS_PER_BYTE: u64 = 8000;
    /// The smallest burst in time.
    const BURST: u64 = 100_000_000;

    /// `len` bytes at `rate` bytes per second.
    pub fn bytes(len: usize, rate: u64) -> Self {
        let time = |bytes: u64| bytes.saturating_mul(1_000_000_000) / rate.max(1);
        Self {
            cost: time(len as u64),
            burst: Self::BURST.max(time(Self::BURST_BYTES)),
        }
    }

    /// `len` bytes at a class's rate. Classes are powers of two, so there is nothing to divide.
    pub fn class(len: usize, class: RateClass) -> Self {
        let time = |bytes: u64| (bytes * Self::NANOS_PER_BYTE) >> class.number();
        Self {
            cost: time(len as u64),
            burst: Self::BURST.max(time(Self::BURST_BYTES)),
        }
    }

    /// `weight` events, of which `per_second` are allowed in the long run and twice as many at
    /// once.
    pub const fn events(weight: u64, per_second: u64) -> Self {
        Self {
            cost: weight * 1_000_000_000 / per_second,
            burst: 2_000_000_000,
        }
    }

    /// One event, of which `per_second` are allowed, never two at once.
    pub const fn once(per_second: u64) -> Self {
        let cost = 1_000_000_000 / per_second;
        Self { cost, burst: cost }
    }
}

/// One token bucket, which several threads may share.
#[derive(Debug, Default)]
pub struct Bucket(AtomicU64);

impl Bucket {
    /// Takes this cost if the bucket has it.
    pub fn take(&self, now: Duration, allowance: Allowance) -> bool {
        let taken = |full| with_taken(full, now, allowance);
        let order = Ordering::Relaxed;
        self.0.fetch_update(order, order, taken).is_ok()
    }

    /// Takes a cost that is already incurred, even if the bucket doesn't have it.
    pub fn charge(&self, now: Duration, cost: u64) {
        let charged = |full: u64| Some(full.max(nanos(now)).saturating_add(cost));
        let order = Ordering::Relaxed;
        self.0.fetch_update(order, order, charged).ok();
    }

    /// How long it takes until the bucket has paid off its debt.
    pub fn delay(&self, now: Duration, burst: u64) -> Duration {
        delay(self.0.load(Ordering::Relaxed), now, burst)
    }
}

/// The time at which a bucket would be full after this cost, if the bucket allows it.
fn with_taken(full: u64, now: Duration, allowance: Allowance) -> Option<u64> {
    let now = nanos(now);
    let full = full.max(now).saturating_add(allowance.cost);
    (full <= now.saturating_add(allowance.burst)).then_some(full)
}

fn delay(full: u64, now: Duration, burst: u64) -> Duration {
    Duration::from_nanos(full.saturating_sub(nanos(now).saturating_add(burst)))
}

/// Enough until the year 2554.
fn nanos(now: Duration) -> u64 {
    now.as_secs() * 1_000_000_000 + u64::from(now.subsec_nanos())
}

/// Token buckets for any number of keys in fixed memory: two rows of cells. A key has one cell in
/// each row, and the fuller one counts (a count-min sketch with conservative update). A key never
/// gets more than its own bucket would give it. It gets less only if other keys use up both its
/// cells.
///
/// Threads may share one. If two threads take for the same key within some nanoseconds, one of them
/// may take for nothing.
pub struct Sketch {
    rows: [Box<[AtomicU64]>; 2],
    key: SipHasher13,
}

impl Sketch {
    /// `cells` per row, a power of two; the hash's keys come from `random`, so that nobody can
    /// choose whom to collide with.
    pub fn new(cells: usize, mut random: impl FnMut() -> u64) -> Self {
        let len = cells.next_power_of_two();
        let row = || {
            let cells = std::iter::repeat_with(AtomicU64::default);
            cells.take(len).collect()
        };
        Self {
            rows: [row(), row()],
            key: SipHasher13::new_with_keys(random(), random()),
        }
    }

    /// The cells of a key.
    pub fn cells(&self, key: &[u8]) -> [usize; 2] {
        let hash = self.key.hash(key);
        let mask = self.rows[0].len() - 1;
        [hash.h1 as usize & mask, hash.h2 as usize & mask]
    }

    /// Takes this cost from the key with these cells if its bucket has it.
    pub fn take(&self, cells: [usize; 2], now: Duration, allowance: Allowance) -> bool {
        let taken = with_taken(self.full(cells), now, allowance);
        if let Some(full) = taken {
            self.raise(cells, full);
        }
        taken.is_some()
    }

    /// Takes a cost that is already incurred from the key with these cells.
    pub fn charge(&self, cells: [usize; 2], now: Duration, cost: u64) {
        let full = self.full(cells).max(nanos(now));
        self.raise(cells, full.saturating_add(cost));
    }

    /// How long it takes until the key with these cells has paid off its debt.
    pub fn delay(&self, cells: [usize; 2], now: Duration, burst: u64) -> Duration {
        delay(self.full(cells), now, burst)
    }

    fn full(&self, [a, b]: [usize; 2]) -> u64 {
        let [first, second] = &self.rows;
        let order = Ordering::Relaxed;
        first[a].load(order).min(second[b].load(order))
    }

    fn raise(&self, [a, b]: [usize; 2], full: u64) {
        let [first, second] = &self.rows;
        for cell in [&first[a], &second[b]] {
            if cell.load(Ordering::Relaxed) < full {
                cell.fetch_max(full, Ordering::Relaxed);
            }
        }
    }

    /// Bytes that it occupies, from the start.
    pub fn memory(&self) -> usize {
        self.rows.iter().map(|row| size_of_val(&**row)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting() -> impl FnMut() -> u64 {
        let mut next = 0;
        move || {
            next += 1;
            next
        }
    }

    const START: Duration = Duration::from_secs(1_800_000_000);

    #[test]
    fn a_bucket_gives_its_rate_and_a_burst() {
        let bucket = Bucket::default();
        let mut bytes = 0;
        for ms in 0..10_000 {
            let now = START + Duration::from_millis(ms);
            while bucket.take(now, Allowance::bytes(1000, 1_000_000)) {
                bytes += 1000;
            }
        }
        let expected = 10_000_000 + (128 << 10);
        assert!(
            (expected - 2000..=expected + 2000).contains(&bytes),
            "{bytes}"
        );
    }

    /// Streams pay afterwards: over a longer time that comes to the same.
    #[test]
    fn what_is_charged_afterwards_is_waited_for() {
        let sketch = Sketch::new(16, counting());
        let (cells, bucket) = (sketch.cells(b"key"), Bucket::default());
        let (mut now, mut bytes) = (START, 0);
        while now < START + Duration::from_secs(10) {
            let chunk = Allowance::bytes(64 << 10, 1_000_000);
            let delay = sketch.delay(cells, now, chunk.burst);
            assert_eq!(delay, bucket.delay(now, chunk.burst));
            if delay > Duration::ZERO {
                now += delay;
                continue;
            }
            sketch.charge(cells, now, chunk.cost);
            bucket.charge(now, chunk.cost);
            bytes += 64 << 10;
        }
        let expected = 10_000_000 + (128 << 10);
        assert!(
            (expected..=expected + (64 << 10)).contains(&bytes),
            "{bytes}"
        );
    }

    #[test]
    fn classes_are_rates() {
        for number in 0..16 {
            let class = RateClass::new(number).unwrap();
            for len in [0, 1, 33, 1200, 65_507] {
                let (exact, shifted) = (
                    Allowance::bytes(len, class.bytes_per_second()),
                    Allowance::class(len, class),
                );
                assert_eq!(exact, shifted, "{len} bytes of class {number}");
            }
        }
    }

    #[test]
    fn keys_of_a_sketch_dont_eat_each_others_share() {
        let sketch = Sketch::new(4096, counting());
        let allowance = Allowance::events(1, 10);
        // A hog fills its two cells; of a thousand others hardly one has both cells in common with
        // it.
        let hog = sketch.cells(b"hog");
        while sketch.take(hog, START, allowance) {}
        let served = (0..1000u32)
            .filter(|key| sketch.take(sketch.cells(&key.to_be_bytes()), START, allowance))
            .count();
        assert_eq!(served, 1000);
        assert!(!sketch.take(hog, START, allowance));
        assert!(sketch.take(hog, START + Duration::from_millis(200), allowance));
    }

    #[test]
    fn no_key_gets_more_than_its_own_bucket_would_give() {
        let sketch = Sketch::new(8, counting());
        let allowance = Allowance::events(1, 100);
        let mut taken = [0; 20];
        for ms in 0..2000 {
            for (key, taken) in taken.iter_mut().enumerate() {
                let now = START + Duration::from_millis(ms);
                *taken += u32::from(sketch.take(sketch.cells(&[key as u8]), now, allowance));
            }
        }
        assert!(taken.iter().all(|taken| *taken <= 401), "{taken:?}");
        assert!(taken.iter().any(|taken| *taken > 0));
    }
}

//! A set of byte ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of offsets, kept as disjoint ranges that don't touch. Insertion and removal are O(log n)
/// amortised.
#[derive(Default, Debug)]
pub(super) struct RangeSet {
    /// Start to end.
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl RangeSet {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many offsets are in the set.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The lowest range.
    pub(super) fn first(&self) -> Option<Range<u64>> {
        self.ranges.first_key_value().map(|(&s, &e)| s..e)
    }

    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { start, mut end } = range;
        while let Some((&s, &e)) = self.ranges.range(start + 1..=end).next() {
            self.ranges.remove(&s);
            self.bytes -= e - s;
            end = end.max(e);
        }
        // Mostly, it continues the one before.
        match self.ranges.range_mut(..=start).next_back() {
            Some((_, e)) if *e >= start => {
                self.bytes += end.saturating_sub(*e);
                *e = end.max(*e);
            }
            _ => {
                self.ranges.insert(start, end);
                self.bytes += end - start;
            }
        }
    }

    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() || self.ranges.is_empty() {
            return;
        }
        let Range { start, end } = range;
        if let Some((&s, &e)) = self.ranges.range(..start).next_back()
            && e > start
        {
            self.ranges.insert(s, start);
            self.bytes -= e - start;
            if e > end {
                self.ranges.insert(end, e);
                self.bytes += e - end;
                return;
            }
        }
        while let Some((&s, &e)) = self.ranges.range(start..end).next() {
            self.ranges.remove(&s);
            self.bytes -= e - s;
            if e > end {
                self.ranges.insert(end, e);
                self.bytes += e - end;
                return;
            }
        }
    }

    /// Takes everything below `end` out, when the lowest range starts at or before `from`: returns
    /// how far an unbroken run that begins at `from` reaches.
    pub(super) fn absorb(&mut self, from: u64) -> u64 {
        let mut reach = from;
        while let Some((&s, &e)) = self.ranges.first_key_value()
            && s <= reach
        {
            self.ranges.pop_first();
            self.bytes -= e - s;
            reach = reach.max(e);
        }
        reach
    }

    /// The first range within `range` that isn't in the set.
    pub(super) fn first_gap(&self, range: Range<u64>) -> Option<Range<u64>> {
        let Range { mut start, end } = range;
        if let Some((_, &e)) = self.ranges.range(..=start).next_back() {
            start = start.max(e);
        }
        if start >= end {
            return None;
        }
        let stop = self
            .ranges
            .range(start..end)
            .next()
            .map_or(end, |(&s, _)| s);
        Some(start..stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn expand(set: &RangeSet) -> BTreeSet<u64> {
        set.ranges.iter().flat_map(|(&s, &e)| s..e).collect()
    }

    proptest! {
        #[test]
        fn behaves_like_a_set_of_offsets(
            ops in prop::collection::vec((any::<bool>(), 0u64..64, 0u64..16), 0..60),
        ) {
            let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
            for (insert, start, len) in ops {
                if insert {
                    set.insert(start..start + len);
                    model.extend(start..start + len);
                } else {
                    set.remove(start..start + len);
                    model.retain(|x| !(start..start + len).contains(x));
                }
                prop_assert_eq!(expand(&set), model.clone());
                prop_assert_eq!(set.bytes(), model.len() as u64);
                let ends: Vec<_> = set.ranges.iter().collect();
                prop_assert!(ends.windows(2).all(|w| w[0].1 < w[1].0), "ranges touch: {ends:?}");
                let gap = (start..start + len).find(|x| !model.contains(x));
                prop_assert_eq!(set.first_gap(start..start + len).map(|r| r.start), gap);
                if let Some(gap) = set.first_gap(start..start + len) {
                    prop_assert!(gap.end <= start + len);
                    prop_assert!(gap.clone().all(|x| !model.contains(&x)));
                }
            }
        }
    }

    #[test]
    fn absorbs_what_touches_the_prefix() {
        let mut set = RangeSet::default();
        set.insert(5..8);
        set.insert(10..12);
        assert_eq!(set.absorb(4), 4);
        assert_eq!(set.absorb(6), 8);
        assert_eq!((set.first(), set.bytes()), (Some(10..12), 2));
    }
}

//! The crate's only source of randomness, seeded by the owner.

/// A small generator (SplitMix64, Steele, Lea and Flood 2014): the same seed gives the same choices
/// on every platform.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform below `end`, up to 2⁻⁶⁴ of bias; 0 if that is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// Uniform in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        // As many bits as a double has.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An index with probability in proportion to its weight, of `allowed` ones; uniform among
    /// these if their weights are all 0. `None` if none is allowed.
    pub(crate) fn weighted(
        &mut self,
        weights: impl Iterator<Item = f64> + Clone,
        allowed: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let open = || {
            weights
                .clone()
                .enumerate()
                .filter(|(index, _)| allowed(*index))
        };
        let total: f64 = open().map(|(_, weight)| weight).sum();
        if total <= 0.0 {
            let place = self.below(open().count());
            return open().nth(place).map(|(index, _)| index);
        }
        let mut left = self.unit() * total;
        let mut last = None;
        for (index, weight) in open().filter(|(_, weight)| *weight > 0.0) {
            last = Some(index);
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
        last
    }

    /// Takes a random element.
    pub(crate) fn take<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        if from.is_empty() {
            return None;
        }
        let index = self.below(from.len());
        Some(from.swap_remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation's first outputs for seed 1234567.
    #[test]
    fn is_splitmix64() {
        let mut random = Random::new(1_234_567);
        let first = [random.next(), random.next(), random.next()];
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn draws_every_element_equally_often() {
        let mut random = Random::new(7);
        let mut counts = [0_i32; 10];
        for _ in 0..10_000 {
            counts[random.below(10)] += 1;
        }
        // Standard deviation 30.
        assert!(
            counts.iter().all(|count| (count - 1000).abs() < 150),
            "{counts:?}"
        );
        assert_eq!(random.below(0), 0);
        assert_eq!(random.take(&mut Vec::<u8>::new()), None);
    }

    #[test]
    fn draws_by_weight() {
        let mut random = Random::new(3);
        let mut counts = [0_i32; 4];
        for _ in 0..10_000 {
            let weights = [1.0, 0.0, 3.0, 6.0];
            let index = random.weighted(weights.into_iter(), |index| index != 3);
            counts[index.unwrap()] += 1;
        }
        // Standard deviation 43.
        assert!((counts[0] - 2500).abs() < 220, "{counts:?}");
        assert_eq!((counts[1], counts[3]), (0, 0));
        let zeros = [0.0; 3];
        assert!(random.weighted(zeros.into_iter(), |index| index == 1) == Some(1));
        assert_eq!(random.weighted(zeros.into_iter(), |_| false), None);
    }
}

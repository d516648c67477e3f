/// A small generator (SplitMix64, Steele, Lea and Flood 2014): the same seed gives the same choices on every platform.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
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
    pub(super) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// Takes a random element.
    pub(super) fn take<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
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
}

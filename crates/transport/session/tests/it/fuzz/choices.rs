//! Bytes as choices: whoever changes some of them changes what happens, and nothing else.

/// What is left of an input. At its end, every choice is the first one.
#[derive(Clone, Debug)]
pub(crate) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// One of so many.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    /// Any number of up to 62 bits: mostly a small one, else one near a power of two.
    pub(crate) fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..=199 => small.into(),
            200..=231 => u64::from(self.byte()) << 8 | u64::from(self.byte()),
            power @ 232..=250 => (1 << (8 + 3 * (power - 232) / 2)) - u64::from(power & 1),
            high => (1 << 62) - u64::from(high - 250),
        }
    }
}

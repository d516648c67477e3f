//! What a receiver wants of each entry of a manifest.

/// What is to come of an entry. The numbers are the wire's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Want {
    /// All of it.
    #[default]
    All = 0,
    /// Nothing: it is there, or is left out.
    Nothing = 1,
    /// Of a file, the groups that differ from those whose hashes the receiver tells.
    Difference = 2,
}

/// What is wanted of the entries of a manifest, in its order, by two bits each; of those after the
/// last that is told, all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants(Vec<u8>);

impl Wants {
    const PER_BYTE: u64 = 4;

    /// Notes what is wanted of entry number `entry`.
    pub fn set(&mut self, entry: u64, want: Want) {
        let (at, shift) = Self::place(entry);
        if want == Want::All && at >= self.0.len() {
            return;
        }
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        self.0[at] = self.0[at] & !(3 << shift) | (want as u8) << shift;
    }

    /// What is wanted of entry number `entry`.
    pub fn get(&self, entry: u64) -> Want {
        let (at, shift) = Self::place(entry);
        match self.0.get(at).map_or(0, |byte| byte >> shift & 3) {
            1 => Want::Nothing,
            2 => Want::Difference,
            _ => Want::All,
        }
    }

    /// The bytes, for [`Message::Wants`](crate::Message::Wants).
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Takes the next bytes of what a receiver wants of `entries` entries; `false`: too many bytes.
    #[must_use]
    pub fn extend(&mut self, bytes: &[u8], entries: u64) -> bool {
        self.0.extend_from_slice(bytes);
        self.0.len() as u64 <= entries.div_ceil(Self::PER_BYTE)
    }

    /// Are they bytes that [`Wants::bytes`] gives?
    pub(crate) fn are_valid(bytes: &[u8]) -> bool {
        let valid = |byte: u8| (0..4).all(|entry| byte >> (2 * entry) & 3 != 3);
        bytes.iter().all(|&byte| valid(byte))
    }

    /// Byte and shift.
    fn place(entry: u64) -> (usize, u64) {
        (
            (entry / Self::PER_BYTE) as usize,
            entry % Self::PER_BYTE * 2,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_told_of_what_is_wanted_whole() {
        let mut wants = Wants::default();
        wants.set(1000, Want::All);
        assert_eq!(wants.bytes(), []);
        wants.set(5, Want::Nothing);
        wants.set(6, Want::Difference);
        assert_eq!(wants.bytes(), [0, 0b10_01_00]);
        wants.set(6, Want::Nothing);
        assert_eq!(wants.bytes(), [0, 0b01_01_00]);
        assert!(!Wants::are_valid(&[0, 0b11_00_00]));
        let mut short = Wants::default();
        assert!(short.extend(&[0], 1) && !short.extend(&[0], 4));
    }

    proptest! {
        #[test]
        fn what_was_set_is_there(list in prop::collection::vec(0..3u8, 0..50)) {
            let want = |n: u8| [Want::All, Want::Nothing, Want::Difference][usize::from(n)];
            let mut wants = Wants::default();
            for (entry, &n) in list.iter().enumerate().rev() {
                wants.set(entry as u64, want(n));
            }
            let mut read = Wants::default();
            prop_assert!(Wants::are_valid(wants.bytes()));
            prop_assert!(read.extend(wants.bytes(), list.len() as u64));
            for (entry, &n) in list.iter().enumerate() {
                prop_assert_eq!(read.get(entry as u64), want(n));
            }
        }
    }
}

//! Dense storage by slot, shared by all controllers.

use crate::controller::Slot;

/// Values by [`Slot`]: a vector with holes, the last freed filled first.
#[derive(Clone, Debug)]
pub(crate) struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Slots {
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> Slot {
        if let Some(index) = self.free.pop() {
            self.entries[index] = Some(value);
            Slot(index)
        } else {
            push(&mut self.entries, Some(value));
            Slot(self.entries.len() - 1)
        }
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let value = self.entries.get_mut(slot.0)?.take()?;
        self.free.push(slot.0);
        Some(value)
    }

    #[inline]
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.entries.get(slot.0)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.entries.get_mut(slot.0)?.as_mut()
    }

    /// The values with their slots' indices.
    pub(crate) fn iter_indexed(&self) -> impl Iterator<Item = (usize, &T)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(index, entry)| Some((index, entry.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().flatten()
    }
}

/// Most connections have a path or two, and simulations have many connections: the first few
/// entries take no more room than they need.
const FEW: usize = 4;

/// [`Vec::push`], with exact room for the first few.
pub(crate) fn push<T>(entries: &mut Vec<T>, value: T) {
    if entries.len() < FEW {
        entries.reserve_exact(1);
    }
    entries.push(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_dense_and_reused() {
        let mut slots = Slots::new();
        let (a, b, c) = (slots.insert('a'), slots.insert('b'), slots.insert('c'));
        assert_eq!([a.index(), b.index(), c.index()], [0, 1, 2]);
        assert_eq!(slots.remove(b), Some('b'));
        assert_eq!(slots.remove(b), None);
        assert_eq!(slots.get(b), None);
        assert_eq!(slots.insert('d'), b);
        assert_eq!(slots.get(b), Some(&'d'));
        assert_eq!(slots.get_mut(Slot(9)), None);
        assert_eq!(slots.remove(Slot(9)), None);
        assert_eq!(slots.iter_mut().map(|c| *c).collect::<String>(), "adc");
    }
}

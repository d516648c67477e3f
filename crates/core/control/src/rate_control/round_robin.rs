/// The *maxmin* procedure (section 3, "Initial path rates"): each unit of data goes to the next
/// path in turn that takes it, so that paths fill as in max-min flow control.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundRobin {
    next: usize,
}

impl RoundRobin {
    /// The path for the next unit: of `paths`, the first in turn that is writable. `None` if none
    /// is; the turn stays where it is then.
    pub fn next(&mut self, paths: usize, writable: impl Fn(usize) -> bool) -> Option<usize> {
        let turns = (0..paths).map(|step| (self.next + step) % paths);
        let path = turns.into_iter().find(|&path| writable(path))?;
        self.next = path + 1;
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_round_over_writable_paths() {
        let mut turns = RoundRobin::default();
        let mut next = |writable: &[bool]| turns.next(writable.len(), |path| writable[path]);
        assert_eq!(next(&[true, true, true]), Some(0));
        assert_eq!(next(&[true, true, true]), Some(1));
        assert_eq!(next(&[true, true, false]), Some(0));
        assert_eq!(next(&[false, false, false]), None);
        assert_eq!(next(&[true, true, true]), Some(1));
        // A path less, or none at all.
        assert_eq!(next(&[true]), Some(0));
        assert_eq!(next(&[]), None);
    }
}

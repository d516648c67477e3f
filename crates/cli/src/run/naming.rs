//! How file names refer to the points of a sweep.

/// `07` for the seventh of 40, whose index is 6.
pub(super) fn number_of(index: usize, of: usize) -> String {
    let width = of.to_string().len();
    format!("{:0width$}", index + 1)
}

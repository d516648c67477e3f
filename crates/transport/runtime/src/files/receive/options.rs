#[cfg(test)]
use super::part::DiskFault;
use manyway_transfer::Policy;

/// What a receiver may choose.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// What to do about names that exist.
    pub policy: Policy,
    /// Refuse a transfer that is larger than the free space, before it begins (default). Without,
    /// it fails when the disk is full; a file system that compresses may have room for more than it
    /// says.
    pub check_space: bool,
    #[cfg(test)]
    pub(in crate::files) disk_fault: Option<DiskFault>,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            check_space: true,
            #[cfg(test)]
            disk_fault: None,
        }
    }
}

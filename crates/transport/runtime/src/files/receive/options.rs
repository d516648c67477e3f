use super::disk::{Disk, Os};
use manyway_transfer::Policy;
use std::sync::Arc;

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
    pub(in crate::files) disk: Option<Arc<dyn Disk>>,
}

impl ReceiveOptions {
    /// Where to write.
    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        #[cfg(test)]
        if let Some(disk) = &self.disk {
            return disk.clone();
        }
        Arc::new(Os)
    }
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            check_space: true,
            #[cfg(test)]
            disk: None,
        }
    }
}

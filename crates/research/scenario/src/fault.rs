//! What is wrong with a scenario, by key: its place in the file is found later.

use crate::tree::Key;

/// What is wrong, and with which key.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) key: Key,
    /// It is the key itself, not its value.
    pub(crate) at_key: bool,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(key: &Key, message: String) -> Self {
        Fault {
            key: key.clone(),
            at_key: false,
            message,
        }
    }

    pub(crate) fn key(key: &Key, message: String) -> Self {
        Fault {
            at_key: true,
            ..Fault::new(key, message)
        }
    }
}

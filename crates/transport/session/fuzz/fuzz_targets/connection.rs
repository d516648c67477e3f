//! What it runs stands among the tests of the crate, and uses their hostile peer.
#![no_main]

#[path = "../../tests/it/fuzz/mod.rs"]
mod fuzz;
#[path = "../../tests/it/hostile"]
#[allow(dead_code, reason = "other tests use the rest")]
mod hostile {
    pub(crate) mod memory;
    pub(crate) mod peer;
    pub(crate) mod victim;
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::connection(data));

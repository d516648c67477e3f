//! What it runs stands among the tests of the crate.
#![no_main]

#[path = "../../../session/tests/it/fuzz/choices.rs"]
mod choices;
#[path = "../../tests/fuzz/memory.rs"]
mod memory;
#[path = "../../tests/fuzz/transfer/mod.rs"]
mod transfer;

libfuzzer_sys::fuzz_target!(|data: &[u8]| transfer::transfer(data));

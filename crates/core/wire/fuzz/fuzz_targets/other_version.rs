#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| manyway_wire::fuzzing::other_version(data));

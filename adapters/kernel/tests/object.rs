//! The object in the source tree is what its source gives.

use std::process::Command;

/// With the compiler that made it; others give other bytes. `MANYWAY_REQUIRE_CLANG` says that it
/// has to be here.
#[test]
fn the_source_gives_the_object() {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf");
    let clang = Command::new("clang").arg("--version").output();
    let version = clang.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !version.is_ok_and(|text| text.contains("Debian clang version 14.")) {
        assert!(
            std::env::var_os("MANYWAY_REQUIRE_CLANG").is_none(),
            "this test takes Debian 12's clang"
        );
        return;
    }
    let built = concat!(env!("CARGO_TARGET_TMPDIR"), "/laws.bpf.o");
    let status = Command::new(format!("{here}/build")).arg(built).status();
    assert!(status.unwrap().success(), "bpf/build failed");
    let kept = std::fs::read(format!("{here}/laws.bpf.o")).unwrap();
    assert!(
        std::fs::read(built).unwrap() == kept,
        "laws.bpf.o is older than its source: run bpf/build"
    );
}

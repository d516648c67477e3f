//! What systemd itself says of the units in `packaging/`.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");

/// What `systemd-analyze` says of these units with our program; `None` where it isn't installed.
fn verified(units: &[(&str, &str)], manager: &str, change: [&str; 2]) -> Option<String> {
    let dir = TempDir::new().unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(["--man=no", manager, "verify"]);
    for (file, unit) in units {
        let text = fs::read_to_string(format!("{PACKAGING}/{file}")).unwrap();
        let program = env!("CARGO_BIN_EXE_manyway");
        let text = text.replace("/usr/local/bin/manyway ", &format!("{program} "));
        let copy = dir.path().join(unit);
        fs::write(&copy, text.replace(change[0], change[1])).unwrap();
        command.arg(copy);
    }
    let said = command.env("XDG_RUNTIME_DIR", dir.path()).output().ok()?;
    Some(String::from_utf8(said.stderr).unwrap())
}

#[test]
fn systemd_has_nothing_to_say() {
    let system = [
        ("manyway-recv.service", "manyway-recv.service"),
        ("manyway-relay.service", "manyway-relay.service"),
        ("manyway-registry.service", "manyway-registry.service"),
    ];
    let user = [
        ("manyway-send@.service", "manyway-send@nightly.service"),
        ("manyway-send@.timer", "manyway-send@nightly.timer"),
    ];
    for (units, manager) in [(&system[..], "--system"), (&user[..], "--user")] {
        let Some(said) = verified(units, manager, ["\0", ""]) else {
            return;
        };
        let ours: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("manyway"))
            .collect();
        assert_eq!(ours, [""; 0], "{said}");
        // It would say so.
        let wrong = verified(units, manager, ["KillMode", "KilMode"]).unwrap();
        assert!(wrong.contains("'KilMode'"), "{wrong}");
    }
}

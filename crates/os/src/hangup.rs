/// Whether the process was started so that it outlives its terminal, as `nohup` does: the system
/// then ignores SIGHUP. Says no where it can't be found out.
pub fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status) & 1 != 0
}

/// The ignored signals in what Linux says of a process; the first bit is signal 1, SIGHUP.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_read() {
        let status = "Name:\tx\nSigBlk:\t0000000000000003\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored(status), 0x1001);
        assert_eq!(ignored(""), 0);
        // As a shell says it to what it starts; this test itself may run under `nohup`.
        for (trap, bit) in [
            ("trap '' HUP", 1),
            ("trap - HUP", u64::from(ignores_hangup())),
        ] {
            let script = format!("{trap}; grep SigIgn /proc/self/status");
            let mut shell = std::process::Command::new("sh");
            let told = shell.args(["-c", &script]).output().unwrap().stdout;
            assert_eq!(
                ignored(&String::from_utf8(told).unwrap()) & 1,
                bit,
                "{trap}"
            );
        }
    }
}

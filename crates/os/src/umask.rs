use nix::sys::stat::{Mode, umask as replace};

/// The process's file mode creation mask: the permission bits that its user keeps from others.
pub fn umask() -> u16 {
    from_proc().unwrap_or_else(|| {
        // The only other way to read it is to replace it. For that moment, files that other threads
        // make are their owner's alone.
        let mask = replace(Mode::S_IRWXG | Mode::S_IRWXO);
        replace(mask);
        mask.bits() as u16
    })
}

/// Linux tells, if `/proc` is mounted.
fn from_proc() -> Option<u16> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))?;
    u16::from_str_radix(line.trim(), 8).ok()
}

//! What live networks take of a system, and what it lacks.

use std::fs;
use std::io;
use std::path::Path;

use manyway_scenario::{Experiment, KernelProtocol};
use nix::unistd::geteuid;

use super::flows::law_socket;
use super::network::has_mptcp;

/// Programs that set a network up, and the Debian package that has each.
const PROGRAMS: [(&str, &str); 4] = [
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
];

/// Everything that is missing for a live network, with how to get it; empty if nothing is.
pub fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    if !geteuid().is_root() {
        missing.push(
            "live networks are made of network namespaces, which takes root: run it with sudo"
                .to_owned(),
        );
    }
    if let Err(error) = fs::metadata("/dev/net/tun") {
        missing.push(format!(
            "/dev/net/tun: {error}: live links need the kernel's TUN devices: `modprobe tun`, or \
             start the container with --device /dev/net/tun"
        ));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(&path).collect();
    for (program, package) in PROGRAMS {
        let there = |folder: &std::path::PathBuf| folder.join(program).is_file();
        if !folders.iter().any(there) {
            missing.push(format!("no program `{program}`: install {package}"));
        }
    }
    missing
}

/// Whether this kernel has what the flows of the kernel's want.
///
/// # Errors
/// What it lacks, and what there is.
pub fn check_laws(experiment: &Experiment) -> Result<(), String> {
    for law in experiment
        .flows
        .iter()
        .filter_map(|flow| flow.kernel.as_ref())
    {
        if law.protocol == KernelProtocol::Mptcp
            && let Err(error) = has_mptcp()
        {
            return Err(format!(
                "{law}: no MPTCP here ({error}): it takes a kernel with CONFIG_MPTCP, and `sysctl \
                 net.mptcp.enabled=1`"
            ));
        }
        match law_socket(law) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let more = match law.protocol {
                    KernelProtocol::Mptcp => "; `manyway kernel load LAW` adds one of manyway's",
                    KernelProtocol::Tcp => "",
                };
                return Err(format!("{law}: {error}; it has {}{more}", available()));
            }
            Err(error) => return Err(format!("{law}: {error}")),
        }
    }
    Ok(())
}

/// The kernel's congestion controls.
fn available() -> String {
    let file = Path::new("/proc/sys/net/ipv4/tcp_available_congestion_control");
    match fs::read_to_string(file) {
        Ok(names) => names.split_whitespace().collect::<Vec<_>>().join(", "),
        Err(error) => format!("those in {}: {error}", file.display()),
    }
}

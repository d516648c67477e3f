//! `testbed`: a scenario's links in real time between network namespaces. Linux and root.

#[cfg(target_os = "linux")]
mod program;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    program::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    panic!("TUN devices and network namespaces are Linux's");
}

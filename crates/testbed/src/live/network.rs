//! Namespaces, devices and addresses of a plan. Names are those of `ip netns`, so this belongs into
//! a mount namespace of its own, where nobody else has such names.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use socket2::{Domain, Protocol, Socket, Type};

use super::emulator::{Devices, Emulator};
use super::os;
use super::plan::{Hosts, Plan};

/// What a host's kernel is told: one that keeps what it learnt of a path would carry it from run to
/// run, and no IPv6 sends packets of its own.
const SYSCTLS: [(&str, &str); 4] = [
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
];

/// The most that MPTCP's path manager takes.
const MPTCP_LIMIT: usize = 8;

/// Hosts that stand, joined by devices that nothing carries packets between until [`Network::go`].
/// Dropped, it takes the namespaces down, and with them all that is in them.
#[derive(Debug)]
pub struct Network {
    plan: Plan,
    devices: Devices,
    /// Namespaces that are there.
    made: Vec<String>,
}

impl Network {
    /// Makes the namespaces with their devices and addresses.
    ///
    /// # Errors
    /// If the system refuses any of it.
    pub fn up(plan: Plan) -> io::Result<Self> {
        let mut network = Self {
            plan,
            devices: Devices::new(),
            made: Vec::new(),
        };
        let names = |hosts: &Hosts| [hosts.sender.clone(), hosts.receiver.clone()];
        for name in network.plan.hosts.clone().iter().flat_map(names) {
            run(&["netns", "add", &name], "")?;
            network.made.push(name.clone());
            os::inside(&name, settle)?;
        }
        for way in &network.plan.ways {
            let hosts = &network.plan.hosts[way.hosts];
            let device = |name: &str| {
                os::tun(name, &way.device).map_err(|error| {
                    let message = format!("no device {} in {name}: {error}", way.device);
                    io::Error::new(error.kind(), message)
                })
            };
            let ends = [device(&hosts.sender)?, device(&hosts.receiver)?];
            network.devices.push(ends.map(Arc::new));
        }
        for (index, hosts) in network.plan.hosts.iter().enumerate() {
            for (end, name) in [&hosts.sender, &hosts.receiver].into_iter().enumerate() {
                run(&["-n", name, "-batch", "-"], &network.commands(index, end))?;
            }
        }
        Ok(network)
    }

    /// What it is made of.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Has the links carry packets from now on.
    ///
    /// # Errors
    /// As of the emulator.
    pub fn go(&self, seed: u64) -> io::Result<Emulator> {
        Emulator::start(&self.plan, &self.devices, seed, None)
    }

    /// What `ip` is told at one end of a pair of hosts.
    fn commands(&self, hosts: usize, end: usize) -> String {
        let ways = self.plan.ways_of(hosts);
        let mut commands = "link set dev lo up\n".to_owned();
        for (table, way) in (1..).zip(ways) {
            let (device, address) = (&way.device, way.addresses[end]);
            let _ = writeln!(commands, "addr add {address}/24 dev {device}");
            let _ = writeln!(commands, "link set dev {device} up");
            // Its pair of addresses has this way, and no other.
            let [a, b, c, _] = address.octets();
            let net = format!("{a}.{b}.{c}.0/24");
            let _ = writeln!(commands, "route add {net} dev {device} table {table}");
            let _ = writeln!(commands, "route add unreachable default table {table}");
            let _ = writeln!(commands, "rule add from {address} table {table}");
        }
        if (2..=MPTCP_LIMIT + 1).contains(&ways.len()) && has_mptcp().is_ok() {
            let accepted = if end == 0 { MPTCP_LIMIT } else { 0 };
            let _ = writeln!(
                commands,
                "mptcp limits set subflows {MPTCP_LIMIT} add_addr_accepted {accepted}"
            );
            // The sender connects over the first way, and is told of the others' addresses.
            for way in ways.iter().skip(1).filter(|_| end == 1) {
                let _ = writeln!(commands, "mptcp endpoint add {} signal", way.addresses[end]);
            }
        }
        commands
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.made {
            let _ = run(&["netns", "del", name], "");
        }
    }
}

/// Whether the kernel has MPTCP, and it is on.
///
/// # Errors
/// Why not.
pub(crate) fn has_mptcp() -> io::Result<()> {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).map(drop)
}

/// In the namespace of the calling thread.
fn settle() -> io::Result<()> {
    for (key, value) in SYSCTLS {
        match std::fs::write(format!("/proc/sys/net/{key}"), value) {
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    Ok(())
}

fn run(arguments: &[&str], input: &str) -> io::Result<()> {
    let mut ip = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("no `ip` of iproute2: {error}")))?;
    if let Some(mut stdin) = ip.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let done = ip.wait_with_output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "`ip {}`: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&done.stderr).trim()
        ))),
    }
}

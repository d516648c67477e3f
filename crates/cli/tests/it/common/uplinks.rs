//! Two hosts, each a network namespace, with two emulated links of 20 Mbps and 10 ms between them.
//! Only for root.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use manyway_network::LinkConfig;
use manyway_testbed::live::{self, Emulator, End};
use manyway_units::Rate;

use super::place::Place;
use super::{Running, skipped};

/// What one link carries, in bits per second.
pub(crate) const LINK: f64 = 20e6;
pub(crate) const HERE: usize = 0;
pub(crate) const THERE: usize = 1;

pub(crate) fn succeeds(command: &str) -> bool {
    let mut words = command.split(' ');
    let mut run = Command::new(words.next().unwrap());
    run.args(words).stdout(Stdio::null()).stderr(Stdio::null());
    run.status().is_ok_and(|status| status.success())
}

/// Whether hosts with TUN devices can be made here.
pub(crate) fn able() -> bool {
    let able = succeeds("unshare --net test -e /dev/net/tun") && succeeds("ip -V");
    if !able {
        skipped("it takes root, ip and TUN devices to make hosts");
    }
    able
}

/// Two hosts: 10.1.1.1 and 10.1.1.2 over the first link, 10.1.2.1 and 10.1.2.2 over the second.
pub(crate) struct Hosts {
    pub(crate) place: Place,
    pub(crate) names: [String; 2],
    // Their threads end before the devices.
    _links: Vec<Emulator>,
}

impl Hosts {
    pub(crate) fn new(test: &str) -> Self {
        let id = std::process::id();
        let names = ["a", "b"].map(|host| format!("mwt-{test}-{id}-{host}"));
        for name in &names {
            assert!(succeeds(&format!("ip netns add {name}")), "{name}");
            let disable = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
            live::inside(name, || fs::write(disable, "1")).unwrap();
            assert!(succeeds(&format!("ip -n {name} link set lo up")));
        }
        let config = LinkConfig::new(Rate::from_bits_per_sec(LINK), Duration::from_millis(10));
        let links = (1..=2).map(|number| {
            let end = |host: &String| End {
                namespace: host.clone(),
                device: format!("link{number}"),
            };
            let ends = [end(&names[0]), end(&names[1])];
            let link = live::link(&ends, [config.clone(), config.clone()], number, None).unwrap();
            for (name, last) in names.iter().zip(1..) {
                for command in [
                    format!("ip -n {name} addr add 10.1.{number}.{last}/24 dev link{number}"),
                    format!("ip -n {name} link set link{number} up"),
                ] {
                    assert!(succeeds(&command), "{command}");
                }
            }
            link
        });
        Self {
            place: Place::new(),
            _links: links.collect(),
            names,
        }
    }

    pub(crate) fn ip(&self, host: usize, command: &str) -> bool {
        succeeds(&format!("ip -n {} {command}", self.names[host]))
    }

    /// The program on a host; what it says goes to a file of this name.
    pub(crate) fn start(&self, host: usize, arguments: &[&str], said: &str) -> Running {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.names[host]])
            .arg(env!("CARGO_BIN_EXE_manyway"))
            .args(arguments)
            .current_dir(self.place.path("."))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.place.path(said)).unwrap());
        Running(command.spawn().unwrap())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            succeeds(&format!("ip netns del {name}"));
        }
    }
}

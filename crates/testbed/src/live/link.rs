//! One link at work between two namespaces of somebody else's: two TUN devices, a thread for each
//! direction.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;

use manyway_network::LinkConfig;

use super::emulator::Emulator;
use super::os;
use super::plan::{Direction, Plan, Way};

/// Where a link ends: a device that it makes in a namespace with a name, as of `ip netns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The namespace.
    pub namespace: String,
    /// The device.
    pub device: String,
}

impl FromStr for End {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some((namespace, device)) if !namespace.is_empty() && !device.is_empty() => Ok(Self {
                namespace: namespace.to_owned(),
                device: device.to_owned(),
            }),
            _ => Err(format!(
                "{text:?} is no end of a link: write NAMESPACE:DEVICE"
            )),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.namespace, self.device)
    }
}

/// Makes the devices, which are down and without addresses, and starts. The first of `links` takes
/// packets from the first end to the second, the other one back, and each of them is a part of the
/// emulator. `log` gets a line for each 10 ms in which packets enter the first link.
///
/// # Errors
/// If a link can't work, if a device can't be made, or if a thread can't start.
pub fn link(
    ends: &[End; 2],
    links: [LinkConfig; 2],
    seed: u64,
    log: Option<Box<dyn Write + Send>>,
) -> io::Result<Emulator> {
    let device = |End { namespace, device }: &End| {
        os::tun(namespace, device).map(Arc::new).map_err(|error| {
            let message = format!("no device {device} in namespace {namespace}: {error}");
            io::Error::new(error.kind(), message)
        })
    };
    let devices = vec![[device(&ends[0])?, device(&ends[1])?]];
    let direction = |link: usize| Direction {
        other: [link].into(),
        flows: HashMap::new(),
    };
    let plan = Plan {
        hosts: Vec::new(),
        ways: vec![Way {
            hosts: 0,
            device: ends[0].device.clone(),
            addresses: [Ipv4Addr::UNSPECIFIED; 2],
            directions: [direction(0), direction(1)],
        }],
        hosts_of: Vec::new(),
        named: links.len(),
        links: links.into(),
        subflows: 0,
    };
    Emulator::start(&plan, &devices, seed, log)
}

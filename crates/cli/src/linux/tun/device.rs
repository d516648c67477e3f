//! The network device of a tunnel.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, anyhow};
use manyway_os::tun;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::cidr::{Cidr, Interface};
use crate::exit::usage;

/// What reads and writes say once somebody has deleted the device.
const GONE: i32 = nix::libc::EBADFD;

/// Somebody has deleted the device.
#[derive(Debug, thiserror::Error)]
#[error("somebody has deleted the network device {0}")]
pub(super) struct Gone(String);

/// A device. It disappears with the process, however that ends.
#[derive(Debug)]
pub(super) struct Device {
    file: AsyncFd<File>,
    name: String,
}

impl Device {
    /// Makes a device and takes it into use. What can't be is told with what to do about it.
    pub(super) fn make(
        name: &str,
        mtu: u16,
        addresses: &[Interface],
        routes: &[Cidr],
    ) -> anyhow::Result<Self> {
        if Path::new("/sys/class/net").join(name).exists() {
            return Err(usage(format!(
                "there is a network device {name} already: choose another name with `--name`"
            )));
        }
        let file = tun::open(name).map_err(explain)?;
        let device = Self {
            file: register(file)?,
            name: name.to_owned(),
        };
        device.set_mtu(mtu)?;
        let kernels = tun::Device::named(name)?;
        kernels
            .mark()
            .with_context(|| format!("can't set the alias of {name}"))?;
        for Interface { address, bits } in addresses {
            let added = kernels.add_address(*address, *bits);
            added.with_context(|| format!("can't give {name} the address {address}/{bits}"))?;
        }
        for route in routes {
            let (network, bits) = route.parts();
            kernels.add_route(network, bits).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => anyhow!(
                    "there is a route for {route} already: remove it, or name its halves, which \
                     come before it"
                ),
                _ => anyhow!("can't route {route} into {name}: {error}"),
            })?;
        }
        Ok(device)
    }

    /// Waits until somebody deletes it.
    pub(super) async fn gone(&self) -> Gone {
        // The kernel says so by an error without anything to read.
        self.file.ready(Interest::ERROR).await.ok();
        Gone(self.name.clone())
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The largest packet from now on, in bytes.
    pub(super) fn set_mtu(&self, mtu: u16) -> anyhow::Result<()> {
        let set = tun::Device::named(&self.name).and_then(|device| device.set_up(mtu.into()));
        set.with_context(|| format!("can't use {} with packets of {mtu} bytes", self.name))
    }

    /// The next packet that a program sends through the tunnel: its length. Nothing is lost if the
    /// future is dropped.
    pub(super) async fn read(&self, buf: &mut [u8]) -> anyhow::Result<usize> {
        loop {
            let mut ready = self.file.readable().await?;
            match ready.try_io(|file| file.get_ref().read(buf)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(read) => return read.map_err(|error| self.failed(error)),
                Err(_would_block) => {}
            }
        }
    }

    /// Throws away what waits: it was sent while nobody was there.
    pub(super) fn discard(&self, buf: &mut [u8]) {
        while self.file.get_ref().read(buf).is_ok() {}
    }

    /// Hands a packet to this host's network; whether it takes it.
    pub(super) fn write(&self, packet: &[u8]) -> anyhow::Result<bool> {
        match self.file.get_ref().write(packet) {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(GONE) => Err(self.failed(error)),
            // It is down, or there is no room.
            Err(_) => Ok(false),
        }
    }

    fn failed(&self, error: io::Error) -> anyhow::Error {
        match error.raw_os_error() {
            Some(GONE) => Gone(self.name.clone()).into(),
            _ => anyhow!("can't read packets from {}: {error}", self.name),
        }
    }
}

#[allow(unsafe_code)]
fn register(file: File) -> io::Result<AsyncFd<File>> {
    // SAFETY: a `File` keeps its descriptor, and nobody closes or replaces that before it is
    // dropped.
    Ok(unsafe { AsyncFd::register_with_interest(file, Interest::READABLE | Interest::ERROR) }?)
}

fn explain(error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => anyhow!(
            "it takes root, or the capability CAP_NET_ADMIN, to make a network device: run `sudo \
             manyway tun …`"
        ),
        io::ErrorKind::NotFound => anyhow!(
            "there is no /dev/net/tun: load the kernel's module with `modprobe tun`, or give the \
             container this device"
        ),
        io::ErrorKind::InvalidInput => usage(error.to_string()),
        _ => anyhow!("can't make a network device: {error}"),
    }
}

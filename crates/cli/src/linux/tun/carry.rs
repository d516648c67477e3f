//! Packets from the device to the other side, and from there to the device.

use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use manyway::{Connection, DatagramError, PathState};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::device::Device;
use super::packet::{self, Filter};
use super::resequencer::Resequencer;
use crate::forward::stream::over;

/// The largest packet of a device.
const LARGEST: usize = 1 << 16;
/// How often it is looked how much the paths' delays differ.
const LOOK: Duration = Duration::from_millis(100);

/// Carries packets both ways until the connection is over.
pub(super) async fn both_ways(
    device: &Device,
    filter: &Filter,
    connection: &Connection,
) -> anyhow::Result<()> {
    tokio::select! {
        result = there(device, connection) => result,
        result = back(device, filter, connection) => result,
    }
}

/// Takes packets from the device as fast as the connection does. It drops those that have waited
/// for too long; the kernel, what it has no room for.
async fn there(device: &Device, connection: &Connection) -> anyhow::Result<()> {
    let mut buf = vec![0; LARGEST];
    device.discard(&mut buf);
    let mut number = 0u32;
    loop {
        let len = device.read(&mut buf).await?;
        let datagram = packet::encode(number, &buf[..len]);
        match connection.send_datagram(datagram).await {
            Ok(()) => number = number.wrapping_add(1),
            // Somebody has given the device larger packets.
            Err(DatagramError::TooLarge { max }) => {
                tracing::debug!("dropped a packet of {len} bytes: a datagram has at most {max}");
            }
            Err(DatagramError::Lost(lost)) => return Err(over(lost)),
            Err(error) => return Err(error.into()),
        }
    }
}

async fn back(device: &Device, filter: &Filter, connection: &Connection) -> anyhow::Result<()> {
    let mut resequencer = Resequencer::new();
    let mut out: Vec<Bytes> = Vec::new();
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let timeout = resequencer.timeout();
        let release = async {
            match timeout {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = look.tick() => resequencer.set_spread(spread(connection)),
            datagram = connection.recv_datagram() => {
                let datagram = datagram.map_err(over)?;
                if let Some((number, packet)) = packet::decode(datagram) {
                    resequencer.push(Instant::now(), number, packet, &mut out);
                }
            }
            () = release => resequencer.release(Instant::now(), &mut out),
        }
        // There may always be a next one.
        tokio::task::consume_budget().await;
        for packet in out.drain(..) {
            if !filter.admits(&packet) {
                let source = packet::source(&packet);
                tracing::debug!(?source, "dropped a packet that may not come from there");
            } else if !device.write(&packet)? {
                tracing::debug!("{} takes no packet", device.name());
            }
        }
    }
}

/// How much longer the slowest path may take than the fastest, by what their round trips took.
fn spread(connection: &Connection) -> Duration {
    let paths = connection.stats().paths;
    let active = || paths.iter().filter(|path| path.state == PathState::Active);
    let slowest = active().map(|path| path.rtt).max().unwrap_or_default();
    let fastest = active().map(|path| path.min_rtt).min().unwrap_or_default();
    slowest.saturating_sub(fastest)
}

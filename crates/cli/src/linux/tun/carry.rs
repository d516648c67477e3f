//! Packets from the device to the other side, and from there to the device.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use manyway::{Connection, DatagramError, PathState};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::Tunnel;
use super::device::Device;
use super::packet::{self, Filter, NUMBER_LEN};
use super::resequencer::Resequencer;
use crate::forward::stream::over;
use crate::screen::Screen;

/// The largest packet of a device.
const LARGEST: usize = 1 << 16;
/// How often it is looked how much the paths' delays differ.
const LOOK: Duration = Duration::from_millis(100);

/// A path takes a while to find how large its packets may be.
const PATIENCE: Duration = Duration::from_secs(5);

/// Carries packets of at most `mtu` bytes both ways until the connection is over.
pub(super) async fn both_ways(
    screen: &Screen,
    Tunnel { device, filter, .. }: &Tunnel,
    connection: &Connection,
    mtu: u16,
) -> anyhow::Result<()> {
    tokio::select! {
        result = there(device, connection) => result,
        result = back(device, filter, connection) => result,
        never = tell_of_room(screen, connection, mtu) => match never {},
    }
}

/// Says once that no path has room for the tunnel's packets, and once that one has again.
async fn tell_of_room(screen: &Screen, connection: &Connection, mtu: u16) -> Infallible {
    let mut room = Room {
        mtu,
        cramped: None,
        told: false,
    };
    loop {
        sleep(PATIENCE / 5).await;
        let paths = connection.stats().paths;
        let active = paths.iter().filter(|path| path.state == PathState::Active);
        let most = active.filter_map(|path| path.datagram).max();
        if let Some(news) = room.look(Instant::now(), most) {
            screen.say(&news);
        }
    }
}

/// Whether any path has room for the tunnel's packets.
struct Room {
    mtu: u16,
    /// Since when none has.
    cramped: Option<Instant>,
    told: bool,
}

impl Room {
    /// Takes the largest datagram that any path carries, in bytes; says what is new to the user.
    fn look(&mut self, now: Instant, most: Option<usize>) -> Option<String> {
        let mtu = usize::from(self.mtu);
        let fits = most?.saturating_sub(NUMBER_LEN);
        if fits >= mtu {
            self.cramped = None;
            let again = std::mem::take(&mut self.told);
            return again.then(|| format!("A path carries packets of {mtu} bytes again."));
        }
        let since = *self.cramped.get_or_insert(now);
        if self.told || now - since < PATIENCE {
            return None;
        }
        self.told = true;
        Some(format!(
            "The tunnel carries nothing: no path has room for packets of {mtu} bytes. Start both \
             sides with `--mtu {fits}` or less."
        ))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_no_path_has_room_is_told_once_and_that_one_has_again() {
        let mut room = Room {
            mtu: 1400,
            cramped: None,
            told: false,
        };
        let start = Instant::now();
        let mut look = |seconds, most| room.look(start + Duration::from_secs(seconds), most);
        assert_eq!(look(0, Some(1404)), None);
        assert_eq!(look(1, Some(1403)), None, "it may still find more");
        assert_eq!(look(5, None), None, "no path is active");
        let news = look(6, Some(1254)).unwrap();
        let (what, remedy) = news.split_once(". ").unwrap();
        assert!(
            what.ends_with("no path has room for packets of 1400 bytes"),
            "{news}"
        );
        assert_eq!(remedy, "Start both sides with `--mtu 1250` or less.");
        assert_eq!(look(60, Some(1254)), None);
        let again = "A path carries packets of 1400 bytes again.";
        assert_eq!(look(61, Some(1404)).as_deref(), Some(again));
        assert_eq!(look(62, Some(1403)), None);
        assert_eq!(look(64, Some(1404)), None);
        assert_eq!(look(68, Some(1403)), None, "the time starts again");
    }
}

//! A link at work: two TUN devices, a thread for each direction.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use manyway_network::{Link, LinkConfig, LinkStats};
use manyway_units::Time;

use super::delays::Delays;
use super::direction::Direction;
use super::os;

/// How soon a thread without packets notices that it has to stop.
const POLL: Duration = Duration::from_millis(50);
/// Packets read before it is looked whether others have to leave.
const BATCH: usize = 32;
/// Larger than any packet of a TUN device.
const PACKET: usize = 1 << 16;

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
            _ => Err("write NAMESPACE:DEVICE".to_owned()),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.namespace, self.device)
    }
}

/// What happened in one direction.
#[derive(Debug)]
pub struct Report {
    /// To the packets.
    pub stats: LinkStats,
    /// How long after their time packets left.
    pub late: Delays,
    /// Packets that the system would not take.
    pub refused: u64,
    /// Whether the thread had real time.
    pub real_time: bool,
}

/// A link in real time. Its devices are there as long as it is, and it ends when one of them goes.
#[derive(Debug)]
pub struct TunLink {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<Report>>>,
}

impl TunLink {
    /// Makes the devices, which are down and without addresses, and starts. The links' time, and
    /// so their timetables, begin now. `logs` get a line for each 10 ms in which packets enter;
    /// `ended` is called when a device is gone or something else goes wrong.
    ///
    /// # Errors
    /// If a link can't work, if a device can't be made, or if a thread can't start.
    pub fn start(
        ends: &[End; 2],
        links: [LinkConfig; 2],
        logs: [Box<dyn Write + Send>; 2],
        ended: impl Fn() + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let epoch = epoch.unwrap_or_default().as_secs_f64();
        let devices = ends.each_ref().map(|End { namespace, device }| {
            os::tun(namespace, device).map_err(|error| {
                let message = format!("no device {device} in namespace {namespace}: {error}");
                io::Error::new(error.kind(), message)
            })
        });
        let [here, there] = devices;
        let (here, there) = (Arc::new(here?), Arc::new(there?));
        let mut link = Self {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        let ways = [(here.clone(), there.clone()), (there, here)];
        let origin = Instant::now();
        for (((from, to), config), log) in ways.into_iter().zip(links).zip(logs) {
            let model = Link::new(config);
            let model =
                model.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            let direction = Direction::new(model, epoch, log)?;
            let (stop, ended) = (link.stop.clone(), ended.clone());
            let thread = std::thread::Builder::new().name("link".to_owned());
            link.threads.push(thread.spawn(move || {
                let report = carry(direction, &from, &to, origin, &stop);
                if !stop.load(Ordering::Relaxed) {
                    ended();
                }
                report
            })?);
        }
        Ok(link)
    }

    /// Stops it: what happened in each direction, the one from the first end first.
    ///
    /// # Errors
    /// If a device or a log failed. A device that is gone is no error.
    pub fn stop(mut self) -> io::Result<Vec<Report>> {
        self.stop.store(true, Ordering::Relaxed);
        let reports = std::mem::take(&mut self.threads).into_iter();
        let panicked = || io::Error::other("a thread panicked");
        reports
            .map(|thread| thread.join().unwrap_or_else(|_| Err(panicked())))
            .collect()
    }
}

impl Drop for TunLink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Takes packets from one device to the other until it is to stop or a device is gone.
fn carry<W: Write>(
    mut direction: Direction<W>,
    mut from: &File,
    mut to: &File,
    origin: Instant,
    stop: &AtomicBool,
) -> io::Result<Report> {
    let real_time = os::real_time();
    let now = || Time::ZERO + origin.elapsed();
    let mut buffer = vec![0; PACKET];
    let mut refused = 0;
    'alive: while !stop.load(Ordering::Relaxed) {
        while let Some(packet) = direction.leave(now()) {
            match to.write(&packet) {
                Ok(_) => {}
                Err(error) if is_gone(&error) => break 'alive,
                // It is down, or has no buffers.
                Err(_) => refused += 1,
            }
        }
        let mut read = 0;
        while read < BATCH {
            match from.read(&mut buffer) {
                Ok(len) => direction.enter(now(), &buffer[..len])?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_gone(&error) => break 'alive,
                Err(error) => return Err(error),
            }
            read += 1;
        }
        if read == 0 {
            let next = direction.next().map_or(POLL, |next| next.since(now()));
            os::wait(from, next.min(POLL))?;
        }
    }
    let (stats, late) = direction.finish()?;
    Ok(Report {
        stats,
        late,
        refused,
        real_time,
    })
}

/// What reads and writes say when the device was deleted, or its namespace was.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADFD)
}

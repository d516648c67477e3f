//! The sockets of this user's processes, and what comes from them. It is other processes' text: no
//! line may be too long, and who writes nonsense isn't read any further.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::publish::dir::{self, DirError};
use crate::publish::moment::Moment;
use crate::publish::{ENDING, PERIOD};

/// Most bytes of a line.
const MOST_LINE: u64 = 256 << 10;
/// Processes that are read at once.
const MOST_PROCESSES: usize = 64;
/// A process that says nothing for this long is stopped or stuck.
const SILENCE: Duration = Duration::from_secs(5);
/// No process is read more often.
const PAUSE: Duration = Duration::from_millis(100);

/// What is new.
#[derive(Debug)]
pub(super) enum News {
    /// A process has said something.
    Said(u32, Moment),
    /// A process has gone, or can't be read.
    Gone(u32),
    /// All sockets that were there have been found: how many.
    Found(usize),
}

/// How the reading of a process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It has no connections any more, or doesn't answer. A later look may find it again.
    Gone,
    /// What it writes is no publication.
    Wrong,
}

/// Reads all processes in these places for as long as somebody takes the news.
///
/// # Errors
/// No place will do.
pub(super) async fn run(places: Vec<PathBuf>, news: mpsc::Sender<News>) -> Result<(), DirError> {
    let mut looks = interval(PERIOD);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut readers = JoinSet::new();
    // Whether they are read: nonsense is left alone for as long as it is there.
    let mut known: BTreeMap<PathBuf, bool> = BTreeMap::new();
    loop {
        tokio::select! {
            _ = looks.tick() => {
                let found = find(&places)?;
                known.retain(|socket, reads| *reads || found.contains_key(socket));
                for (socket, process) in &found {
                    if readers.len() < MOST_PROCESSES && !known.contains_key(socket) {
                        known.insert(socket.clone(), true);
                        let (socket, process, news) = (socket.clone(), *process, news.clone());
                        readers.spawn(async move {
                            let end = read(&socket, process, &news).await;
                            (socket, process, end)
                        });
                    }
                }
                if news.send(News::Found(found.len())).await.is_err() {
                    return Ok(());
                }
            }
            Some(Ok((socket, process, end))) = readers.join_next() => {
                match end {
                    End::Gone => known.remove(&socket),
                    End::Wrong => known.insert(socket, false),
                };
                if news.send(News::Gone(process)).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// The sockets, and whose they are. Another user's directory is left alone while there is a better
/// one.
fn find(places: &[PathBuf]) -> Result<BTreeMap<PathBuf, u32>, DirError> {
    let mut found = BTreeMap::new();
    let mut wrong = Vec::new();
    for place in places {
        match dir::check(place) {
            Ok(true) => found.extend(sockets(place)),
            Ok(false) => {}
            Err(error) => wrong.push(error),
        }
    }
    match wrong.pop() {
        Some(error) if wrong.len() + 1 == places.len() => Err(error),
        _ => Ok(found),
    }
}

fn sockets(place: &Path) -> Vec<(PathBuf, u32)> {
    let Ok(entries) = fs::read_dir(place) else {
        return Vec::new();
    };
    let named = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let process = Path::new(&name).file_stem()?.to_str()?.parse().ok()?;
        let ending = Path::new(&name).extension()?;
        let is_socket = entry.file_type().ok()?.is_socket();
        (is_socket && ending == ENDING).then(|| (entry.path(), process))
    };
    entries.filter_map(named).collect()
}

/// Reads one process until it has nothing more to say. Removes the socket of one that is gone.
async fn read(socket: &Path, process: u32, news: &mpsc::Sender<News>) -> End {
    let stream = match UnixStream::connect(socket).await {
        Ok(stream) => stream,
        Err(error) => {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                fs::remove_file(socket).ok();
            }
            return End::Gone;
        }
    };
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut reader).take(MOST_LINE);
        let read = limited.read_until(b'\n', &mut line);
        if !matches!(timeout(SILENCE, read).await, Ok(Ok(1..))) {
            return End::Gone;
        }
        if line.last() != Some(&b'\n') && line.len() as u64 == MOST_LINE {
            return End::Wrong;
        }
        match serde_json::from_slice(&line) {
            Ok(moment) => {
                if news.send(News::Said(process, moment)).await.is_err() {
                    return End::Gone;
                }
            }
            // Cut off at the end.
            Err(_) if line.last() != Some(&b'\n') => return End::Gone,
            Err(error) => {
                tracing::debug!("{} says nonsense: {error}", socket.display());
                return End::Wrong;
            }
        }
        sleep(PAUSE).await;
    }
}

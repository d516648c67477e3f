//! What `manyway top` sees of this process: while it has connections, a Unix socket in a directory
//! of the user tells each who connects how they are doing, twice a second.
//!
//! It reads counters while somebody looks; nobody can change a connection by it.

pub(crate) mod dir;
pub(crate) mod moment;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use manyway::Connection;
use manyway::files::Progress;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use self::moment::{ConnectionMoment, Moment, paths};
use crate::completion::Completion;
use crate::meter::Direction;
use crate::{exit, peers};

/// How often a reader gets a line.
pub(crate) const PERIOD: Duration = Duration::from_millis(500);
/// A reader that doesn't take a line for this long is dropped.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many may look at once.
const MOST_READERS: usize = 8;
/// Most connections in a line, …
const MOST_CONNECTIONS: usize = 64;
/// … and most paths of all of them, so that a line has some 100 KB at most.
const MOST_PATHS: usize = 256;
/// How the names of sockets end, after the process's id.
pub(crate) const ENDING: &str = "sock";

/// What a connection is for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Doing {
    /// Files or a stream.
    Transfer(Direction),
    /// What goes both ways, in a word.
    Other(&'static str),
}

/// This process's.
static PUBLISHED: LazyLock<Published> = LazyLock::new(|| Published::new(dir::places()));

/// Publishes a connection until the result is dropped. Where that isn't possible, nobody sees it.
/// `progress` is that of a transfer of files.
pub(crate) fn list(
    doing: Doing,
    connection: &Connection,
    progress: Option<Arc<Progress>>,
) -> Listed {
    PUBLISHED.list(doing, connection, progress)
}

/// The connections of a process.
#[derive(Debug, Clone)]
struct Published(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    places: Vec<PathBuf>,
    begun: u64,
    connections: BTreeMap<u64, Subject>,
    /// As long as there are connections.
    socket: Option<Socket>,
}

#[derive(Debug)]
struct Subject {
    doing: Doing,
    progress: Option<Arc<Progress>>,
    peer: Option<String>,
    connection: Connection,
    since: Instant,
}

/// A connection that is published.
#[derive(Debug)]
#[must_use]
pub(crate) struct Listed {
    published: Published,
    number: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut state = self.published.state();
        state.connections.remove(&self.number);
        if state.connections.is_empty() {
            state.socket = None;
        }
    }
}

impl Published {
    fn new(places: Vec<PathBuf>) -> Self {
        Self(Arc::new(Mutex::new(State {
            places,
            begun: 0,
            connections: BTreeMap::new(),
            socket: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(
        &self,
        doing: Doing,
        connection: &Connection,
        progress: Option<Arc<Progress>>,
    ) -> Listed {
        let named = |id| peers::name(id).unwrap_or_else(|| id.to_string());
        let subject = Subject {
            doing,
            progress,
            peer: connection.peer_identity().map(named),
            connection: connection.clone(),
            since: Instant::now(),
        };
        let mut state = self.state();
        state.begun += 1;
        let number = state.begun;
        state.connections.insert(number, subject);
        if state.socket.is_none() {
            state.socket = self.open(&state.places);
        }
        drop(state);
        Listed {
            published: self.clone(),
            number,
        }
    }

    /// In the first place that will do.
    fn open(&self, places: &[PathBuf]) -> Option<Socket> {
        let open = |place: &PathBuf| match Socket::open(self, place) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::debug!("`manyway top` can't see this: {}", exit::words(&error));
                None
            }
        };
        places.iter().find_map(open)
    }
}

impl State {
    fn moment(&self, seconds: f64) -> Moment {
        let shown = self.connections.len().min(MOST_CONNECTIONS);
        let most = MOST_PATHS / shown.max(1);
        let subjects = self.connections.iter().take(shown);
        let connections = subjects.map(|(number, subject)| subject.moment(*number, most));
        Moment {
            seconds,
            connections: connections.collect(),
            connections_left_out: self.connections.len() - shown,
        }
    }
}

impl Subject {
    fn moment(&self, number: u64, most: usize) -> ConnectionMoment {
        let stats = self.connection.stats();
        let (doing, direction) = match self.doing {
            Doing::Transfer(direction) => (direction.name(), direction),
            Doing::Other(what) => (what, Direction::Sending),
        };
        let progress = self.progress.as_ref();
        let completion = progress.map(|it| Completion::of(it, direction, &stats));
        let sends = direction == Direction::Sending;
        let (paths, paths_left_out) = paths(&stats, sends, most);
        ConnectionMoment {
            connection: number,
            doing: doing.to_owned(),
            peer: self.peer.clone(),
            seconds: self.since.elapsed().as_secs_f64(),
            bytes: completion.map(|it| it.done),
            bytes_total: completion.map(|it| it.total),
            paths,
            paths_left_out,
        }
    }
}

/// A socket on which this process tells; dropping it removes it.
#[derive(Debug)]
struct Socket {
    path: PathBuf,
    task: AbortHandle,
}

impl Socket {
    fn open(published: &Published, dir: &Path) -> anyhow::Result<Self> {
        dir::make(dir)?;
        let own = |ending| dir.join(format!("{}.{ending}", std::process::id()));
        let (path, new) = (own(ENDING), own("new"));
        let bound = || {
            // What a process of the same id has left.
            fs::remove_file(&new).ok();
            let listener = UnixListener::bind(&new)?;
            fs::set_permissions(&new, Permissions::from_mode(0o600))?;
            // Under its name it has always listened: one that doesn't is stale.
            fs::rename(&new, &path)?;
            Ok::<_, std::io::Error>(listener)
        };
        let listener = bound().with_context(|| format!("can't listen at {}", path.display()))?;
        let task = tokio::spawn(serve(listener, published.clone())).abort_handle();
        Ok(Self { path, task })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
        self.task.abort();
    }
}

/// Tells everybody who connects.
async fn serve(listener: UnixListener, published: Published) {
    let started = Instant::now();
    let mut readers = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if readers.len() < MOST_READERS => {
                    readers.spawn(tell(stream, published.clone(), started));
                }
                Ok(_) => tracing::debug!("{MOST_READERS} look already"),
                Err(error) => {
                    tracing::debug!("nobody can look: {error}");
                    sleep(PERIOD).await;
                }
            },
            Some(_) = readers.join_next() => {}
        }
    }
}

/// A line at once, and then one in each period, until the reader goes or stops to read.
async fn tell(mut stream: UnixStream, published: Published, started: Instant) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let moment = published.state().moment(started.elapsed().as_secs_f64());
        let Ok(mut line) = serde_json::to_vec(&moment) else {
            return;
        };
        line.push(b'\n');
        let written = timeout(PATIENCE, stream.write_all(&line)).await;
        if !matches!(written, Ok(Ok(()))) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

    use super::*;
    use crate::exchange::tests::endpoint;

    /// The next line from a socket; `None` if it is closed.
    async fn next(reader: &mut BufReader<UnixStream>) -> Option<Moment> {
        let mut line = String::new();
        let read = reader.read_line(&mut line).await.unwrap_or(0);
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    #[tokio::test]
    async fn a_few_may_look_as_long_as_there_is_a_connection() {
        let (listener, dialler) = (endpoint().await, endpoint().await);
        let connection = dialler.connect(&listener.listen().unwrap()).await.unwrap();
        let place = tempfile::tempdir().unwrap();
        // The first of the two can't be made.
        let places = ["no/dir", "dir"].map(|dir| place.path().join(dir));
        let published = Published::new(places.into());
        let list = |what| published.list(Doing::Other(what), &connection, None);
        let (first, second) = (list("serving"), list("tunnelling"));
        let name = format!("dir/{}.sock", std::process::id());
        let socket = place.path().join(name);
        let connect = async || BufReader::new(UnixStream::connect(&socket).await.unwrap());

        let mut readers = Vec::new();
        for _ in 0..MOST_READERS {
            let mut reader = connect().await;
            let moment = next(&mut reader).await.unwrap();
            let doing: Vec<_> = moment.connections.iter().map(|it| &it.doing).collect();
            assert_eq!(doing, ["serving", "tunnelling"]);
            assert_eq!(
                moment.connections[0].paths[0].label,
                "127.0.0.1 → 127.0.0.1"
            );
            readers.push(reader);
        }
        assert_eq!(next(&mut connect().await).await, None);
        // Nothing that they say matters, and one that goes makes room.
        let mut last = readers.pop().unwrap();
        last.get_mut().write_all(&[0; 1000]).await.unwrap();
        assert!(next(&mut last).await.is_some());
        drop(readers);
        while next(&mut connect().await).await.is_none() {
            sleep(PERIOD / 10).await;
        }

        drop(first);
        assert!(socket.exists());
        drop(second);
        assert!(!socket.exists());
        // It ends, or is reset.
        let mut rest = Vec::new();
        last.read_to_end(&mut rest).await.ok();
        drop(list("again"));
        assert_eq!(fs::read_dir(place.path().join("dir")).unwrap().count(), 0);
    }
}

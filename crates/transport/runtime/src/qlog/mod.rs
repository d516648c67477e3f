//! A log of each path's packets, for [qvis](https://qvis.quictools.info): qlog 0.3 as JSON text
//! sequences (RFC 7464). qvis knows no multipath, and its statistics don't name the groups of a
//! trace: each path has a file of its own.
//!
//! A blocking thread writes. What it can't keep up with is left out, and each file ends at
//! [`MOST_BYTES`]; both are said in the file.

mod trace;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use manyway_session::{NewPath, Observer, Observers, PacketEvent, PathObservers};
use manyway_units::Time;

use self::trace::{Began, Header, Trace};

/// Records that may wait for the disk: some 6 MB.
const QUEUE: usize = 1 << 16;
/// Longest file, in bytes.
const MOST_BYTES: u64 = 256 << 20;
/// Files that are open at a time; further paths have none.
const MOST_FILES: usize = 256;
/// How often files are brought up to date.
const FLUSH: Duration = Duration::from_secs(1);

/// Something for the writer to write.
#[derive(Debug)]
enum Record {
    Begin {
        file: u64,
        header: Header,
        left_out: Arc<AtomicU64>,
    },
    Packet {
        file: u64,
        now: Time,
        event: PacketEvent,
    },
    End {
        file: u64,
    },
}

/// Makes the directory, and starts a thread that logs the connections of an endpoint there.
///
/// # Errors
/// The directory can't be made.
pub(crate) fn start(dir: &Path) -> io::Result<Observers> {
    fs::create_dir_all(dir)?;
    let (records, waiting) = sync_channel(QUEUE);
    let dir = dir.to_owned();
    // The runtime waits for such threads at its end.
    tokio::task::spawn_blocking(move || Writer::new(dir, MOST_BYTES).run(&waiting));
    let (connections, files) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    Ok(Observers::new(move |initiator| {
        Box::new(Connection {
            number: connections.fetch_add(1, Relaxed),
            initiator,
            began: OnceLock::new(),
            files: files.clone(),
            records: records.clone(),
        })
    }))
}

/// Makes the logs of a connection's paths.
#[derive(Debug)]
struct Connection {
    number: u64,
    initiator: bool,
    /// Set with its first path.
    began: OnceLock<Began>,
    /// How many there are, over all connections.
    files: Arc<AtomicU64>,
    records: SyncSender<Record>,
}

impl PathObservers for Connection {
    fn of_path(&self, now: Time, path: NewPath<'_>) -> Box<dyn Observer> {
        let began = self.began.get_or_init(|| Began {
            at: now,
            clock: SystemTime::now(),
        });
        let log = Log {
            file: self.files.fetch_add(1, Relaxed),
            records: self.records.clone(),
            left_out: Arc::default(),
        };
        log.push(Record::Begin {
            file: log.file,
            header: Header {
                connection: self.number,
                initiator: self.initiator,
                path: path.id,
                route: format!("{} → {}", path.name, path.remote),
                began: *began,
            },
            left_out: log.left_out.clone(),
        });
        Box::new(log)
    }
}

/// Logs one path.
#[derive(Debug)]
struct Log {
    file: u64,
    records: SyncSender<Record>,
    /// Events that the writer had no time for.
    left_out: Arc<AtomicU64>,
}

impl Log {
    fn push(&self, record: Record) {
        // The disk doesn't hold the connection up.
        if self.records.try_send(record).is_err() {
            self.left_out.fetch_add(1, Relaxed);
        }
    }
}

impl Observer for Log {
    fn observe(&self, now: Time, event: PacketEvent) {
        let file = self.file;
        self.push(Record::Packet { file, now, event });
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.push(Record::End { file: self.file });
    }
}

/// Writes the files.
struct Writer {
    dir: PathBuf,
    /// Part of the files' names: seconds since 1970, and the process's number.
    run: String,
    most: u64,
    files: BTreeMap<u64, Trace<BufWriter<File>>>,
}

impl Writer {
    fn new(dir: PathBuf, most: u64) -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since.unwrap_or_default().as_secs();
        Self {
            dir,
            run: format!("{seconds}-{}", std::process::id()),
            most,
            files: BTreeMap::new(),
        }
    }

    fn run(mut self, records: &Receiver<Record>) {
        loop {
            match records.recv_timeout(FLUSH) {
                Ok(record) => self.write(record),
                Err(RecvTimeoutError::Timeout) => self.end(Trace::is_over),
                Err(RecvTimeoutError::Disconnected) => return self.end(|_| true),
            }
        }
    }

    /// Ends these files, and brings the others up to date. A path's end may be among what was left
    /// out.
    fn end(&mut self, which: impl Fn(&Trace<BufWriter<File>>) -> bool) {
        self.files.retain(|_, trace| {
            let ends = which(trace);
            let written = if ends { trace.end() } else { trace.flush() };
            written.is_ok_or_told() && !ends
        });
    }

    fn write(&mut self, record: Record) {
        match record {
            Record::Begin {
                file,
                header,
                left_out,
            } if self.files.len() < MOST_FILES => {
                let (run, connection, path) = (&self.run, header.connection, header.path.0);
                let name = format!("manyway-{run}-{connection}-path-{path}.sqlog");
                let name = self.dir.join(name);
                let out = File::options().write(true).create_new(true).open(name);
                let out = out.map(|out| BufWriter::with_capacity(1 << 16, out));
                match out.and_then(|out| Trace::new(out, &header, self.most, left_out)) {
                    Ok(trace) => drop(self.files.insert(file, trace)),
                    Err(error) => tracing::warn!(%error, "can't write a qlog file"),
                }
            }
            Record::Begin { .. } => {}
            Record::Packet { file, now, event } => {
                let trace = self.files.get_mut(&file);
                if trace.is_some_and(|trace| !trace.event(now, event).is_ok_or_told()) {
                    self.files.remove(&file);
                }
            }
            Record::End { file } => {
                if let Some(mut trace) = self.files.remove(&file) {
                    trace.end().is_ok_or_told();
                }
            }
        }
    }
}

trait Told {
    /// Whether it is well; if not, the log says why.
    fn is_ok_or_told(&self) -> bool;
}

impl Told for io::Result<()> {
    fn is_ok_or_told(&self) -> bool {
        if let Err(error) = self {
            tracing::warn!(%error, "a qlog file ends early");
        }
        self.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use manyway_session::PathId;

    use super::trace::tests::records;
    use super::*;

    const BEGAN: Time = Time::from_micros(1000);

    fn connection(records: SyncSender<Record>) -> Connection {
        Connection {
            number: 4,
            initiator: true,
            began: OnceLock::new(),
            files: Arc::default(),
            records,
        }
    }

    fn path(id: u32) -> NewPath<'static> {
        NewPath {
            id: PathId(id),
            name: "wlan0",
            remote: "192.0.2.1:4433".parse().unwrap(),
        }
    }

    #[test]
    fn each_path_has_a_file_and_all_count_from_the_connections_begin() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, waiting) = sync_channel(100);
        let connection = connection(sender);
        for id in [0, 1] {
            let now = BEGAN + Duration::from_millis(u64::from(id));
            let log = connection.of_path(now, path(id));
            log.observe(now, PacketEvent::Lost { number: 0 });
        }
        drop(connection);
        let writer = Writer::new(dir.path().to_owned(), 1 << 20);
        let run = writer.run.clone();
        writer.run(&waiting);
        for id in [0, 1] {
            let name = format!("manyway-{run}-4-path-{id}.sqlog");
            let found = records(&fs::read(dir.path().join(name)).unwrap());
            let name = format!("path {id}: wlan0 → 192.0.2.1:4433");
            assert_eq!(found[0]["description"], name);
            assert_eq!(found[1]["time"], f64::from(id));
            assert_eq!(found.len(), 2);
        }
    }

    /// Whoever drives the connection doesn't wait for the disk.
    #[test]
    fn a_full_queue_leaves_out() {
        let (records, waiting) = sync_channel(3);
        let log = Log {
            file: 0,
            records,
            left_out: Arc::default(),
        };
        let left_out = log.left_out.clone();
        for number in 0..10 {
            log.observe(Time::ZERO, PacketEvent::Lost { number });
        }
        assert_eq!(left_out.load(Relaxed), 7);
        drop(log);
        assert_eq!(waiting.iter().count(), 3);
    }
}

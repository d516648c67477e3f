//! A log of each path's packets, for [qvis](https://qvis.quictools.info): qlog 0.3 as JSON text
//! sequences (RFC 7464). qvis knows no multipath, and its statistics don't name the groups of a
//! trace: each path has a file of its own.
//!
//! [`Logs`] makes the observers of sessions, and a [`Writer`] writes on a thread that may block.
//! Each file ends at 256 MiB and says so.

mod trace;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

pub use manyway_session::Observers;
use manyway_session::{NewPath, Observer, PacketEvent, PathObservers};
use manyway_units::Time;

use self::trace::{Began, Header, Trace};

/// Records that may wait for the disk: some 6 MB.
const QUEUE: usize = 1 << 16;
/// Longest file, in bytes.
const MOST_BYTES: u64 = 256 << 20;
/// Files that are open at a time; further paths have none, which is an error in a simulation.
const MOST_FILES: usize = 256;
/// How often files are brought up to date.
const FLUSH: Duration = Duration::from_secs(1);

/// Whose time the sessions have.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum Clock {
    /// That of sockets, which don't wait: a file leaves out what the disk is too slow for, and says
    /// how much.
    Real,
    /// That of a simulation, which waits for the disk: files are complete, and the same for equal
    /// runs. Its time began in 1970.
    Virtual,
}

/// Something for the writer to write.
#[derive(Debug)]
enum Record {
    Begin {
        file: u64,
        name: String,
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
    /// Nothing comes any more.
    Over,
}

/// Where observers leave what they see.
#[derive(Debug, Clone)]
pub struct Logs {
    clock: Clock,
    records: SyncSender<Record>,
    /// How many files there are.
    files: Arc<AtomicU64>,
}

impl Logs {
    /// Makes the directory, which will have the files, and who has to write them there.
    ///
    /// # Errors
    /// The directory can't be made.
    pub fn new(dir: &Path, clock: Clock) -> io::Result<(Self, Writer)> {
        fs::create_dir_all(dir)?;
        let (records, waiting) = sync_channel(QUEUE);
        let logs = Self {
            clock,
            records,
            files: Arc::default(),
        };
        let writer = Writer {
            dir: dir.to_owned(),
            clock,
            most: MOST_BYTES,
            waiting,
            files: BTreeMap::new(),
            problem: None,
        };
        Ok((logs, writer))
    }

    /// Observers of an endpoint: the file of its connection N's path M is
    /// `PREFIX-N-path-M.sqlog`, both counted from 0. No two endpoints may have the same prefix.
    pub fn observers(&self, prefix: String) -> Observers {
        let (logs, connections) = (self.clone(), AtomicU64::new(0));
        Observers::new(move |initiator| {
            Box::new(Connection {
                logs: logs.clone(),
                name: format!("{prefix}-{}", connections.fetch_add(1, Relaxed)),
                initiator,
                began: OnceLock::new(),
            })
        })
    }

    /// Has the writer end its files and return, though observers remain: what they see from now on
    /// is left out. Waits while too much waits for the disk.
    pub fn end(&self) {
        // Without a writer, there is nothing to end.
        let _ = self.records.send(Record::Over);
    }

    fn push(&self, record: Record, left_out: &AtomicU64) {
        let pushed = match self.clock {
            // The disk doesn't hold the connection up.
            Clock::Real => self.records.try_send(record).is_ok(),
            Clock::Virtual => self.records.send(record).is_ok(),
        };
        if !pushed {
            left_out.fetch_add(1, Relaxed);
        }
    }
}

/// Makes the logs of a connection's paths.
#[derive(Debug)]
struct Connection {
    logs: Logs,
    /// What its files' names begin with.
    name: String,
    initiator: bool,
    /// Set with its first path.
    began: OnceLock<Began>,
}

impl PathObservers for Connection {
    fn of_path(&self, now: Time, path: NewPath<'_>) -> Box<dyn Observer> {
        let logs = &self.logs;
        let began = self.began.get_or_init(|| Began {
            at: now,
            clock: match logs.clock {
                Clock::Real => SystemTime::now(),
                Clock::Virtual => SystemTime::UNIX_EPOCH + now.since(Time::ZERO),
            },
        });
        let log = Log {
            file: logs.files.fetch_add(1, Relaxed),
            logs: logs.clone(),
            left_out: Arc::default(),
        };
        log.push(Record::Begin {
            file: log.file,
            name: format!("{}-path-{}.sqlog", self.name, path.id.0),
            header: Header {
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
    logs: Logs,
    /// Events that the writer had no time for.
    left_out: Arc<AtomicU64>,
}

impl Log {
    fn push(&self, record: Record) {
        self.logs.push(record, &self.left_out);
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
#[derive(Debug)]
pub struct Writer {
    dir: PathBuf,
    clock: Clock,
    most: u64,
    waiting: Receiver<Record>,
    files: BTreeMap<u64, Trace<BufWriter<File>>>,
    /// What went wrong first.
    problem: Option<io::Error>,
}

impl Writer {
    /// Writes until there are neither [`Logs`] nor observers any more, or [`Logs::end`] was called.
    ///
    /// # Errors
    /// A file can't be written; the others are.
    pub fn run(mut self) -> io::Result<()> {
        loop {
            match self.waiting.recv_timeout(FLUSH) {
                Ok(Record::Over) | Err(RecvTimeoutError::Disconnected) => {
                    self.end(|_| true);
                    return self.problem.map_or(Ok(()), Err);
                }
                Ok(record) => self.write(record),
                Err(RecvTimeoutError::Timeout) => self.end(Trace::is_over),
            }
        }
    }

    /// Ends these files, and brings the others up to date. A path's end may be among what was left
    /// out.
    fn end(&mut self, which: impl Fn(&Trace<BufWriter<File>>) -> bool) {
        for (file, mut trace) in mem::take(&mut self.files) {
            let ends = which(&trace);
            let written = if ends { trace.end() } else { trace.flush() };
            if self.is_well(written) && !ends {
                self.files.insert(file, trace);
            }
        }
    }

    fn write(&mut self, record: Record) {
        match record {
            Record::Begin {
                file,
                name,
                header,
                left_out,
            } if self.files.len() < MOST_FILES => {
                let path = self.dir.join(name);
                let out = File::options().write(true).create_new(true).open(path);
                let out = out.map(|out| BufWriter::with_capacity(1 << 16, out));
                match out.and_then(|out| Trace::new(out, &header, self.most, left_out)) {
                    Ok(trace) => drop(self.files.insert(file, trace)),
                    Err(error) => drop(self.is_well(Err(error))),
                }
            }
            Record::Begin { .. } if self.clock == Clock::Virtual => {
                let error = format!(
                    "at most {MOST_FILES} files at a time, one for each end of a path: have fewer \
                     paths at a time, or no qlog"
                );
                self.is_well(Err(io::Error::other(error)));
            }
            Record::Begin { .. } | Record::Over => {}
            Record::Packet { file, now, event } => {
                let written = self.files.get_mut(&file).map(|it| it.event(now, event));
                if !self.is_well(written.unwrap_or(Ok(()))) {
                    self.files.remove(&file);
                }
            }
            Record::End { file } => {
                if let Some(mut trace) = self.files.remove(&file) {
                    let written = trace.end();
                    self.is_well(written);
                }
            }
        }
    }

    /// Whether it is; if not, the log says why.
    fn is_well(&mut self, written: io::Result<()>) -> bool {
        let Err(error) = written else {
            return true;
        };
        tracing::warn!(%error, "a qlog file ends early");
        self.problem.get_or_insert(error);
        false
    }
}

#[cfg(test)]
mod tests {
    use manyway_session::PathId;

    use super::trace::tests::records;
    use super::*;

    const BEGAN: Time = Time::from_micros(1000);

    fn connection(logs: Logs) -> Connection {
        Connection {
            logs,
            name: "wing-4".to_owned(),
            initiator: true,
            began: OnceLock::new(),
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
        let (logs, writer) = Logs::new(dir.path(), Clock::Virtual).unwrap();
        let connection = connection(logs);
        for id in [0, 1] {
            let now = BEGAN + Duration::from_millis(u64::from(id));
            let log = connection.of_path(now, path(id));
            log.observe(now, PacketEvent::Lost { number: 0 });
        }
        drop(connection);
        writer.run().unwrap();
        for id in [0, 1] {
            let name = format!("wing-4-path-{id}.sqlog");
            let found = records(&fs::read(dir.path().join(name)).unwrap());
            let name = format!("path {id}: wlan0 → 192.0.2.1:4433");
            assert_eq!(found[0]["description"], name);
            // Milliseconds since 1970: the simulation began then.
            assert_eq!(found[0]["trace"]["common_fields"]["reference_time"], 1.0);
            assert_eq!(found[1]["time"], f64::from(id));
            assert_eq!(found.len(), 2);
        }
    }

    #[test]
    fn the_writer_ends_when_told_though_observers_remain() {
        let dir = tempfile::tempdir().unwrap();
        let (logs, writer) = Logs::new(dir.path(), Clock::Real).unwrap();
        let connection = connection(logs.clone());
        let log = connection.of_path(BEGAN, path(0));
        log.observe(BEGAN, PacketEvent::Lost { number: 0 });
        logs.end();
        writer.run().unwrap();
        let found = fs::read(dir.path().join("wing-4-path-0.sqlog")).unwrap();
        assert_eq!(records(&found).len(), 2);
        // Nobody listens any more.
        log.observe(BEGAN, PacketEvent::Lost { number: 1 });
        logs.end();
    }

    fn full(clock: Clock) -> (Log, Receiver<Record>) {
        let (records, waiting) = sync_channel(3);
        let logs = Logs {
            clock,
            records,
            files: Arc::default(),
        };
        let log = Log {
            file: 0,
            logs,
            left_out: Arc::default(),
        };
        (log, waiting)
    }

    /// Whoever drives the connection doesn't wait for the disk.
    #[test]
    fn a_full_queue_leaves_out() {
        let (log, waiting) = full(Clock::Real);
        let left_out = log.left_out.clone();
        for number in 0..10 {
            log.observe(Time::ZERO, PacketEvent::Lost { number });
        }
        assert_eq!(left_out.load(Relaxed), 7);
        drop(log);
        assert_eq!(waiting.iter().count(), 3);
    }

    #[test]
    fn a_simulation_waits() {
        let (log, waiting) = full(Clock::Virtual);
        let left_out = log.left_out.clone();
        let reader = std::thread::spawn(move || waiting.iter().count());
        for number in 0..1000 {
            log.observe(Time::ZERO, PacketEvent::Lost { number });
        }
        drop(log);
        assert_eq!(left_out.load(Relaxed), 0);
        assert_eq!(reader.join().unwrap(), 1001);
    }

    #[test]
    fn a_file_that_exists_is_not_touched_and_the_writer_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("wing-4-path-0.sqlog");
        fs::write(&there, "mine").unwrap();
        let (logs, writer) = Logs::new(dir.path(), Clock::Virtual).unwrap();
        let connection = connection(logs);
        for id in [0, 1] {
            connection.of_path(BEGAN, path(id));
        }
        drop(connection);
        let error = writer.run().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(there).unwrap(), b"mine");
        assert!(dir.path().join("wing-4-path-1.sqlog").exists());
    }
}

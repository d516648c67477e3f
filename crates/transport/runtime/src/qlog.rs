//! A log of each connection's packets, for [qvis](https://qvis.quictools.info): qlog 0.3 as JSON
//! text sequences (RFC 7464), a trace per path.
//!
//! A blocking thread writes. What it can't keep up with is left out, and each file ends at
//! [`MOST_BYTES`]; both are said in the file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use manyway_session::{Observer, Observers, PacketEvent, PathId};
use manyway_units::Time;
use serde_json::{Value, json};

/// Records that may wait for the disk: some 4 MB.
const QUEUE: usize = 1 << 16;
/// Longest file, in bytes.
const MOST_BYTES: u64 = 256 << 20;
/// Files that are open at a time; further connections have none.
const MOST_FILES: usize = 64;
/// How often files are brought up to date.
const FLUSH: Duration = Duration::from_secs(1);

/// Something for the writer to write.
#[derive(Debug)]
enum Record {
    Begin {
        connection: u64,
        initiator: bool,
        left_out: Arc<AtomicU64>,
    },
    Packet {
        connection: u64,
        now: Time,
        path: PathId,
        event: PacketEvent,
    },
    End {
        connection: u64,
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
    let connections = AtomicU64::new(0);
    Ok(Observers::new(move |initiator| {
        let log = Log {
            connection: connections.fetch_add(1, Relaxed),
            records: records.clone(),
            left_out: Arc::default(),
        };
        log.push(Record::Begin {
            connection: log.connection,
            initiator,
            left_out: log.left_out.clone(),
        });
        Arc::new(log)
    }))
}

/// Logs one connection.
#[derive(Debug)]
struct Log {
    connection: u64,
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
    fn observe(&self, now: Time, path: PathId, event: PacketEvent) {
        self.push(Record::Packet {
            connection: self.connection,
            now,
            path,
            event,
        });
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.push(Record::End {
            connection: self.connection,
        });
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

    /// Ends these files, and brings the others up to date. A connection's end may be among what was
    /// left out.
    fn end(&mut self, which: impl Fn(&Trace<BufWriter<File>>) -> bool) {
        self.files.retain(|_, trace| {
            let ends = which(trace);
            let written = if ends { trace.end() } else { trace.out.flush() };
            written.is_ok_or_told() && !ends
        });
    }

    fn write(&mut self, record: Record) {
        match record {
            Record::Begin {
                connection,
                initiator,
                left_out,
            } if self.files.len() < MOST_FILES => {
                let file = self
                    .dir
                    .join(format!("manyway-{}-{connection}.sqlog", self.run));
                let file = File::options().write(true).create_new(true).open(file);
                let out = file.map(|file| BufWriter::with_capacity(1 << 16, file));
                match out.and_then(|out| Trace::new(out, initiator, self.most, left_out)) {
                    Ok(trace) => drop(self.files.insert(connection, trace)),
                    Err(error) => tracing::warn!(%error, "can't write a qlog file"),
                }
            }
            Record::Begin { .. } => {}
            Record::Packet {
                connection,
                now,
                path,
                event,
            } => {
                let trace = self.files.get_mut(&connection);
                if trace.is_some_and(|trace| !trace.event(now, path, event).is_ok_or_told()) {
                    self.files.remove(&connection);
                }
            }
            Record::End { connection } => {
                if let Some(mut trace) = self.files.remove(&connection) {
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

/// One file.
struct Trace<W> {
    out: W,
    /// Bytes that it may still have; `None` when it is full.
    left: Option<u64>,
    left_out: Arc<AtomicU64>,
    /// Acknowledgements of a path at one moment, which make one event.
    acked: Option<(Time, PathId, Vec<[u64; 2]>)>,
    /// The newest event's.
    last: (Time, PathId),
}

impl<W: Write> Trace<W> {
    fn new(out: W, initiator: bool, most: u64, left_out: Arc<AtomicU64>) -> io::Result<Self> {
        let mut trace = Self {
            out,
            left: Some(most),
            left_out,
            acked: None,
            last: (Time::ZERO, PathId(0)),
        };
        trace.record(&json!({
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": "manyway",
            "trace": {
                "vantage_point": { "type": if initiator { "client" } else { "server" } },
                "common_fields": {
                    "protocol_type": ["manyway"],
                    "time_format": "relative",
                    "reference_time": 0,
                },
            },
        }))?;
        Ok(trace)
    }

    /// Whether its connection is gone.
    fn is_over(&self) -> bool {
        Arc::strong_count(&self.left_out) == 1
    }

    fn record(&mut self, object: &Value) -> io::Result<()> {
        let line = format!("\x1e{object}\n");
        let Some(left) = self.left else {
            return Ok(());
        };
        self.left = left.checked_sub(line.len() as u64);
        match self.left {
            Some(_) => self.out.write_all(line.as_bytes()),
            None => {
                let note = self.note("what follows is left out: the file is as long as it may be");
                writeln!(self.out, "\x1e{note}")
            }
        }
    }

    fn named(&mut self, now: Time, path: PathId, name: &str, data: Value) -> io::Result<()> {
        // Packets arrive when the kernel says, which may be before we sent the last one. qvis wants
        // times in their order.
        let now = now.max(self.last.0);
        self.last = (now, path);
        let object = named(now, path, name, data);
        self.record(&object)
    }

    fn note(&self, message: &str) -> Value {
        let (now, path) = self.last;
        named(now, path, "generic:info", json!({ "message": message }))
    }

    fn event(&mut self, now: Time, path: PathId, event: PacketEvent) -> io::Result<()> {
        if let PacketEvent::Acked { number } = event {
            return self.acked(now, path, number);
        }
        self.write_acked()?;
        let header = |number| json!({ "packet_type": "1RTT", "packet_number": number });
        let (name, data) = match event {
            PacketEvent::Sent {
                number,
                bytes,
                ack_eliciting,
            } => {
                let data = json!({
                    "header": header(number),
                    "raw": { "length": bytes },
                    "frames": [],
                    "ack_eliciting": ack_eliciting,
                });
                ("transport:packet_sent", data)
            }
            PacketEvent::Received { number, bytes } => {
                let data = json!({
                    "header": header(number),
                    "raw": { "length": bytes },
                    "frames": [],
                });
                ("transport:packet_received", data)
            }
            PacketEvent::Lost { number } => {
                ("recovery:packet_lost", json!({ "header": header(number) }))
            }
            PacketEvent::Metrics {
                window,
                in_flight,
                smoothed,
                latest,
                min,
            } => {
                let data = json!({
                    "congestion_window": window,
                    "bytes_in_flight": in_flight,
                    "smoothed_rtt": millis(smoothed),
                    "latest_rtt": millis(latest),
                    "min_rtt": millis(min),
                });
                ("recovery:metrics_updated", data)
            }
            PacketEvent::Acked { .. } => return Ok(()),
        };
        self.named(now, path, name, data)
    }

    fn acked(&mut self, now: Time, path: PathId, number: u64) -> io::Result<()> {
        match &mut self.acked {
            Some((at, of, ranges)) if (*at, *of) == (now, path) => match ranges.last_mut() {
                Some([_, last]) if *last + 1 == number => *last = number,
                _ => ranges.push([number; 2]),
            },
            _ => {
                self.write_acked()?;
                self.acked = Some((now, path, vec![[number; 2]]));
            }
        }
        Ok(())
    }

    /// For qvis, acknowledgements are frames of a packet that arrived. It may have come on another
    /// path, so this one has neither number nor length.
    fn write_acked(&mut self) -> io::Result<()> {
        let Some((now, path, ranges)) = self.acked.take() else {
            return Ok(());
        };
        let data = json!({
            "header": { "packet_type": "1RTT" },
            "frames": [{ "frame_type": "ack", "acked_ranges": ranges }],
        });
        self.named(now, path, "transport:packet_received", data)
    }

    fn end(&mut self) -> io::Result<()> {
        self.write_acked()?;
        let left_out = self.left_out.load(Relaxed);
        if left_out > 0 {
            let text = format!("{left_out} events are left out: the disk was too slow");
            let note = self.note(&text);
            writeln!(self.out, "\x1e{note}")?;
        }
        self.out.flush()
    }
}

/// An event. qvis makes a trace of each group.
fn named(now: Time, path: PathId, name: &str, data: Value) -> Value {
    json!({
        "time": now.as_micros() as f64 / 1e3,
        "name": name,
        "group_id": format!("path {}", path.0),
        "data": data,
    })
}

fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The records of a file.
    fn records(text: &[u8]) -> Vec<Value> {
        let text = std::str::from_utf8(text).unwrap();
        let lines = text.split('\x1e').skip(1);
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn events() -> Vec<(PathId, PacketEvent)> {
        let sent = |number| PacketEvent::Sent {
            number,
            bytes: 1452,
            ack_eliciting: true,
        };
        let acked = [0, 1, 3].map(|number| PacketEvent::Acked { number });
        let received = PacketEvent::Received {
            number: 7,
            bytes: 40,
        };
        let metrics = PacketEvent::Metrics {
            window: 14_520,
            in_flight: 1452,
            smoothed: Duration::from_micros(20_250),
            latest: Duration::from_millis(21),
            min: Duration::from_millis(20),
        };
        let first = (0..4).map(sent).chain([received]).chain(acked);
        let first = first.chain([PacketEvent::Lost { number: 2 }, metrics]);
        let mut events: Vec<_> = first.map(|event| (PathId(0), event)).collect();
        events.push((PathId(1), sent(0)));
        events.push((PathId(1), PacketEvent::Acked { number: 0 }));
        events
    }

    #[test]
    fn what_qvis_reads() {
        let mut out = Vec::new();
        let mut trace = Trace::new(&mut out, true, 1 << 20, Arc::default()).unwrap();
        for (path, event) in events() {
            trace.event(Time::from_micros(1500), path, event).unwrap();
        }
        trace.end().unwrap();
        let records = records(&out);
        let header = &records[0];
        assert_eq!(
            (&header["qlog_version"], &header["qlog_format"]),
            (&json!("0.3"), &json!("JSON-SEQ"))
        );
        assert_eq!(header["trace"]["vantage_point"]["type"], "client");
        let named = |name: &str| {
            let found = records.iter().filter(|record| record["name"] == name);
            found.collect::<Vec<_>>()
        };
        assert!(records[1..].iter().all(|record| record["time"] == 1.5));
        assert_eq!(named("transport:packet_sent").len(), 5);
        let sent = named("transport:packet_sent")[4];
        assert_eq!(sent["group_id"], "path 1");
        assert_eq!(sent["data"]["raw"]["length"], 1452);
        let received = named("transport:packet_received");
        assert_eq!(received[0]["data"]["header"]["packet_number"], 7);
        let ranges = |at: usize| &received[at]["data"]["frames"][0]["acked_ranges"];
        assert_eq!(ranges(1), &json!([[0, 1], [3, 3]]));
        assert_eq!(
            (ranges(2), &received[2]["group_id"]),
            (&json!([[0, 0]]), &json!("path 1"))
        );
        assert_eq!(
            named("recovery:packet_lost")[0]["data"]["header"]["packet_number"],
            2
        );
        let metrics = &named("recovery:metrics_updated")[0]["data"];
        assert_eq!(
            (&metrics["congestion_window"], &metrics["smoothed_rtt"]),
            (&json!(14_520), &json!(20.25))
        );
    }

    #[test]
    fn times_are_in_order() {
        let mut out = Vec::new();
        let mut trace = Trace::new(&mut out, true, 1 << 20, Arc::default()).unwrap();
        for micros in [3000, 1000, 4000] {
            let event = PacketEvent::Lost { number: 1 };
            trace
                .event(Time::from_micros(micros), PathId(0), event)
                .unwrap();
        }
        let times = records(&out)[1..]
            .iter()
            .map(|record| record["time"].clone())
            .collect::<Vec<_>>();
        assert_eq!(times, [3.0, 3.0, 4.0]);
    }

    #[test]
    fn a_file_has_an_end_and_says_what_it_lacks() {
        let mut out = Vec::new();
        let left_out = Arc::new(AtomicU64::new(9));
        let mut trace = Trace::new(&mut out, false, 10_000, left_out).unwrap();
        for number in 0..1000 {
            let event = PacketEvent::Lost { number };
            trace.event(Time::ZERO, PathId(0), event).unwrap();
        }
        trace.end().unwrap();
        assert!((9_000..10_500).contains(&out.len()), "{}", out.len());
        let records = records(&out);
        let said = |n: usize| records[records.len() - n]["data"]["message"].to_string();
        assert!(said(2).contains("as long as it may be"), "{}", said(2));
        assert!(
            said(1).starts_with("\"9 events are left out"),
            "{}",
            said(1)
        );
    }

    /// Whoever drives the connection doesn't wait for the disk.
    #[test]
    fn a_full_queue_leaves_out() {
        let (records, waiting) = sync_channel(3);
        let log = Log {
            connection: 0,
            records,
            left_out: Arc::default(),
        };
        let left_out = log.left_out.clone();
        for number in 0..10 {
            log.observe(Time::ZERO, PathId(0), PacketEvent::Lost { number });
        }
        assert_eq!(left_out.load(Relaxed), 7);
        drop(log);
        assert_eq!(waiting.iter().count(), 3);
    }
}

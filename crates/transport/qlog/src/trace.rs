//! What a file of a path holds, after the source of qvis at commit 72c8c4b.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use manyway_session::{PacketEvent, PathId};
use manyway_units::Time;
use serde_json::{Value, json};

/// What a file begins with.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) initiator: bool,
    pub(super) path: PathId,
    /// Its addresses.
    pub(super) route: String,
    pub(super) began: Began,
}

/// When a connection began, by both clocks: times in its files count from there.
#[derive(Copy, Clone, Debug)]
pub(super) struct Began {
    pub(super) at: Time,
    pub(super) clock: SystemTime,
}

/// One file.
#[derive(Debug)]
pub(super) struct Trace<W> {
    out: W,
    /// Bytes that it may still have; `None` when it is full.
    left: Option<u64>,
    left_out: Arc<AtomicU64>,
    /// When its connection began.
    began: Time,
    /// The newest packet that arrived, until all is known of it.
    arrived: Option<Arrived>,
    /// When the newest event was.
    last: Time,
}

/// What makes one event: a packet, and what it acknowledges.
#[derive(Debug)]
struct Arrived {
    now: Time,
    /// Number and length; `None` if it came on another path.
    packet: Option<(u64, usize)>,
    acked: Vec<[u64; 2]>,
}

impl<W: Write> Trace<W> {
    /// A file of at most `most` bytes and what it says at its end. `left_out` is how many of the
    /// path's events never got here.
    pub(super) fn new(
        out: W,
        header: &Header,
        most: u64,
        left_out: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let began = header.began;
        let mut trace = Self {
            out,
            left: Some(most),
            left_out,
            began: began.at,
            arrived: None,
            last: began.at,
        };
        let since = began.clock.duration_since(SystemTime::UNIX_EPOCH);
        let path = format!("path {}: {}", header.path.0, header.route);
        let mut first = json!({
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": "manyway",
            "description": &path,
            "trace": {
                "vantage_point": {
                    "name": &path,
                    "type": if header.initiator { "client" } else { "server" },
                },
                "common_fields": {
                    "protocol_type": ["manyway"],
                    "time_format": "relative",
                    "reference_time": millis(since.unwrap_or_default()),
                },
            },
        });
        if !header.initiator {
            // Without an offset, qvis moves a server's events by half of a round-trip time, though
            // both ends' clocks tell the same time. It takes 0 for none.
            first["trace"]["configuration"] = json!({ "time_offset": 0.001 });
        }
        trace.record(&first)?;
        Ok(trace)
    }

    /// Whether its path is gone.
    pub(super) fn is_over(&self) -> bool {
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

    /// Brings what is written to its place.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn named(&mut self, now: Time, name: &str, data: Value) -> io::Result<()> {
        // Packets arrive when the kernel says, which may be before we sent the last one. qvis wants
        // times in their order.
        self.last = now.max(self.last);
        let object = self.last(name, data);
        self.record(&object)
    }

    /// An event of that moment.
    fn last(&self, name: &str, data: Value) -> Value {
        let time = millis(self.last.since(self.began));
        json!({ "time": time, "name": name, "data": data })
    }

    fn note(&self, message: &str) -> Value {
        self.last("generic:info", json!({ "message": message }))
    }

    pub(super) fn event(&mut self, now: Time, event: PacketEvent) -> io::Result<()> {
        let (name, data) = match event {
            PacketEvent::Received { number, bytes } => {
                self.write_arrived()?;
                self.arrived = Some(Arrived {
                    now,
                    packet: Some((number, bytes)),
                    acked: Vec::new(),
                });
                return Ok(());
            }
            PacketEvent::Acked { number } => return self.acked(now, number),
            PacketEvent::Sent {
                number,
                bytes,
                ack_eliciting,
            } => {
                let data = json!({
                    "header": header(number),
                    "raw": { "length": bytes },
                    "ack_eliciting": ack_eliciting,
                });
                ("transport:packet_sent", data)
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
        };
        self.write_arrived()?;
        self.named(now, name, data)
    }

    /// The packet that has just arrived acknowledges; or one that came on another path.
    fn acked(&mut self, now: Time, number: u64) -> io::Result<()> {
        if self.arrived.as_ref().is_none_or(|packet| packet.now != now) {
            self.write_arrived()?;
        }
        let arrived = self.arrived.get_or_insert(Arrived {
            now,
            packet: None,
            acked: Vec::new(),
        });
        match arrived.acked.last_mut() {
            Some([_, last]) if *last + 1 == number => *last = number,
            _ => arrived.acked.push([number; 2]),
        }
        Ok(())
    }

    /// For qvis, acknowledgements are frames of a packet that arrived. A packet must have no empty
    /// list of frames.
    fn write_arrived(&mut self) -> io::Result<()> {
        let Some(arrived) = self.arrived.take() else {
            return Ok(());
        };
        let mut data = match arrived.packet {
            Some((number, bytes)) => json!({
                "header": header(number),
                "raw": { "length": bytes },
            }),
            None => json!({ "header": { "packet_type": "1RTT" } }),
        };
        if !arrived.acked.is_empty() {
            data["frames"] = json!([{ "frame_type": "ack", "acked_ranges": arrived.acked }]);
        }
        self.named(arrived.now, "transport:packet_received", data)
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        self.write_arrived()?;
        let left_out = self.left_out.load(Relaxed);
        if left_out > 0 {
            let text = format!("{left_out} events are left out: the disk was too slow");
            let note = self.note(&text);
            writeln!(self.out, "\x1e{note}")?;
        }
        self.out.flush()
    }
}

fn header(number: u64) -> Value {
    json!({ "packet_type": "1RTT", "packet_number": number })
}

fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The records of a file.
    pub(crate) fn records(text: &[u8]) -> Vec<Value> {
        let text = std::str::from_utf8(text).unwrap();
        let lines = text.split('\x1e').skip(1);
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    const BEGAN: Time = Time::from_micros(1000);

    fn header() -> Header {
        Header {
            initiator: true,
            path: PathId(1),
            route: "wlan0 → 192.0.2.1:4433".into(),
            began: Began {
                at: BEGAN,
                clock: SystemTime::UNIX_EPOCH + Duration::from_micros(5500),
            },
        }
    }

    fn trace(out: &mut Vec<u8>) -> Trace<&mut Vec<u8>> {
        Trace::new(out, &header(), 1 << 20, Arc::default()).unwrap()
    }

    /// What a file holds of these events, which happen `micros` after the connection began.
    fn written(events: impl IntoIterator<Item = (u64, PacketEvent)>) -> Vec<Value> {
        let mut out = Vec::new();
        let mut trace = trace(&mut out);
        for (micros, event) in events {
            trace
                .event(BEGAN + Duration::from_micros(micros), event)
                .unwrap();
        }
        trace.end().unwrap();
        records(&out).split_off(1)
    }

    fn acked(number: u64) -> PacketEvent {
        PacketEvent::Acked { number }
    }

    fn received(number: u64) -> PacketEvent {
        let bytes = 40;
        PacketEvent::Received { number, bytes }
    }

    #[test]
    fn a_file_names_its_path() {
        let mut out = Vec::new();
        trace(&mut out).end().unwrap();
        let expected = json!({
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": "manyway",
            "description": "path 1: wlan0 → 192.0.2.1:4433",
            "trace": {
                "vantage_point": { "name": "path 1: wlan0 → 192.0.2.1:4433", "type": "client" },
                "common_fields": {
                    "protocol_type": ["manyway"],
                    "time_format": "relative",
                    "reference_time": 5.5,
                },
            },
        });
        assert_eq!(records(&out), [expected]);
    }

    #[test]
    fn qvis_moves_no_times_of_the_listener() {
        let of_listener = Header {
            initiator: false,
            ..header()
        };
        let mut out = Vec::new();
        let trace = Trace::new(&mut out, &of_listener, 1 << 20, Arc::default());
        trace.unwrap().end().unwrap();
        let file = &records(&out)[0]["trace"];
        assert_eq!(file["vantage_point"]["type"], "server");
        // 0 would be none for it.
        let offset = file["configuration"]["time_offset"].as_f64().unwrap();
        assert!(offset > 0.0 && offset < 0.01, "{offset} ms");
    }

    #[test]
    fn what_qvis_reads() {
        let sent = PacketEvent::Sent {
            number: 3,
            bytes: 1452,
            ack_eliciting: true,
        };
        let metrics = PacketEvent::Metrics {
            window: 14_520,
            in_flight: 1452,
            smoothed: Duration::from_micros(20_250),
            latest: Duration::from_millis(21),
            min: Duration::from_millis(20),
        };
        let lost = PacketEvent::Lost { number: 2 };
        let records = written([sent, lost, metrics].map(|event| (1500, event)));
        let expected = [
            json!({
                "time": 1.5,
                "name": "transport:packet_sent",
                "data": {
                    "header": { "packet_type": "1RTT", "packet_number": 3 },
                    "raw": { "length": 1452 },
                    "ack_eliciting": true,
                },
            }),
            json!({
                "time": 1.5,
                "name": "recovery:packet_lost",
                "data": { "header": { "packet_type": "1RTT", "packet_number": 2 } },
            }),
            json!({
                "time": 1.5,
                "name": "recovery:metrics_updated",
                "data": {
                    "congestion_window": 14_520,
                    "bytes_in_flight": 1452,
                    "smoothed_rtt": 20.25,
                    "latest_rtt": 21.0,
                    "min_rtt": 20.0,
                },
            }),
        ];
        assert_eq!(records, expected);
    }

    /// qvis's statistics count these events: a packet that acknowledges is one, not two.
    #[test]
    fn an_acknowledgement_is_part_of_the_packet_that_brought_it() {
        let first = [received(6), received(7), acked(0), acked(1), acked(3)];
        let first = first.map(|event| (1000, event));
        // This one came on another path.
        let records = written(first.into_iter().chain([(2000, acked(4))]));
        let times: Vec<_> = records.iter().map(|record| &record["time"]).collect();
        assert_eq!(times, [1.0, 1.0, 2.0]);
        let data: Vec<_> = records.iter().map(|record| &record["data"]).collect();
        let header = json!({ "packet_type": "1RTT", "packet_number": 6 });
        let plain = json!({ "header": header, "raw": { "length": 40 } });
        assert_eq!(data[0], &plain);
        assert_eq!(data[1]["header"]["packet_number"], 7);
        let frames = |ranges| json!([{ "frame_type": "ack", "acked_ranges": ranges }]);
        assert_eq!(data[1]["frames"], frames(json!([[0, 1], [3, 3]])));
        let header = json!({ "packet_type": "1RTT" });
        let other = json!({ "header": header, "frames": frames(json!([[4, 4]])) });
        assert_eq!(data[2], &other);
    }

    #[test]
    fn times_are_in_order() {
        let events = [3000, 1000, 4000].map(|micros| (micros, PacketEvent::Lost { number: 1 }));
        let times: Vec<_> = written(events).iter().map(|r| r["time"].clone()).collect();
        assert_eq!(times, [3.0, 3.0, 4.0]);
    }

    #[test]
    fn a_file_has_an_end_and_says_what_it_lacks() {
        let mut out = Vec::new();
        let left_out = Arc::new(AtomicU64::new(9));
        let mut trace = Trace::new(&mut out, &header(), 10_000, left_out).unwrap();
        for number in 0..1000 {
            trace.event(BEGAN, PacketEvent::Lost { number }).unwrap();
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
}

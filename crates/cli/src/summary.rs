//! The summary of a transfer: a table for people, one JSON object for programs.
//!
//! Also has what other commands print on standard output: one JSON object at their end.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::time::Duration;

use anyhow::Context;
use manyway::files::{
    Deleted, FileSummary, Kept, Planned, PlannedKind, ReceiveSummary, SendSummary, Skipped,
};
use manyway::{CarrierKind, ConnectionStats, PathStats, SelectionStats};
use manyway_report::{Column, Table};
use manyway_units::{ByteSize, Decimal, Rate, format_duration, printable};
use serde::Serialize;

use crate::exit::{Class, LeftOut, words};

/// Most characters of a file's name on the screen.
const MAX_NAME: usize = 1024;

/// A finished transfer. Serialised, this is `--json`'s object; fields are added, never changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// `sent` or `received`.
    pub(crate) direction: &'static str,
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// From the receiver's acceptance to the confirmation that everything is on disk.
    pub(crate) seconds: f64,
    /// Bytes of content that were sent: without those in `kept`, and without holes.
    pub(crate) content: u64,
    /// `content` in `seconds`.
    pub(crate) goodput_bps: f64,
    /// Every file that wasn't there with its BLAKE3 hash; `saved_as` where the receiver chose
    /// another name. Of very many, the first.
    pub(crate) files: Vec<FileSummary>,
    /// How many there are in all.
    #[serde(skip)]
    pub(crate) new_files: u64,
    /// Files, and bytes, that the receiver had already.
    pub(crate) kept: Kept,
    pub(crate) directories: u64,
    pub(crate) symlinks: u64,
    /// Further names of files.
    pub(crate) hard_links: u64,
    /// Nothing was sent or deleted: `planned` and `deleted` say what would be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) dry_run: bool,
    /// What a sender's dry run would send.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) planned: Vec<Planned>,
    /// What the receiver has deleted, or would, as the sender doesn't have it.
    pub(crate) deleted: Deleted,
    /// What the sender has left out.
    pub(crate) skipped: Skipped,
    /// What the receiver has left out or changed; only it knows the names.
    pub(crate) altered: Skipped,
    /// If something was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ErrorRecord>,
    /// The relay selection; only with `--pick`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) selection: Option<SelectionRecord>,
    /// Every path that was open at some time.
    pub(crate) paths: Vec<PathRecord>,
}

/// The result of a transfer on either side.
#[derive(Debug)]
pub(crate) enum Outcome {
    Sent(SendSummary),
    Received(ReceiveSummary),
}

/// The result of relay selection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct SelectionRecord {
    /// How many relays to use at a time.
    pub(crate) pick: usize,
    /// Those in use at the end.
    pub(crate) relays: Vec<String>,
    /// The rate that is enough.
    pub(crate) demand_bps: Option<f64>,
    /// How often the rate was compared with the demand.
    pub(crate) iterations: u64,
    /// How often relays were replaced because the rate was too low.
    pub(crate) reselections: u64,
    /// The rate at the last comparison, and whether it met the demand.
    pub(crate) rate_bps: Option<f64>,
    pub(crate) satisfied: Option<bool>,
}

impl SelectionRecord {
    fn of(selection: &SelectionStats) -> Self {
        Self {
            pick: selection.wanted,
            relays: selection.relays.iter().map(ToString::to_string).collect(),
            demand_bps: selection.demand.map(Rate::bits_per_sec),
            iterations: selection.iterations,
            reselections: selection.reselections,
            rate_bps: selection.rate.map(Rate::bits_per_sec),
            satisfied: selection.satisfied,
        }
    }

    fn text(&self) -> String {
        let relays = match self.relays.is_empty() {
            true => "none".to_owned(),
            false => self.relays.join(", "),
        };
        let anew = match self.reselections {
            0 => String::new(),
            1 => "; reselected once".to_owned(),
            n => format!("; reselected {n} times"),
        };
        let enough = match self.satisfied {
            None => "",
            Some(true) => "; the demand was met",
            Some(false) => "; the demand was not met",
        };
        format!("relays picked at the end: {relays}{anew}{enough}")
    }
}

/// A path of the transfer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PathRecord {
    /// The interface or local address.
    pub(crate) name: String,
    pub(crate) local: String,
    /// The other side's address, or the relay's.
    pub(crate) remote: String,
    /// Whether it led through a relay.
    pub(crate) relay: bool,
    /// `udp` or `tcp`.
    pub(crate) carrier: &'static str,
    /// UDP payload, headers and resent data included.
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    /// UDP payload of a full packet, in bytes.
    pub(crate) packet_bytes: usize,
    /// If anything came back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rtt_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_rtt_ms: Option<f64>,
}

impl PathRecord {
    fn of(path: &PathStats) -> Self {
        // Before the first answer, the statistics have an assumption.
        let measured = path.bytes_received > 0;
        let millis = |time: Duration| measured.then_some(time.as_secs_f64() * 1e3);
        Self {
            name: path.name.clone(),
            local: path.local.to_string(),
            remote: path.remote.to_string(),
            relay: path.relay,
            carrier: carrier(path.carrier),
            bytes_sent: path.bytes_sent,
            bytes_received: path.bytes_received,
            packets_sent: path.packets_sent,
            packets_lost: path.packets_lost,
            packet_bytes: path.packet_size,
            rtt_ms: millis(path.rtt),
            min_rtt_ms: millis(path.min_rtt),
        }
    }

    fn label(&self) -> String {
        let (name, remote) = (&self.name, &self.remote);
        let relay = if self.relay { "relay " } else { "" };
        let carrier = if self.carrier == "tcp" { " (tcp)" } else { "" };
        format!("{name} → {relay}{remote}{carrier}")
    }
}

/// A row for each label: a path whose interface comes back is another one.
fn by_label(paths: &[PathRecord]) -> Vec<PathRecord> {
    let mut rows: Vec<PathRecord> = Vec::new();
    for path in paths {
        let label = path.label();
        let Some(row) = rows.iter_mut().find(|row| row.label() == label) else {
            rows.push(path.clone());
            continue;
        };
        row.bytes_sent += path.bytes_sent;
        row.bytes_received += path.bytes_received;
        row.packets_sent += path.packets_sent;
        row.packets_lost += path.packets_lost;
        row.rtt_ms = path.rtt_ms.or(row.rtt_ms);
    }
    rows
}

/// A carrier's name in JSON.
pub(crate) fn carrier(kind: CarrierKind) -> &'static str {
    match kind {
        CarrierKind::Udp => "udp",
        CarrierKind::Tcp => "tcp",
    }
}

impl Summary {
    /// `content` is what travelled.
    pub(crate) fn new(outcome: Outcome, content: u64, stats: &ConnectionStats) -> Self {
        let selection = stats.selection.as_ref().map(SelectionRecord::of);
        let paths = stats.paths.iter().map(PathRecord::of).collect();
        let rate = |seconds| goodput(content, seconds).bits_per_sec();
        let mut summary = match outcome {
            Outcome::Sent(s) => Self {
                direction: "sent",
                bytes: s.bytes,
                seconds: s.seconds,
                content,
                goodput_bps: rate(s.seconds),
                files: s.files,
                new_files: s.file_count - s.kept.files.min(s.file_count),
                kept: s.kept,
                directories: s.directories,
                dry_run: s.dry_run,
                planned: s.planned,
                deleted: s.deleted,
                symlinks: s.symlinks,
                hard_links: s.hard_links,
                skipped: s.skipped,
                altered: s.altered,
                error: None,
                selection,
                paths,
            },
            Outcome::Received(r) => Self {
                direction: "received",
                bytes: r.bytes,
                seconds: r.seconds,
                content,
                goodput_bps: rate(r.seconds),
                files: r.files,
                new_files: r.file_count - r.kept.files.min(r.file_count),
                kept: r.kept,
                directories: r.directories,
                dry_run: r.dry_run,
                planned: Vec::new(),
                deleted: r.deleted,
                symlinks: r.symlinks,
                hard_links: r.hard_links,
                skipped: r.skipped,
                altered: r.altered,
                error: None,
                selection,
                paths,
            },
        };
        summary.error = summary.left_out().as_ref().map(ErrorRecord::of);
        summary
    }

    /// The error of a transfer whose copy isn't quite the original.
    pub(crate) fn left_out(&self) -> Option<anyhow::Error> {
        let (skipped, altered) = (self.skipped.clone(), self.altered.clone());
        let any = skipped.count > 0 || altered.count > 0;
        any.then(|| LeftOut { skipped, altered }.into())
    }

    /// What a dry run's user asked for, a line for each name.
    pub(crate) fn list(&self) -> Vec<String> {
        if !self.dry_run {
            return Vec::new();
        }
        let planned = self.planned.iter().map(|file| {
            let name = printable(&file.name, MAX_NAME);
            let size = size(file.bytes);
            match file.kind {
                PlannedKind::File if file.in_part => format!("update {name}  {size}"),
                PlannedKind::File => format!("send   {name}  {size}"),
                PlannedKind::Directory => format!("make   {name}/"),
                PlannedKind::Symlink => format!("link   {name}  symbolic"),
                PlannedKind::HardLink => format!("link   {name}  hard"),
            }
        });
        let deleted = self.deleted.names.iter();
        let deleted = deleted.map(|name| format!("delete {}", printable(name, MAX_NAME)));
        planned.chain(deleted).collect()
    }

    /// The headline of a dry run.
    fn would_be(&self) -> String {
        let bytes = size(self.bytes - self.kept.bytes.min(self.bytes));
        let planned = |kind| self.planned.iter().filter(|one| one.kind == kind).count() as u64;
        let links = planned(PlannedKind::Symlink) + planned(PlannedKind::HardLink);
        match self.direction {
            "sent" => format!(
                "Dry run: would send {}, {bytes}, make {} and {}, and delete {}; {} up to date",
                counted(self.new_files, "file", "files"),
                counted(planned(PlannedKind::Directory), "directory", "directories"),
                counted(links, "link", "links"),
                counted(self.deleted.count, "name", "names"),
                counted(self.kept.files, "file is", "files are"),
            ),
            _ => "Dry run: a sender listed what it would send; manyway received nothing".to_owned(),
        }
    }

    /// The text for people.
    pub(crate) fn text(&self) -> String {
        if self.dry_run {
            return self.would_be();
        }
        let sent = self.direction == "sent";
        let mut table = Table::new([
            Column::left("path"),
            Column::right(if sent { "sent" } else { "received" }),
            Column::right("share"),
            Column::right("rtt"),
            Column::right(if sent { "lost" } else { "" }),
        ]);
        let bytes = |path: &PathRecord| {
            if sent {
                path.bytes_sent
            } else {
                path.bytes_received
            }
        };
        let total: u64 = self.paths.iter().map(bytes).sum();
        for path in &by_label(&self.paths) {
            let lost = 100.0 * path.packets_lost as f64 / path.packets_sent.max(1) as f64;
            table.row([
                path.label(),
                size(bytes(path)).to_string(),
                format!("{:.1} %", 100.0 * bytes(path) as f64 / total.max(1) as f64),
                match path.rtt_ms {
                    Some(rtt) => format!("{rtt:.1} ms"),
                    None => "no answer".to_owned(),
                },
                match path.rtt_ms {
                    Some(_) if sent => format!("{lost:.2} %"),
                    _ => String::new(),
                },
            ]);
        }
        let rate = match self.content {
            0 => String::new(),
            _ => format!(": {:.1}", Rate::from_bits_per_sec(self.goodput_bps)),
        };
        let headline = format!(
            "{} {}, {} in {}{rate}",
            if sent { "Sent" } else { "Received" },
            match self.files.as_slice() {
                [file] => printable(&file.name, MAX_NAME),
                _ => format!("{} files", self.new_files),
            },
            size(self.content),
            format_duration(Duration::from_secs_f64(self.seconds)),
        );
        let there = size(self.kept.bytes);
        let kept = match (self.kept.files, self.kept.bytes) {
            (0, 0) => String::new(),
            (0, _) => format!("\nalready there: {there}"),
            (1, _) => format!("\nalready there: 1 file; {there} in all"),
            (files, _) => format!("\nalready there: {files} files; {there} in all"),
        };
        let holes = match self.bytes.saturating_sub(self.kept.bytes + self.content) {
            0 => String::new(),
            bytes => format!("\nholes: {}", size(bytes)),
        };
        let deleted = match self.deleted.count {
            0 => String::new(),
            1 => "\ndeleted: 1 name".to_owned(),
            names => format!("\ndeleted: {names} names"),
        };
        let picked = self.selection.as_ref();
        let picked = picked.map_or_else(String::new, |s| format!("\n{}", s.text()));
        format!(
            "{headline}{kept}{holes}{deleted}{picked}\n{}",
            table.to_string().trim_end()
        )
    }
}

/// In the units of the live view.
fn size(bytes: u64) -> Decimal {
    ByteSize::new(bytes).decimal()
}

/// `1 file`, `2 files`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn goodput(bytes: u64, seconds: f64) -> Rate {
    Rate::from_bytes_per_sec(bytes as f64 / seconds.max(1e-9))
}

/// An error in JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ErrorRecord {
    /// Its class.
    pub(crate) code: &'static str,
    /// What people read.
    pub(crate) message: String,
    /// The exit status that goes with it.
    #[serde(skip)]
    pub(crate) status: u8,
}

impl ErrorRecord {
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let class = Class::of(error);
        Self {
            code: class.name(),
            status: class.status(),
            message: words(error),
        }
    }
}

/// One line of JSON on standard output.
pub(crate) fn print_json(object: &impl Serialize) -> anyhow::Result<()> {
    print(|stdout| {
        serde_json::to_writer(&mut *stdout, object)?;
        stdout.write_all(b"\n")
    })
}

/// Text on standard output.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    print(|stdout| stdout.write_all(text.as_bytes()))
}

/// Indented JSON on standard output.
#[cfg(feature = "research")]
pub(crate) fn print_pretty(object: &impl Serialize) -> anyhow::Result<()> {
    print(|stdout| {
        serde_json::to_writer_pretty(&mut *stdout, object)?;
        stdout.write_all(b"\n")
    })
}

/// Writes to standard output, with a buffer so that a large object goes out in parts.
fn print(
    write: impl FnOnce(&mut BufWriter<StdoutLock<'_>>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut stdout = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    write(&mut stdout)
        .and_then(|()| stdout.flush())
        .context("can't write to standard output")
}

#[cfg(test)]
pub(crate) mod tests;

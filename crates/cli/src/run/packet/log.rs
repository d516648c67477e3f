//! `--packets`: what happens to each packet, written into the folder of `--out` while the runs go
//! on. This module chooses files and cells; the simulator says what happens, and when.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use csv::Writer;
use manyway_network::DropReason;
use manyway_qlog::Observers;
use manyway_scenario::{Experiment, Point};
use manyway_simulate::batch::{Job, Level};
use manyway_simulate::stack::End;
use manyway_simulate::trace::{Ecn, Event, Observer, Owner, Pcapng, Seen, What, owners};
use manyway_units::Time;
use tempfile::TempPath;

use super::qlog::Sessions;
use crate::args::{PacketFormat, PacketLog};
use crate::exit::usage;
use crate::run::folder::{Folder, temporary};

const COLUMNS: [&str; 12] = [
    "time_s",
    "link",
    "event",
    "reason",
    "group",
    "flow",
    "path",
    "kind",
    "number",
    "bytes",
    "ecn",
    "queue_packets",
];

/// The logs of each point's first repetition.
#[derive(Debug)]
pub(super) struct Logs {
    dir: PathBuf,
    formats: Vec<PacketFormat>,
    /// The links to log; all if nobody names some.
    links: Vec<String>,
    /// What is complete, by point and file name.
    done: Mutex<BTreeMap<(usize, String), TempPath>>,
}

/// The files of a run under way.
pub(super) struct Open {
    point: usize,
    files: Vec<(String, TempPath)>,
    sessions: Option<Sessions>,
}

impl Open {
    /// Observers for an end of this flow, by its index.
    pub(super) fn end(&self, flow: usize, end: End) -> Option<Observers> {
        self.sessions.as_ref()?.end(flow, end)
    }
}

impl Logs {
    /// What the command line asks for, if it does.
    ///
    /// # Errors
    /// Wrong usage if there is no link of a name, or no session to log.
    pub(super) fn of(
        asked: &PacketLog,
        dir: Option<&Path>,
        level: Level,
        points: &[Point],
    ) -> anyhow::Result<Option<Self>> {
        let Some(dir) = dir.filter(|_| !asked.packets.is_empty()) else {
            return Ok(None);
        };
        let links = &asked.packets_on;
        let qlog = asked.packets.contains(&PacketFormat::Qlog);
        if qlog && level != Level::Stack {
            let message = "--packets qlog: this level has no sessions; add --level stack";
            return Err(usage(message));
        }
        let at_links = |format: &PacketFormat| *format != PacketFormat::Qlog;
        if !links.is_empty() && !asked.packets.iter().any(at_links) {
            let message = "--packets-on: qlog isn't of links; add csv or pcapng to --packets";
            return Err(usage(message));
        }
        for point in points {
            indices(&point.experiment, links).map_err(usage)?;
        }
        let mut formats = asked.packets.clone();
        formats.sort();
        formats.dedup();
        Ok(Some(Self {
            dir: dir.to_owned(),
            formats,
            links: links.clone(),
            done: Mutex::default(),
        }))
    }

    /// Files for a run, and who fills them; `None` if this run has none.
    pub(super) fn begin(
        &self,
        job: &Job,
        experiment: &Experiment,
    ) -> anyhow::Result<Option<(Open, Box<dyn Observer>)>> {
        if job.repetition > 0 {
            return Ok(None);
        }
        let links = indices(experiment, &self.links).map_err(usage)?;
        let open = || -> io::Result<_> {
            let (mut files, mut writers) = (Vec::new(), Vec::<Box<dyn Observer>>::new());
            let mut sessions = None;
            let mut file = |name: &str| -> io::Result<File> {
                let (file, path) = temporary(&self.dir)?.into_parts();
                files.push((name.to_owned(), path));
                Ok(file)
            };
            for format in &self.formats {
                match format {
                    PacketFormat::Csv => {
                        let table = Table::new(file("packets.csv")?, experiment, &links)?;
                        writers.push(Box::new(table));
                    }
                    PacketFormat::Pcapng => {
                        let out = BufWriter::with_capacity(1 << 16, file("packets.pcapng")?);
                        writers.push(Box::new(Pcapng::new(out, experiment, &links)?));
                    }
                    PacketFormat::Qlog => sessions = Some(Sessions::begin(&self.dir, experiment)?),
                }
            }
            let links = if writers.is_empty() {
                Vec::new()
            } else {
                links
            };
            Ok((files, sessions, Both { links, writers }))
        };
        let (files, sessions, both) = open().with_context(|| self.cant_write())?;
        let open = Open {
            point: job.point,
            files,
            sessions,
        };
        Ok(Some((open, Box::new(both))))
    }

    /// The files of a run that is complete.
    ///
    /// # Errors
    /// Some can't be written.
    pub(super) fn complete(&self, open: Open) -> anyhow::Result<()> {
        let sessions = open.sessions.map(Sessions::finish).transpose();
        let sessions = sessions.with_context(|| self.cant_write())?;
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let files = open.files.into_iter().chain(sessions.into_iter().flatten());
        done.extend(files.map(|(name, path)| ((open.point, name), path)));
        Ok(())
    }

    fn cant_write(&self) -> String {
        let dir = self.dir.display();
        format!("can't write what happens to packets into {dir}")
    }

    /// Hands the files to the folder.
    pub(super) fn hand_over(self, folder: &mut Folder, points: usize) {
        let done = self.done.into_inner();
        for ((point, name), path) in done.unwrap_or_else(PoisonError::into_inner) {
            folder.keep(&name, point, points, path);
        }
    }
}

/// The indices of the links of these names; of all, if there are none.
fn indices(experiment: &Experiment, names: &[String]) -> Result<Vec<usize>, String> {
    let links = &experiment.topology.links;
    if names.is_empty() {
        return Ok((0..links.len()).collect());
    }
    let index = |name: &String| {
        let index = links.iter().position(|link| link.name == *name);
        index.ok_or_else(|| {
            let known: Vec<&str> = links.iter().take(20).map(|link| &link.name[..]).collect();
            let known = known.join(", ");
            format!(
                "--packets-on: the scenario has no link {:?}; it has {known}{}",
                name,
                if links.len() > 20 { ", …" } else { "" }
            )
        })
    };
    names.iter().map(index).collect()
}

/// Fills all files of a run.
#[derive(Debug)]
struct Both {
    links: Vec<usize>,
    writers: Vec<Box<dyn Observer>>,
}

impl Observer for Both {
    fn wants(&self, link: usize) -> bool {
        self.links.contains(&link)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let mut writers = self.writers.iter_mut();
        writers.try_for_each(|writer| writer.event(event))
    }

    fn end(&mut self, now: Time) -> io::Result<()> {
        let mut writers = self.writers.iter_mut();
        writers.try_for_each(|writer| writer.end(now))
    }
}

/// `packets.csv`: a row for each event.
#[derive(Debug)]
struct Table {
    out: Writer<File>,
    links: Vec<String>,
    wanted: Vec<usize>,
    owners: Vec<Owner>,
    /// By flow.
    groups: Vec<String>,
}

impl Table {
    fn new(file: File, experiment: &Experiment, wanted: &[usize]) -> io::Result<Self> {
        let mut out = csv::WriterBuilder::new()
            .buffer_capacity(1 << 16)
            .from_writer(file);
        out.write_record(COLUMNS)?;
        let links = experiment.topology.links.iter();
        let group = |flow: &manyway_scenario::Flow| {
            let group = experiment.groups.get(flow.group);
            group.map(|group| group.name.clone()).unwrap_or_default()
        };
        Ok(Self {
            out,
            links: links.map(|link| link.name.clone()).collect(),
            wanted: wanted.to_vec(),
            owners: owners(experiment),
            groups: experiment.flows.iter().map(group).collect(),
        })
    }
}

impl Observer for Table {
    fn wants(&self, link: usize) -> bool {
        self.wanted.contains(&link)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let (what, reason) = words(event.what);
        let packet = &event.packet;
        let Some(owner) = self.owners.get(packet.subflow as usize) else {
            return Ok(());
        };
        let nanos = event.at.as_nanos();
        let time = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
        let number = packet.number.map(|number| number.to_string());
        let (bytes, queue) = (packet.bytes.to_string(), event.queue.to_string());
        let cells: [&str; COLUMNS.len()] = [
            &time,
            &self.links[event.link],
            what,
            reason,
            &self.groups[owner.flow],
            &owner.name,
            &owner.path,
            if packet.back { "ack" } else { "data" },
            number.as_deref().unwrap_or_default(),
            &bytes,
            ecn(packet),
            &queue,
        ];
        self.out.write_record(cells)?;
        Ok(())
    }

    fn end(&mut self, _: Time) -> io::Result<()> {
        self.out.flush()
    }
}

fn words(what: What) -> (&'static str, &'static str) {
    match what {
        What::Enqueue => ("enqueue", ""),
        What::Mark => ("mark", ""),
        What::Transmit => ("transmit", ""),
        What::Deliver => ("deliver", ""),
        What::Drop { reason, .. } => {
            let reason = match reason {
                DropReason::Policed => "policer",
                DropReason::QueueFull => "full",
                DropReason::Early => "early",
                DropReason::Forced => "forced",
                DropReason::RandomLoss => "random",
                DropReason::Down => "down",
            };
            ("drop", reason)
        }
    }
}

/// The ECN field's name (RFC 3168).
fn ecn(packet: &Seen) -> &'static str {
    match packet.ecn {
        Ecn::Not => "",
        Ecn::Ect0 => "ect0",
        Ecn::Ect1 => "ect1",
        Ecn::Ce => "ce",
    }
}

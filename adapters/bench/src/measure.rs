//! Runs transfers in turn and takes their figures.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeValLike;
use nix::unistd::Pid;

use crate::table::{Figures, Table};

/// A transfer that takes longer hangs.
const LONGEST: &str = "120";
/// Payload of a TCP segment with timestamps at the MTU that `.ci/cpu` sets, 1480.
const SEGMENT: usize = 1428;
const PORT: u16 = 7000;
const FILE: &str = "file";
const TICKET: &str = "ticket";

/// Where transfers run: the namespace and the addresses of each end.
struct Place {
    namespaces: [&'static str; 2],
    ways: &'static [[&'static str; 2]],
    bytes: usize,
}

impl Place {
    fn is_loopback(&self) -> bool {
        self.namespaces[0] == self.namespaces[1]
    }
}

/// Measures all programs, and the manyway programs named `NAME=PATH`.
pub(crate) fn run(programs: &[String]) -> anyhow::Result<()> {
    let programs = programs.iter().map(|program| {
        let parts = program.split_once('=');
        parts.with_context(|| format!("`{program}` is not of the form NAME=PATH"))
    });
    let programs = programs.collect::<anyhow::Result<Vec<_>>>()?;
    let rounds = variable("ROUNDS", 5)?;
    ensure!(rounds > 0, "ROUNDS is 0");
    let loopback = Place {
        namespaces: ["c", "c"],
        ways: &[["127.0.0.1", "127.0.0.1"]],
        bytes: variable("LOOPBACK_BYTES", 500_000_000)?,
    };
    let links = Place {
        namespaces: ["a", "b"],
        ways: &[["10.9.1.1", "10.9.1.2"], ["10.9.2.1", "10.9.2.2"]],
        bytes: variable("BYTES", 100_000_000)?,
    };
    // No holes: they are not sent.
    let mut random = fs::File::open("/dev/urandom")?.take(links.bytes as u64);
    std::io::copy(&mut random, &mut fs::File::create(FILE)?)?;

    let mut failures = 0;
    let mut measure = |place: &Place, table: &mut Table| -> anyhow::Result<()> {
        for _ in 0..rounds {
            failures += round(place, &programs, table)?;
        }
        Ok(())
    };
    let mut table = Table::default();
    measure(&links, &mut table)?;
    println!("2×100 Mbps, {} bytes, {rounds} rounds\n", links.bytes);
    println!("{table}\n{}", table.gates());
    let mut table = Table::default();
    measure(&loopback, &mut table)?;
    println!("loopback, {} bytes, {rounds} rounds\n", loopback.bytes);
    println!("{table}\n{}", table.targets());
    ensure!(failures == 0, "{failures} transfers failed");
    Ok(())
}

/// Everybody's turn; how many failed.
fn round(place: &Place, programs: &[(&str, &str)], table: &mut Table) -> anyhow::Result<usize> {
    let mut failures = 0;
    let mut add = |name: &str, figures: anyhow::Result<Figures>| match figures {
        Ok(figures) => {
            let acks = figures.packets_per_ack();
            table.add(name, figures);
            acks
        }
        Err(error) => {
            failures += 1;
            println!("{name}: {error:#}");
            None
        }
    };
    // The others acknowledge as often as manyway did, where one can tell them.
    let every = add("manyway", transfer(place, "manyway", 0));
    let every = every.map_or(10, |every| every.round() as u32);
    for (name, program, every) in [
        ("bare", "bare", every),
        ("quinn", "quinn", 0),
        ("quinn, ACKs as manyway", "quinn", every),
        ("noq", "noq", 0),
        ("noq, ACKs as manyway", "noq", every),
        ("TCP", "tcp", 0),
        ("MPTCP", "mptcp", 0),
    ] {
        // Nothing slows the bare sender down over loopback, and MPTCP has one way there.
        if !(place.is_loopback() && ["bare", "mptcp"].contains(&program)) {
            add(name, transfer(place, program, every));
        }
    }
    if !place.is_loopback() {
        for (name, path) in programs {
            add(&format!("{name}, files"), files(place, path));
        }
    }
    Ok(failures)
}

/// One transfer between two processes of this program.
fn transfer(place: &Place, program: &str, ack_every: u32) -> anyhow::Result<Figures> {
    let every = ack_every.to_string();
    let at = |address: &str| format!("{address}:{PORT}");
    let addresses = place.ways.iter().map(|[_, to]| at(to));
    let mut receiving = vec!["recv".to_owned(), program.to_owned(), every.clone()];
    receiving.extend(addresses);
    let mut receiver = Peer::start(place.namespaces[1], &this_program()?, &receiving)?;
    let text = receiver.line("ready")?;
    let mut sending = ["send", program, &every].map(str::to_owned).to_vec();
    sending.extend([place.bytes.to_string(), text]);
    sending.extend(
        place
            .ways
            .iter()
            .map(|[from, to]| format!("{from}={}", at(to))),
    );
    let began = Instant::now();
    let mut sender = Peer::start(place.namespaces[0], &this_program()?, &sending)?;
    let packets = sender.line("done")?.parse()?;
    let sender = sender.end()?;
    let acks = receiver.line("done")?.parse()?;
    let receiver = receiver.end()?;
    let mut figures = Figures {
        bytes: place.bytes,
        packets,
        acks: Some(acks),
        took: began.elapsed(),
        spent: [sender, receiver],
    };
    if program == "tcp" && place.is_loopback() {
        // The kernel has counted the segments of both directions.
        figures.packets = place.bytes.div_ceil(SEGMENT) as u64;
        figures.acks = Some(acks.saturating_sub(figures.packets));
    }
    Ok(figures)
}

/// A transfer of a file by the program at this path.
fn files(place: &Place, program: &str) -> anyhow::Result<Figures> {
    for left in [TICKET, "in"] {
        let _ = fs::remove_file(left);
        let _ = fs::remove_dir_all(left);
    }
    let words = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let paths = |end: usize| {
        let ways = place.ways.iter();
        ways.flat_map(move |way| ["--path".to_owned(), way[end].to_owned()])
    };
    let mut receiving = words("recv in --once -q --ticket-file ticket");
    receiving.extend(paths(1));
    let receiver = Peer::start(place.namespaces[1], program, &receiving)?;
    let waiting = Instant::now();
    while fs::metadata(TICKET).map_or(true, |file| file.len() == 0) {
        ensure!(waiting.elapsed() < Duration::from_secs(10), "no ticket");
        thread::sleep(Duration::from_millis(20));
    }
    let mut sending = words("send file --to @ticket -q --json");
    sending.extend(paths(0));
    let began = Instant::now();
    let mut sender = Peer::start(place.namespaces[0], program, &sending)?;
    let mut summary = String::new();
    sender.output.read_to_string(&mut summary)?;
    let sender = sender.end()?;
    let receiver = receiver.end()?;
    Ok(Figures {
        bytes: place.bytes,
        packets: packets_sent(&serde_json::from_str(&summary)?),
        acks: None,
        took: began.elapsed(),
        spent: [sender, receiver],
    })
}

/// The sum of all `packets_sent` in a summary.
fn packets_sent(summary: &serde_json::Value) -> u64 {
    match summary {
        serde_json::Value::Object(map) => {
            let own = map.get("packets_sent").and_then(serde_json::Value::as_u64);
            own.unwrap_or_else(|| map.values().map(packets_sent).sum())
        }
        serde_json::Value::Array(list) => list.iter().map(packets_sent).sum(),
        _ => 0,
    }
}

/// A process at one end.
struct Peer {
    process: Child,
    output: BufReader<ChildStdout>,
    what: String,
}

impl Peer {
    fn start(namespace: &str, program: &str, arguments: &[String]) -> anyhow::Result<Self> {
        let mut command = Command::new("timeout");
        command.args([LONGEST, "ip", "netns", "exec", namespace, program]);
        command.args(arguments).stdout(Stdio::piped());
        let mut process = command.spawn().context("can't run `timeout`")?;
        let output = process.stdout.take().context("it has an output")?;
        let name = Path::new(program).file_name().unwrap_or_default();
        let arguments = arguments.iter().take(2).cloned().collect::<Vec<_>>();
        Ok(Peer {
            process,
            output: BufReader::new(output),
            what: format!("`{} {}`", name.display(), arguments.join(" ")),
        })
    }

    /// The rest of a line that begins with this word.
    fn line(&mut self, word: &str) -> anyhow::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        match line.trim_end().split_once(' ') {
            Some((first, rest)) if first == word => Ok(rest.to_owned()),
            _ if line.trim_end() == word => Ok(String::new()),
            _ => bail!("{} ended or said {line:?} instead of `{word}`", self.what),
        }
    }

    /// The processor time that it has spent.
    fn end(mut self) -> anyhow::Result<Duration> {
        let before = children()?;
        let status = self.process.wait()?;
        ensure!(status.success(), "{}: {status}", self.what);
        Ok(children()?.saturating_sub(before))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // `timeout` hands the signal on. One that has ended is not there any more.
        if let Ok(id) = i32::try_from(self.process.id())
            && matches!(self.process.try_wait(), Ok(None))
        {
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        let _ = self.process.wait();
    }
}

/// The processor time, user and kernel, of all processes that were waited for.
fn children() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.unsigned_abs()))
}

fn this_program() -> anyhow::Result<String> {
    Ok(std::env::current_exe()?.display().to_string())
}

/// A number from the environment.
fn variable(name: &str, default: usize) -> anyhow::Result<usize> {
    match std::env::var(name) {
        Ok(value) => value
            .parse()
            .with_context(|| format!("{name}={value} is no number")),
        Err(_) => Ok(default),
    }
}

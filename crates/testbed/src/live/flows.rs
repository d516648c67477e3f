//! The flows of a live run: connections of the kernel's, in threads of ours, and transfers by
//! `manyway`, in processes.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use manyway_network::NamedLink;
use manyway_scenario::{Distribution, Experiment, Flow, KernelLaw, KernelProtocol};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::os;
use super::plan::{FIRST_PORT, Plan};

/// How soon a thread notices that it has to stop.
const POLL: Duration = Duration::from_millis(100);
/// Bytes of one write, and of one read.
const BLOCK: usize = 1 << 17;
/// How long a receiver may take to start, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a flow has done, as its threads tell it.
#[derive(Debug, Default)]
struct Progress {
    /// Payload at the receiver.
    received: AtomicU64,
    /// To the end of the flow, nothing new is sent.
    stop: AtomicBool,
    /// When its last byte was there, in nanoseconds from its start; 0 before.
    took: AtomicU64,
    /// Why it can't go on.
    failed: Mutex<Option<String>>,
}

/// A flow with its receiver waiting. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Running {
    name: String,
    progress: Arc<Progress>,
    kind: Kind,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
enum Kind {
    Kernel {
        law: KernelLaw,
        size: Option<u64>,
        rate_bps: Option<f64>,
        from: Ipv4Addr,
        to: SocketAddrV4,
        host: String,
    },
    Ours(Box<Ours>),
}

#[derive(Debug)]
struct Ours {
    folder: PathBuf,
    receiver: Child,
    send: Option<(String, Command)>,
    sender: Option<Child>,
    began: Option<Instant>,
    finite: bool,
}

/// What it takes to run flows.
#[derive(Debug, Clone, Copy)]
pub struct Means<'a> {
    /// The program `manyway`.
    pub program: &'a Path,
    /// A folder for what is sent and received, which lies in memory.
    pub scratch: &'a Path,
}

/// Bytes that the transfers by `manyway` send and receive, at most.
pub fn memory(experiment: &Experiment) -> u64 {
    let ours = || experiment.flows.iter().filter(|flow| flow.kernel.is_none());
    let most = most_bytes(experiment);
    let finite = ours().filter_map(size_of).fold(0_u64, u64::saturating_add);
    let (endless, any) = (ours().any(is_endless), ours().next().is_some());
    let sent = finite.saturating_add(if endless { most } else { 0 });
    sent.saturating_add(if any { most } else { 0 })
}

/// Bytes that it transfers. Live flows have one size: [`Scenario::live_points`] refuses others.
///
/// [`Scenario::live_points`]: manyway_scenario::Scenario::live_points
fn size_of(flow: &Flow) -> Option<u64> {
    flow.size.as_ref().and_then(Distribution::fixed)
}

/// Whether it is a transfer by `manyway` without an end.
fn is_endless(flow: &Flow) -> bool {
    flow.kernel.is_none() && flow.size.is_none()
}

/// What all links together carry from beginning to end, at most.
fn most_bytes(experiment: &Experiment) -> u64 {
    let most_rate = |link: &NamedLink| {
        let link = &link.config;
        let changes = link.timetable.changes.iter();
        let rates = changes.filter_map(|change| change.rate);
        rates.fold(link.rate.bits_per_sec(), |most, rate| {
            most.max(rate.bits_per_sec())
        })
    };
    let rate: f64 = experiment.topology.links.iter().map(most_rate).sum();
    (rate / 8.0 * experiment.duration.as_secs_f64()) as u64
}

/// What all endless flows send; removed with this.
#[derive(Debug)]
pub(crate) struct Endless(PathBuf);

impl Endless {
    /// Writes as much as all links carry, if there are such flows: none of them comes to its end.
    ///
    /// # Errors
    /// If it can't be written.
    pub(crate) fn write(experiment: &Experiment, means: &Means<'_>) -> io::Result<Self> {
        let endless = Self(means.scratch.join("endless"));
        if experiment.flows.iter().any(is_endless) {
            fill(&endless.0, most_bytes(experiment) + BLOCK as u64)?;
        }
        Ok(endless)
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes a file of so many bytes, without holes, which would not be sent.
fn fill(path: &Path, size: u64) -> io::Result<()> {
    let bytes = io::repeat(0x5a).take(size);
    let mut bytes = io::BufReader::with_capacity(BLOCK, bytes);
    io::copy(&mut bytes, &mut File::create(path)?).map(drop)
}

impl Running {
    /// Starts the receiver of flow number `index` and waits until it is there.
    ///
    /// # Errors
    /// If it doesn't start, or the kernel has no such law.
    pub(crate) fn prepare(
        plan: &Plan,
        flow: &Flow,
        index: usize,
        means: &Means<'_>,
        endless: &Endless,
    ) -> io::Result<Self> {
        let hosts = plan.hosts_of[index];
        let ways = plan.ways_of(hosts);
        let hosts = &plan.hosts[hosts];
        let port = FIRST_PORT + index as u16;
        let progress = Arc::new(Progress::default());
        let mut threads = Vec::new();
        let kind = match &flow.kernel {
            Some(law) => {
                let listener = os::inside(&hosts.receiver, || listen(law, port, flow))?;
                let progress = progress.clone();
                threads.push(std::thread::spawn(move || {
                    let done = receive(&listener, &progress);
                    progress.note(done.map_err(|error| format!("its receiver failed: {error}")));
                }));
                Kind::Kernel {
                    law: law.clone(),
                    size: size_of(flow),
                    rate_bps: flow.rate.map(|rate| rate.bits_per_sec()),
                    from: ways[0].addresses[0],
                    to: SocketAddrV4::new(ways[0].addresses[1], port),
                    host: hosts.sender.clone(),
                }
            }
            None => {
                let addresses = |end: usize| ways.iter().map(move |way| way.addresses[end]);
                Kind::Ours(Box::new(Ours::prepare(
                    flow,
                    (&hosts.sender, addresses(0).collect()),
                    (&hosts.receiver, addresses(1).collect()),
                    port,
                    means,
                    endless,
                )?))
            }
        };
        Ok(Self {
            name: flow.name.clone(),
            progress,
            kind,
            threads,
        })
    }

    /// Starts the sender.
    ///
    /// # Errors
    /// If it can't.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        match &mut self.kind {
            Kind::Ours(ours) => ours.start(),
            Kind::Kernel {
                law,
                size,
                rate_bps,
                from,
                to,
                host,
            } => {
                let (law, from, to) = (law.clone(), *from, *to);
                let socket = os::inside(host, || law_socket(&law))?;
                let (size, rate) = (*size, *rate_bps);
                let progress = self.progress.clone();
                self.threads.push(std::thread::spawn(move || {
                    let done = send(socket, from, to, size, rate, &progress);
                    progress.note(done.map_err(|error| format!("its sender failed: {error}")));
                }));
                Ok(())
            }
        }
    }

    /// Has it send nothing more.
    pub(crate) fn stop(&mut self) {
        self.progress.stop.store(true, Ordering::Relaxed);
        if let Kind::Ours(ours) = &mut self.kind
            && let Some(sender) = &mut ours.sender
        {
            let _ = sender.kill();
        }
    }

    /// Payload bytes that its receiver has.
    pub(crate) fn received(&self) -> u64 {
        match &self.kind {
            Kind::Ours(ours) => ours.received(),
            Kind::Kernel { .. } => self.progress.received.load(Ordering::Relaxed),
        }
    }

    /// How long it took, once all of a finite transfer is there.
    ///
    /// # Errors
    /// If the flow can't go on.
    pub(crate) fn look(&mut self) -> io::Result<Option<Duration>> {
        let stopped = self.progress.stop.load(Ordering::Relaxed);
        if let Kind::Ours(ours) = &mut self.kind {
            ours.look(stopped, &self.progress);
        }
        let failed = self.progress.failed.lock();
        match &*failed.unwrap_or_else(PoisonError::into_inner) {
            Some(why) if !stopped => Err(io::Error::other(format!("{}: {why}", self.name))),
            _ => {
                let took = self.progress.took.load(Ordering::Relaxed);
                Ok((took > 0).then(|| Duration::from_nanos(took)))
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Kind::Ours(ours) = &mut self.kind {
            ours.end();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Progress {
    fn note(&self, done: Result<(), String>) {
        if let Err(why) = done {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(why);
        }
    }
}

/// A socket of the law's protocol with the law. MPTCP takes any name without a word, so it is read
/// back.
pub(crate) fn law_socket(law: &KernelLaw) -> io::Result<Socket> {
    let protocol = match law.protocol {
        KernelProtocol::Tcp => Protocol::TCP,
        KernelProtocol::Mptcp => Protocol::MPTCP,
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    let set = socket.set_tcp_congestion(law.name.as_bytes());
    let has = socket.tcp_congestion()?;
    let has = has.split(|byte| *byte == 0).next().unwrap_or_default();
    match set {
        Ok(()) if has == law.name.as_bytes() => Ok(socket),
        _ => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("this kernel has no congestion control {}", law.name),
        )),
    }
}

fn listen(law: &KernelLaw, port: u16, flow: &Flow) -> io::Result<Socket> {
    let socket = law_socket(law)?;
    if let Some(room) = flow.session.receive_buffer {
        // The kernel doubles it, for its own bookkeeping.
        socket.set_recv_buffer_size(usize::try_from(room / 2).unwrap_or(usize::MAX))?;
    }
    socket.set_reuse_address(true)?;
    // Other subflows come to the other addresses.
    socket.bind(&SockAddr::from(SocketAddrV4::new(
        Ipv4Addr::UNSPECIFIED,
        port,
    )))?;
    socket.listen(1)?;
    socket.set_read_timeout(Some(POLL))?;
    Ok(socket)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// Takes one connection and reads what comes.
fn receive(listener: &Socket, progress: &Progress) -> io::Result<()> {
    let stopped = || progress.stop.load(Ordering::Relaxed);
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if is_timeout(&error) && !stopped() => {}
            Err(_) if stopped() => return Ok(()),
            Err(error) => return Err(error),
        }
    };
    stream.set_read_timeout(Some(POLL))?;
    let mut buffer = vec![0; BLOCK];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(len) => {
                progress.received.fetch_add(len as u64, Ordering::Relaxed);
            }
            Err(error) if is_timeout(&error) && !stopped() => {}
            Err(_) if stopped() => {
                let _ = stream.set_linger(Some(Duration::ZERO));
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
}

/// Sends until all is sent or the flow stops, at most at `rate` bits per second.
fn send(
    mut socket: Socket,
    from: Ipv4Addr,
    to: SocketAddrV4,
    size: Option<u64>,
    rate: Option<f64>,
    progress: &Progress,
) -> io::Result<()> {
    let stopped = || progress.stop.load(Ordering::Relaxed);
    let began = Instant::now();
    socket.bind(&SockAddr::from(SocketAddrV4::new(from, 0)))?;
    socket.set_write_timeout(Some(POLL))?;
    socket.set_read_timeout(Some(POLL))?;
    if !connect(&socket, to, stopped)? {
        return Ok(());
    }
    let block = vec![0; BLOCK];
    let mut sent = 0;
    while size.is_none_or(|size| sent < size) {
        if stopped() {
            // Nobody waits for what is still in the kernel's buffer.
            return socket.set_linger(Some(Duration::ZERO));
        }
        let mut most = size.map_or(BLOCK as u64, |size| (size - sent).min(BLOCK as u64));
        if let Some(rate) = rate {
            let due = (began.elapsed().as_secs_f64() * rate / 8.0) as u64;
            most = most.min(due.saturating_sub(sent));
            if most == 0 {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
        }
        match socket.write(&block[..most as usize]) {
            Ok(len) => sent += len as u64,
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    socket.shutdown(std::net::Shutdown::Write)?;
    // The receiver closes when it has all.
    while !stopped() {
        match socket.read(&mut [0]) {
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
            Ok(_) => {
                let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                progress.took.store(took, Ordering::Relaxed);
                break;
            }
        }
    }
    Ok(())
}

/// Connects a socket that has a timeout, unless it is stopped before; whether it is connected.
fn connect(socket: &Socket, to: SocketAddrV4, stopped: impl Fn() -> bool) -> io::Result<bool> {
    loop {
        let done = socket.connect(&SockAddr::from(to));
        match done.as_ref().err().and_then(io::Error::raw_os_error) {
            // The timeout is over, and the kernel goes on by itself.
            Some(libc::EINPROGRESS | libc::EALREADY | libc::EINTR) if stopped() => {
                return Ok(false);
            }
            Some(libc::EINPROGRESS | libc::EALREADY | libc::EINTR) => {}
            Some(libc::EISCONN) => return Ok(true),
            _ => return done.map(|()| true),
        }
    }
}

impl Ours {
    fn prepare(
        flow: &Flow,
        (sender, from): (&str, Vec<Ipv4Addr>),
        (receiver, to): (&str, Vec<Ipv4Addr>),
        port: u16,
        means: &Means<'_>,
        endless: &Endless,
    ) -> io::Result<Self> {
        let folder = means.scratch.join(port.to_string());
        fs::create_dir(&folder)?;
        let data = match size_of(flow) {
            None => endless.0.clone(),
            Some(size) => {
                let data = folder.join("data");
                fill(&data, size)?;
                data
            }
        };
        let ticket = folder.join("ticket");
        let command = |what: &str, addresses: &[Ipv4Addr]| {
            let mut command = Command::new(means.program);
            // Nothing of our user's settings counts.
            command.env_clear().env("HOME", &folder);
            command
                .args([what, "-q", "--carrier", "udp"])
                .current_dir(&folder);
            for address in addresses {
                command.arg("--path").arg(address.to_string());
            }
            // Signals to our group are for us, who end them.
            command
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            command
        };
        let mut recv = command("recv", &to);
        recv.args(["inbox", "--once", "--ticket-file", "ticket"]);
        recv.args(["--port", &port.to_string()]);
        if let Some(room) = flow.session.receive_buffer {
            recv.args(["--receive-window", &format!("{room}B")]);
        }
        let mut send = command("send", &from);
        send.arg(&data).args(["--to", "@ticket"]);
        send.args(["--cc", &flow.law.to_string()]);
        send.args(["--scheduler", &flow.session.scheduler.to_string()]);
        if let Some(rate) = flow.rate {
            send.args(["--limit", &format!("{}bps", rate.bits_per_sec() as u64)]);
        }
        let mut ours = Self {
            receiver: os::inside(receiver, || recv.spawn())?,
            folder,
            send: Some((sender.to_owned(), send)),
            sender: None,
            began: None,
            finite: flow.size.is_some(),
        };
        let deadline = Instant::now() + PATIENCE;
        while fs::metadata(&ticket).map_or(0, |ticket| ticket.len()) == 0 {
            let ended = ours.receiver.try_wait()?.is_some();
            if ended || Instant::now() > deadline {
                let _ = ours.receiver.kill();
                let why = said(&mut ours.receiver);
                let message = format!("{}: `manyway recv` doesn't start: {why}", flow.name);
                return Err(io::Error::other(message));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(ours)
    }

    fn start(&mut self) -> io::Result<()> {
        if let Some((host, mut send)) = self.send.take() {
            self.began = Some(Instant::now());
            self.sender = Some(os::inside(&host, || send.spawn())?);
        }
        Ok(())
    }

    /// What is in the receiver's file, whole or not yet.
    fn received(&self) -> u64 {
        let files = fs::read_dir(self.folder.join("inbox"));
        let sizes = files.into_iter().flatten().flatten();
        let sizes = sizes.filter_map(|file| file.metadata().ok());
        let sizes = sizes.filter(fs::Metadata::is_file).map(|file| file.len());
        sizes.max().unwrap_or(0)
    }

    fn look(&mut self, stopped: bool, progress: &Progress) {
        let Some(sender) = &mut self.sender else {
            return;
        };
        if let (Ok(Some(status)), false) = (sender.try_wait(), stopped) {
            if !status.success() {
                progress.note(Err(format!("`manyway send` ended: {}", said(sender))));
            } else if !self.finite {
                progress.note(Err("`manyway send` sent all that it had".to_owned()));
            } else if let Some(began) = self.began.take() {
                let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                progress.took.store(took, Ordering::Relaxed);
            }
        }
    }

    fn end(&mut self) {
        for child in self.sender.iter_mut().chain([&mut self.receiver]) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a process that ended wrote to standard error, on one line.
fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = stderr.take(4096).read_to_string(&mut text);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

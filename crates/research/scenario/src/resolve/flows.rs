//! Groups of flows become single flows.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use manyway_control::{
    Controller, Growth, LawSpec, LossDetection, Options, RetransmissionTimeout, SenderConfig,
    SlowStartKind,
};
use manyway_network::{CLASSES, Limit, LinkConfig, Topology};
use manyway_units::Rate;

use super::{Checks, MAX_PARTS, Names, members, named, shown, time};
use crate::distribution::Distribution;
use crate::experiment::{AckPolicy, Flow, Group, Lifetime, Session};
use crate::file::{self, File, Random};
use crate::quantity::{Bytes, Name, TimeSpan};
use crate::tree::Key;

/// Files that one flow may send.
const FILES: std::ops::RangeInclusive<u32> = 1..=100_000;

/// All flows, and how they are grouped.
pub(super) struct Groups {
    pub(super) flows: Vec<Flow>,
    pub(super) groups: Vec<Group>,
}

impl Checks {
    pub(super) fn flows(
        &mut self,
        file: &File,
        topology: &Topology,
        duration: Duration,
    ) -> Option<Groups> {
        let key = Key::of(["flows"]);
        let groups = self.required(
            &file.flows,
            &key,
            "[flows.phone] with law = \"balia\" and paths = [\"p1\"]",
        )?;
        if groups.is_empty() || groups.values().all(|flow| flow.count == Some(0)) {
            self.report(
                &key,
                "no flows: a scenario needs at least one, with a `count` of at least 1",
            );
            return None;
        }
        self.count_parts(file, duration)?;
        let paths = Names::new("path", topology.paths.iter().map(|path| path.name.as_str()));
        let entries = groups
            .values()
            .map(|flow| u64::from(self.entries(flow, duration)));
        // Flows without paths aren't counted yet, and won't be made.
        let entries = entries.fold(0, u64::saturating_add).min(MAX_PARTS) as usize;
        let mut all = Groups {
            flows: Vec::with_capacity(entries),
            groups: Vec::with_capacity(groups.len()),
        };
        let before = self.faults.len();
        for (name, flow) in groups {
            let mut context = Context {
                checks: self,
                key: named("flows", name),
                flow,
                duration,
            };
            let stagger = context.random_stagger();
            let Some(mut first) = context.resolve(name.as_str(), &paths) else {
                continue;
            };
            first.fluid = self.is_fluid(flow).then(|| flow.count.unwrap_or(1));
            self.check_queues(name.as_str(), &first, topology);
            if self.is_fluid(flow) {
                self.check_fluid(name, flow, (&first, topology));
            }
            let members = self.entries(flow, duration);
            let begin = all.flows.len();
            all.flows
                .extend((0..members).map(|k| member(&first, flow, k, members, all.groups.len())));
            all.groups.push(Group {
                name: name.to_string(),
                members: begin..all.flows.len(),
                stagger,
            });
        }
        (self.faults.len() == before).then_some(all)
    }

    /// The TCP connection that each path of an overlay is: over path 0, with what `[defaults]` says
    /// of it.
    pub(super) fn connection(&mut self, defaults: Option<&file::Flow>) -> Option<Flow> {
        let mut flow = defaults.cloned().unwrap_or_default();
        flow.law
            .get_or_insert_with(|| file::Law::Ours(LawSpec::reno()));
        flow.paths = Some(vec![file::PathUse {
            path: Some(Name::own("path")),
            start: None,
            stop: None,
            relay: None,
        }]);
        let mut context = Context {
            checks: self,
            key: Key::of(["defaults"]),
            flow: &flow,
            duration: Duration::MAX,
        };
        context.resolve("connection", &Names::new("path", std::iter::once("path")))
    }

    /// Counts before anything is made: nobody's memory should burst because of a typing error.
    fn count_parts(&mut self, file: &File, duration: Duration) -> Option<()> {
        let shared = file.links.as_ref().map_or(0, |links| links.len()) as u64;
        let (mut subflows, mut links) = (0_u64, shared);
        for (name, flow) in file.flows.iter().flatten() {
            let paths = flow.paths.as_ref().map_or(0, Vec::len) as u64;
            let these = u64::from(self.entries(flow, duration)).saturating_mul(paths);
            let private = if flow.access.is_some() { these } else { 0 };
            subflows = subflows.saturating_add(these);
            links = links.saturating_add(private);
            for (count, what) in [
                (subflows, "subflows"),
                (links, "links, private ones included"),
            ] {
                if count <= MAX_PARTS {
                    continue;
                }
                let key = named("flows", name);
                let most = format!("at most {MAX_PARTS} are possible");
                match flow.count {
                    None if members(flow, duration) > 1 => self.report(
                        &key.join("stagger"),
                        format!(
                            "up to {count} {what} may come: {most}; choose a longer stagger, or a \
                             `count`"
                        ),
                    ),
                    _ => self.report(
                        &key.join("count"),
                        format!("that makes {count} {what}: {most}"),
                    ),
                }
                return None;
            }
        }
        Some(())
    }

    /// A queue limited in bytes needs room for a packet of every flow that passes it.
    fn check_queues(&mut self, name: &str, flow: &Flow, topology: &Topology) {
        for path in flow.paths.iter().map(|path| &topology.paths[*path]) {
            let there = path
                .links
                .iter()
                .map(|link| (*link, flow.sender.packet_size, "packets"));
            let back = path
                .reverse
                .iter()
                .map(|link| (*link, flow.ack.bytes, "acknowledgements"));
            for (link, bytes, what) in there.chain(back) {
                let link = &topology.links[link];
                if let Some(setting) = too_small(&link.config, bytes) {
                    let key = Key::of(["links", &link.name]).joined(setting.segments());
                    self.report(
                        &key,
                        format!(
                            "has no room for one of the {what} of flow {name:?}, {bytes} B each"
                        ),
                    );
                }
            }
        }
    }
}

/// The setting of a link by which packets of so many bytes never pass.
fn too_small(link: &LinkConfig, bytes: u32) -> Option<Key> {
    let small = |limit| limit < u64::from(bytes);
    if link.policer.is_some_and(|policer| small(policer.burst)) {
        return Some(Key::of(["policer", "burst"]));
    }
    let queue = matches!(link.queue.limit(), Limit::Bytes(limit) if small(limit));
    queue.then(|| Key::of(["queue"]))
}

/// Member `k` of a group whose first one is known.
fn member(first: &Flow, file: &file::Flow, k: u32, members: u32, group: usize) -> Flow {
    let steps =
        |step: Option<&TimeSpan>| step.map_or(Duration::ZERO, |step| step.0.saturating_mul(k));
    let farther = steps(file.delay_step.as_ref());
    Flow {
        name: match members {
            1 => first.name.clone(),
            _ => format!("{}.{}", first.name, k + 1),
        },
        group,
        start: first.start + steps(file.stagger.as_ref().and_then(Random::fixed)),
        extra_delay: first.extra_delay.saturating_add(farther),
        extra_return: first.extra_return.saturating_add(farther),
        ..first.clone()
    }
}

/// One group of flows on its way from the file.
pub(super) struct Context<'a> {
    pub(super) checks: &'a mut Checks,
    pub(super) key: Key,
    pub(super) flow: &'a file::Flow,
    duration: Duration,
}

impl Context<'_> {
    /// The group's first member; its group is put in later.
    fn resolve(&mut self, name: &str, paths: &Names<'_>) -> Option<Flow> {
        let before = self.checks.faults.len();
        let flow = self.flow;
        let law = self.checks.required(
            &flow.law,
            &self.key.join("law"),
            "law = \"balia\", here or in [defaults]",
        );
        let uses = self.checks.required(
            &flow.paths,
            &self.key.join("paths"),
            "paths = [\"p1\"], here or in [defaults]",
        );
        let subflows = uses.and_then(|uses| self.subflows(uses, paths));
        if let (Some(law), Some((indices, _))) = (law, &subflows) {
            self.check_law(law, indices.len());
        }
        self.check_times();
        let access = match &flow.access {
            None => None,
            Some(link) => Some(self.checks.access(&self.key.join("access"), link)?),
        };
        let packet_size = self.bytes("packet_size", flow.packet_size, 1500);
        let headers = flow.headers.map_or(52, |size| size.0.bytes());
        if headers >= u64::from(packet_size) {
            let message =
                format!("headers of {headers} B leave no room in packets of {packet_size} B");
            self.checks.report(&self.key.join("headers"), message);
        }
        if let Some(access) = &access
            && let Some(setting) = too_small(access, packet_size)
        {
            let message = format!("has no room for a packet of {packet_size} B");
            let key = self.key.join("access").joined(setting.segments());
            self.checks.report(&key, message);
        }
        let ack = self.ack_policy();
        let (size, pause, rate) = (self.size(), self.pause(), self.rate());
        let options = self.options();
        let class = self.class();
        self.check_unresponsive();
        let relays = self.relays();
        let initial_window = self.packets(
            "initial_window",
            flow.initial_window.map(|packets| packets.0),
            10.0,
        );
        if self.checks.faults.len() > before {
            return None;
        }
        let (indices, lifetimes) = subflows?;
        let session = Session {
            scheduler: flow.scheduler.map(Into::into).unwrap_or_default(),
            receive_buffer: flow.receive_buffer.map(|size| size.0.bytes()),
            sealing: flow.sealing.unwrap_or_default(),
            relayed: self.relayed(),
            files: self.files(size.as_ref()),
        };
        let (ours, kernel) = match law? {
            file::Law::Ours(law) => (law.clone(), None),
            file::Law::Kernel(law) => (LawSpec::reno(), Some(law.clone())),
        };
        let extra_delay = flow.extra_delay.map_or(Duration::ZERO, |delay| delay.0);
        let access_delay = access.as_ref().map_or(Duration::ZERO, |link| link.delay);
        Some(Flow {
            name: name.to_owned(),
            group: 0,
            law: ours,
            kernel,
            options,
            paths: indices,
            lifetimes,
            access: access.map(Arc::new),
            extra_delay,
            extra_return: access_delay.saturating_add(extra_delay),
            start: time(self.start()),
            start_spread: flow.start_spread.map_or(Duration::ZERO, |spread| spread.0),
            stop: flow.stop.map(|stop| time(stop.0)),
            size,
            pause,
            rate,
            unresponsive: flow.unresponsive.unwrap_or(false),
            fluid: None,
            headers: u32::try_from(headers).unwrap_or(u32::MAX),
            jitter: flow.jitter.map_or(Duration::ZERO, |jitter| jitter.0),
            sender: SenderConfig {
                packet_size,
                // Nothing is held back where every packet is acknowledged at once.
                max_ack_delay: if ack.every > 1 {
                    ack.max_delay
                } else {
                    Duration::ZERO
                },
                loss_detection: flow.loss_detection.map_or(LossDetection::Fixed, Into::into),
                retransmission_timeout: flow
                    .retransmission_timeout
                    .map_or(RetransmissionTimeout::Probe, Into::into),
                pacing: flow.pacing.unwrap_or(true),
                initial_window,
                ..SenderConfig::default()
            },
            ack,
            ecn: flow.ecn.unwrap_or(false),
            l4s: flow.l4s.unwrap_or(false),
            class,
            session,
            relays: relays.map(Arc::new),
        })
    }

    /// Whether the law can have so many paths, at this level.
    fn check_law(&mut self, law: &file::Law, paths: usize) {
        let wrong = match law {
            file::Law::Ours(law) => {
                let controller = law.controller(&Options::default());
                let checked = controller.check_paths(paths);
                let named = |message| format!("{}: {message}", law.name());
                checked.err().map(named)
            }
            file::Law::Kernel(law) if !self.checks.kernel => Some(format!(
                "only the live level runs {law}: choose --level live, or another law"
            )),
            file::Law::Kernel(law) => (paths > law.most_paths()).then(|| {
                let most = law.most_paths();
                format!("{law} has at most {most} of the flow's {paths} paths: choose fewer")
            }),
        };
        if let Some(message) = wrong {
            let key = self.key.join("law");
            self.checks.report(&key, message);
        }
    }

    fn subflows(
        &mut self,
        uses: &[file::PathUse],
        paths: &Names<'_>,
    ) -> Option<(Vec<usize>, Vec<Lifetime>)> {
        let key = self.key.join("paths");
        if uses.is_empty() {
            self.checks.report(&key, "a flow needs at least one path");
            return None;
        }
        let mut named = Vec::new();
        for (n, used) in uses.iter().enumerate() {
            let path = self
                .checks
                .required(&used.path, &key.at(n).join("path"), "path = \"p1\"");
            named.extend(path.map(|path| (key.at(n), path.as_str())));
            self.check_lifetime(&key.at(n), used);
        }
        if named.len() < uses.len() {
            return None;
        }
        let indices = self.checks.look_up(named.iter().cloned(), paths)?;
        let mut seen = HashSet::new();
        if let Some(twice) = (0..indices.len()).find(|n| !seen.insert(indices[*n])) {
            let message = format!(
                "the flow has {} twice: for two subflows over the same links, make a second path \
                 over them",
                named[twice].1
            );
            self.checks.report(&key.at(twice), message);
            return None;
        }
        let lifetimes = uses.iter().map(|used| Lifetime {
            from: time(used.start.map_or(Duration::ZERO, |start| start.0)),
            until: used.stop.map(|stop| time(stop.0)),
        });
        Some((indices, lifetimes.collect()))
    }

    fn check_lifetime(&mut self, key: &Key, used: &file::PathUse) {
        let start = used
            .start
            .map_or(self.start(), |start| start.0.max(self.start()));
        let end = self
            .flow
            .stop
            .map_or(self.duration, |stop| stop.0.min(self.duration));
        if used.start.is_some_and(|own| own.0 >= end) {
            let message = format!("the subflow joins after its flow ends, at {}", shown(end));
            self.checks.report(&key.join("start"), message);
        } else if used.stop.is_some_and(|stop| stop.0 <= start) {
            let message = format!("the subflow leaves before it joins, at {}", shown(start));
            self.checks.report(&key.join("stop"), message);
        }
    }

    fn start(&self) -> Duration {
        self.flow.start.map_or(Duration::ZERO, |start| start.0)
    }

    fn check_times(&mut self) {
        let flow = self.flow;
        let (members, stagger) = match &flow.stagger {
            None => (flow.count.unwrap_or(1), Duration::ZERO),
            Some(Random::Fixed(stagger)) => (flow.count.unwrap_or(1), stagger.0),
            // Those that would start too late don't come.
            Some(_) => (1, Duration::ZERO),
        };
        let last = self
            .start()
            .saturating_add(stagger.saturating_mul(members.saturating_sub(1)));
        let spread = flow.start_spread.map_or(Duration::ZERO, |spread| spread.0);
        let latest = last.saturating_add(spread);
        let who = if members > 1 {
            "the last flow of the group"
        } else {
            "the flow"
        };
        let latest_shown = shown(latest);
        if let Some(stop) = flow.stop
            && latest >= stop.0
        {
            let message = format!(
                "{who} may start at {latest_shown} and would stop before that: let it stop later"
            );
            self.checks.report(&self.key.join("stop"), message);
        }
        if last >= self.duration {
            let end = shown(self.duration);
            let key = match (self.start() < self.duration, &flow.stagger) {
                (true, Some(_)) => self.key.join("stagger"),
                _ => self.key.join("start"),
            };
            let start = shown(last);
            self.checks.report(
                &key,
                format!("{who} would start at {start}, but the run ends at {end}"),
            );
        } else if latest >= self.duration {
            let end = shown(self.duration);
            self.checks.report(
                &self.key.join("start_spread"),
                format!("{who} may start at {latest_shown}, but the run ends at {end}"),
            );
        }
    }

    /// What a flow that reacts to nothing has and hasn't.
    fn check_unresponsive(&mut self) {
        let flow = self.flow;
        if flow.unresponsive != Some(true) {
            return;
        }
        let paths = flow.paths.as_ref().map_or(0, Vec::len);
        let wrong = [
            (flow.rate.is_none(), "has to have a `rate`"),
            (
                flow.size.is_some() && flow.pause.is_none(),
                "sends lost data not again, so that it has no `size`, but for one between pauses",
            ),
            (paths > 1, "has one path"),
        ];
        for (_, message) in wrong.into_iter().filter(|(wrong, _)| *wrong) {
            let message = format!("an unresponsive flow {message}");
            self.checks.report(&self.key.join("unresponsive"), message);
        }
    }

    fn class(&mut self) -> u8 {
        let class = self.flow.class.unwrap_or(0);
        if class >= u32::from(CLASSES) {
            let most = CLASSES - 1;
            let message = format!("{class} is out of range: classes are 0, the lowest, to {most}");
            self.checks.report(&self.key.join("class"), message);
        }
        u8::try_from(class).unwrap_or(CLASSES - 1)
    }

    /// A number of bytes that a packet can have.
    fn bytes(&mut self, name: &str, size: Option<Bytes>, default: u32) -> u32 {
        let Some(size) = size else {
            return default;
        };
        match u32::try_from(size.0.bytes()) {
            Ok(bytes @ 1..=65_535) => bytes,
            _ => {
                self.checks.report(
                    &self.key.join(name),
                    format!("{:#} is out of range: a packet has 1 B to 65535 B", size.0),
                );
                default
            }
        }
    }

    fn packets(&mut self, name: &str, packets: Option<f64>, default: f64) -> f64 {
        let packets = packets.unwrap_or(default);
        if !(1.0..=1e6).contains(&packets) {
            let message =
                format!("{packets} packets are out of range: choose 1 to 1000000 packets");
            self.checks.report(&self.key.join(name), message);
        }
        packets
    }

    fn options(&mut self) -> Options {
        let slow_start = self
            .flow
            .slow_start
            .map_or(SlowStartKind::HyStart, Into::into);
        let growth = self.flow.growth.map_or(Growth::Bytes, Into::into);
        let mut options = Options::default()
            .with_slow_start(slow_start)
            .with_growth(growth)
            .with_growth_in_recovery(self.flow.recovery == Some(file::Recovery::Grow));
        if let Some(floor) = self.flow.window_floor {
            let floor = self.packets("window_floor", Some(floor.0), 1.0);
            options = options.with_window_floor(floor);
        }
        if let Some(floor) = self.flow.threshold_floor {
            let floor = self.packets("threshold_floor", Some(floor.0), 1.0);
            options = options.with_threshold_floor(floor);
        }
        if let Some(threshold) = self.flow.initial_threshold {
            let threshold = self.packets("initial_threshold", Some(threshold.0), 1.0);
            options = options.with_initial_threshold(threshold);
        }
        options
    }

    fn ack_policy(&mut self) -> AckPolicy {
        let every = self.flow.ack_every.map_or(1, |packets| packets.0);
        if !(1..=1024).contains(&every) {
            self.checks.report(
                &self.key.join("ack_every"),
                format!("{every} packets are out of range: choose 1 to 1024 packets"),
            );
        }
        let max_delay = self
            .flow
            .ack_delay
            .map_or(Duration::from_millis(40), |delay| delay.0);
        if max_delay > Duration::from_secs(1) {
            self.checks
                .report(&self.key.join("ack_delay"), "too long: choose at most 1 s");
        }
        AckPolicy {
            every,
            max_delay,
            bytes: self.bytes("ack_size", self.flow.ack_size, 52),
            times: self.flow.receive_times.unwrap_or(true),
        }
    }

    fn files(&mut self, size: Option<&Distribution>) -> Option<u32> {
        let files = self.flow.files?;
        let key = self.key.join("files");
        if !FILES.contains(&files) {
            let message = format!("{files} files are out of range: choose 1 to 100000");
            self.checks.report(&key, message);
        } else if size
            .and_then(Distribution::fixed)
            .is_none_or(|size| size < files.into())
        {
            let message = "files share the flow's payload: give it a fixed size of at least a \
                           byte for each";
            self.checks.report(&key, message);
        }
        if self.flow.rate.is_some() {
            let message = "all files are available at the start: leave out rate, or files";
            self.checks.report(&key, message);
        }
        if self.flow.pause.is_some() {
            let message = "a flow sends its files once: leave out pause, or files";
            self.checks.report(&key, message);
        }
        Some(files)
    }

    fn rate(&mut self) -> Option<Rate> {
        let rate = self.flow.rate?.0;
        if rate.bits_per_sec() < 1.0 {
            self.checks.report(
                &self.key.join("rate"),
                "too slow: choose at least 1 bps, or leave it out for as much as the window allows",
            );
        }
        Some(rate)
    }
}

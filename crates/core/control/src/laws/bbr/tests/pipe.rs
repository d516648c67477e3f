//! A BBR sender over one link, with every change of state written down.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use manyway_units::Time;

use super::super::path::Path;
use super::super::state::State;
use super::super::*;
use crate::registry::LawSpec;
use crate::sender::{AckInfo, Outcome, Permit, Sender, SenderConfig, Sent, TimerEvent};

pub(super) const PACKET: f64 = 1000.0;

/// A link with a DropTail queue before a fixed delay. Each packet is acknowledged by itself.
pub(super) struct Pipe {
    pub(super) bbr: Bbr,
    pub(super) sender: Sender<u64>,
    pub(super) now: Time,
    /// Bytes/s.
    pub(super) rate: f64,
    pub(super) delay: Duration,
    /// Packets that may wait.
    pub(super) queue: u64,
    /// Every so many packets one is lost; 0 for none.
    pub(super) lost_every: u64,
    /// Packets that the application has; endless without.
    pub(super) data: Option<u64>,
    /// Acknowledgements wait for the next multiple of this.
    pub(super) bursts: Duration,
    free_at: Time,
    /// When the acknowledgement of a packet arrives, in order.
    acks: VecDeque<(Time, u64)>,
    received: Vec<RangeInclusive<u64>>,
    outcome: Outcome<u64>,
    pub(super) delivered: u64,
    /// The states that the path has entered, and when.
    pub(super) states: Vec<(Time, State)>,
    /// The longest that a packet has waited for others.
    pub(super) longest_wait: Duration,
}

impl Pipe {
    /// 1000 packets/s and 40 ms, so that 40 packets fill it.
    pub(super) fn new() -> Self {
        let mut bbr = Bbr::new(Options::default());
        let config = SenderConfig {
            packet_size: PACKET as u32,
            initial_rtt: Duration::from_millis(40),
            loss_detection: crate::LossDetection::Adaptive,
            ..SenderConfig::default()
        };
        let now = Time::from_millis(1);
        Pipe {
            sender: Sender::new(config, now, &mut bbr),
            bbr,
            now,
            rate: 1e6,
            delay: Duration::from_millis(40),
            queue: 10_000,
            lost_every: 0,
            data: None,
            bursts: Duration::ZERO,
            free_at: now,
            acks: VecDeque::new(),
            received: Vec::new(),
            outcome: Outcome::default(),
            delivered: 0,
            states: vec![(now, State::Startup)],
            longest_wait: Duration::ZERO,
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.bbr.slots.get(self.sender.slot()).unwrap()
    }

    pub(super) fn state(&self) -> State {
        self.path().state
    }

    pub(super) fn window(&self) -> f64 {
        self.bbr.window(self.sender.slot())
    }

    pub(super) fn pacing_rate(&self) -> f64 {
        self.bbr.pacing_rate(self.sender.slot()).unwrap()
    }

    fn note(&mut self) {
        let state = self.state();
        if self.states.last().is_none_or(|last| last.1 != state) {
            self.states.push((self.now, state));
        }
    }

    fn send(&mut self, data: bool) {
        let left = self.data.map(|left| left - u64::from(data));
        let sent = Sent {
            bytes: PACKET as u32,
            ack_eliciting: true,
            app_limited: left == Some(0),
            payload: 0,
        };
        self.data = left;
        let number = self.sender.on_sent(self.now, sent);
        let service = Duration::from_secs_f64(PACKET / self.rate);
        let wait = self.free_at.since(self.now);
        let lost = self.lost_every > 0 && number % self.lost_every == self.lost_every - 1;
        if lost || wait.as_secs_f64() * self.rate / PACKET >= self.queue as f64 {
            return;
        }
        self.longest_wait = self.longest_wait.max(wait);
        self.free_at = self.free_at.max(self.now) + service;
        let mut back = self.free_at + self.delay;
        if !self.bursts.is_zero() {
            let step = self.bursts.as_nanos() as u64;
            back = Time::from_nanos(back.as_nanos().div_ceil(step) * step);
        }
        self.acks.push_back((back, number));
    }

    /// Sends what may leave; when the pacer permits more.
    fn pump(&mut self) -> Option<Time> {
        while self.data != Some(0) {
            match self.sender.permit(self.now, &self.bbr) {
                Permit::Now { .. } => self.send(true),
                Permit::Paced(at) => return Some(at),
                Permit::WindowFull => return None,
            }
        }
        None
    }

    fn acknowledge(&mut self, number: u64) {
        match self.received.first_mut() {
            Some(newest) if *newest.end() + 1 == number => *newest = *newest.start()..=number,
            _ => self.received.insert(0, number..=number),
        }
        self.received.truncate(32);
        self.outcome.clear();
        let ack = AckInfo {
            largest: number,
            ranges: &self.received,
            delay: Duration::ZERO,
            ce_count: None,
            receive_time: None,
            elsewhere: false,
        };
        let taken = self
            .sender
            .on_ack(self.now, ack, &mut self.bbr, &mut self.outcome);
        assert_eq!(taken, Ok(()));
        self.after();
    }

    fn after(&mut self) {
        self.delivered += self.outcome.acked.len() as u64;
        if let Some(left) = &mut self.data {
            *left += self.outcome.lost.len() as u64;
        }
        self.note();
        let window = self.window();
        assert!(window >= 4.0 && window.is_finite(), "{window}");
        assert!(self.pacing_rate().is_finite() && self.pacing_rate() >= PACKET);
    }

    pub(super) fn run_until(&mut self, until: Time, mut stop: impl FnMut(&Pipe) -> bool) {
        while !stop(self) {
            let paced = self.pump();
            let next = [
                self.acks.front().map(|ack| ack.0),
                paced,
                self.sender.timeout(),
            ];
            let Some(next) = next.into_iter().flatten().min().filter(|at| *at <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            if self.acks.front().is_some_and(|ack| ack.0 <= self.now) {
                let (_, number) = self.acks.pop_front().unwrap();
                self.acknowledge(number);
            } else if self.sender.timeout().is_some_and(|at| at <= self.now) {
                self.outcome.clear();
                let event = self
                    .sender
                    .on_timeout(self.now, &mut self.bbr, &mut self.outcome);
                if matches!(event, TimerEvent::Probe { .. }) {
                    self.send(false);
                } else {
                    self.after();
                }
            }
        }
    }

    pub(super) fn run(&mut self, millis: u64) {
        let until = self.now + Duration::from_millis(millis);
        self.run_until(until, |_| false);
    }

    /// Runs until the path is in this state; fails if that takes longer than 12 s.
    #[track_caller]
    pub(super) fn run_to(&mut self, state: State) {
        let until = self.now + Duration::from_secs(12);
        self.run_until(until, |pipe| pipe.state() == state);
        assert_eq!(self.state(), state, "{:?}", self.states);
    }

    /// Packets delivered per second in the next so many milliseconds.
    pub(super) fn goodput(&mut self, millis: u64) -> f64 {
        let before = self.delivered;
        self.run(millis);
        (self.delivered - before) as f64 * 1e3 / millis as f64
    }
}

#[test]
fn the_registry_has_it() {
    let spec: LawSpec = "bbr".parse().unwrap();
    assert_eq!(spec.controller(&Options::default()).name(), "bbr");
}

//! Two sides and a network that loses, repeats and reorders.

use rand::RngExt;
use rand::rngs::ChaCha20Rng;

use super::*;

/// How bad the network is.
#[derive(Copy, Clone, Debug)]
pub(super) struct Weather {
    pub(super) loss: f64,
    pub(super) duplicate: f64,
    /// Whether a delivered packet's acknowledgement is lost and the packet declared lost.
    pub(super) spurious: f64,
    /// Chance that something under way is sent again elsewhere.
    pub(super) reinject: f64,
    /// Packets under way at once.
    pub(super) flight: usize,
    pub(super) max_frame: usize,
}

#[derive(Clone, Debug)]
enum Content {
    Stream(Chunk),
    Control(Frame<'static>),
}

#[derive(Debug)]
struct Packet {
    from: usize,
    frame: Content,
}

/// What became of a packet, on its way to the sender.
#[derive(Debug)]
struct Verdict {
    packet: Packet,
    acked: bool,
}

pub(super) struct Network {
    pub(super) sides: [Streams; 2],
    pub(super) now: Time,
    pub(super) rng: ChaCha20Rng,
    weather: Weather,
    under_way: Vec<Packet>,
    verdicts: Vec<Verdict>,
    pub(super) retransmissions: u64,
}

impl Network {
    pub(super) fn new(config: StreamsConfig, weather: Weather, rng: ChaCha20Rng) -> Self {
        let (a, b) = pair(config);
        Network {
            sides: [a, b],
            now: Time::ZERO,
            rng,
            weather,
            under_way: vec![],
            verdicts: vec![],
            retransmissions: 0,
        }
    }

    /// Nothing is under way and nobody has anything to send.
    pub(super) fn is_quiet(&self) -> bool {
        let idle = |s: &Streams| !s.has_data() && !s.has_control();
        self.under_way.is_empty() && self.verdicts.is_empty() && self.sides.iter().all(idle)
    }

    /// One thing happens.
    pub(super) fn step(&mut self) {
        self.now += Duration::from_micros(self.rng.random_range(0..500));
        match self.rng.random_range(0..4) {
            0 | 1 => self.send(),
            2 => self.deliver(),
            _ => self.judge(),
        }
    }

    fn send(&mut self) {
        if self.under_way.len() >= self.weather.flight {
            return self.deliver();
        }
        let from = self.rng.random_range(0..2);
        if self.rng.random_bool(self.weather.reinject)
            && let Some(packet) = self.pick_stream_packet()
        {
            let Content::Stream(chunk) = &self.under_way[packet].frame else {
                unreachable!()
            };
            let (from, range) = (self.under_way[packet].from, chunk.range);
            let max = self.rng.random_range(20..=self.weather.max_frame);
            if let Some(again) = self.sides[from].chunk(&range, max) {
                assert!(
                    again.retransmission
                        && again.range.offset >= range.offset
                        && again.range.end() <= range.end()
                );
                self.put(from, Content::Stream(again));
            }
            return;
        }
        let side = &mut self.sides[from];
        let streams_due = side.theirs.iter().any(|theirs| theirs.due);
        assert_eq!(
            side.has_control(),
            side.ledger.control.first().is_some() || side.window.is_due() || streams_due
        );
        if let Some(control) = side.poll_control() {
            return self.put(from, Content::Control(control));
        }
        let max = self.rng.random_range(20..=self.weather.max_frame);
        let had = side.has_data();
        match side.next_chunk(max, true) {
            Some(chunk) => {
                assert!(had);
                assert!(
                    overhead(chunk.range.stream, chunk.range.offset, chunk.data.len())
                        + chunk.data.len()
                        <= max
                );
                self.retransmissions += u64::from(chunk.retransmission);
                self.put(from, Content::Stream(chunk));
            }
            None => assert!(!had),
        }
    }

    fn put(&mut self, from: usize, frame: Content) {
        if let Content::Stream(chunk) = &frame {
            let expected = bytes_of(
                chunk.range.stream,
                from == 0,
                chunk.range.offset,
                u64::from(chunk.range.len),
            );
            assert_eq!(chunk.data, expected);
        }
        self.under_way.push(Packet { from, frame });
    }

    fn pick_stream_packet(&mut self) -> Option<usize> {
        if self.under_way.is_empty() {
            return None;
        }
        let index = self.rng.random_range(0..self.under_way.len());
        matches!(self.under_way[index].frame, Content::Stream(_)).then_some(index)
    }

    fn deliver(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let index = self.rng.random_range(0..self.under_way.len());
        let lost = self.rng.random_bool(self.weather.loss);
        if !lost {
            let Packet { from, frame } = &self.under_way[index];
            let to = &mut self.sides[1 - from];
            match frame {
                Content::Stream(Chunk { range, data, .. }) => {
                    to.on_stream(self.now, RTT, range.stream, range.offset, data, range.fin)
                }
                Content::Control(control) => apply(to, control),
            }
            .expect("an honest peer keeps to the rules");
        }
        if !lost && self.rng.random_bool(self.weather.duplicate) {
            return;
        }
        let packet = self.under_way.swap_remove(index);
        let acked = !lost && !self.rng.random_bool(self.weather.spurious);
        self.verdicts.push(Verdict { packet, acked });
    }

    fn judge(&mut self) {
        if self.verdicts.is_empty() {
            return;
        }
        let index = self.rng.random_range(0..self.verdicts.len());
        let Verdict { packet, acked } = self.verdicts.swap_remove(index);
        let side = &mut self.sides[packet.from];
        match (&packet.frame, acked) {
            (Content::Stream(chunk), true) => side.on_acked(&chunk.range),
            (Content::Stream(chunk), false) => side.on_lost(&chunk.range),
            (Content::Control(control), true) => side.on_control_acked(control),
            (Content::Control(control), false) => side.on_control_lost(control),
        }
    }
}

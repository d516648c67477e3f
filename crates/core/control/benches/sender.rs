//! The hot loop: one packet sent and one acknowledged, with a full window in flight.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use manyway_control::laws::{Balia, Cubic, Lia, Mpath, Reno};
use manyway_control::{
    AckInfo, Controller, Coupled, Loss, Options, Outcome, Sender, SenderConfig, Sent,
};
use manyway_units::Time;

const RTT: Duration = Duration::from_millis(20);
const IN_FLIGHT: u64 = 200;
const TICK: Duration = Duration::from_micros(100);

struct Flow {
    sender: Sender<()>,
    outcome: Outcome<()>,
    now: Time,
}

impl Flow {
    fn new<C: Controller + ?Sized>(controller: &mut C, pacing: bool) -> Self {
        let config = SenderConfig {
            pacing,
            initial_rtt: RTT,
            initial_window: 100.0,
            ..SenderConfig::default()
        };
        let mut flow = Flow {
            sender: Sender::new(config, Time::ZERO, controller),
            outcome: Outcome::default(),
            now: Time::ZERO,
        };
        // Out of slow start, so that the law has work to do.
        controller.on_loss(&Loss {
            slot: flow.sender.slot(),
            now: flow.now,
            sent: flow.now,
            packets: 1.0,
        });
        for _ in 0..IN_FLIGHT {
            flow.send();
        }
        flow
    }

    fn send(&mut self) {
        self.now += TICK;
        let packet = Sent {
            bytes: 1200,
            ack_eliciting: true,
            app_limited: false,
            payload: (),
        };
        self.sender.on_sent(self.now, packet);
    }

    /// Sends `batch` packets and acknowledges as many of the oldest.
    fn step<C: Controller + ?Sized>(&mut self, controller: &mut C, batch: u64) {
        for _ in 0..batch {
            black_box(self.sender.permit(self.now, controller));
            self.send();
        }
        let largest = self.sender.next_packet_number() - IN_FLIGHT - 1;
        let ranges = [0..=largest];
        let ack = AckInfo {
            largest,
            ranges: &ranges,
            delay: Duration::ZERO,
            ce_count: None,
            receive_time: None,
            elsewhere: false,
        };
        self.outcome.clear();
        self.sender
            .on_ack(self.now, ack, controller, &mut self.outcome)
            .expect("only packets that were sent are acknowledged");
        black_box(&self.outcome);
    }
}

fn measure<C: Controller>(criterion: &mut Criterion, name: &str, mut controller: C, paths: usize) {
    let mut group = criterion.benchmark_group(name);
    for (label, pacing, batch) in [("each", false, 1), ("paced", true, 1), ("tens", true, 10)] {
        let mut flows: Vec<Flow> = (0..paths)
            .map(|_| Flow::new(&mut controller, pacing))
            .collect();
        let mut turn = 0;
        group.throughput(Throughput::Elements(batch));
        group.bench_function(label, |bencher| {
            bencher.iter(|| {
                flows[turn].step(&mut controller, batch);
                turn = (turn + 1) % paths;
            });
        });
        for flow in &mut flows {
            flow.sender.retire(&mut controller).for_each(drop);
        }
    }
    group.finish();
}

fn benches(criterion: &mut Criterion) {
    let options = Options::default();
    measure(criterion, "reno 1 path", Coupled::new(Reno, options), 1);
    measure(criterion, "lia 2 paths", Coupled::new(Lia, options), 2);
    measure(criterion, "balia 2 paths", Coupled::new(Balia, options), 2);
    measure(criterion, "balia 8 paths", Coupled::new(Balia, options), 8);
    measure(
        criterion,
        "balia 200 paths",
        Coupled::new(Balia, options),
        200,
    );
    measure(criterion, "cubic 1 path", Cubic::new(options), 1);
    let mpath = || Mpath::new(0.5, options).expect("the default is in range");
    measure(criterion, "mpath 2 paths", mpath(), 2);
    measure(criterion, "mpath 200 paths", mpath(), 200);
}

criterion_group!(sender, benches);
criterion_main!(sender);

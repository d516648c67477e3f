//! Flows that come at random, send what is drawn, and pause: against closed forms of queueing
//! theory.
//!
//! All that a transfer sends leaves at once (the window is larger than any transfer), so that a
//! transfer is a job, and the link is the server: packets of one size, in the order of arrival.

use manyway_network::{Drr, Limit, LinkConfig, Queue};
use manyway_scenario::{Distribution, Flow};
use manyway_simulate::packet::{RunResult, TransferResult};

use crate::validity::setup::{
    PACKET, PACKET_BITS, assert_near, experiment, flow, one_link, packets_per_second, run, seconds,
};

/// Packets per second.
const CAPACITY: f64 = 1000.0;
/// Seconds there and back, beside a packet's own time on the link.
const DELAY: f64 = 0.02;

/// Sends a mean of so many packets at once.
fn job(size: Distribution) -> Flow {
    let mut flow = flow("reno", &[0]);
    flow.sender.initial_window = 1e6;
    flow.size = Some(size);
    flow
}

/// Whole numbers of packets, geometrically distributed around this mean for large means.
fn exponential(packets: f64) -> Distribution {
    Distribution::Exponential {
        mean: packets * f64::from(PACKET),
    }
}

fn link(queue: Queue) -> LinkConfig {
    LinkConfig {
        queue,
        ..LinkConfig::new(packets_per_second(CAPACITY), seconds(DELAY / 2.0))
    }
}

/// `count` jobs that arrive as a Poisson process with so many per second, over one link.
fn arriving(queue: Queue, size: Distribution, rate: f64, count: usize) -> RunResult {
    let topology = one_link(link(queue), &[seconds(DELAY / 2.0)]);
    let time = count as f64 / rate + 5.0;
    let mut experiment = experiment(topology, vec![job(size); count], (0.0, time));
    experiment.groups[0].stagger = Some(Distribution::Exponential { mean: 1e9 / rate });
    run(&experiment, 1)
}

fn transfers(result: &RunResult) -> impl Iterator<Item = &TransferResult> {
    result.flows.iter().flat_map(|flow| &flow.transfers)
}

fn packets(transfer: &TransferResult) -> f64 {
    transfer.bytes.div_ceil(u64::from(PACKET)) as f64
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), x| (sum + x, count + 1.0));
    sum / count
}

/// M/D/1: jobs of one packet wait ρ/2(1 − ρ) packets' times on average.
#[test]
fn single_packets_wait_as_in_an_m_d_1_queue() {
    let rho = 0.6;
    let fifo = Queue::DropTail(Limit::Packets(1_000_000));
    let result = arriving(fifo, u64::from(PACKET).into(), rho * CAPACITY, 40_000);
    let took = mean(transfers(&result).map(|transfer| transfer.took_s));
    let waited = (took - DELAY) * CAPACITY - 1.0;
    assert_near("waiting", waited, rho / (2.0 * (1.0 - rho)), 0.03);
    assert_eq!(transfers(&result).count(), 40_000);
}

/// M/G/1: jobs of several packets wait λ E[S²]/2(1 − ρ) (Pollaczek and Khinchine), by the sizes
/// that were drawn.
#[test]
fn jobs_wait_as_in_an_m_g_1_queue() {
    let fifo = Queue::DropTail(Limit::Packets(1_000_000));
    let (rho, size) = (0.5, 10.0);
    let rate = rho * CAPACITY / size;
    let result = arriving(fifo, exponential(size), rate, 40_000);
    let sizes = || transfers(&result).map(packets);
    let (service, squares) = (mean(sizes()), mean(sizes().map(|size| size * size)));
    // A geometric size of this mean: 1/(1 − e^(−1/10)).
    assert_near("size", service, 10.508, 0.02);
    let rho = rate * service / CAPACITY;
    let expected = rate * squares / CAPACITY.powi(2) / (2.0 * (1.0 - rho));
    let waited = transfers(&result).map(|it| it.took_s - DELAY - packets(it) / CAPACITY);
    assert_near("waiting", mean(waited), expected, 0.04);
}

/// M/G/1 with processor sharing: where a fair queue serves all jobs in turn, each is slower by
/// 1/(1 − ρ) on average, whatever its size and however sizes are distributed.
#[test]
fn a_fair_queue_slows_all_sizes_alike() {
    let (rho, size) = (0.5, 20.0);
    let heavy = Distribution::Pareto {
        scale: size * f64::from(PACKET) / 3.0,
        shape: 1.5,
    };
    for sizes in [exponential(size), heavy] {
        let fair = Queue::Drr(Drr::new(Limit::Packets(1_000_000)));
        // What is drawn of a heavy tail has another mean than the distribution.
        let result = arriving(fair, sizes, rho * CAPACITY / size, 30_000);
        let work = transfers(&result).map(packets).sum::<f64>();
        let last = transfers(&result).map(|it| it.start_s).fold(0.0, f64::max);
        let rho = work / CAPACITY / last;
        let slower = |least: f64, most: f64| {
            let some = transfers(&result).filter(|it| (least..most).contains(&packets(it)));
            let slower = some.map(|it| (it.took_s - DELAY) * CAPACITY / packets(it));
            mean(slower) * (1.0 - rho)
        };
        // A job of few packets waits for the packet in service, too.
        for (least, most) in [(10.0, 20.0), (20.0, 40.0), (40.0, 100.0)] {
            assert_near("slower", slower(least, most), 1.0, 0.04);
        }
    }
}

/// A source that is on and off sends its rate for the time that it is on.
#[test]
fn on_off_sources_send_for_a_part_of_the_time() {
    let rate = 400.0;
    let flow = Flow {
        rate: Some(packets_per_second(rate)),
        unresponsive: true,
        // 0.25 s on and 0.75 s off.
        size: Some(exponential(100.0)),
        pause: Some(Distribution::Exponential { mean: 0.75e9 }),
        ..flow("reno", &[0])
    };
    let topology = one_link(
        link(Queue::DropTail(Limit::Packets(100))),
        &[seconds(DELAY / 2.0)],
    );
    let result = run(&experiment(topology, vec![flow; 4], (0.0, 2000.0)), 1);
    for flow in &result.flows {
        let goodput = flow.goodput_bps / PACKET_BITS;
        assert_near("on-off", goodput, rate / 4.0, 0.06);
    }
    let all: f64 = result.flows.iter().map(|flow| flow.goodput_bps).sum();
    assert_near("all", all / PACKET_BITS, rate, 0.03);
}

/// Users who think between requests: a closed network of a queue and a delay, whose response times
/// follow from mean value analysis (Reiser and Lavenberg, 1980).
#[test]
fn users_who_think_wait_as_mean_value_analysis_says() {
    let (users, size, think) = (8, 50.0, 0.3);
    let user = Flow {
        pause: Some(Distribution::Exponential { mean: think * 1e9 }),
        ..job(exponential(size))
    };
    let fifo = Queue::DropTail(Limit::Packets(1_000_000));
    let topology = one_link(link(fifo), &[seconds(DELAY / 2.0)]);
    let result = run(&experiment(topology, vec![user; users], (0.0, 2000.0)), 1);
    let sizes = mean(transfers(&result).map(packets));
    let service = sizes / CAPACITY;
    let (mut waiting, mut response) = (0.0, 0.0);
    for n in 1..=users {
        response = service * (1.0 + waiting);
        let throughput = n as f64 / (think + DELAY + response);
        waiting = throughput * response;
    }
    let took = mean(transfers(&result).map(|it| it.took_s)) - DELAY;
    assert_near("response", took, response, 0.02);
}

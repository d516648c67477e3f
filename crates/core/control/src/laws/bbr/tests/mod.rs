//! The draft's example test cases (draft-ietf-ccwg-bbr, appendix A), and what else can happen.

mod pipe;

use std::time::Duration;

use manyway_units::Time;

use super::state::State;
use super::*;
use pipe::{PACKET, Pipe};

const MBYTE: f64 = 1e6;

/// The bandwidth-delay product of the pipe, bytes: 40 ms and a packet's own millisecond.
const BDP: f64 = 41.0 * PACKET;

fn assert_near(measured: f64, expected: f64, tolerance: f64) {
    let off = (measured / expected - 1.0).abs();
    assert!(off <= tolerance, "{measured} instead of {expected}");
}

/// The whole of one cycle is over: everything is as it will be.
fn steady() -> Pipe {
    let mut pipe = Pipe::new();
    pipe.run_to(State::Up);
    pipe.run_to(State::Cruise);
    pipe
}

fn lost(pipe: &Pipe, packets: u64, number: u64) -> LostPacket {
    LostPacket {
        slot: pipe.sender.slot(),
        now: pipe.now,
        number,
        bytes: PACKET as u64,
        delivered: pipe.delivered * PACKET as u64,
        in_flight_then: pipe.sender.bytes_in_flight(),
        lost: packets * PACKET as u64,
        app_limited: false,
    }
}

fn event(pipe: &Pipe) -> Loss {
    Loss {
        slot: pipe.sender.slot(),
        now: pipe.now,
        sent: pipe.now,
        packets: 1.0,
    }
}

#[test]
fn startup_doubles_the_rate_until_that_no_longer_helps() {
    let mut pipe = Pipe::new();
    let mut rates = Vec::new();
    for _ in 0..3 {
        pipe.run(41);
        rates.push(pipe.path().max_bw.get());
    }
    assert!(
        rates[1] > 1.7 * rates[0] && rates[2] > 1.7 * rates[1],
        "{rates:?}"
    );
    pipe.run_to(State::Drain);
    assert_near(pipe.path().max_bw.get(), MBYTE, 0.02);
    assert!(pipe.path().full_reached);
    assert!(pipe.path().inflight_longterm.is_infinite());
    // The window lets a product more queue than the path holds.
    let queued = pipe.longest_wait.as_secs_f64();
    assert!((0.03..0.07).contains(&queued), "{queued}");
}

#[test]
fn losses_end_startup_from_two_percent_on() {
    for (every, ends) in [(25, true), (200, false)] {
        let mut pipe = Pipe::new();
        // So fast that no plateau comes first.
        pipe.rate *= 20.0;
        pipe.lost_every = every;
        pipe.run_to(State::Drain);
        let bound = pipe.path().inflight_longterm;
        assert_eq!(bound.is_finite(), ends, "one in {every}: {bound}");
    }
}

#[test]
fn drain_lasts_until_the_queue_is_gone_but_not_for_ever() {
    let mut pipe = Pipe::new();
    pipe.run_to(State::Drain);
    assert_near(pipe.pacing_rate(), 0.5 * 0.99 * pipe.path().bw, 1e-9);
    pipe.run_until(Time::MAX, |pipe| pipe.state() != State::Drain);
    let left = pipe.sender.bytes_in_flight() as f64;
    assert!((0.9 * BDP..=BDP).contains(&left), "{left}");

    let mut pipe = Pipe::new();
    pipe.run_to(State::Drain);
    pipe.rate /= 4.0;
    let round = pipe.path().rounds;
    pipe.run_until(Time::MAX, |pipe| pipe.state() != State::Drain);
    assert!(pipe.sender.bytes_in_flight() as f64 > 1.1 * BDP);
    assert_eq!(pipe.path().rounds, round + 4);
}

#[test]
fn the_states_follow_each_other() {
    let mut pipe = steady();
    pipe.run_to(State::Refill);
    pipe.states.clear();
    // A bandwidth probe every 40 rounds, as many as the path holds packets, is what Reno would
    // need; a little more than 1.6 s.
    pipe.run(5_000);
    let mut seen: Vec<State> = pipe.states.iter().map(|state| state.1).collect();
    seen.retain(|state| *state != State::ProbeRtt);
    seen.dedup();
    let cycle = [State::Refill, State::Up, State::Down, State::Cruise];
    assert_eq!(seen[..4], cycle);
}

#[test]
fn gains_are_those_of_the_state() {
    let mut pipe = steady();
    for (state, rate) in [
        (State::Cruise, 1.0),
        (State::Refill, 1.0),
        (State::Up, 1.25),
        (State::Down, 0.9),
    ] {
        pipe.run_to(state);
        assert_near(pipe.pacing_rate(), rate * 0.99 * pipe.path().bw, 1e-9);
    }
    pipe.run_to(State::Up);
    pipe.run(100);
    // Three rounds a quarter faster than the path.
    assert!(pipe.window() * PACKET > 2.2 * BDP);
    pipe.run_to(State::Cruise);
    assert!(pipe.sender.bytes_in_flight() as f64 <= BDP);
}

/// With large products time decides, two to three seconds, and with small ones rounds.
#[test]
fn probes_come_when_it_is_time() {
    let mut waits = Vec::new();
    for (delay, least, most) in [(150, 2.0, 3.2), (40, 1.6, 2.0)] {
        let mut pipe = Pipe::new();
        pipe.delay = Duration::from_millis(delay);
        for _ in 0..4 {
            pipe.run_to(State::Down);
            let from = pipe.now;
            pipe.run_to(State::Refill);
            let wait = pipe.now.since(from).as_secs_f64();
            let rounds = pipe.path().rounds;
            waits.push((delay, wait, rounds));
            let interrupted = pipe
                .states
                .iter()
                .any(|s| s.0 > from && s.1 == State::ProbeRtt);
            assert!(wait >= least && (wait <= most || interrupted), "{waits:?}");
            pipe.run_to(State::Up);
        }
    }
    // Not all the same.
    assert!((waits[0].1 - waits[1].1).abs() > 0.01, "{waits:?}");
}

/// Two paths of one connection, or two connections, that begin at once don't probe in step.
#[test]
fn paths_that_begin_together_wait_differently() {
    let mut bbr = Bbr::new(Options::default());
    let waits = [0, 1].map(|_| {
        let slot = bbr.add_path(NewPath {
            now: Time::ZERO,
            initial_window: 10.0,
            packet_size: 1200,
            initial_rtt: Duration::from_millis(50),
        });
        let path = bbr.slots.get_mut(slot).unwrap();
        path.start_down(Time::from_millis(10));
        path.probe_wait
    });
    assert_ne!(waits[0], waits[1]);
    for wait in waits {
        assert!((2.0..3.0).contains(&wait.as_secs_f64()));
    }
}

#[test]
fn a_probe_that_loses_too_much_ends_and_leaves_a_bound() {
    let mut pipe = steady();
    // Room for 30 packets of queue: the probe finds its end.
    pipe.queue = 20;
    pipe.run_to(State::Up);
    pipe.run_to(State::Down);
    let bound = pipe.path().inflight_longterm;
    assert!((0.7 * BDP..75.0 * PACKET).contains(&bound), "{bound}");
    assert!(pipe.path().probe_too_high);
    // It cruises with a margin below the bound.
    pipe.run_to(State::Cruise);
    pipe.run(100);
    assert!(pipe.window() * PACKET <= 0.85 * bound + 1.0);
    // The next probe stops where the last one lost; nothing was lost, so it is repeated at once.
    pipe.run_to(State::Up);
    pipe.run_to(State::Down);
    pipe.states.clear();
    assert!(!pipe.path().probe_too_high);
    pipe.run_to(State::Up);
    assert!(
        pipe.now.since(pipe.states[0].0) < Duration::from_millis(150),
        "{:?}",
        pipe.states
    );
    assert!(pipe.goodput(20_000) > 940.0);
}

#[test]
fn losses_outside_of_probes_lower_the_bounds_of_this_cycle() {
    let mut pipe = steady();
    let path = pipe.path();
    assert!(path.bw_shortterm.is_infinite() && path.inflight_shortterm.is_infinite());
    let (bw, window) = (path.bw, pipe.window() * PACKET);
    let packet = lost(&pipe, 1, 0);
    pipe.bbr.on_packet_lost(&packet);
    pipe.run(90);
    let path = pipe.path();
    // What was delivered in the round, and not less than 0.7.
    assert!((0.7 * bw..=bw).contains(&path.bw_shortterm));
    assert!((0.7 * window..window).contains(&path.inflight_shortterm));
    assert!(path.inflight_longterm.is_infinite());
    pipe.run_to(State::Refill);
    let path = pipe.path();
    assert!(path.bw_shortterm.is_infinite() && path.inflight_shortterm.is_infinite());
}

#[test]
fn the_round_trip_time_is_probed_every_five_seconds() {
    let mut pipe = steady();
    pipe.run_to(State::ProbeRtt);
    let entered = pipe.now;
    pipe.run(60);
    assert_near(pipe.window() * PACKET, BDP / 2.0, 0.03);
    pipe.run_to(State::Cruise);
    let lasted = pipe.now.since(entered);
    let expected = Duration::from_millis(200)..Duration::from_millis(320);
    assert!(expected.contains(&lasted));
    assert!(pipe.window() * PACKET > 1.5 * BDP);
    pipe.run_to(State::ProbeRtt);
    let apart = pipe.now.since(entered).as_secs_f64();
    assert!((5.0..5.6).contains(&apart), "{apart}");
}

#[test]
fn a_longer_path_is_noticed_within_ten_seconds_and_a_shorter_one_at_once() {
    let mut pipe = steady();
    pipe.delay = Duration::from_millis(20);
    pipe.run(200);
    assert_near(pipe.path().min_rtt, 0.021, 0.05);
    pipe.delay = Duration::from_millis(80);
    pipe.run(9_000);
    assert_near(pipe.path().min_rtt, 0.021, 0.05);
    pipe.run(7_000);
    assert_near(pipe.path().min_rtt, 0.081, 0.05);
    assert!(pipe.goodput(10_000) > 940.0);
}

/// A little data all the time: the application is the limit, and neither ends Startup nor lowers
/// the bandwidth.
#[test]
fn what_the_application_limits_says_nothing_about_the_path() {
    let trickle = |pipe: &mut Pipe, steps: usize| {
        for _ in 0..steps {
            pipe.data = Some(2);
            pipe.run(20);
        }
    };
    let mut pipe = Pipe::new();
    trickle(&mut pipe, 450);
    assert!(pipe.states.iter().any(|state| state.1 == State::ProbeRtt));
    let known = |state: &(Time, State)| matches!(state.1, State::Startup | State::ProbeRtt);
    assert!(pipe.states.iter().all(known), "{:?}", pipe.states);
    assert!(!pipe.path().full_reached);

    let mut pipe = steady();
    trickle(&mut pipe, 1000);
    assert_near(pipe.path().max_bw.get(), MBYTE, 0.02);
    pipe.data = None;
    assert!(pipe.goodput(1_000) > 900.0);
}

#[test]
fn idle_times_count_as_probes_of_the_round_trip_time() {
    let mut pipe = steady();
    pipe.data = Some(1);
    pipe.run(8_000);
    assert_eq!(pipe.sender.bytes_in_flight(), 0);
    pipe.states.clear();
    pipe.data = None;
    pipe.run(1_000);
    let entered: Vec<State> = pipe.states.iter().map(|state| state.1).collect();
    assert!(!entered.contains(&State::ProbeRtt), "{entered:?}");
    assert_near(pipe.path().max_bw.get(), MBYTE, 0.02);
}

#[test]
fn acknowledgements_in_bursts_are_bridged() {
    let mut pipe = Pipe::new();
    pipe.bursts = Duration::from_millis(100);
    pipe.run(5_000);
    assert!(pipe.goodput(20_000) > 900.0);
    // No burst above twice the path's rate.
    assert!(
        pipe.path().max_bw.get() < 2.0 * MBYTE,
        "{}",
        pipe.path().max_bw.get()
    );
}

#[test]
fn less_than_a_packet_in_the_pipe_is_enough_to_fill_it() {
    let mut pipe = Pipe::new();
    pipe.rate = 10.0 * PACKET;
    pipe.delay = Duration::from_millis(1);
    pipe.run(10_000);
    assert!((4.0..8.0).contains(&pipe.window()), "{}", pipe.window());
    assert!(pipe.goodput(20_000) > 9.4);
}

#[test]
fn ten_times_the_rate_is_found_in_a_few_probes_and_a_tenth_too() {
    let mut pipe = steady();
    pipe.rate *= 10.0;
    pipe.run(10_000);
    let fast = pipe.goodput(5_000);
    assert!(fast > 9_300.0, "{fast}");
    pipe.rate /= 100.0;
    pipe.queue = 50;
    pipe.run(10_000);
    let slow = pipe.goodput(10_000);
    assert!(slow > 88.0, "{slow}");
    assert_near(pipe.path().max_bw.get(), MBYTE / 10.0, 0.1);
}

#[test]
fn a_short_queue_is_enough() {
    let mut pipe = Pipe::new();
    pipe.queue = 4;
    pipe.run(2_000);
    let goodput = pipe.goodput(30_000);
    assert!(goodput > 880.0, "{goodput}");
}

#[test]
fn one_percent_of_losses_costs_little() {
    let mut pipe = Pipe::new();
    pipe.lost_every = 100;
    pipe.run(2_000);
    let goodput = pipe.goodput(60_000);
    assert!(goodput > 850.0, "{goodput}");
    // At ten percent it gives way.
    pipe.lost_every = 10;
    pipe.run(5_000);
    assert!(pipe.goodput(30_000) < 700.0);
}

#[test]
fn a_probe_that_spurious_losses_ended_is_resumed() {
    let mut pipe = steady();
    pipe.run_to(State::Up);
    let slot = pipe.sender.slot();
    pipe.run(90);
    assert_eq!(pipe.state(), State::Up);
    let window = pipe.window();
    pipe.bbr.on_loss(&event(&pipe));
    let packet = lost(&pipe, 10, 0);
    pipe.bbr.on_packet_lost(&packet);
    assert_eq!(pipe.state(), State::Down);
    assert!(pipe.path().inflight_longterm.is_finite());
    pipe.bbr.on_spurious_loss(slot, pipe.now);
    assert_eq!(pipe.state(), State::Refill);
    assert!(pipe.path().inflight_longterm.is_infinite());
    assert_eq!(pipe.window(), window);

    let mut pipe = Pipe::new();
    pipe.run(100);
    pipe.lost_every = 10;
    pipe.run_to(State::Drain);
    assert!(pipe.path().inflight_longterm.is_finite());
    pipe.lost_every = 0;
    pipe.bbr.on_spurious_loss(slot, pipe.now);
    assert_eq!(pipe.state(), State::Startup);
    assert!(!pipe.path().full_reached);
}

#[test]
fn a_mark_is_congestion() {
    let mut pipe = Pipe::new();
    pipe.run(100);
    assert_eq!(pipe.state(), State::Startup);
    pipe.bbr.on_ecn(&event(&pipe));
    pipe.run(10);
    assert_eq!(pipe.state(), State::Drain);

    let mut pipe = steady();
    pipe.run_to(State::Up);
    pipe.bbr.on_ecn(&event(&pipe));
    assert_eq!(pipe.state(), State::Down);
    assert_near(pipe.path().inflight_longterm, BDP, 0.05);

    let mut pipe = steady();
    pipe.bbr.on_ecn(&event(&pipe));
    pipe.run(90);
    assert!(pipe.path().bw_shortterm.is_finite());
}

#[test]
fn a_timeout_takes_the_window_until_recovery_is_over() {
    let mut pipe = steady();
    let before = pipe.window();
    pipe.bbr.on_timeout(pipe.sender.slot(), pipe.now);
    assert_eq!(pipe.window(), 4.0);
    pipe.run(200);
    assert_near(pipe.window(), before, 0.05);
}

/// A clock that stands still, or leaps by an hour.
#[test]
fn strange_clocks_do_no_harm() {
    for millis in [0, 1, 3_600_000] {
        let mut pipe = steady();
        pipe.delay = Duration::ZERO;
        pipe.rate = 1e15;
        pipe.run(5);
        pipe.now += Duration::from_millis(millis);
        pipe.rate = MBYTE;
        pipe.delay = Duration::from_millis(40);
        pipe.run(20_000);
        let goodput = pipe.goodput(10_000);
        assert!(goodput > 900.0, "{millis}: {goodput}");
    }
}

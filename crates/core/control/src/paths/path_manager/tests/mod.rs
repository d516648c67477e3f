use super::*;

mod properties;

const RTT: Duration = Duration::from_millis(40);

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn relays(numbers: std::ops::Range<u64>) -> Vec<RelayKey> {
    numbers.map(RelayKey).collect()
}

/// A manager that knows so many relays, and has probed none but the first.
fn manager(relays_known: u64) -> PathManager {
    with(ManagerConfig::default(), relays_known)
}

fn with(config: ManagerConfig, relays_known: u64) -> PathManager {
    let mut manager = PathManager::new(config, 7).unwrap();
    manager.handle(ms(0), Event::Relays(&relays(0..relays_known)));
    manager.handle(ms(0), Event::DirectRtt(RTT));
    manager
}

fn commands(manager: &mut PathManager) -> Vec<Command> {
    std::iter::from_fn(|| manager.next_command()).collect()
}

/// Runs the clock up to `until`; probes to relays below `answering` are answered within 50 ms. The
/// commands with their times.
fn run(manager: &mut PathManager, until: u64, answering: u64) -> Vec<(Time, Command)> {
    let mut log = Vec::new();
    let mut now = ms(0);
    loop {
        while let Some(command) = manager.next_command() {
            log.push((now, command));
            match command {
                Command::Probe(relay) if relay.0 < answering => {
                    let at = now + Duration::from_millis(50);
                    manager.on_timeout(at);
                    manager.handle(at, Event::Answered(relay));
                }
                _ => {}
            }
        }
        match manager.timeout() {
            Some(at) if at <= ms(until) => {
                now = now.max(at) + Duration::from_nanos(1);
                manager.on_timeout(now);
            }
            _ => return log,
        }
    }
}

fn lose_direct(manager: &mut PathManager, at: u64, window: f64) -> Vec<Command> {
    let path = PathKey::Direct;
    manager.handle(ms(at), Event::Loss { path, window });
    commands(manager)
}

fn lose(manager: &mut PathManager, at: u64, relay: RelayKey) {
    let path = PathKey::Via(relay);
    manager.handle(ms(at), Event::Loss { path, window: 1.0 });
}

fn opened(commands: &[Command]) -> Vec<RelayKey> {
    let relays = commands.iter().filter_map(|command| match command {
        Command::Open(relay) => Some(*relay),
        _ => None,
    });
    relays.collect()
}

fn drained(manager: &mut PathManager, at: u64, relay: RelayKey) {
    let verdict = PathVerdict::Drained;
    manager.handle(ms(at), Event::Verdict { relay, verdict });
    let for_good = false;
    assert_eq!(commands(manager), [Command::Close { relay, for_good }]);
}

#[test]
fn probes_one_relay_every_250_ms_and_asks_for_more_at_the_end() {
    let mut manager = manager(4);
    let log = run(&mut manager, 10_000, 4);
    let times: Vec<_> = log.iter().map(|(at, _)| at.as_micros() / 1000).collect();
    assert_eq!(times, [0, 250, 500, 750, 750]);
    let mut probed: Vec<_> = log[..4].iter().map(|(_, command)| *command).collect();
    assert_ne!(
        probed,
        relays(0..4)
            .into_iter()
            .map(Command::Probe)
            .collect::<Vec<_>>()
    );
    probed.sort_by_key(|command| format!("{command:?}"));
    assert_eq!(
        probed,
        relays(0..4)
            .into_iter()
            .map(Command::Probe)
            .collect::<Vec<_>>()
    );
    assert_eq!(log[4].1, Command::MoreRelays);
    assert_eq!(manager.counts().unused, 4);

    // Nothing new: ask again after half a minute, not before.
    manager.handle(ms(2_000), Event::Relays(&relays(0..4)));
    assert_eq!(commands(&mut manager), []);
    assert_eq!(manager.timeout(), Some(ms(32_000)));
    manager.on_timeout(ms(32_000));
    assert_eq!(commands(&mut manager), [Command::MoreRelays]);
    assert_eq!(manager.timeout(), None);
    // New ones are probed at once.
    manager.handle(ms(33_000), Event::Relays(&relays(3..6)));
    assert!(matches!(commands(&mut manager)[..], [Command::Probe(_)]));
}

#[test]
fn two_probes_without_an_answer_in_time_make_a_relay_unusable() {
    let mut manager = manager(1);
    assert_eq!(commands(&mut manager), [Command::Probe(RelayKey(0))]);
    // τ = 2·RTT_0 = 80 ms: at 80 ms it would still be in time.
    let late = Duration::from_nanos(1);
    assert_eq!(manager.timeout(), Some(ms(80) + late));
    manager.on_timeout(ms(80));
    assert_eq!(manager.counts().candidates, 1);
    assert_eq!(commands(&mut manager), []);
    // Late answers are none.
    manager.handle(ms(81), Event::Answered(RelayKey(0)));
    assert_eq!(
        (manager.counts().candidates, manager.counts().unused),
        (1, 0)
    );
    assert_eq!(commands(&mut manager), [Command::Resend(RelayKey(0))]);
    manager.on_timeout(ms(250));
    assert_eq!(commands(&mut manager), [Command::Probe(RelayKey(0))]);
    manager.on_timeout(ms(331));
    assert_eq!(manager.counts().unusable, 1);
    assert_eq!(
        commands(&mut manager),
        [Command::Resend(RelayKey(0)), Command::MoreRelays]
    );
    assert_eq!(lose_direct(&mut manager, 400, 100.0), []);
}

#[test]
fn an_answer_to_the_second_probe_will_do() {
    let mut manager = manager(2);
    let Some(Command::Probe(first)) = manager.next_command() else {
        panic!("no probe");
    };
    manager.on_timeout(ms(250));
    // The second probe of one relay goes before the first of another.
    assert_eq!(
        commands(&mut manager),
        [Command::Resend(first), Command::Probe(first)]
    );
    manager.handle(ms(330), Event::Answered(first));
    assert_eq!(manager.counts().unused, 1);
}

#[test]
fn patience_follows_the_direct_round_trip() {
    let after = |millis| ms(millis) + Duration::from_nanos(1);
    let mut manager = PathManager::new(ManagerConfig::default(), 7).unwrap();
    manager.handle(ms(0), Event::Relays(&relays(0..3)));
    // Nothing before the direct path is known.
    assert_eq!((manager.timeout(), commands(&mut manager)), (None, vec![]));
    manager.handle(ms(0), Event::DirectRtt(Duration::from_millis(100)));
    assert_eq!(manager.timeout(), Some(after(200)));
    // Of the next probe, not of this one.
    manager.handle(ms(100), Event::DirectRtt(Duration::from_millis(10)));
    assert_eq!(manager.timeout(), Some(after(200)));
    manager.on_timeout(ms(250));
    assert_eq!(manager.timeout(), Some(after(270)));
}

#[test]
fn a_loss_on_the_direct_path_creates_a_quarter_of_its_window() {
    for (window, paths) in [
        (40.0, 10),
        (10.0, 3),
        (9.0, 2),
        (2.0, 1),
        (1.0, 1),
        (f64::NAN, 1),
        (1e300, 30),
    ] {
        let mut manager = manager(30);
        run(&mut manager, 60_000, 30);
        let mut opened = opened(&lose_direct(&mut manager, 60_000, window));
        assert_eq!(opened.len(), paths, "{window}");
        assert_eq!(manager.counts().open, paths);
        opened.sort();
        opened.dedup();
        assert_eq!(opened.len(), paths);
    }
    // Limited by the number of relays that are available.
    let mut manager = manager(30);
    run(&mut manager, 60_000, 5);
    assert_eq!(opened(&lose_direct(&mut manager, 60_000, 40.0)).len(), 5);
}

#[test]
fn no_new_paths_before_all_have_met_loss() {
    let mut manager = manager(10);
    run(&mut manager, 60_000, 10);
    let first = opened(&lose_direct(&mut manager, 60_000, 8.0));
    assert_eq!(first.len(), 2);
    assert_eq!(lose_direct(&mut manager, 60_100, 8.0), []);
    lose(&mut manager, 60_200, first[0]);
    lose(&mut manager, 60_250, first[0]);
    assert_eq!(lose_direct(&mut manager, 60_300, 8.0), []);
    lose(&mut manager, 60_400, first[1]);
    assert_eq!(opened(&lose_direct(&mut manager, 60_500, 8.0)).len(), 2);
    // A closed path doesn't count.
    let second: Vec<_> = (0..10)
        .map(RelayKey)
        .filter(|&relay| manager.is_open(relay) && !first.contains(&relay))
        .collect();
    for relay in second {
        assert_eq!(lose_direct(&mut manager, 60_600, 8.0), []);
        drained(&mut manager, 60_700, relay);
    }
    assert_eq!(opened(&lose_direct(&mut manager, 60_800, 8.0)).len(), 2);
}

#[test]
fn a_timeout_of_the_direct_path_creates_too() {
    let mut manager = manager(10);
    run(&mut manager, 60_000, 10);
    let path = PathKey::Direct;
    manager.handle(ms(60_000), Event::Timeout { path, window: 8.0 });
    assert_eq!(opened(&commands(&mut manager)).len(), 2);
}

#[test]
fn no_probes_and_no_paths_for_those_who_have_enough() {
    let mut manager = manager(10);
    run(&mut manager, 1_000, 10);
    manager.handle(ms(1_000), Event::Unsatisfied(false));
    commands(&mut manager);
    assert_eq!(run(&mut manager, 60_000, 10), []);
    assert_eq!(lose_direct(&mut manager, 60_000, 8.0), []);
    manager.handle(ms(60_001), Event::Unsatisfied(true));
    assert!(matches!(commands(&mut manager)[..], [Command::Probe(_)]));
    assert_eq!(opened(&lose_direct(&mut manager, 60_002, 8.0)).len(), 2);
}

/// Three relays used, all have met loss; relay 1 delivered most, relay 0 least.
fn all_used(config: ManagerConfig) -> PathManager {
    let mut manager = with(config, 3);
    run(&mut manager, 60_000, 3);
    assert_eq!(opened(&lose_direct(&mut manager, 60_000, 12.0)).len(), 3);
    for (relay, bytes) in [(0, 1_000), (1, 9_000), (2, 5_000)] {
        let relay = RelayKey(relay);
        manager.handle(ms(60_000), Event::Delivered { relay, bytes });
        lose(&mut manager, 61_000, relay);
    }
    manager
}

#[test]
fn a_useless_path_stays_closed_while_better_ones_are_open() {
    let mut manager = all_used(ManagerConfig::default());
    drained(&mut manager, 70_000, RelayKey(0));
    // What counts is the rate over a path's life: 100 B/s of relay 0.
    for (relay, bytes) in [(1, 90_000), (2, 50_000)] {
        let relay = RelayKey(relay);
        manager.handle(ms(200_000), Event::Delivered { relay, bytes });
    }
    assert_eq!(lose_direct(&mut manager, 200_000, 12.0), []);
    // A better one comes back when it has rested for a minute, alone.
    drained(&mut manager, 200_000, RelayKey(1));
    assert_eq!(lose_direct(&mut manager, 259_999, 12.0), []);
    assert_eq!(
        lose_direct(&mut manager, 260_000, 12.0),
        [Command::Open(RelayKey(1))]
    );
    // Two minutes after the second time.
    drained(&mut manager, 260_001, RelayKey(1));
    assert_eq!(lose_direct(&mut manager, 380_000, 12.0), []);
    assert_eq!(
        lose_direct(&mut manager, 380_001, 12.0),
        [Command::Open(RelayKey(1))]
    );
}

#[test]
fn a_closed_path_comes_back_when_those_in_use_have_become_worse() {
    let mut manager = all_used(ManagerConfig::default());
    // 500 B/s; the two others have 900 and 100 so far.
    drained(&mut manager, 70_000, RelayKey(2));
    drained(&mut manager, 70_000, RelayKey(0));
    assert_eq!(lose_direct(&mut manager, 75_000, 12.0), []);
    // Relay 1 falls to 69 B/s, less than any.
    assert_eq!(
        lose_direct(&mut manager, 190_000, 12.0),
        [Command::Open(RelayKey(2))]
    );
    // With none in use, whatever there is.
    drained(&mut manager, 190_001, RelayKey(2));
    drained(&mut manager, 190_001, RelayKey(1));
    assert_eq!(
        lose_direct(&mut manager, 190_002, 12.0),
        [Command::Open(RelayKey(0))]
    );
}

#[test]
fn a_relay_is_not_judged_by_its_first_seconds() {
    let mut manager = all_used(ManagerConfig::default());
    let path = PathKey::Via(RelayKey(0));
    // 9.9 s, a seventh of what the others did.
    manager.handle(ms(69_900), Event::Timeout { path, window: 1.0 });
    let (relay, for_good) = (RelayKey(0), false);
    assert_eq!(commands(&mut manager), [Command::Close { relay, for_good }]);
    // Tried again, whatever the others do, and judged then.
    assert_eq!(
        lose_direct(&mut manager, 130_000, 12.0),
        [Command::Open(RelayKey(0))]
    );
    for relay in [1, 2] {
        let relay = RelayKey(relay);
        let bytes = 9_000;
        manager.handle(ms(135_000), Event::Delivered { relay, bytes });
    }
    manager.handle(ms(135_000), Event::Timeout { path, window: 1.0 });
    let for_good = true;
    assert_eq!(commands(&mut manager), [Command::Close { relay, for_good }]);
}

#[test]
fn every_relay_gets_another_chance_if_so_wanted() {
    let mut manager = all_used(ManagerConfig {
        reuse: Reuse::BestIdle,
        ..ManagerConfig::default()
    });
    drained(&mut manager, 70_000, RelayKey(0));
    drained(&mut manager, 70_000, RelayKey(2));
    assert_eq!(lose_direct(&mut manager, 129_999, 12.0), []);
    assert_eq!(
        lose_direct(&mut manager, 130_000, 12.0),
        [Command::Open(RelayKey(2))]
    );
    lose(&mut manager, 130_001, RelayKey(2));
    assert_eq!(
        lose_direct(&mut manager, 130_002, 12.0),
        [Command::Open(RelayKey(0))]
    );
}

#[test]
fn a_path_that_times_out_is_dropped_for_good_if_it_did_little() {
    // Relay 0 delivered 1,000 bytes in the time in which the two others delivered 14,000: a seventh
    // of their mean.
    let mut manager = all_used(ManagerConfig::default());
    let time_out = |manager: &mut PathManager, relay| {
        let path = PathKey::Via(relay);
        manager.handle(ms(70_000), Event::Timeout { path, window: 3.0 });
        commands(manager)
    };
    let closed = |relay, for_good| [Command::Close { relay, for_good }];
    assert_eq!(
        time_out(&mut manager, RelayKey(0)),
        closed(RelayKey(0), true)
    );
    assert_eq!(time_out(&mut manager, RelayKey(0)), []);
    assert_eq!(
        time_out(&mut manager, RelayKey(2)),
        closed(RelayKey(2), false)
    );
    assert_eq!(
        time_out(&mut manager, RelayKey(1)),
        closed(RelayKey(1), false)
    );
    let counts = manager.counts();
    assert_eq!((counts.open, counts.resting, counts.unusable), (0, 2, 1));

    // The controller's verdict has the same effect; without others there is nobody to compare with.
    let mut manager = with(ManagerConfig::default(), 1);
    run(&mut manager, 1_000, 1);
    lose_direct(&mut manager, 1_000, 4.0);
    let (relay, verdict) = (RelayKey(0), PathVerdict::TimedOut);
    manager.handle(ms(2_000), Event::Verdict { relay, verdict });
    assert_eq!(commands(&mut manager), closed(relay, false));
}

/// A path is compared with what the others did while it was there, not before.
#[test]
fn contributions_are_compared_over_the_lifetime() {
    let mut manager = manager(10);
    run(&mut manager, 10_000, 10);
    let first = opened(&lose_direct(&mut manager, 10_000, 4.0))[0];
    let deliver = |manager: &mut PathManager, at, relay, bytes| {
        manager.handle(ms(at), Event::Delivered { relay, bytes });
    };
    deliver(&mut manager, 15_000, first, 1_000_000);
    lose(&mut manager, 20_000, first);
    let second = opened(&lose_direct(&mut manager, 20_000, 4.0))[0];
    // 10 s together: 300 bytes against 1,000.
    deliver(&mut manager, 25_000, first, 1_000);
    deliver(&mut manager, 26_000, second, 300);
    let path = PathKey::Via(second);
    manager.handle(ms(30_000), Event::Timeout { path, window: 1.0 });
    let relay = second;
    let for_good = false;
    assert_eq!(commands(&mut manager), [Command::Close { relay, for_good }]);
}

/// The direct path may be dead, and the connection with it.
#[test]
fn no_relay_rests_while_the_only_path_is_silent() {
    let mut manager = all_used(ManagerConfig::default());
    let silent = |manager: &mut PathManager, at| {
        let (path, window) = (PathKey::Direct, 12.0);
        manager.handle(ms(at), Event::Timeout { path, window });
        commands(manager)
    };
    drained(&mut manager, 71_000, RelayKey(1));
    drained(&mut manager, 71_000, RelayKey(2));
    assert_eq!(silent(&mut manager, 72_000), [], "relay 0 has a path");
    drained(&mut manager, 73_000, RelayKey(0));
    assert_eq!(lose_direct(&mut manager, 74_000, 12.0), [], "some loss");
    let best = Command::Open(RelayKey(1));
    assert_eq!(silent(&mut manager, 75_000), [best]);
    // One at a time, and another once that is found wanting.
    assert_eq!(silent(&mut manager, 76_000), []);
    manager.handle(ms(77_000), Event::Gone(RelayKey(1)));
    let next = silent(&mut manager, 78_000);
    assert_eq!(opened(&next).len(), 1, "{next:?}");
}

#[test]
fn paths_that_go_by_themselves_rest() {
    let mut manager = all_used(ManagerConfig::default());
    manager.handle(ms(70_000), Event::Gone(RelayKey(1)));
    assert_eq!(commands(&mut manager), []);
    assert!(!manager.is_open(RelayKey(1)));
    assert_eq!(
        lose_direct(&mut manager, 130_000, 12.0),
        [Command::Open(RelayKey(1))]
    );
    // Nobody's.
    manager.handle(ms(130_000), Event::Gone(RelayKey(99)));
    manager.handle(ms(130_000), Event::Answered(RelayKey(1)));
    manager.handle(ms(130_000), Event::Answered(RelayKey(99)));
    lose(&mut manager, 130_000, RelayKey(99));
    assert_eq!(manager.counts().open, 3);
}

#[test]
fn limits_hold() {
    let config = ManagerConfig {
        max_relays: 5,
        max_open: 2,
        ..ManagerConfig::default()
    };
    let mut manager = with(config, 1000);
    let log = run(&mut manager, 60_000, 1000);
    // No room for more, so none are asked for.
    assert_eq!(log.len(), 5);
    assert_eq!(opened(&lose_direct(&mut manager, 60_000, 100.0)).len(), 2);
    for relay in relays(0..1000) {
        lose(&mut manager, 60_001, relay);
    }
    assert_eq!(lose_direct(&mut manager, 60_002, 100.0), []);
}

#[test]
fn seeds_decide_which_relays_come_first() {
    let first = |seed| {
        let mut manager = PathManager::new(ManagerConfig::default(), seed).unwrap();
        manager.handle(ms(0), Event::Relays(&relays(0..100)));
        manager.handle(ms(0), Event::DirectRtt(RTT));
        let log = run(&mut manager, 60_000, 100);
        let opened = lose_direct(&mut manager, 60_000, 40.0);
        (log, opened)
    };
    assert_eq!(first(1), first(1));
    assert_ne!(first(1).0, first(2).0);
    assert_ne!(first(1).1, first(2).1);
}

#[test]
fn a_bad_configuration_is_refused() {
    let fine = ManagerConfig::default();
    for (config, message) in [
        (
            fine.of_law(0.0, 2.0),
            "beta = 0 is out of range; allowed is more than 0, at most 1",
        ),
        (
            fine.of_law(1.01, 2.0),
            "beta = 1.01 is out of range; allowed is more than 0, at most 1",
        ),
        (
            fine.of_law(f64::NAN, 2.0),
            "beta = NaN is out of range; allowed is more than 0, at most 1",
        ),
        (
            ManagerConfig {
                probe_interval: Duration::ZERO,
                ..fine
            },
            "probe_interval = 0 is out of range; allowed is more than 0 s",
        ),
        (
            ManagerConfig {
                probe_patience: 0.9,
                ..fine
            },
            "probe_patience = 0.9 is out of range; allowed is 1 to 1000000",
        ),
        (
            ManagerConfig { strikes: 0, ..fine },
            "strikes = 0 is out of range; allowed is 1 or more",
        ),
        (
            ManagerConfig {
                max_open: 0,
                ..fine
            },
            "max_open = 0 is out of range; allowed is 1 or more",
        ),
        (
            ManagerConfig {
                max_relays: 0,
                ..fine
            },
            "max_relays = 0 is out of range; allowed is 1 or more",
        ),
        (
            ManagerConfig {
                poor_share: 2.0,
                ..fine
            },
            "poor_share = 2 is out of range; allowed is 0 to 1",
        ),
        (
            ManagerConfig {
                ask_again: Duration::ZERO,
                ..fine
            },
            "ask_again = 0 is out of range; allowed is more than 0 s",
        ),
    ] {
        let error = PathManager::new(config, 1).unwrap_err();
        assert_eq!(error.to_string(), format!("path manager: {message}"));
    }
}

//! Relays that are about to stop.

use super::*;

/// Bytes that the client has sent through a relay, whatever path that was.
fn through(net: &mut Relayed, relay: usize) -> u64 {
    let at = net.access[relay].relay.address;
    let paths = net.client_stats().paths;
    let there = paths.iter().filter(|path| path.remote == at);
    there.map(|path| path.bytes_sent).sum()
}

/// How long a relay that drains has to wait until nothing came for two seconds: then it ends.
fn empties(net: &mut Relayed, relay: usize) -> Duration {
    const QUIET: Duration = Duration::from_secs(2);
    let left = net.world.now();
    let (mut forwarded, mut last) = (net.relay(relay).forwarded(), left);
    while net.world.now() < last + QUIET && net.world.now() < left + 60_000 * MS {
        run_for(net, 100 * MS);
        let now = net.relay(relay).forwarded();
        if now > forwarded {
            (forwarded, last) = (now, net.world.now());
        }
    }
    net.world.now().since(left)
}

#[test]
fn a_relay_that_drains_is_left_and_nothing_is_lost() {
    for (seed, law) in [(50, "lia"), (51, "mpath")] {
        let link = mbps(10.0, 10);
        let mut net = started(net(
            seed,
            law,
            40 << 20,
            &[link.clone(), link.clone(), link],
        ));
        run_for(&mut net, 6000 * MS);
        assert_eq!(state_of(&mut net, 0), Some(PathState::Active), "{law}");
        net.relay(0).leave();
        // Two seconds of silence are needed, and what was under way has to get there.
        let took = empties(&mut net, 0);
        assert!(took < 5000 * MS, "{law}: {took:?}");
        let stale = net.relay(0).counters().stale;
        assert!((1..=4).contains(&stale), "{law}: {stale}");
        // Nothing is there any more that could be lost with it.
        let at = net.access[0].relay.address;
        let paths = net.client_stats().paths;
        let under_way = paths.iter().filter(|path| path.remote == at);
        assert!(under_way.clone().all(|path| path.bytes_in_flight == 0));
        assert_eq!(downs(&mut net), [], "{law}");
        net.relay(0).kill();
        complete(&mut net, 120_000 * MS);
    }
}

#[test]
fn a_relay_that_drains_is_left_by_a_listener_that_sends() {
    let link = mbps(10.0, 10);
    let config = Config::default();
    let net = Relayed::new(RelayedSpec {
        seed: 52,
        client: config.clone(),
        server: config,
        server_traffic: TrafficConfig {
            sources: vec![Source::default()],
            ..TrafficConfig::default()
        },
        links: vec![link.clone(), link],
        direct: Some(vec![0]),
        relays: vec![[vec![1], vec![]]],
        ..RelayedSpec::default()
    });
    let mut net = started(net.expect("a valid configuration"));
    run_for(&mut net, 6000 * MS);
    let before = net.relay(0).forwarded();
    run_for(&mut net, 1000 * MS);
    assert!(net.relay(0).forwarded() > before + 500);
    net.relay(0).leave();
    let took = empties(&mut net, 0);
    assert!(took < 5000 * MS, "{took:?}");
}

#[test]
fn relays_that_drain_are_used_while_there_is_nothing_else() {
    for (seed, law) in [(53, "lia"), (54, "mpath")] {
        let mut net = hidden(seed, law, 1 << 40);
        net.world.run_until(Time::from_millis(500));
        net.connect().expect("relays that fit");
        run_for(&mut net, 5000 * MS);
        net.relay(0).leave();
        net.relay(1).leave();
        let rate = goodput(&mut net, 1000 * MS, 20_000 * MS);
        // At least what one of them carries.
        assert!(rate > 900_000.0, "{law}: {rate}");
        assert!(net.client().traffic().closed().is_none());
    }
}

#[test]
fn a_relay_that_stays_after_all_is_used_again() {
    for (seed, law) in [(55, "lia"), (56, "mpath")] {
        let link = mbps(10.0, 10);
        let mut net = started(net(seed, law, 1 << 40, &[link.clone(), link]));
        run_for(&mut net, 6000 * MS);
        net.relay(0).leave();
        run_for(&mut net, 3000 * MS);
        let silent = through(&mut net, 0);
        run_for(&mut net, 1000 * MS);
        assert!(through(&mut net, 0) < silent + 5_000, "{law}");
        net.relay(0).restart();
        let back = net.world.now();
        let before = through(&mut net, 0);
        // mPath's manager lets a relay rest for a minute after its path was lost, and needs losses
        // then to open one again.
        let limit = MS * if law == "mpath" { 180_000 } else { 20_000 };
        while through(&mut net, 0) < before + 4_000_000 {
            assert!(net.world.now() < back + limit, "{law}");
            run_for(&mut net, 1000 * MS);
        }
    }
}

#[test]
fn a_forged_word_of_leaving_costs_little() {
    for (seed, law) in [(57, "lia"), (58, "mpath"), (59, "balia")] {
        let rate = |false_leaving| {
            let link = mbps(10.0, 10);
            let mut net = started(net(seed, law, 1 << 40, &[link.clone(), link]));
            net.relay(0).set_mischief(Mischief {
                false_leaving,
                ..Mischief::default()
            });
            goodput(&mut net, 5000 * MS, 30_000 * MS)
        };
        let (honest, forged) = (rate(0.0), rate(1.0));
        // A round trip of 20 ms and a queue in every five seconds, and the window is a little old
        // then.
        assert!(forged > 0.95 * honest, "{law}: {forged} of {honest}");
    }
}

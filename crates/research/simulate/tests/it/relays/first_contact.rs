//! Peers that only relays lead to each other.

use super::*;

#[test]
fn first_contact_without_any_direct_path() {
    // 8 MiB at 20 Mbps take 3.4 s without headers, and over one relay alone 6.8 s. With mPath's law
    // the second one is used as it proves useful: in time in 10 of 20 runs.
    for (seed, law, limit) in [(30, "lia", 6500), (31, "mpath", 7000)] {
        let mut net = hidden(seed, law, 8 << 20);
        net.world.run_until(Time::from_millis(500));
        net.connect().expect("relays that fit");
        let took = complete(&mut net, 60_000 * MS);
        assert!(took < limit * MS, "{law}: {took:?}");
        let stats = net.client_stats();
        let used = stats.paths.iter().filter(|p| p.stream_bytes_sent > 1 << 20);
        assert!(used.clone().all(|path| path.relay), "{stats:#?}");
        assert!(used.count() == 2 || law == "mpath", "{stats:#?}");
    }
}

#[test]
fn first_contact_waits_for_a_listener_that_comes_late_and_for_a_relay_that_works() {
    let mut net = hidden(32, "lia", 1 << 20);
    net.relay(0).kill();
    let server = net.server;
    net.world.set_frozen(server, true);
    net.connect().expect("relays that fit");
    net.world.run_until(Time::from_millis(3000));
    net.world.set_frozen(server, false);
    let took = complete(&mut net, 60_000 * MS);
    assert!(took < 12_000 * MS, "{took:?}");
}

#[test]
fn a_connection_without_any_direct_path_outlives_its_grants_and_a_restart() {
    let mut net = hidden(33, "lia", 1 << 40);
    net.world.run_until(Time::from_millis(500));
    net.connect().expect("relays that fit");
    for _ in 0..30 {
        let rate = goodput(&mut net, Duration::ZERO, 10_000 * MS);
        assert!(rate > 1_800_000.0, "{rate} at {:?}", net.world.now());
    }
    // Both at once, one of them without its keys: nothing gets through but to the relays
    // themselves.
    net.relay(0).kill();
    net.relay(1).kill();
    run_for(&mut net, 4000 * MS);
    net.relay(0).restart();
    net.relay(1).restart_forgetful();
    let rate = goodput(&mut net, 25_000 * MS, 10_000 * MS);
    assert!(rate > 1_800_000.0, "{rate}");
    assert!(net.client().traffic().closed().is_none());
}

/// The listener's NAT binds anew, or it roams, while every path leads through a relay: what it
/// sends isn't forwarded any more, since its grants are for the old address, and what is sent to it
/// doesn't arrive.
#[test]
fn a_listener_whose_address_changes_is_found_again_at_its_relays() {
    for (seed, to) in [(36, "10.0.0.2:50001"), (37, "198.51.100.7:4433")] {
        let mut net = hidden(seed, "lia", 1 << 40);
        net.world.run_until(Time::from_millis(500));
        net.connect().expect("relays that fit");
        run_for(&mut net, 10_000 * MS);
        let to: SocketAddr = to.parse().unwrap();
        for access in &net.access {
            let relay = access.relay.address;
            net.world.add_route(to, relay, Route::default());
            net.world.add_route(relay, to, Route::default());
        }
        let server = net.server;
        net.world.rebind(server, SocketId(0), to, false);
        let moved = net.world.now();
        let before = received_bytes(&mut net);
        while received_bytes(&mut net) == before {
            run_for(&mut net, 100 * MS);
            let took = net.world.now().since(moved);
            // The idle timeout is 30 s.
            assert!(took < 20_000 * MS, "{to}: {took:?}");
        }
        let rate = goodput(&mut net, 5000 * MS, 10_000 * MS);
        assert!(rate > 1_800_000.0, "{to}: {rate}");
        assert!(net.client().traffic().closed().is_none());
    }
}

#[test]
fn nobody_is_found_at_a_relay_without_the_ticket() {
    let mut net = hidden(34, "lia", 1 << 20);
    net.world.run_until(Time::from_millis(500));
    net.ticket.secret[0] ^= 1;
    net.connect().expect("relays that fit");
    net.world.run_until(Time::from_millis(20_000));
    assert!(net.client().traffic().connected().is_none());
    assert_eq!((net.relay(0).forwarded(), net.relay(1).forwarded()), (0, 0));
    assert!(net.relay(0).counters().refused > 0);
}

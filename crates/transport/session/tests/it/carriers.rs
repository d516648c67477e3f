//! Sessions over reliable pipes with a rate, a delay and a sender's buffer, as TCP connections are:
//! what the session does with paths that control congestion themselves.

use manyway_session::{
    Carrier, CarrierError, CarrierKind, Config, ConnectionHandle, Event, Facts, Incoming, LocalId,
    PathDownReason, PathEvent, PathState, Purpose,
};
use manyway_units::{Rate, Time};

use crate::net::{Flow, Net, address, carrier, only_tcp};

#[test]
fn a_transfer_over_one_carrier_needs_no_datagram() {
    let mut net = Net::new(only_tcp(), &[20.0]);
    let mut flow = Flow::open(&mut net, 5_000_000);
    flow.finish(&mut net, Time::from_millis(2500));
    assert_eq!(net.datagrams, 0);
    let path = net.path(0);
    assert_eq!(
        (path.carrier, path.state, path.window, path.group),
        (CarrierKind::Tcp, PathState::Active, 0.0, None)
    );
    let stats = net.stats(0);
    assert_eq!(
        (stats.paths.len(), stats.bytes_resent, path.packets_lost),
        (1, 0, 0)
    );
    // 16 KiB records: an ACK of each tenth is next to nothing.
    assert!(net.stats(1).paths[0].bytes_sent < 20_000);
}

/// The optimum is the sum of the capacities, less two bytes and a header per record.
#[test]
fn two_carriers_add_up() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, usize::MAX);
    flow.run(&mut net, Time::from_millis(5_000));
    let before = flow.read;
    flow.run(&mut net, Time::from_millis(35_000));
    let mbps = (flow.read - before) as f64 * 8.0 / 30e6;
    assert!(mbps > 0.97 * 30.0, "{mbps}");
    let controlled: Vec<_> = net.stats(0).paths.iter().map(|p| p.target).collect();
    assert!(controlled.iter().all(Option::is_some), "{controlled:?}");
    // 10 MB in flight would be 2.7 s of waiting: what is handed over stays near what the pipes
    // take.
    assert!(
        net.stats(0)
            .paths
            .iter()
            .all(|p| p.bytes_in_flight < 400_000)
    );
}

#[test]
fn a_carrier_that_grows_is_found() {
    let mut net = Net::new(only_tcp(), &[4.0, 10.0]);
    let mut flow = Flow::open(&mut net, usize::MAX);
    flow.run(&mut net, Time::from_millis(10_000));
    for pipe in net.pipes.get_mut(&LocalId(1000)).expect("there") {
        pipe.rate = 20e6 / 8.0;
    }
    // It is probed about every second time, and increased by a tenth and more: some twenty
    // intervals.
    flow.run(&mut net, Time::from_millis(40_000));
    let before = flow.read;
    flow.run(&mut net, Time::from_millis(60_000));
    let mbps = (flow.read - before) as f64 * 8.0 / 20e6;
    assert!(mbps > 0.9 * 30.0, "{mbps}");
}

#[test]
fn a_carrier_that_shrinks_takes_nothing_from_the_other() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, usize::MAX);
    flow.run(&mut net, Time::from_millis(10_000));
    net.pipes.get_mut(&LocalId(1000)).expect("there")[0].rate = 1e6 / 8.0;
    flow.run(&mut net, Time::from_millis(15_000));
    let before = flow.read;
    flow.run(&mut net, Time::from_millis(65_000));
    let mbps = (flow.read - before) as f64 * 8.0 / 50e6;
    assert!(mbps > 0.9 * 11.0, "{mbps}");
}

#[test]
fn a_broken_carriers_data_comes_by_the_other() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, 12_000_000);
    flow.run(&mut net, Time::from_millis(1500));
    assert!(net.path(0).bytes_in_flight > 0);
    net.kill(LocalId(1000));
    flow.finish(&mut net, Time::from_millis(12_000));
    let closed = |(_, event): &(ConnectionHandle, Event)| {
        matches!(
            event,
            Event::Path(PathEvent::Down {
                reason: PathDownReason::CarrierClosed,
                ..
            })
        )
    };
    assert!(net.events[0].iter().any(closed), "{:?}", net.events[0]);
    assert!(net.stats(0).bytes_resent > 0);
}

/// Somebody copies all that is under way onto a connection of his own, where it arrives first.
#[test]
fn packets_of_a_carriers_path_count_on_that_carrier_only() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, 3_000_000);
    flow.run(&mut net, Time::from_millis(500));
    let foreign = LocalId(5000);
    let carrier = carrier(1, foreign, Purpose::Accepted);
    let from = carrier.remote;
    net.ends[1].add_carrier(net.now, carrier).expect("taken");
    let flying = net.pipes.values().flat_map(|pipes| &pipes[0].flying);
    let mut copies: Vec<_> = flying.map(|(_, record)| record.clone()).collect();
    assert!(!copies.is_empty());
    let received = |net: &mut Net| -> Vec<u64> {
        let stats = net.stats(1);
        stats.paths.iter().map(|path| path.bytes_received).collect()
    };
    let before = received(&mut net);
    for data in &mut copies {
        let incoming = Incoming {
            local: foreign,
            remote: from,
            ecn: None,
            data,
        };
        net.ends[1].handle_datagram(net.now, incoming);
    }
    assert_eq!(received(&mut net), before);
    flow.finish(&mut net, Time::from_millis(4000));
}

#[test]
fn a_carrier_ends_with_the_socket_of_its_address() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let carriers = [LocalId(1000), LocalId(1001)];
    for id in carriers {
        let mut socket = carrier(0, id, Purpose::Accepted).local;
        socket.id = LocalId(id.0 - 1000);
        socket.addr.set_port(1);
        net.ends[0].add_local(net.now, socket);
    }
    let mut flow = Flow::open(&mut net, 12_000_000);
    flow.run(&mut net, Time::from_millis(1500));
    assert!(net.path(0).bytes_in_flight > 0);
    net.ends[0].remove_local(net.now, LocalId(0));
    assert_eq!(net.ends[0].poll_carrier_over(), Some(carriers[0]));
    assert_eq!(net.ends[0].poll_carrier_over(), None);
    let in_use = carriers.map(|carrier| net.ends[0].carrier_in_use(carrier));
    assert_eq!(in_use, [false, true]);
    let sent = net.path(0).bytes_sent;
    net.kill(carriers[0]);
    flow.finish(&mut net, Time::from_millis(12_000));
    let reason = net.events[0].iter().find_map(|(_, event)| match event {
        Event::Path(PathEvent::Down { reason, .. }) => Some(*reason),
        _ => None,
    });
    assert_eq!(reason, Some(PathDownReason::LocalGone));
    assert_eq!(net.path(0).bytes_sent, sent);
    assert!(net.stats(0).bytes_resent > 0);
}

#[test]
fn a_stuck_carriers_data_comes_by_the_other_and_it_may_come_back() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, 20_000_000);
    flow.run(&mut net, Time::from_millis(1500));
    net.pipes.get_mut(&LocalId(1000)).expect("there")[0].frozen = true;
    flow.run(&mut net, Time::from_millis(2400));
    let read = flow.read;
    // A second without progress, and what is missing comes by the other.
    flow.run(&mut net, Time::from_millis(3500));
    assert_eq!(net.path(0).state, PathState::Stalled);
    assert!(flow.read > read + 500_000, "{} {read}", flow.read);
    for pipe in net.pipes.get_mut(&LocalId(1000)).expect("there") {
        pipe.frozen = false;
        pipe.free = net.now;
    }
    flow.run(&mut net, Time::from_millis(4500));
    assert_eq!(net.path(0).state, PathState::Active);
    flow.finish(&mut net, Time::from_millis(12_000));
}

#[test]
fn all_carriers_gone_and_a_new_one_goes_on() {
    let mut net = Net::new(only_tcp(), &[20.0]);
    let mut flow = Flow::open(&mut net, 5_000_000);
    flow.run(&mut net, Time::from_millis(700));
    net.kill(LocalId(1000));
    flow.run(&mut net, Time::from_millis(3000));
    let read = flow.read;
    assert!(read < 5_000_000);
    net.dial(1, 20.0);
    flow.finish(&mut net, Time::from_millis(6000));
}

#[test]
fn the_only_carrier_is_given_up_when_it_is_stuck_for_long() {
    let mut net = Net::new(only_tcp(), &[20.0]);
    let mut flow = Flow::open(&mut net, 5_000_000);
    flow.run(&mut net, Time::from_millis(700));
    for pipe in net.pipes.get_mut(&LocalId(1000)).expect("there") {
        pipe.frozen = true;
    }
    flow.run(&mut net, Time::from_millis(4_000));
    assert_eq!(net.pipes.len(), 1, "it may yet go on");
    flow.run(&mut net, Time::from_millis(8_000));
    assert!(net.pipes.is_empty());
    net.dial(1, 20.0);
    flow.finish(&mut net, Time::from_millis(12_000));
}

#[test]
fn an_application_that_reads_nothing_stops_the_sender_and_no_carrier() {
    let config = Config {
        receive_window: 1 << 20,
        ..only_tcp()
    };
    let mut net = Net::new(config, &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, 8_000_000);
    flow.reads = false;
    flow.run(&mut net, Time::from_millis(20_000));
    let received = net.stats(1).bytes_received;
    // Copies of the last packets may come on top.
    assert!((900_000..1_600_000).contains(&received), "{received}");
    for pipe in net.pipes.values().flatten() {
        assert!(pipe.outbox.is_empty() && pipe.kernel.is_empty() && pipe.flying.is_empty());
    }
    flow.reads = true;
    flow.finish(&mut net, Time::from_millis(26_000));
}

#[test]
fn a_socket_that_takes_nothing_holds_a_bounded_amount() {
    // The return path is stuck too: the listener's ACKs pile up nowhere.
    let mut net = Net::new(only_tcp(), &[50.0]);
    let mut flow = Flow::open(&mut net, usize::MAX);
    flow.run(&mut net, Time::from_millis(1000));
    net.pipes.get_mut(&LocalId(1000)).expect("there")[1].frozen = true;
    flow.run(&mut net, Time::from_millis(2000));
    net.pipes.get_mut(&LocalId(1000)).expect("there")[0].frozen = true;
    flow.run(&mut net, Time::from_millis(20_000));
    for pipe in net.pipes.values().flatten() {
        assert!(
            pipe.most <= 16 * manyway_session::MAX_RECORD,
            "{}",
            pipe.most
        );
    }
    assert!(net.path(0).bytes_in_flight <= 16 << 20);
    for pipe in net.pipes.values_mut().flatten() {
        pipe.frozen = false;
    }
    flow.run(&mut net, Time::from_millis(22_000));
    assert!(flow.read > 5_000_000);
}

#[test]
fn a_limit_is_the_demand_and_carriers_share_it() {
    let config = Config {
        limit: Some(Rate::from_mbps(6.0)),
        ..only_tcp()
    };
    let mut net = Net::new(config, &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, usize::MAX);
    flow.run(&mut net, Time::from_millis(5_000));
    let before = flow.read;
    flow.run(&mut net, Time::from_millis(25_000));
    let mbps = (flow.read - before) as f64 * 8.0 / 20e6;
    assert!((5.7..=6.05).contains(&mbps), "{mbps}");
    let targets: f64 = net.stats(0).paths.iter().filter_map(|p| p.target).sum();
    assert!(targets * 8.0 <= 6e6 * 1.0001, "{targets}");
}

#[test]
fn carriers_that_promise_too_little_or_too_much_are_refused() {
    let mut net = Net::new(only_tcp(), &[20.0]);
    net.connected();
    let id = LocalId(7);
    let good = carrier(0, id, Purpose::Dialled(net.client));
    for facts in [
        Facts::datagrams(1200),
        Facts {
            reliable: false,
            ..Facts::stream()
        },
        Facts {
            max_packet: 1 << 20,
            ..Facts::stream()
        },
    ] {
        let wrong = Carrier {
            facts,
            ..good.clone()
        };
        let refused = net.ends[0].add_carrier(net.now, wrong);
        assert_eq!(refused, Err(CarrierError::Facts));
    }
    let taken = carrier(0, LocalId(1000), Purpose::Accepted);
    assert_eq!(
        net.ends[0].add_carrier(net.now, taken),
        Err(CarrierError::Taken)
    );
    // The listener opens no paths.
    let server = net.server().expect("connected");
    let listener = carrier(1, id, Purpose::Dialled(server));
    assert_eq!(
        net.ends[1].add_carrier(net.now, listener),
        Err(CarrierError::Unwanted)
    );
}

#[test]
fn packets_copied_onto_another_connection_change_nothing() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let mut flow = Flow::open(&mut net, 3_000_000);
    flow.run(&mut net, Time::from_millis(500));
    let before = net.stats(1);
    let foreign = LocalId(5000);
    net.ends[1]
        .add_carrier(net.now, carrier(1, foreign, Purpose::Accepted))
        .expect("taken");
    let copies: Vec<Vec<u8>> = net
        .pipes
        .values()
        .flat_map(|pipes| pipes[0].kernel.iter().map(|(_, record)| record.clone()))
        .collect();
    assert!(!copies.is_empty());
    for mut data in copies {
        let incoming = Incoming {
            local: foreign,
            remote: address(0, foreign),
            ecn: None,
            data: &mut data,
        };
        net.ends[1].handle_datagram(net.now, incoming);
    }
    assert!(!net.ends[1].carrier_in_use(foreign));
    let after = net.stats(1);
    assert_eq!(after.paths.len(), before.paths.len());
    flow.finish(&mut net, Time::from_millis(4000));
}

#[test]
fn a_close_is_heard_and_the_carriers_end() {
    let mut net = Net::new(only_tcp(), &[20.0, 10.0]);
    let server = net.connected();
    let (now, client) = (net.now, net.client);
    let connection = net.ends[0].connection(client).expect("alive");
    connection.close(now, 0x123, "enough");
    let heard = |(_, event): &(ConnectionHandle, Event)| match event {
        Event::Closed(reason) => reason.to_string().contains("enough"),
        _ => false,
    };
    while !net.events[1].iter().any(heard) {
        assert!(net.now < Time::from_millis(9000), "nothing heard");
        net.step(Time::from_millis(9000));
    }
    net.ends[0].forget(client);
    net.ends[1].forget(server);
    net.flush();
    assert!(net.pipes.is_empty());
}

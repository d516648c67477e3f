//! Path MTU discovery over links that drop what is too large, without a word.

use crate::common::{MS, Run, Setup, mbps};
use manyway_network::Loss;
use manyway_session::PathState;
use manyway_simulate::stack::SessionHost;
use manyway_simulate::{Impairments, World};

/// IPv4 and UDP headers.
const HEADERS: usize = World::<SessionHost>::HEADER_BYTES as usize;

fn packet_size(run: &mut Run, path: usize) -> usize {
    let paths = run.client_stats().paths;
    let mut open = paths.iter().filter(|p| p.state != PathState::Closed);
    open.nth(path).expect("a path").packet_size
}

/// Datagrams that were too large, in both directions.
fn too_large(run: &Run, path: usize) -> u64 {
    let (client, server) = run.pair.addresses[path];
    let one_way = |from, to| run.world.route_stats(from, to).expect("a route").too_large;
    one_way(client, server) + one_way(server, client)
}

#[test]
fn each_path_finds_what_it_carries() {
    // Interface, path, least size found.
    for (interface, mtu) in [
        (1500, 1500),
        (9000, 9000),
        (1500, 1280),
        (1500, 1420),
        (1500, 1492),
        (9000, 1500),
        (9000, 4096),
        (1400, 1500),
        (1228, 1228),
        (65_536, 65_536),
    ] {
        let mut run = Setup::new(1)
            .path(mbps(50.0, 10))
            .mtu(interface, mtu)
            .upload(8 << 20)
            .build();
        run.complete(20_000 * MS);
        let found = packet_size(&mut run, 0);
        // The library's own limit is that of jumbo frames.
        let most = (interface.min(mtu) as usize - HEADERS).min(8952);
        assert!(
            found <= most && found + 20 >= most,
            "{interface} and {mtu}: found {found} of {most}"
        );
        let stats = run.client_stats();
        let path = &stats.paths[0];
        // Probes that don't get through are no losses: what was lost, the queue has dropped.
        let dropped = run.world.link_stats(run.links[0][0]).dropped();
        assert!(path.packets_lost <= dropped, "{path:?}, {dropped}");
        // Three tries for each size that is too large, and few sizes.
        assert!(too_large(&run, 0) <= 30, "{}", too_large(&run, 0));
    }
}

#[test]
fn probes_that_vanish_do_not_touch_the_window() {
    let windows = |mtu| {
        let mut run = Setup::new(2)
            // Never a loss: the sender is limited by its application.
            .path(mbps(1000.0, 20))
            .config(|c| c.limit = Some("20 Mbps".parse().unwrap()))
            .mtu(1500, mtu)
            .upload(4 << 20)
            .build();
        run.complete(20_000 * MS);
        let path = run.client_stats().paths[0].clone();
        (path.loss_events, path.packets_lost, too_large(&run, 0))
    };
    assert_eq!(windows(1500), (0, 0, 0));
    let (events, lost, dropped) = windows(1300);
    assert_eq!((events, lost), (0, 0));
    assert!(dropped >= 6, "{dropped} probes were tried");
}

/// The path takes less from the third second on: it is noticed, and the transfer goes on with what
/// it takes.
#[test]
fn a_path_that_shrinks_is_no_black_hole() {
    for (paths, before, after) in [
        (1, 1500, 1300),
        (1, 9000, 1500),
        (2, 1500, 1300),
        (1, 1500, 1228),
    ] {
        let mut setup = Setup::new(3);
        for _ in 0..paths {
            setup = setup.path(mbps(20.0, 20));
        }
        let mut run = setup
            .mtu(before, before)
            .upload(16 << 20)
            .download(16 << 20)
            .build();
        run.run_for(2_000 * MS);
        let case = format!("{paths} path(s), {before} to {after}");
        assert!(
            packet_size(&mut run, 0) + HEADERS + 50 > before as usize,
            "{case}"
        );
        run.set_mtu(0, after);
        let got = |run: &Run| -> u64 { run.server().traffic().received().map(|r| r.bytes).sum() };
        let at_shrinking = got(&run);
        run.run_for(1_000 * MS);
        // 20 Mbps are 2.5 MB/s; within a second most of that flows again.
        let flowed = got(&run) - at_shrinking;
        assert!(flowed > 600_000, "{case}: {flowed} bytes");
        run.complete(30_000 * MS);
        let found = packet_size(&mut run, 0) + HEADERS;
        assert!(
            found <= after as usize && found + 20 >= after as usize,
            "{case}: found {found}"
        );
        if paths == 2 {
            assert!(
                packet_size(&mut run, 1) + HEADERS + 20 > before as usize,
                "{case}"
            );
        }
    }
}

/// A path that grows is found out about in ten minutes at the latest.
#[test]
fn a_path_that_grows_is_found_out_about() {
    let mut run = Setup::new(4)
        .path(mbps(1.0, 20))
        .mtu(1500, 1280)
        .upload(100 << 20)
        .build();
    run.run_for(20_000 * MS);
    assert!(packet_size(&mut run, 0) <= 1280 - HEADERS);
    run.set_mtu(0, 1500);
    run.run_for(560_000 * MS);
    assert!(
        packet_size(&mut run, 0) <= 1280 - HEADERS,
        "not before its time"
    );
    run.run_for(60_000 * MS);
    assert_eq!(packet_size(&mut run, 0), 1472);
}

/// Losses alone, of whatever kind, don't look like a path that carries little.
#[test]
fn losses_are_no_black_hole() {
    for loss in [0.01, 0.05] {
        let mut link = mbps(20.0, 20);
        link.loss = Loss::Bernoulli(loss);
        let mut run = Setup::new(5)
            .impaired(link, Impairments::default())
            .upload(4 << 20)
            .build();
        run.run_for(3_000 * MS);
        let mut small = 0;
        for _ in 0..100 {
            run.run_for(50 * MS);
            small += u32::from(packet_size(&mut run, 0) < 1472);
        }
        run.complete(60_000 * MS);
        assert!(
            small <= 10,
            "{loss}: {small} of 100 looks found small packets"
        );
    }
}

/// A path that is dark for a while comes back with the size it had.
#[test]
fn darkness_is_no_small_mtu() {
    let mut run = Setup::new(6).path(mbps(20.0, 20)).upload(16 << 20).build();
    run.run_for(2_000 * MS);
    assert_eq!(packet_size(&mut run, 0), 1472);
    run.set_path_up(0, false);
    run.run_for(1_500 * MS);
    run.set_path_up(0, true);
    run.run_for(3_000 * MS);
    assert_eq!(packet_size(&mut run, 0), 1472);
    run.complete(30_000 * MS);
}

/// Two paths of the same rate, one of small and one of large packets: the coupled law compares
/// bytes, and both are used up.
#[test]
fn paths_of_different_sizes_share_by_bytes() {
    let mut run = Setup::new(8)
        .path(mbps(20.0, 20))
        .path(mbps(20.0, 20))
        .mtu(9000, 9000)
        .upload(200 << 20)
        .build();
    run.set_mtu(1, 1500);
    run.run_for(20_000 * MS);
    let paths = run.client_stats().paths;
    assert_eq!(packet_size(&mut run, 0), 8952);
    assert!((1452..=1472).contains(&packet_size(&mut run, 1)));
    let seconds = run.world.now().as_secs_f64();
    for path in &paths {
        let share = path.bytes_sent as f64 * 8.0 / (20e6 * seconds);
        // Each has its link to itself; what is missing is the slow start and the time after cuts.
        assert!(share > 0.85, "{share}: {path:?}");
    }
}

/// What larger packets are for: the same link carries more of what it is paid for.
#[test]
fn larger_packets_carry_more() {
    let goodput = |mtu| {
        let mut run = Setup::new(7)
            .path(mbps(50.0, 10))
            .mtu(1500, mtu)
            .upload(200 << 20)
            .build();
        let got = |run: &Run| -> u64 { run.server().traffic().received().map(|r| r.bytes).sum() };
        run.run_for(5_000 * MS);
        let before = got(&run);
        run.run_for(20_000 * MS);
        (got(&run) - before) as f64 / 20.0
    };
    let (base, full) = (goodput(1228), goodput(1500));
    // Payload of a packet: 1500 − 28 − 14 − 16 − 8 = 1434 of 1500, and 1162 of 1228; that is a
    // factor of 1.0103.
    let gain = full / base;
    // A third of it for the moments after cuts in which the link idles.
    assert!((1.007..1.014).contains(&gain), "{gain}");
}

//! What a connection has seen of a path is for the next one (careful resume, RFC 9959).

use std::time::Duration;

use crate::interactive::Net;

/// A second connection between the same hosts starts from half of what the first one's path
/// carried: its first 600 ms bring at least half as much again.
#[test]
fn a_second_connection_starts_faster() {
    for (law, link) in [("auto", (100.0, 50)), ("lia", (100.0, 50))] {
        let mut net = Net::new(law, &[link]);
        let span = Duration::from_millis(600);
        net.run(net.now + span);
        let first = net.read;
        net.run(net.now + Duration::from_secs(5));
        net.reconnect();
        let before = net.read;
        net.run(net.now + span);
        let second = net.read - before;
        assert!(
            second as f64 >= 1.5 * first as f64,
            "{law}: {second} bytes after {first}"
        );
    }
}

//! Files for flows that are production sessions.

use manyway_control::Scheduler;
use manyway_scenario::{Scenario, Sealing};

const GOOD: &str = "name = \"good\"
duration = \"60 s\"

[links.wifi]
rate = \"50 Mbps\"
delay = \"10 ms\"

[links.5g]
rate = \"100 Mbps\"
delay = \"20 ms\"

[paths.p1]
links = [\"wifi\"]

[paths.p2]
links = [\"5g\"]

[defaults]
law = \"lia\"

[flows.phone]
paths = [\"p1\", \"p2\"]

[flows.desk]
paths = [\"p2\"]
";

/// Values that sessions have, and others that they have a setting for.
#[test]
fn what_sessions_have_may_be_written() {
    let all = "loss_detection = \"adaptive\"
retransmission_timeout = \"probe\"
growth = \"bytes\"
recovery = \"hold\"
initial_window = \"10 packets\"
packet_size = \"1228 B\"
pacing = false
slow_start = \"standard\"
ack_every = \"2 packets\"
ack_delay = \"25 ms\"
ecn = true
scheduler = \"blest\"
receive_buffer = \"64 KiB\"
size = \"1 MB\"
pause = \"1 s\"
rate = \"1 Mbps\"
jitter = \"1 ms\"
extra_delay = \"1 ms\"
access = { rate = \"10 Mbps\" }
";
    let text = GOOD.replace("[flows.phone]\n", &format!("[flows.phone]\n{all}"));
    let scenario = Scenario::parse(&text, "x.toml").unwrap();
    let points = scenario.session_points().unwrap();
    let flow = &points[0].experiment.flows[0];
    assert_eq!((flow.ack.every, flow.sender.packet_size), (2, 1228));
    assert_eq!(flow.session.scheduler, Scheduler::Blest);
    assert_eq!(flow.session.receive_buffer, Some(65_536));
    // It is the same to the packet level, but for the headers.
    let mut packet = scenario.points().unwrap()[0].experiment.flows[0].clone();
    packet.headers = flow.headers;
    assert_eq!(*flow, packet);
}

#[test]
fn what_sessions_have_not_is_refused() {
    let cases = [
        "loss_detection = \"fixed\"",
        "retransmission_timeout = { tcp = { min = \"1 s\" } }",
        "growth = \"acks\"",
        "recovery = \"grow\"",
        "initial_window = \"2 packets\"",
        "window_floor = \"1 packet\"",
        "threshold_floor = \"2 packets\"",
        "headers = \"40 B\"",
        "ack_size = \"40 B\"",
        "receive_times = false",
        "packet_size = \"576 B\"",
        "packet_size = \"65535 B\"",
        "receive_buffer = \"65535 B\"",
    ];
    let mut transcript = String::new();
    let mut refuse = |change: &str, text: String| {
        let scenario = Scenario::parse(&text, "scenarios/x.toml").unwrap();
        scenario.points().unwrap_or_else(|error| panic!("{error}"));
        let error = scenario.session_points().unwrap_err();
        transcript += &format!("{change}\n{error}\n\n");
    };
    for case in cases {
        refuse(case, GOOD.replace("law =", &format!("{case}\nlaw =")));
    }
    let managed = "[flows.phone]\nlaw = \"mpath\"\nrelays = { max_open = 3 }";
    let managed = GOOD.replace("[flows.phone]", managed);
    refuse("relays = { max_open = 3 }", managed);
    let relay = "paths = [\"p1\", { path = \"p2\", relay = true, stop = \"5 s\" }]";
    refuse(relay, GOOD.replace("paths = [\"p1\", \"p2\"]", relay));
    let own = "[flows.desk]\nrecovery = \"grow\"\nwindow_floor = \"1 packet\"";
    refuse(own, GOOD.replace("[flows.desk]", own));
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(transcript) });
}

#[test]
fn relays_files_and_sealing_are_the_sessions_own() {
    let paths = "paths = [\"p1\", { path = \"p2\", relay = true }]";
    let more = "size = \"1 MB\"\nfiles = 10\nsealing = \"checksum\"\n";
    let text = GOOD.replace("paths = [\"p1\", \"p2\"]", &format!("{paths}\n{more}"));
    let points = Scenario::parse(&text, "x.toml").unwrap().session_points();
    let session = &points.unwrap()[0].experiment.flows[0].session;
    assert_eq!((&session.relayed[..], session.files), (&[1][..], Some(10)));
    assert_eq!(session.sealing, Sealing::Checksum);
    // With a path manager, all but the direct path are relayed.
    let managed = GOOD.replace("\"lia\"", "\"mpath\"");
    let points = Scenario::parse(&managed, "x.toml")
        .unwrap()
        .session_points();
    let flows = &points.unwrap()[0].experiment.flows;
    assert_eq!(
        [&flows[0], &flows[1]].map(|flow| flow.session.relayed.len()),
        [1, 0]
    );
    let refused = |from: &str, to: &str, expected: &str| {
        let scenario = Scenario::parse(&GOOD.replace(from, to), "x.toml").unwrap();
        let error = scenario.points().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let two = "paths = [\"p1\", \"p2\"]";
    let first = "paths = [{ path = \"p1\", relay = true }, \"p2\"]";
    refused(two, first, "the first path is the direct one");
    refused(two, &format!("{two}\nfiles = 3"), "give it a fixed size");
    refused(
        two,
        &format!("{two}\nfiles = 0\nsize = \"1 MB\""),
        "0 files are out of range",
    );
    refused(
        two,
        &format!("{two}\nfiles = 9\nsize = \"8 B\""),
        "at least a byte for each",
    );
}

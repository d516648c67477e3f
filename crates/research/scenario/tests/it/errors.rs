//! What is said about scenarios that can't be run, word for word.

use std::fmt::Write;
use std::path::Path;

use manyway_control::registry;
use manyway_scenario::{Scenario, ScenarioError};

/// The messages of a test's cases, in a file of the test's name.
macro_rules! snapshot {
    ($transcript:expr) => {
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($transcript) })
    };
}

const GOOD: &str = r#"name = "good"
duration = "60 s"

[links.wifi]
rate = "50 Mbps"
delay = "10 ms"
queue = "100 packets"

[links.5g]
rate = "100 Mbps"
delay = "20 ms"

[paths.p1]
links = ["wifi"]

[paths.p2]
links = ["5g"]

[defaults]
law = "lia"

[flows.phone]
paths = ["p1", "p2"]
start = "5 s"

[flows.desk]
law = "reno"
paths = ["p2"]
"#;

/// The good scenario with `from` replaced by `to`; an empty `from` appends.
fn changed(from: &str, to: &str) -> String {
    if from.is_empty() {
        return format!("{GOOD}{to}\n");
    }
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}

fn run(text: &str, assignments: &[&str]) -> Result<(), ScenarioError> {
    let mut scenario = Scenario::parse(text, "scenarios/x.toml")?;
    for assignment in assignments {
        scenario.set(assignment)?;
    }
    scenario.points().map(drop)
}

/// The message; the list of all laws, which grows, is left out.
fn message(result: Result<(), ScenarioError>) -> String {
    let message = match result {
        Ok(()) => "FINE".to_owned(),
        Err(error) => error.to_string(),
    };
    let names: Vec<_> = registry::laws().map(|law| law.name()).collect();
    message.replace(&names.join(", "), "(all laws)")
}

fn transcript(cases: &[(&str, &str)]) -> String {
    let mut transcript = String::new();
    for (from, to) in cases {
        let (from, to) = (from.trim(), to.trim());
        let change = match from {
            "" => format!("+ {}", to.replace('\n', "\n+ ")),
            _ => format!(
                "- {}\n+ {}",
                from.replace('\n', "\n- "),
                to.replace('\n', "\n+ ")
            ),
        };
        let said = message(run(&changed(from, to), &[]));
        writeln!(transcript, "{change}\n{said}\n").unwrap();
    }
    transcript
}

#[test]
fn the_good_one_is_good() {
    assert_eq!(message(run(GOOD, &[])), "FINE");
}

#[test]
fn texts_that_are_no_scenario() {
    let mut transcript = String::new();
    let deep = format!("name = \"x\"\n{}a = 1", "a.".repeat(20));
    let long = "x".repeat(17 << 20);
    let texts = [
        ("empty", ""),
        ("not TOML", "name = \"x\"\nlinks {"),
        ("a key twice", "name = \"x\"\nname = \"y\""),
        ("JSON", "{\"name\": \"x\"}"),
        (
            "a number that is too large",
            "name = \"x\"\nseed = 99999999999999999999",
        ),
        ("too deep", &deep),
        ("too large", &long),
    ];
    for (what, text) in texts {
        writeln!(transcript, "# {what}\n{}\n", message(run(text, &[]))).unwrap();
    }
    snapshot!(transcript);
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let said = |path: &Path| {
        let message = Scenario::load(path).unwrap_err().to_string();
        message.replace(&folder.path().display().to_string(), "DIR")
    };
    assert_eq!(
        said(&folder.path().join("none.toml")),
        "DIR/none.toml: can't be read: No such file or directory (os error 2)"
    );
    assert_eq!(
        said(folder.path()),
        "DIR: is a directory: name the scenario file in it"
    );
    assert_eq!(
        said(&file("latin1.toml", b"name = \"x\"\nabout = \"caf\xe9\"\n")),
        "DIR/latin1.toml: is not UTF-8 text: line 2 has a byte that can't be in it"
    );
    assert_eq!(
        said(&file("huge.toml", &vec![b'#'; (16 << 20) + 1])),
        "DIR/huge.toml: is larger than 16 MiB, the most that a scenario may have"
    );
    assert!(said(&file("ok.toml", b"nam = \"x\"")).contains("ok.toml:1:1: nam: unknown key"));
}

#[test]
fn keys_and_types() {
    snapshot!(transcript(&[
        ("", "colour = \"red\""),
        ("queue = \"100 packets\"", "qeue = \"100 packets\""),
        ("start = \"5 s\"", "strat = \"5 s\""),
        ("[links.5g]", "[links.\"5 g\"]"),
        ("[paths.p2]", "[paths.\"pfad-ü\"]"),
        ("[paths.p2]", "[paths.\"a.b\"]"),
        ("name = \"good\"", "name = 5"),
        ("name = \"good\"", "name = \"\""),
        ("name = \"good\"", "seed = -1\nname = \"good\""),
        ("name = \"good\"", "repeat = \"ten\"\nname = \"good\""),
        ("paths = [\"p1\", \"p2\"]", "paths = \"p1\""),
        ("paths = [\"p1\", \"p2\"]", "paths = [1]"),
        ("start = \"5 s\"", "pacing = \"no\""),
        ("start = \"5 s\"", "slow_start = \"fast\""),
        ("start = \"5 s\"", "slow_start = true"),
        ("start = \"5 s\"", "count = 2.5"),
        ("start = \"5 s\"", "count = -3"),
        ("[links.wifi]", "links = 3\n[links2.wifi]"),
        ("[flows.desk]", "[[flows.desk]]"),
        ("", "[measure]\nseries = [\"rate\", \"windows\"]"),
        ("duration = \"60 s\"", "duration = 2020-01-01"),
    ]));
}

#[test]
fn units() {
    snapshot!(transcript(&[
        ("rate = \"50 Mbps\"", "rate = 50"),
        ("rate = \"50 Mbps\"", "rate = \"50\""),
        ("rate = \"50 Mbps\"", "rate = \"50 Mpbs\""),
        ("rate = \"50 Mbps\"", "rate = \"fast\""),
        ("rate = \"50 Mbps\"", "rate = nan"),
        ("rate = \"50 Mbps\"", "rate = true"),
        ("delay = \"10 ms\"", "delay = 0.01"),
        ("delay = \"10 ms\"", "delay = \"-10 ms\""),
        ("delay = \"10 ms\"", "delay = \"500 d\""),
        ("queue = \"100 packets\"", "queue = 100"),
        ("queue = \"100 packets\"", "queue = \"100\""),
        ("queue = \"100 packets\"", "queue = \"1.5 packets\""),
        ("queue = \"100 packets\"", "queue = \"100 pakets\""),
        ("queue = \"100 packets\"", "queue = true"),
        ("rate = \"50 Mbps\"", "rate = \"50 Ebps\""),
        ("rate = \"50 Mbps\"", "rate = \"10.1 Tbps\""),
        ("start = \"5 s\"", "packet_size = 1500"),
        ("start = \"5 s\"", "packet_size = \"1500\""),
        ("start = \"5 s\"", "initial_window = 10"),
        ("start = \"5 s\"", "initial_window = \"ten packets\""),
        ("start = \"5 s\"", "ack_every = 2"),
        ("start = \"5 s\"", "ack_every = \"1.5 packets\""),
    ]));
}

#[test]
fn links() {
    snapshot!(transcript(&[
        ("rate = \"50 Mbps\"", "rate = \"0 Mbps\""),
        ("rate = \"50 Mbps\"", ""),
        ("delay = \"20 ms\"", ""),
        ("queue = \"100 packets\"", "queue = \"0 packets\""),
        ("queue = \"100 packets\"", "queue = \"1 kB\""),
        ("queue = \"100 packets\"", "queue = {}"),
        ("queue = \"100 packets\"", "queue = { blue = 1 }"),
        (
            "queue = \"100 packets\"",
            "queue = { red = { limit = \"100 packets\" } }"
        ),
        (
            "queue = \"100 packets\"",
            "queue = { red = { limit = \"100 packets\", min = \"50 packets\", \
             max = \"20 packets\" } }",
        ),
        (
            "queue = \"100 packets\"",
            "queue = { codel = { limit = \"100 packets\" }, drr = { limit = \"9 kB\" } }",
        ),
        (
            "queue = \"100 packets\"",
            "queue = { codle = { limit = \"100 packets\" } }",
        ),
        ("queue = \"100 packets\"", "queue = { codel = {} }"),
        (
            "queue = \"100 packets\"",
            "queue = { codel = { limit = \"0 packets\" } }",
        ),
        (
            "queue = \"100 packets\"",
            "queue = { codel = { limit = \"9 packets\", interval = \"4 ms\" } }",
        ),
        (
            "queue = \"100 packets\"",
            "queue = { pie = { limit = \"9 packets\", update = \"0 s\" } }",
        ),
        (
            "queue = \"100 packets\"",
            "queue = { fq_codel = { limit = \"9 packets\", queues = 0 } }",
        ),
        (
            "queue = \"100 packets\"",
            "queue = { drr = { limit = \"9 packets\", quantum = \"1 B\" } }",
        ),
        (
            "queue = \"100 packets\"",
            "queue = { priority = { limit = \"1 kB\" } }",
        ),
        ("start = \"5 s\"", "class = 8"),
        (
            "start = \"5 s\"",
            "access = { rate = \"9 Mbps\", queue = { codel = { limit = \"9 packets\" } } }",
        ),
        (
            "queue = \"100 packets\"",
            "queue = { red = { limit = \"100 packets\", min = 5, max = \"20 packets\" } }",
        ),
        (
            "queue = \"100 packets\"",
            "queue = { red = { limit = \"100 packets\", min = \"5 packets\", max = \"30 kB\", \
             max_p = 1.5 } }",
        ),
        (
            "queue = \"100 packets\"",
            "queue = { red = { limit = \"100 packets\", min = \"5 packets\", max = \"30 kB\", \
             weight = \"light\" } }",
        ),
        ("queue = \"100 packets\"", "loss = 1.0"),
        ("queue = \"100 packets\"", "loss = \"1 %\""),
        ("queue = \"100 packets\"", "loss = nan"),
        (
            "queue = \"100 packets\"",
            "loss = { every = \"9 packets\", bad = 0.5 }",
        ),
        ("queue = \"100 packets\"", "loss = { every = \"1 packet\" }"),
        ("start = \"5 s\"", "initial_threshold = \"0 packets\""),
        ("start = \"5 s\"", "unresponsive = true\nsize = \"1 MB\""),
        ("queue = \"100 packets\"", "loss = { good_to_bad = 0.1 }"),
        (
            "queue = \"100 packets\"",
            "loss = { good_to_bad = 0.1, bad_to_good = 0.0 }"
        ),
        (
            "queue = \"100 packets\"",
            "loss = { good_to_bad = 2, bad_to_good = 0.1 }"
        ),
        (
            "queue = \"100 packets\"",
            "timetable = [{ rate = \"1 Mbps\" }]"
        ),
        ("queue = \"100 packets\"", "timetable = [{ at = \"1 s\" }]"),
        (
            "queue = \"100 packets\"",
            "timetable = [\n  { at = \"20 s\", up = false },\n  { at = \"10 s\", up = true },\n]",
        ),
        (
            "queue = \"100 packets\"",
            "timetable = [{ at = \"1 s\", rate = \"0 bps\" }]"
        ),
        ("queue = \"100 packets\"", "timetable_period = \"10 s\""),
        (
            "queue = \"100 packets\"",
            "timetable = [{ at = \"1 s\", up = false }]\ntimetable_period = \"500 ms\"",
        ),
    ]));
}

#[test]
fn random_traffic() {
    let cases = [
        "size = { normal = \"1 MB\" }",
        "size = {}",
        "size = { exponential = \"1 MB\", published = \"web-search\" }",
        "size = { exponential = \"0 B\" }",
        "size = { published = \"web\" }",
        "size = { pareto = { mean = \"1 MB\" } }",
        "size = { pareto = { mean = \"1 MB\", shape = 1 } }",
        "size = { file = \"no-such-file.txt\" }",
        "size = { exponential = \"1 MB\" }\nfiles = 3",
        "size = \"1 MB\"\nfiles = 3\npause = \"1 s\"",
        "stagger = { published = \"web-search\" }",
        "stagger = { exponential = \"1 ns\" }",
        "stagger = { exponential = \"0 s\" }",
        "stagger = { pareto = { mean = \"1 ms\", shape = 1.0001 } }",
        "pause = \"1 s\"",
        "law = \"mpath\"\nsize = \"1 MB\"\npause = \"1 s\"",
        "rate = \"1 Mbps\"\nunresponsive = true\nsize = \"1 MB\"",
    ];
    let changes: Vec<_> = cases
        .iter()
        .map(|case| ("start = \"5 s\"", *case))
        .collect();
    snapshot!(transcript(&changes));
}

#[test]
fn paths() {
    snapshot!(transcript(&[
        ("links = [\"wifi\"]", "links = [\"wify\"]"),
        (
            "links = [\"wifi\"]",
            "links = [\"satellite\", \"5g\", \"moon\"]"
        ),
        ("links = [\"wifi\"]", "links = []"),
        ("links = [\"wifi\"]", ""),
        ("links = [\"wifi\"]", "links = [\"wifi\", \"5g\", \"wifi\"]"),
        (
            "links = [\"wifi\"]",
            "links = [\"wifi\"]\nreverse = [\"5h\"]"
        ),
        ("paths = [\"p1\", \"p2\"]", "paths = [\"p1\", \"p3\"]"),
        ("paths = [\"p1\", \"p2\"]", "paths = [\"p1\", \"p1\"]"),
        ("paths = [\"p1\", \"p2\"]", "paths = []"),
        ("paths = [\"p1\", \"p2\"]", ""),
        ("paths = [\"p1\", \"p2\"]", "paths = [{ start = \"1 s\" }]"),
        (
            "paths = [\"p1\", \"p2\"]",
            "paths = [\"p1\", { path = \"p2\", at = \"1 s\" }]"
        ),
    ]));
}

#[test]
fn flows() {
    snapshot!(transcript(&[
        ("law = \"lia\"", "law = \"ballia\""),
        ("law = \"lia\"", "law = 5"),
        ("law = \"lia\"", ""),
        ("law = \"reno\"", "law = { a = 1 }"),
        ("law = \"reno\"", "law = { name = \"ewtcp\", b = 1 }"),
        ("law = \"reno\"", "law = { name = \"ewtcp\", a = -1 }"),
        ("law = \"reno\"", "law = { name = \"ewtcp\", a = \"1\" }"),
        ("law = \"reno\"", "law = \"ewtcp:a=x\""),
        ("law = \"lia\"", "law = \"bmc:d1=1\""),
        ("start = \"5 s\"", "start = \"5 s\"\nstop = \"5 s\""),
        (
            "start = \"5 s\"",
            "count = 30\nstagger = \"1 s\"\nstart_spread = \"1 s\"\nstop = \"25 s\""
        ),
        ("start = \"5 s\"", "start = \"60 s\""),
        (
            "start = \"5 s\"",
            "start = \"5 s\"\nstart_spread = \"55 s\"",
        ),
        ("start = \"5 s\"", "count = 100\nstagger = \"1 s\""),
        ("start = \"5 s\"", "count = 1_000_000_000"),
        (
            "start = \"5 s\"",
            "count = 4294967295\naccess = { rate = \"1 Gbps\" }"
        ),
        ("start = \"5 s\"", "count = 99999999999"),
        ("start = \"5 s\"", "size = \"0 B\""),
        ("start = \"5 s\"", "rate = \"0 bps\""),
        ("start = \"5 s\"", "packet_size = \"50 B\""),
        ("start = \"5 s\"", "packet_size = \"1 MB\""),
        ("start = \"5 s\"", "headers = \"1500 B\""),
        ("law = \"lia\"", "law = \"lia\"\nheaders = \"2 kB\""),
        ("start = \"5 s\"", "access = { delay = \"1 ms\" }"),
        (
            "start = \"5 s\"",
            "access = { rate = \"1 Mbps\", queue = \"100 B\" }"
        ),
        ("start = \"5 s\"", "initial_window = \"0.5 packets\""),
        ("start = \"5 s\"", "window_floor = \"0 packets\""),
        ("start = \"5 s\"", "ack_every = \"0 packets\""),
        ("start = \"5 s\"", "ack_delay = \"2 s\""),
        ("start = \"5 s\"", "ack_size = \"0 B\""),
        (
            "paths = [\"p1\", \"p2\"]",
            "paths = [\"p1\", { path = \"p2\", start = \"70 s\" }]"
        ),
        (
            "paths = [\"p1\", \"p2\"]",
            "paths = [\"p1\", { path = \"p2\", stop = \"3 s\" }]"
        ),
        ("[flows.phone]", "[flows]\n[other.phone]"),
    ]));
    let none = GOOD
        .replace("start = \"5 s\"", "count = 0")
        .replace("law = \"reno\"", "count = 0");
    assert_eq!(
        message(run(&none, &[])),
        "scenarios/x.toml:22:2: flows: no flows: a scenario needs at least one, with a `count` of \
         at least 1"
    );
}

#[test]
fn measurements() {
    snapshot!(transcript(&[
        ("duration = \"60 s\"", "duration = \"0 s\""),
        ("duration = \"60 s\"", ""),
        ("duration = \"60 s\"", "duration = \"60 s\"\nrepeat = 0"),
        (
            "duration = \"60 s\"",
            "duration = \"60 s\"\nrepeat = 1000000"
        ),
        ("", "[measure]\nfrom = \"60 s\""),
        ("", "[measure]\nfrom = \"30 s\"\nuntil = \"20 s\""),
        ("", "[measure]\nuntil = \"70 s\""),
        ("", "[measure]\ninterval = \"0 s\""),
        ("", "[measure]\ninterval = \"1 us\"\nseries = [\"rate\"]"),
        ("", "[measure]\nseries = [\"rate\", \"rtt\", \"rate\"]"),
        ("", "[measure]\nspans = [{ name = \"a\", from = \"0 s\" }]"),
        (
            "",
            "[measure]\nspans = [{ name = \"a\", from = \"2 s\", until = \"1 s\" }]"
        ),
        (
            "",
            "[measure]\nspans = [{ name = \"a\", from = \"2 s\", until = \"61 s\" }]"
        ),
        (
            "",
            "[[measure.spans]]\nname = \"a\"\nfrom = \"2 s\"\nuntil = \"6 \
             s\"\n[[measure.spans]]\nname = \"a\"\nfrom = \"2 s\"\nuntil = \"6 s\"",
        ),
    ]));
}

#[test]
fn sweeps() {
    let hundred = format!("[{}]", "\"1 ms\", ".repeat(100));
    let large = format!(
        "[sweep]\n\"links.wifi.delay\" = {hundred}\n\"links.5g.delay\" = \
         {hundred}\n\"paths.p1.return_delay\" = {hundred}"
    );
    let said = message(run(&changed("", &large), &[]));
    assert_eq!(
        said,
        "scenarios/x.toml:29:1: sweep: 100 × 100 × 100 combinations are too many: at most 100000 \
         are possible"
    );
    snapshot!(transcript(&[
        ("name = \"good\"", "sweep = 5\nname = \"good\""),
        ("", "[sweep]\nlaw = \"lia\""),
        ("", "[sweep]\nlaw = []"),
        ("", "[sweep]\nlaw = [\"lia\", \"ballia\"]"),
        ("", "[sweep]\nqueue = [\"10 packets\"]"),
        ("", "[sweep]\ndelai = [\"10 ms\"]"),
        ("", "[sweep]\n\"links.wify.rate\" = [\"10 Mbps\"]"),
        ("", "[sweep]\nlinks.wifi.rate = [\"10 Mbps\", \"20\"]"),
        ("", "[sweep]\n\"links.wifi.rat\" = [\"10 Mbps\"]"),
        ("", "[sweep]\n\"links.wifi.rate.x\" = [\"10 Mbps\"]"),
        ("", "[sweep]\n\"links.wifi.timetable[0].at\" = [\"10 s\"]"),
        ("", "[sweep]\n\"links..rate\" = [\"10 Mbps\"]"),
        ("", "[sweep]\n\"measure.*.from\" = [\"10 s\"]"),
        ("", "[sweep]\n\"*.wifi.rate\" = [\"10 Mbps\"]"),
        ("", "[sweep]\nsweep = [1]"),
        ("", "[sweep]\n\"sweep.law\" = [[\"lia\"]]"),
        ("", "[sweep]\nseed = [1, 2]"),
        ("", "[sweep]\nname = [\"a\"]"),
        (
            "",
            "[sweep]\nlaw = [\"lia\"]\n\"defaults.law\" = [\"reno\"]"
        ),
        (
            "",
            "[sweep]\n\"links.wifi.rate\" = [\"1 Mbps\"]\nlinks.wifi.rate = [\"2 Mbps\"]"
        ),
        (
            "",
            "[sweep]\n\"links.wifi\" = [{ rate = \"1 Mbps\", delay = \"1 ms\" }]\n\
             \"links.wifi.rate\" = [\"1 Mbps\"]"
        ),
        (
            "",
            "[sweep]\n\"links.*.rate\" = [\"1 Mbps\"]\n\"links.wifi.rate\" = [\"1 Mbps\"]"
        ),
        ("", "[sweep]\nheaders = [\"52 B\", \"3 kB\"]"),
        (
            "",
            "[sweep]\nlaw = [\"lia\", \"balia\"]\n\"flows.phone.stop\" = [\"50 s\", \"2 s\"]"
        ),
        ("", "[sweep]\npaths = [[\"p1\"]]"),
        ("", "[sweep]\ncases = [3]"),
        ("", "[sweep]\ncases = [{ name = \"a\" }, { law = \"lia\" }]"),
        ("", "[sweep]\ncases = [{ law = \"lia\" }, { name = \"a\" }]"),
        ("", "[sweep]\ncases = [{ name = \"a\" }, { name = \"a\" }]"),
        ("", "[sweep]\ncases = [{ name = 5 }]"),
        (
            "",
            "[sweep]\ncases = [{ law = \"lia\", \"defaults.law\" = \"reno\" }]"
        ),
        (
            "",
            "[sweep]\nlaw = [\"lia\"]\ncases = [{ duration = \"30 s\" }, { law = \"reno\" }]"
        ),
        ("", "[sweep]\n\"flows.*.count\" = [1, 50000, 60000]"),
    ]));
}

#[test]
fn assignments() {
    let mut transcript = String::new();
    for assignments in [
        &["law"][..],
        &["law="],
        &["=lia"],
        &["law=ballia"],
        &["lw=balia"],
        &["links.wifi.rate=20"],
        &["links.wifi.rate=[1"],
        &["links.wify.rate=20 Mbps"],
        &["links.new={}"],
        &["links={}"],
        &["links.\u{1b}[31mwifi.rate=1 Mbps"],
        &["links.*.rate=0 bps"],
        &["flows.phone.paths[1]=p3"],
        &["flows.phone.paths[2]=p1"],
        &["flows.phone.start[0]=p1"],
        &["paths=p1"],
        &["seed=-1"],
        &["repeat=0"],
        &["duration=3 s"],
        &["sweep.law=lia"],
        &["sweep.law=[\"lia\", \"x\"]"],
        &["law=balia", "flows.phone.count=1000000"],
        &["seed=999999999999999999999999999999"],
    ] {
        let said = message(run(GOOD, assignments));
        writeln!(
            transcript,
            "--set {}\n{said}\n",
            assignments.join(" --set ").replace('\u{1b}', "␛")
        )
        .unwrap();
    }
    snapshot!(transcript);
}

#[test]
fn relays() {
    let flow = |lines: &str| changed("start = \"5 s\"", lines);
    let mut transcript = String::new();
    for lines in [
        "law = \"mpath\"\nrelays = { subset = 20, max_known = 50, max_open = 16, \
         reuse = \"best-idle\", rest = \"10 s\" }",
        "relays = { subset = 20 }",
        "law = \"mpath\"\npaths = [\"p1\"]\nrelays = {}",
        "law = \"mpath\"\nrelays = { subset = 0, max_known = 0, max_open = 0 }",
        "law = \"mpath:tau=0.5\"",
        "law = \"mpath\"\nrelays = { reuse = \"idle\", rest = 60, most = 3 }",
        "law = \"mpath\"\nrelays = 20",
        "law = \"mpath\"\npaths = [\"p1\", { path = \"p2\", start = \"10 s\" }]",
    ] {
        // The flow's own lines come before those it had.
        let text = match lines.contains("paths") {
            true => flow(lines).replacen("paths = [\"p1\", \"p2\"]\n", "", 1),
            false => flow(lines),
        };
        let said = message(run(&text, &[]));
        writeln!(transcript, "{lines}\n{said}\n").unwrap();
    }
    snapshot!(transcript);
}

#[test]
fn all_problems_at_once() {
    let text = changed("rate = \"50 Mbps\"", "rate = 50")
        .replace("delay = \"20 ms\"", "delay = 20")
        .replace("law = \"lia\"", "law = \"li\"\npace = true")
        .replace("start = \"5 s\"", "start = 5\ncount = \"many\"");
    let bad_sense = changed("links = [\"wifi\"]", "links = [\"wify\"]")
        .replace("links = [\"5g\"]", "links = [\"5g\", \"5g\"]")
        .replace("rate = \"100 Mbps\"", "rate = \"0 bps\"");
    snapshot!(format!(
        "{}\n\n{}",
        message(run(&text, &[])),
        message(run(&bad_sense, &[]))
    ));
}

use manyway_scenario::Scenario;

use super::*;

fn experiment(text: &str) -> Experiment {
    let scenario = Scenario::parse(text, "run.toml").unwrap();
    scenario.points().unwrap().remove(0).experiment
}

fn done(text: &str) -> FluidRun {
    run(&experiment(text), &RunOptions::default()).unwrap()
}

/// Two links of 20 Mbps with 10 ms; `flows` and what else belongs at the end.
fn two_links(duration: &str, rest: &str) -> String {
    format!(
        r#"
name = "two links"
duration = "{duration}"
[links.first]
rate = "20 Mbps"
delay = "10 ms"
[links.second]
rate = "20 Mbps"
delay = "10 ms"
[paths.first]
links = ["first"]
[paths.second]
links = ["second"]
[defaults]
packet_size = "1500 B"
headers = "100 B"
{rest}"#
    )
}

/// Members of a group are computed once, and count as many as they are.
#[test]
fn flows_that_are_alike_do_the_same() {
    let flows = |count: &str| {
        two_links(
            "200 s",
            &format!(
                "{count}\n[measure]\nfrom = \"100 s\"\nseries = [\"rate\", \"load\"]\ninterval = \
                 \"1 s\""
            ),
        )
    };
    let both = |name: &str, count: u32| {
        format!("[flows.{name}]\nlaw = \"balia\"\npaths = [\"first\", \"second\"]\ncount = {count}")
    };
    let single = |name: &str, count: u32| {
        format!("[flows.{name}]\nlaw = \"reno\"\npaths = [\"second\"]\ncount = {count}")
    };
    let grouped = done(&flows(&format!("{}\n{}", both("m", 3), single("s", 2))));
    let apart = [
        both("m1", 1),
        both("m2", 1),
        both("m3", 1),
        single("s1", 1),
        single("s2", 1),
    ];
    let apart = done(&flows(&apart.join("\n")));
    assert_eq!(grouped.flows.len(), 5);
    assert_eq!(grouped.flows[1].name, "m.2");
    for (a, b) in grouped.flows.iter().zip(&apart.flows) {
        assert!(
            (a.goodput_bps / b.goodput_bps - 1.0).abs() < 1e-4,
            "{a:?} {b:?}"
        );
    }
    let (a, b) = (&grouped.epochs[0], &apart.epochs[0]);
    assert_eq!(a.subflows, b.subflows);
    for (a, b) in a.end_bps.iter().zip(&b.end_bps) {
        assert!((a / b - 1.0).abs() < 1e-4, "{a} {b}");
    }
    // Both links are full: what is carried is what flows have, with headers.
    for link in &grouped.links {
        assert!((link.utilisation - 1.0).abs() < 1e-3, "{link:?}");
    }
    let sum: f64 = grouped.flows.iter().map(|flow| flow.goodput_bps).sum();
    assert!((sum / 40e6 * 15.0 / 14.0 - 1.0).abs() < 1e-3, "{sum}");
    let rest = a.rest.as_ref().unwrap();
    for (end, rest) in a.end_bps.iter().zip(&rest.rates_bps) {
        assert!((end / rest - 1.0).abs() < 1e-3, "{end} {rest}");
    }
    // Series: rates of 8 subflows, loads and prices of both links, 200 values each.
    assert_eq!(grouped.series.len(), 8 + 2 + 2);
    assert!(
        grouped
            .series
            .iter()
            .all(|series| series.values.len() == 200)
    );
    let last = grouped.series[0].values[199];
    assert!((last / grouped.flows[0].subflows[0].goodput_bps - 1.0).abs() < 1e-3);
}

/// Someone comes and goes; then nobody is there at all.
#[test]
fn epochs_go_on_from_one_another() {
    let text = two_links(
        "160 s",
        r#"
[flows.a]
law = "reno"
paths = ["first"]
stop = "120 s"
[flows.b]
law = "reno"
paths = ["first"]
start = "40 s"
stop = "80 s"
[measure]
from = "0 s"
series = ["rate", "window"]
interval = "500 ms"
spans = [
    { name = "shared", from = "60 s", until = "80 s" },
    { name = "nobody", from = "120 s", until = "160 s" },
]
"#,
    );
    let run = done(&text);
    assert_eq!(run.epochs.len(), 4);
    assert_eq!(run.epochs[3].rest, None);
    assert!(run.epochs[3].subflows.is_empty());
    let ends: Vec<f64> = run.epochs[..3]
        .iter()
        .map(|epoch| epoch.end_bps[0] / 1e6)
        .collect();
    for (end, exact) in ends.iter().zip([20.0, 10.0, 20.0]) {
        assert!((end - exact).abs() < 0.05, "{ends:?}");
    }
    let a = &run.flows[0];
    let payload = 14.0 / 15.0;
    assert!(
        (a.subflows[0].spans_bps[0] / (10e6 * payload) - 1.0).abs() < 0.02,
        "{a:?}"
    );
    // It isn't there.
    assert!(a.subflows[0].spans_bps[1].is_nan());
    // The means of epochs make up the mean of all.
    let parts = run.epochs.iter().map(|epoch| {
        let time = epoch.times.1.since(epoch.times.0).as_secs_f64();
        epoch.mean_bps.iter().sum::<f64>() * time
    });
    let mean = parts.sum::<f64>() / 160.0;
    let load = run.links[0].load_bps;
    assert!((mean / load - 1.0).abs() < 1e-9, "{mean} {load}");
    let window = |index: usize| &run.series[2].values[index];
    assert_eq!(run.series[2].of, ["a", "first"]);
    // Half of the window is given away in time, within some of its time constants of 0.17 s.
    let kept = window(80) / window(79);
    assert!(kept > 0.4 && kept < 0.9, "{kept}");
    assert!(window(245).is_nan() && run.series[0].values[245].is_nan());
    assert_eq!(run.series.last().unwrap().values.last(), Some(&0.0));
}

/// A link that becomes fifty times as fast, and one without any rate for a while: the price of the
/// slow link would keep windows small for minutes.
#[test]
fn a_price_does_not_outlast_the_rate_that_made_it() {
    let text = |changes: &str| {
        let flows = "[flows.f]\nlaw = \"reno\"\npaths = [\"first\"]\n[measure]\nfrom = \"10 s\"";
        let timetable = format!("rate = \"1 Mbps\"\ntimetable = [{changes}]");
        two_links("20 s", flows).replacen("rate = \"20 Mbps\"", &timetable, 1)
    };
    let risen = done(&text("{ at = \"1 s\", rate = \"50 Mbps\" }"));
    assert!(risen.links[0].utilisation > 0.98, "{:?}", risen.links[0]);
    // As traces have it, whose rate is never 0.
    let outage = "{ at = \"4 s\", rate = \"1 bps\" }, { at = \"6 s\", rate = \"20 Mbps\" }";
    let back = done(&text(outage));
    assert!(back.links[0].utilisation > 0.98, "{:?}", back.links[0]);
}

#[test]
fn a_run_can_be_stopped() {
    let flows = "[flows.f]\nlaw = \"reno\"\npaths = [\"first\"]";
    let experiment = experiment(&two_links("10 s", flows));
    let stopped = run_until(&experiment, &RunOptions::default(), &AtomicBool::new(true));
    assert_eq!(stopped, Err(RunError::Stopped));
}

#[test]
fn a_price_is_no_more_than_a_probability() {
    let flows = "[flows.f]\nlaw = \"reno\"\npaths = [\"first\"]\n[measure]\nfrom = \"5 s\"\n\
                 series = [\"rate\"]\ninterval = \"1 s\"";
    // A packet in 1.2 s, and a round trip of 20 ms.
    let run = done(&two_links("10 s", flows).replacen("20 Mbps", "10 kbps", 1));
    let price = run.flows[0].subflows[0].price_mean;
    assert!((price - 1.0).abs() < 1e-9, "{price}");
    assert!((run.links[0].price_mean - 1.0).abs() < 1e-9);
    assert_eq!(run.epochs[0].end_prices[0], 1.0);
    assert_eq!(run.epochs[0].rest.as_ref().unwrap().prices[0], 1.0);
    let prices = run
        .series
        .iter()
        .filter(|series| series.quantity == Quantity::Price);
    for series in prices {
        assert!(series.values.iter().all(|price| *price <= 1.0));
    }
}

#[test]
fn loss_on_the_wire_is_a_price() {
    let text = two_links(
        "300 s",
        "[flows.f]\nlaw = \"reno\"\npaths = [\"first\"]\n[measure]\nfrom = \"200 s\"",
    );
    let text = text.replacen("delay = \"10 ms\"", "delay = \"10 ms\"\nloss = 0.01", 1);
    let run = done(&text);
    let subflow = &run.flows[0].subflows[0];
    assert!(
        (subflow.window_mean_packets - 200f64.sqrt()).abs() < 0.01,
        "{subflow:?}"
    );
    assert!((subflow.price_mean - 0.01).abs() < 1e-9);
    // What the wire loses is sent, but no goodput.
    let sent = run.epochs[0].end_bps[0] * 14.0 / 15.0;
    assert!(
        (subflow.goodput_bps / sent - 0.99).abs() < 1e-6,
        "{subflow:?}"
    );
    assert_eq!(run.epochs[0].end_prices, [0.0, 0.0]);
    let rest = run.epochs[0].rest.as_ref().unwrap();
    assert!((rest.kept[0] - 0.99).abs() < 1e-12);
    assert!(rest.converged && (rest.rates_bps[0] / run.epochs[0].end_bps[0] - 1.0).abs() < 1e-5);
}

#[test]
fn an_application_sends_no_more_than_it_has() {
    let text = two_links(
        "300 s",
        "[flows.video]\nlaw = \"reno\"\npaths = [\"first\"]\nrate = \"4 Mbps\"\ncount = \
         2\n[flows.bulk]\nlaw = \"reno\"\npaths = [\"first\"]\n[measure]\nfrom = \"200 s\"",
    );
    let run = done(&text);
    for flow in &run.flows[..2] {
        assert!((flow.goodput_bps - 4e6).abs() < 1e4, "{flow:?}");
    }
    // What they leave, without headers.
    let rest = 20e6 * 14.0 / 15.0 - 8e6;
    assert!((run.flows[2].goodput_bps / rest - 1.0).abs() < 1e-2);
    assert_eq!(
        run.remarks,
        ["The application's rate of `video` is taken for a link of its own."]
    );
}

#[test]
fn private_links_have_room_for_each_member() {
    let text = two_links(
        "300 s",
        "[flows.f]\nlaw = \"reno\"\npaths = [\"first\"]\naccess = \
         { rate = \"3 Mbps\", delay = \"1 ms\" }\ncount = 4\n[measure]\nfrom = \"200 s\"",
    );
    for flow in done(&text).flows {
        assert!(
            (flow.goodput_bps / (3e6 * 14.0 / 15.0) - 1.0).abs() < 1e-2,
            "{flow:?}"
        );
    }
}

/// Table II of Cao et al.: the optimum in each interval, with prices that are queueing delays.
#[test]
fn wvegas_runs_by_its_prices() {
    let text = r#"
name = "table 2"
duration = "300 s"
[links.top]
rate = "6 Mbps"
delay = "50 ms"
[links.bottom]
rate = "9 Mbps"
delay = "50 ms"
[paths.top]
links = ["top"]
[paths.bottom]
links = ["bottom"]
[defaults]
law = "wvegas"
packet_size = "1000 B"
headers = "0 B"
[flows.one]
paths = ["top"]
[flows.two]
paths = ["top", "bottom"]
[flows.three]
paths = ["bottom"]
[flows.five]
paths = ["bottom"]
start = "150 s"
[measure]
from = "100 s"
until = "150 s"
"#;
    let run = done(text);
    let two = |epoch: &Epoch| [epoch.end_bps[1] / 1e6, epoch.end_bps[2] / 1e6];
    for (epoch, exact) in run.epochs.iter().zip([[1.0, 4.0], [2.25, 1.5]]) {
        for (found, exact) in two(epoch).iter().zip(exact) {
            assert!((found - exact).abs() < 0.01, "{epoch:?}");
        }
        let rest = epoch.rest.as_ref().unwrap();
        for (end, rest) in epoch.end_bps.iter().zip(&rest.rates_bps) {
            assert!((end / rest - 1.0).abs() < 5e-3, "{epoch:?}");
        }
    }
    // Ten packets of a flow at 5 Mbps are queued for 16 ms on top of 100 ms.
    let price = 10.0 * 8000.0 / 5e6;
    assert!(
        (run.links[0].price_mean - price).abs() < 1e-4,
        "{:?}",
        run.links
    );
    let rest = run.epochs[0].rest.as_ref().unwrap();
    assert!((rest.prices[0] - price).abs() < 1e-7 && rest.method.is_none());
    let rtt = run.flows[0].subflows[0].rtt_mean_s;
    assert!((rtt - 0.1 - price).abs() < 1e-4, "{rtt}");
}

#[test]
fn what_has_no_fluid_is_told() {
    let error = |flows: &str| {
        let error = run(
            &experiment(&two_links("10 s", flows)),
            &RunOptions::default(),
        );
        error.unwrap_err().to_string()
    };
    assert_eq!(
        error("[flows.f]\nlaw = \"olia\"\npaths = [\"first\", \"second\"]"),
        "the flow `f`: olia has no fluid form, as it is more than an increase and a decrease by \
         windows and round-trip times: run it with `manyway run --level packet`, or take its \
         nearest window law (coupled or lia)"
    );
    assert_eq!(
        error(
            "[flows.v]\nlaw = \"wvegas\"\npaths = [\"first\"]\n[flows.r]\nlaw = \"reno\"\npaths = \
             [\"first\"]"
        ),
        "`v` acts on queueing delay and `r` on loss, and a fluid's prices are either: run them \
         with --level packet, or give both laws of one kind"
    );
}

/// The floor keeps on a path what the model alone takes off it.
#[test]
fn floors_keep_coupled_on_its_worse_path() {
    let text = two_links(
        "2000 s",
        "[flows.m]\nlaw = \"coupled\"\npaths = [\"first\", \"second\"]\n[flows.s]\nlaw = \
         \"reno\"\npaths = [\"second\"]\ncount = 20\n[measure]\nfrom = \"1900 s\"",
    );
    let experiment = experiment(&text);
    let window = |floors| {
        let options = RunOptions {
            floors,
            ..RunOptions::default()
        };
        let run = run(&experiment, &options).unwrap();
        run.flows[0].subflows[1].window_mean_packets
    };
    assert!((window(true) - 1.0).abs() < 1e-9);
    assert!(window(false) < 0.1);
}

#[test]
fn the_initial_window_grows_by_itself() {
    let text = two_links(
        "2 s",
        "[flows.f]\nlaw = \"reno\"\npaths = [\"first\"]\n[measure]\nfrom = \"0 s\"\nseries = \
         [\"window\"]\ninterval = \"1 s\"",
    );
    let options = RunOptions {
        start: StartWindow::Initial,
        ..RunOptions::default()
    };
    let run = run(&experiment(&text), &options).unwrap();
    // Ten packets, and one more in each round trip of 20 ms, before any loss.
    let windows = &run.series[0].values;
    assert_eq!(run.series[0].quantity, Quantity::Window);
    assert!(
        (windows[0] - 10.0 - 1.0 / 0.02).abs() < 30.0 && windows[0] > 20.0,
        "{windows:?}"
    );
}

#[test]
fn what_is_too_large_is_told() {
    let flows = "[flows.f]\nlaw = \"reno\"\npaths = [\"first\"]";
    let error = |text: &str| run(&experiment(text), &RunOptions::default()).unwrap_err();
    let restless = two_links("2000 s", flows).replacen(
        "delay = \"10 ms\"",
        "delay = \"10 ms\"\ntimetable = [{ at = \"500 ms\", rate = \"10 Mbps\" }]\n\
         timetable_period = \"1 s\"",
        1,
    );
    assert_eq!(error(&restless), RunError::Epochs);
    // Each of them has a round trip of its own.
    let crowd = two_links(
        "10 s",
        &format!("{flows}\ncount = 1300\ndelay_step = \"1 us\""),
    );
    assert_eq!(error(&crowd), RunError::Equations(1302));
    let alike = two_links("10 s", &format!("{flows}\ncount = 1300"));
    assert_eq!(done(&alike).flows.len(), 1300);
}

#[test]
fn a_link_carries_no_more_than_its_rate() {
    let text = two_links(
        "20 s",
        "[flows.f]\nlaw = \"reno\"\npaths = [\"first\"]\n[measure]\nfrom = \"0 s\"\nseries = \
         [\"rate\"]\ninterval = \"1 s\"",
    );
    let experiment = experiment(&text);
    let capacity = experiment.topology.links[0].config.rate.bits_per_sec();
    let options = RunOptions {
        start: StartWindow::Initial,
        ..RunOptions::default()
    };
    let run = run(&experiment, &options).unwrap();
    // The price, from zero, only rises while more enters than the link can carry.
    let link = &run.links[0];
    assert!(link.load_bps > 1.005 * capacity, "{link:?}");
    assert!((0.9..=1.0).contains(&link.utilisation), "{link:?}");
    let with_headers = run.flows[0].goodput_bps * 15.0 / 14.0;
    assert!(
        (with_headers / capacity / link.utilisation - 1.0).abs() < 1e-9,
        "{:?}",
        run.flows
    );
}

use manyway::{CarrierKind, PathId, PathState};

use super::*;
use crate::text::Line;

fn row(label: &str, condition: Condition) -> Row {
    Row {
        id: PathId(1),
        name: label.split(' ').next().unwrap().to_owned(),
        remote: "203.0.113.5:4433".parse().unwrap(),
        carrier: CarrierKind::Udp,
        label: label.to_owned(),
        relay: false,
        state: match condition {
            Condition::Trying => PathState::Validating,
            Condition::Up | Condition::UpAgain => PathState::Active,
            Condition::Down => PathState::Stalled,
        },
        condition,
        silent: Duration::from_millis(12_300),
        rate: Rate::from_mbps(38.25),
        rtt: Duration::from_micros(20_400),
        window: Some(71.6),
        packet: 1452,
        loss: Some(0.0012),
    }
}

fn view() -> View {
    let mut receiving = row("lte0 → 198.51.100.1", Condition::UpAgain);
    (receiving.window, receiving.loss) = (None, None);
    View {
        at: Duration::from_millis(5003),
        since: String::new(),
        completion: Completion {
            phase: Phase::Transferring,
            done: 25_000_000,
            total: 100_000_000,
            files: 3,
            files_done: 1,
        },
        file: "photos/2024/sea.jpg".to_owned(),
        pace: Now {
            rate: Rate::from_mbps(60.0),
            still: None,
            left: Some(Duration::from_secs(10)),
        },
        rows: vec![
            row("eth0 → 203.0.113.5", Condition::Up),
            row("wlan0 → 203.0.113.5", Condition::Down),
            row("usb0 → 203.0.113.5", Condition::Trying),
            receiving,
        ],
        relays: RelayCounts::default(),
        verbose: false,
    }
}

fn size(columns: usize) -> Size {
    Size { columns, rows: 24 }
}

/// As the painter draws it.
fn drawn(view: &View, size: Size, colour: bool) -> String {
    let lines = view.lines(size).into_iter();
    let lines = lines.map(|line: Line| line.cut(size.columns - 1).render(colour));
    lines.collect::<Vec<_>>().join("\n")
}

fn at_three_widths(view: &View) -> String {
    let at = |columns| format!("{columns}:\n{}\n", drawn(view, size(columns), false));
    [30, 80, 140].map(at).join("\n")
}

#[test]
fn it_fits_every_terminal() {
    insta::assert_snapshot!("widths", at_three_widths(&view()));
    let guide = include_str!("../../../../../docs/guide.md");
    assert!(guide.contains(&drawn(&view(), size(80), false)));
    let mut verbose = view();
    verbose.verbose = true;
    insta::assert_snapshot!("widths_verbose", at_three_widths(&verbose));
    for columns in 2..200 {
        for line in view().lines(size(columns)) {
            assert!(line.cut(columns - 1).width() < columns);
        }
    }
}

#[test]
fn an_outage_has_no_eta() {
    let mut view = view();
    view.at = Duration::from_secs(95);
    view.since = "14:03:12".to_owned();
    view.pace = Now {
        rate: Rate::ZERO,
        still: Some(Still::Outage(Duration::from_secs(60))),
        left: None,
    };
    for row in &mut view.rows {
        (row.condition, row.silent) = (Condition::Down, Duration::from_secs(35));
    }
    insta::assert_snapshot!("outage", at_three_widths(&view));
    view.completion.phase = Phase::Syncing;
    assert!(view.plain_line().contains("outage since 14:03:12 (35 s)"));
    view.pace.still = Some(Still::Stall(Duration::ZERO));
    view.completion.phase = Phase::Transferring;
    let line = view.plain_line();
    assert!(
        line.starts_with("95 s: 25 %, stalled since 14:03:12 (1 min 35 s); down"),
        "{line}"
    );
}

#[test]
fn colours_are_codes_around_the_same_text() {
    let coloured = drawn(&view(), size(80), true);
    insta::assert_snapshot!("colours", coloured.replace('\x1b', "ESC"));
    let plain = drawn(&view(), size(80), false);
    assert!(!plain.contains('\x1b'));
    let codes = coloured
        .split('\x1b')
        .map(|part| match part.strip_prefix('[') {
            Some(code) => code.split_once('m').unwrap().1,
            None => part,
        });
    assert_eq!(codes.collect::<String>(), plain);
}

#[test]
fn a_log_gets_one_line() {
    insta::assert_snapshot!("plain", view().plain_line());
    let mut first = view();
    first.pace.left = None;
    first.verbose = true;
    first.rows.truncate(1);
    let line = first.plain_line();
    let (begin, end) = line.split_once("; ").unwrap();
    assert_eq!(begin, "5 s: 25 %, 25 MB of 100 MB, 60.0 Mbps");
    let (path, details) = end.split_once(" · 0.12").unwrap();
    assert_eq!(path, "up 38.2 Mbps · 20 ms · eth0 → 203.0.113.5");
    assert_eq!(details, " % lost · window 72 × 1452 B");
}

#[test]
fn many_paths_leave_room_for_the_rest() {
    let mut view = view();
    for n in 0..20 {
        let mut relayed = row(&format!("eth0 → relay 192.0.2.{n}:443"), Condition::Up);
        (relayed.relay, relayed.rate) = (true, Rate::from_mbps(f64::from(n)));
        view.rows.push(relayed);
    }
    view.relays.in_use = 20;
    insta::assert_snapshot!("many", drawn(&view, size(80), false));
    let low = Size {
        columns: 80,
        rows: 6,
    };
    insta::assert_snapshot!("many_low", drawn(&view, low, false));
}

#[test]
fn for_programs() {
    let mut view = view();
    view.file = "photos/a\u{202e}b".to_owned();
    let json = serde_json::to_string_pretty(&view.report(2)).unwrap();
    insta::assert_snapshot!("report", json);
}

#[test]
fn a_files_name_is_shown_for_what_it_is() {
    let mut view = view();
    view.file = "a\u{202e}b\x1b[2Jc\n".to_owned();
    let drawn = drawn(&view, size(80), false);
    assert!(
        drawn.contains(r"1 of 3 files · a\u{202e}b\u{1b}[2Jc\n"),
        "{drawn}"
    );
}

#[test]
fn the_total_shows_the_phase() {
    let mut view = view();
    for (phase, words) in [
        (Phase::Greeting, "waiting for the peer"),
        (Phase::Listing, "listing: 3 files, 100 MB"),
        (Phase::Syncing, "all 100 MB transferred, writing to disk"),
    ] {
        view.completion.phase = phase;
        assert_eq!(view.lines(size(80))[0].render(false), words);
    }
}

#[test]
fn the_selection_stands_beside_the_relays() {
    let mut relays = RelayCounts {
        in_use: 2,
        available: 4,
        ..RelayCounts::default()
    };
    let mut selection = SelectionStats {
        wanted: 2,
        relays: vec!["192.0.2.1:443".parse().unwrap(); 2],
        demand: None,
        iterations: 0,
        reselections: 0,
        rate: None,
        satisfied: None,
    };
    relays.selection = Some(selection.clone());
    insta::assert_snapshot!(
        relays.line().unwrap(),
        @"relays: 2 in use, 4 ready, 0 not answering yet; 2 of 2 picked"
    );
    selection.demand = Some(Rate::from_mbps(20.0));
    selection.rate = Some(Rate::from_mbps(13.25));
    (selection.satisfied, selection.reselections) = (Some(false), 3);
    relays.selection = Some(selection);
    assert_eq!(
        relays.line().unwrap(),
        "relays: 2 in use, 4 ready, 0 not answering yet; 2 of 2 picked, 13.2 Mbps of 20.0 \
         Mbps: not enough, reselected 3 times"
    );
}

use manyway::files::Digest;

use super::*;

pub(crate) fn summary(direction: &'static str) -> Summary {
    let path = |name: &str, remote: &str, sent, received| PathRecord {
        name: name.to_owned(),
        local: "192.0.2.7:4000".to_owned(),
        remote: remote.to_owned(),
        relay: false,
        carrier: "udp",
        bytes_sent: sent,
        bytes_received: received,
        packets_sent: 1000,
        packets_lost: 3,
        packet_bytes: 1452,
        rtt_ms: Some(20.25),
        min_rtt_ms: Some(19.5),
    };
    Summary {
        direction,
        bytes: 3_000_000,
        content: 3_000_000,
        seconds: 1.5,
        goodput_bps: 16e6,
        files: vec![file("film.mkv", 3_000_000)],
        new_files: 1,
        kept: Kept::default(),
        directories: 0,
        symlinks: 2,
        hard_links: 1,
        dry_run: false,
        planned: Vec::new(),
        deleted: Deleted::default(),
        skipped: Skipped {
            count: 1,
            examples: vec!["photos/pipe: a device, a pipe or a socket".to_owned()],
        },
        altered: Skipped::default(),
        error: None,
        selection: None,
        paths: vec![
            path("eth0", "203.0.113.5:4433", 2_000_000, 20_000),
            path("wlan0", "203.0.113.5:4433", 1_100_000, 10_000),
        ],
    }
}

fn file(name: &str, bytes: u64) -> FileSummary {
    FileSummary {
        name: name.to_owned(),
        saved_as: None,
        bytes,
        blake3: Digest([0xab; 32]),
    }
}

#[test]
fn for_people() {
    insta::assert_snapshot!("sent", summary("sent").text());
    let mut received = summary("received");
    received.files.push(file("b/empty", 0));
    received.new_files = 2;
    insta::assert_snapshot!("received", received.text());
}

#[test]
fn what_was_there_is_told() {
    let first = |files, bytes| {
        let mut sent = summary("received");
        sent.kept = Kept { files, bytes };
        sent.content -= bytes;
        let text = sent.text();
        text.lines().take(2).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(first(0, 2_000_000), @r"
    Received film.mkv, 1 MB in 1.5 s: 16.0 Mbps
    already there: 2 MB
    ");
    insta::assert_snapshot!(first(1, 0), @r"
    Received film.mkv, 3 MB in 1.5 s: 16.0 Mbps
    already there: 1 file; 0 B in all
    ");
    insta::assert_snapshot!(first(72, 2_000_000), @r"
    Received film.mkv, 1 MB in 1.5 s: 16.0 Mbps
    already there: 72 files; 2 MB in all
    ");
    let mut sparse = summary("sent");
    sparse.content = 1_000_000;
    sparse.kept.bytes = 500_000;
    let text = sparse.text();
    insta::assert_snapshot!(text.lines().take(3).collect::<Vec<_>>().join("\n"), @r"
    Sent film.mkv, 1 MB in 1.5 s: 16.0 Mbps
    already there: 500 kB
    holes: 1.5 MB
    ");
}

/// The live view has them so, too: a file has one size.
#[test]
fn sizes_are_decimal() {
    let mut sent = summary("sent");
    (sent.bytes, sent.content) = (30 << 20, 20 << 20);
    let text = sent.text();
    assert!(text.contains("film.mkv, 20.97 MB in"), "{text}");
    assert!(text.contains("holes: 10.49 MB"), "{text}");
    assert_eq!(counted(1, "file", "files"), "1 file");
}

#[test]
fn nothing_has_no_rate() {
    let mut sent = summary("sent");
    (sent.content, sent.goodput_bps, sent.new_files) = (0, 0.0, 0);
    sent.files.clear();
    let text = sent.text();
    assert_eq!(text.lines().next(), Some("Sent 0 files, 0 B in 1.5 s"));
}

#[test]
fn a_dry_run_lists_what_would_be() {
    let mut sent = summary("sent");
    (sent.dry_run, sent.new_files) = (true, 2);
    assert_eq!(sent.list(), [""; 0]);
    let planned = |name: &str, kind, bytes| Planned {
        name: name.to_owned(),
        kind,
        bytes,
        in_part: bytes == 300_000,
    };
    sent.planned = vec![
        planned("photos/new", PlannedKind::Directory, 0),
        planned("photos/a.jpg", PlannedKind::File, 1_200_000),
        planned("photos/\u{202e}b.jpg", PlannedKind::File, 300_000),
        planned("photos/best.jpg", PlannedKind::Symlink, 0),
        planned("photos/c.jpg", PlannedKind::HardLink, 0),
    ];
    sent.deleted.count = 1;
    sent.deleted.names = vec!["photos/old.jpg".to_owned()];
    sent.kept.files = 12;
    sent.kept.bytes = 1_500_000;
    let said = format!("{}\n{}", sent.list().join("\n"), sent.text());
    // The last line is too wide for this file.
    let said = said.replace(", and delete", ",\nand delete");
    insta::assert_snapshot!(said, @r"
    make   photos/new/
    send   photos/a.jpg  1.2 MB
    update photos/\u{202e}b.jpg  300 kB
    link   photos/best.jpg  symbolic
    link   photos/c.jpg  hard
    delete photos/old.jpg
    Dry run: would send 2 files, 1.5 MB, make 1 directory and 2 links,
    and delete 1 name; 12 files are up to date
    ");
    // After a real one, the names are for programs.
    sent.dry_run = false;
    assert_eq!(sent.list(), [""; 0]);
    assert!(sent.text().contains("deleted: 1 name\n"));
}

#[test]
fn a_name_is_shown_for_what_it_is() {
    let mut received = summary("received");
    received.files[0].name = "exe.\u{202e}gpj".to_owned();
    let text = received.text();
    assert!(text.starts_with(r"Received exe.\u{202e}gpj,"), "{text}");
    let json = serde_json::to_value(&received).unwrap();
    assert_eq!(json["files"][0]["name"], "exe.\u{202e}gpj");
}

#[test]
fn a_path_that_carried_nothing_is_told() {
    use manyway::PathState;
    let stats = |id, received| PathStats {
        rtt: Duration::from_millis(20),
        min_rtt: Duration::from_millis(19),
        bytes_sent: 2400,
        packets_sent: 2,
        bytes_received: received,
        ..crate::meter::tests::path(id, PathState::Active, 0)
    };
    let mut sent = summary("sent");
    sent.paths[0].relay = true;
    sent.paths[1].carrier = "tcp";
    sent.paths.push(PathRecord::of(&stats(1, 0)));
    insta::assert_snapshot!("unused", sent.text());
    let json = serde_json::to_value(&sent.paths[2]).unwrap();
    assert!(json.get("rtt_ms").is_none() && json.get("min_rtt_ms").is_none());
    assert_eq!(PathRecord::of(&stats(1, 1)).rtt_ms, Some(20.0));
}

#[test]
fn paths_of_one_label_share_a_row() {
    let mut sent = summary("sent");
    let before = sent.text().lines().count();
    let mut again = sent.paths[0].clone();
    (again.rtt_ms, again.bytes_sent) = (None, 0);
    sent.paths.push(again);
    assert_eq!(sent.text().lines().count(), before);
    assert_eq!(sent.text(), summary("sent").text());
}

#[test]
fn with_a_choice_of_relays() {
    let mut sent = summary("sent");
    sent.selection = Some(SelectionRecord {
        pick: 2,
        relays: vec!["198.51.100.1:45170".to_owned()],
        demand_bps: Some(20e6),
        iterations: 5,
        reselections: 2,
        rate_bps: Some(19.5e6),
        satisfied: Some(true),
    });
    insta::assert_snapshot!("sent_picking", sent.text());
    insta::assert_snapshot!(
        "json_picking",
        serde_json::to_string_pretty(&sent.selection).unwrap()
    );
}

#[test]
fn for_programs() {
    let json = serde_json::to_string_pretty(&summary("sent")).unwrap();
    insta::assert_snapshot!("json", json);
}

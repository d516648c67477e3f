//! Owners, extended attributes and ACLs.

use super::attributes::{self, Kinds};
use super::*;
use manyway_os::file::attributes::Of;
use manyway_transfer::{Attribute, Owner};
use nix::unistd::{getegid, geteuid};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{lchown, symlink};
use tempfile::tempdir;

fn options(with: Policy) -> ReceiveOptions {
    ReceiveOptions {
        keep_modes: true,
        owners: true,
        groups: true,
        attributes: true,
        acls: true,
        ..policy(with)
    }
}

fn skipped(why: &str) {
    writeln!(std::io::stderr(), "skipped: {why}").unwrap();
}

/// What a sender made by hand offers: a file, a directory and a link of that owner.
async fn owned(to: &Path, owner: Owner, options: ReceiveOptions) -> ReceiveSummary {
    let (ours, theirs) = pair();
    let play = async {
        let mut sender = Puppet::greeted(ours, Role::Sender).await;
        let target = manyway_transfer::Target::parse("file").unwrap();
        let entries = [
            entry("dir", Kind::Directory, 0),
            entry("dir/file", Kind::File, 0),
            entry("dir/link", Kind::Symlink(target), 0),
        ];
        let owned = entries.map(|entry| Entry {
            owner: Some(owner.clone()),
            mode: 0o6755,
            ..entry
        });
        sender.offer(owned.to_vec()).await;
        if sender.hear().await == Some(Message::Accept) {
            sender.trailer(b"").await;
        }
        while sender.hear().await.is_some() {}
    };
    let receiving = receive(theirs, to, options, Progress::new());
    tokio::join!(receiving, play).0.unwrap()
}

fn owners(to: &Path) -> Vec<(u32, u32)> {
    let names = ["dir", "dir/file", "dir/link"];
    let metadata = names.map(|name| fs::symlink_metadata(to.join(name)).unwrap());
    metadata.iter().map(|one| (one.uid(), one.gid())).collect()
}

fn strangers() -> Owner {
    Owner {
        uid: 54_321,
        gid: 54_322,
        user: String::new(),
        group: String::new(),
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// A shared directory stays one: names in it get its group, and only their owners remove them. Only
/// who asks for the sender's modes gets its bits.
#[tokio::test]
async fn a_directory_keeps_its_special_bits_or_gets_the_senders() {
    for (keep_modes, sent, expected) in [
        (false, 0o750, 0o3777),
        (true, 0o750, 0o750),
        (true, 0o3711, 0o3711),
    ] {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        let top = from.path().join("top");
        let below = top.join("below");
        fs::create_dir_all(&below).unwrap();
        set_mode(&below, 0o1755);
        set_mode(&top, sent);
        let there = to.path().join("top");
        fs::create_dir(&there).unwrap();
        set_mode(&there, 0o3777);
        let options = ReceiveOptions {
            keep_modes,
            groups: true,
            ..policy(Policy::Overwrite)
        };
        let received = transfer([&top], to.path(), options).await.1.unwrap();
        assert_eq!(received.altered.count, 0, "{:?}", received.altered);
        assert_eq!(mode(&there), expected);
        // A new one gets what it has from the one above.
        let sticky = mode(&there.join("below")) & 0o1000;
        assert_eq!(sticky != 0, keep_modes);
    }
}

/// A program runs as the sender's user only if the receiver's user asks for modes and owners.
#[tokio::test]
async fn special_bits_of_a_file_take_its_owner_and_group() {
    for (keep_modes, owners, groups, expected, missing) in [
        (false, true, true, 0o755, None),
        (true, false, false, 0o755, Some("`--owner`")),
        (true, false, true, 0o2755, Some("`--owner`")),
        (true, true, false, 0o4755, Some("`--group`")),
        (true, true, true, 0o6755, None),
    ] {
        let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
        let program = from.path().join("program");
        fs::write(&program, "x").unwrap();
        set_mode(&program, 0o6755);
        let options = || ReceiveOptions {
            keep_modes,
            owners,
            groups,
            ..policy(Policy::Overwrite)
        };
        // The second time it is there already.
        for _ in 0..2 {
            let received = transfer([&program], to.path(), options()).await.1;
            let told = received.unwrap().altered.examples.join(" ");
            let there = mode(&to.path().join("program"));
            assert_eq!(there & 0o7755, expected, "{owners} {groups}");
            match missing {
                Some(option) => assert!(told.contains(option), "{told}"),
                None => assert_eq!(told, ""),
            }
        }
    }
}

/// As Linux does with the group's bit where the group isn't ours.
#[tokio::test]
async fn bits_that_the_system_does_not_set_are_told() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    set_mode(&top, 0o2750);
    let options = ReceiveOptions {
        keep_modes: true,
        disk: Some(disk::TestDisk::that_sets_no_special_bits()),
        ..ReceiveOptions::default()
    };
    let received = transfer([&top], to.path(), options).await.1.unwrap();
    let told = received.altered.examples.join(" ");
    assert!(told.contains("top: the system doesn't set"), "{told}");
    assert_eq!(mode(&to.path().join("top")), 0o750);
}

/// Whoever runs a file as somebody else's hasn't got that by a change of its owner alone.
#[tokio::test]
async fn a_file_that_changes_hands_loses_its_special_bits() {
    if !geteuid().is_root() {
        return;
    }
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for (dir, bits) in [(&from, 0o755), (&to, 0o6755)] {
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        set_time(&file, 1_000_000_000, 0);
        set_mode(&file, bits);
    }
    std::os::unix::fs::chown(from.path().join("file"), Some(54_321), Some(54_322)).unwrap();
    let options = ReceiveOptions {
        owners: true,
        groups: true,
        ..policy(Policy::Overwrite)
    };
    let received = transfer([from.path().join("file")], to.path(), options).await;
    assert_eq!(received.1.unwrap().kept.files, 1);
    assert_eq!(mode(&to.path().join("file")), 0o755);
}

#[tokio::test]
async fn owners_are_set_if_that_is_wanted_and_permitted() {
    let us = (geteuid().as_raw(), getegid().as_raw());
    for (owners_too, groups_too) in [(false, false), (true, false), (false, true), (true, true)] {
        let to = tempdir().unwrap();
        let options = ReceiveOptions {
            owners: owners_too,
            groups: groups_too,
            ..policy(Policy::Refuse)
        };
        let summary = owned(to.path(), strangers(), options).await;
        let asked = u64::from(owners_too) + u64::from(groups_too);
        let expected = match geteuid().is_root() {
            true => (
                if owners_too { 54_321 } else { us.0 },
                if groups_too { 54_322 } else { us.1 },
            ),
            false => us,
        };
        assert_eq!(owners(to.path()), [expected; 3]);
        let refused = if geteuid().is_root() { 0 } else { 3 * asked };
        assert_eq!(summary.altered.count, refused, "{:?}", summary.altered);
    }
}

/// Whoever receives: where nobody may give files away, they arrive all the same.
#[tokio::test]
async fn owners_that_cannot_be_set_are_listed() {
    let to = tempdir().unwrap();
    let options = ReceiveOptions {
        owners: true,
        disk: Some(super::disk::TestDisk::that_keeps_owners()),
        ..policy(Policy::Refuse)
    };
    let summary = owned(to.path(), strangers(), options).await;
    let us = (geteuid().as_raw(), getegid().as_raw());
    assert_eq!(owners(to.path()), [us; 3]);
    assert_eq!(summary.altered.count, 3);
    let first = &summary.altered.examples[0];
    assert!(
        first.starts_with("dir/file: its owner or group is unchanged"),
        "{first}"
    );
}

#[tokio::test]
async fn without_its_owner_a_program_runs_as_nobody_else() {
    let to = tempdir().unwrap();
    let options = ReceiveOptions {
        keep_modes: true,
        owners: true,
        groups: true,
        disk: Some(super::disk::TestDisk::that_keeps_owners()),
        ..policy(Policy::Refuse)
    };
    let summary = owned(to.path(), strangers(), options).await;
    assert_eq!(mode(&to.path().join("dir/file")), 0o755);
    let told = summary.altered.examples.join("\n");
    for bit in ["set-user-ID", "set-group-ID"] {
        assert!(told.contains(bit), "{told}");
    }
}

#[tokio::test]
async fn content_arrives_where_modes_and_times_cannot_be_set() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("file"), "file").unwrap();
    let with = ReceiveOptions {
        disk: Some(super::disk::TestDisk::that_keeps_modes()),
        ..policy(Policy::Refuse)
    };
    let (_, received) = transfer([&top], to.path(), with).await;
    let altered = received.unwrap().altered;
    let told = altered.examples.join("\n");
    assert!(
        told.contains("top/file: its mode or time is unchanged"),
        "{told}"
    );
    assert_eq!(fs::read(to.path().join("top/file")).unwrap(), b"file");
}

/// Who may write to the receiver's directory doesn't get a program of its own into root's hands.
#[tokio::test]
async fn a_strangers_file_gets_no_rights() {
    if !geteuid().is_root() {
        return;
    }
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for (dir, owner, bits) in [(&from, 0, 0o4755), (&to, 54_321, 0o755)] {
        let file = dir.path().join("file");
        fs::write(&file, owner.to_string().len().to_string()).unwrap();
        set_time(&file, 1_000_000_000, 0);
        lchown(&file, Some(owner), Some(owner)).unwrap();
        set_mode(&file, bits);
    }
    let given = [from.path().join("file")];
    let (_, received) = transfer(given, to.path(), options(Policy::Overwrite)).await;
    let received = received.unwrap();
    // The others are attributes and ACLs, which the sender has not.
    assert_eq!((received.kept.files, received.altered.count), (1, 3));
    let there = to.path().join("file");
    assert_eq!(mode(&there), 0o755);
    assert_eq!(fs::metadata(there).unwrap().uid(), 54_321);
}

/// Both ends are of this program; what is there is brought up to date, too.
#[tokio::test]
async fn owners_travel() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("file"), "file").unwrap();
    symlink("file", top.join("link")).unwrap();
    let (sent, received) = transfer([&top], to.path(), options(Policy::Refuse)).await;
    assert_eq!(
        (received.unwrap().altered.count, sent.unwrap().skipped.count),
        (2, 0)
    );
    if !geteuid().is_root() {
        skipped("only root gives files away");
        return;
    }
    for path in [&top, &top.join("file"), &top.join("link")] {
        lchown(path, Some(54_321), Some(54_322)).unwrap();
    }
    let with = ReceiveOptions {
        owners: true,
        groups: true,
        ..policy(Policy::Overwrite)
    };
    let (sent, received) = transfer([&top], to.path(), with).await;
    assert_eq!(received.unwrap().altered.count, 0);
    assert!(sent.unwrap().files.is_empty());
    for name in ["top", "top/file", "top/link"] {
        let there = fs::symlink_metadata(to.path().join(name)).unwrap();
        assert_eq!((there.uid(), there.gid()), (54_321, 54_322), "{name}");
    }
    assert_eq!(snapshot(to.path()), snapshot(from.path()));
}

const ACCESS: &str = "system.posix_acl_access";

/// An ACL for one more user, as Linux keeps it.
fn acl() -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, NOBODY),
        (0x02, 4, 54_321),
        (0x04, 4, NOBODY),
        (0x10, 4, NOBODY),
        (0x20, 0, NOBODY),
    ];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn set(path: &Path, name: &str, value: Option<&[u8]>) -> std::io::Result<()> {
    manyway_os::file::attributes::set(fs::File::open(path).unwrap().as_fd(), name, value)
}

fn all(path: &Path) -> Vec<Attribute> {
    let kinds = Kinds {
        user: true,
        acls: true,
    };
    attributes::read(Of::Path(path), kinds, |_| {}).unwrap()
}

/// A transfer in which both sides want these.
async fn with_attributes(
    top: &Path,
    to: &Path,
    (user, acls): (bool, bool),
    options: ReceiveOptions,
) -> (SendSummary, ReceiveSummary) {
    let (ours, theirs) = pair();
    let sources = Sources::new([top]).unwrap().with_attributes(user, acls);
    let (sent, received) = tokio::join!(
        send(ours, sources, Progress::new()),
        receive(theirs, to, options, Progress::new())
    );
    (sent.unwrap(), received.unwrap())
}

/// What gives rights, or is root's alone, doesn't travel, and isn't left out in silence.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn attributes_that_never_travel_are_listed() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("file"), "file").unwrap();
    if let Err(error) = set(&top.join("file"), "trusted.x", Some(b"x")) {
        skipped(&format!("only root may set such attributes: {error}"));
        return;
    }
    for (attributes, count) in [(true, 1), (false, 0)] {
        let with = options(Policy::Overwrite);
        let (sent, _) = with_attributes(&top, to.path(), (attributes, true), with).await;
        assert_eq!(sent.skipped.count, count, "{:?}", sent.skipped);
        let told = sent.skipped.examples.concat();
        assert_eq!(
            told.contains("top/file") && told.contains("trusted.x"),
            attributes
        );
    }
    assert!(all(&to.path().join("top/file")).is_empty());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn attributes_and_acls_travel() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let (top, copy) = (from.path().join("top"), to.path().join("top"));
    fs::create_dir(&top).unwrap();
    let names = ["", "file"];
    fs::write(top.join("file"), "file").unwrap();
    for name in names {
        if let Err(error) = set(&top.join(name), "user.color", Some(b"blue\0")) {
            skipped(&format!("the disk has no extended attributes: {error}"));
            return;
        }
        set(&top.join(name), "user.empty", Some(b"")).unwrap();
    }
    let acls = set(&top.join("file"), ACCESS, Some(&acl())).is_ok();
    let same = |kinds: (bool, bool)| {
        for name in names {
            let (theirs, ours) = (all(&top.join(name)), all(&copy.join(name)));
            let kept = theirs
                .iter()
                .filter(|one| if one.is_acl() { kinds.1 } else { kinds.0 });
            assert_eq!(
                kept.collect::<Vec<_>>(),
                ours.iter().collect::<Vec<_>>(),
                "{name}"
            );
        }
    };
    for kinds in [(false, false), (true, false), (false, acls), (true, acls)] {
        let with = ReceiveOptions {
            attributes: kinds.0,
            acls: kinds.1,
            ..policy(Policy::Refuse)
        };
        let (sent, received) = with_attributes(&top, to.path(), kinds, with).await;
        assert_eq!((sent.skipped.count, received.altered.count), (0, 0));
        same(kinds);
        fs::remove_dir_all(&copy).unwrap();
    }
    // What is there gets new ones and loses old ones, if that is asked for.
    let both = (true, acls);
    let with = |policy| ReceiveOptions {
        owners: false,
        groups: false,
        acls,
        ..options(policy)
    };
    with_attributes(&top, to.path(), both, with(Policy::Refuse)).await;
    for name in names {
        set(&top.join(name), "user.color", Some(b"red")).unwrap();
        set(&top.join(name), "user.empty", None).unwrap();
        set(&top.join(name), "user.new", Some(b"new")).unwrap();
    }
    if acls {
        set(&top.join("file"), ACCESS, None).unwrap();
    }
    let before = all(&copy.join("file"));
    with_attributes(&top, to.path(), both, with(Policy::Refuse)).await;
    assert_eq!(all(&copy.join("file")), before);
    let (sent, _) = with_attributes(&top, to.path(), both, with(Policy::Overwrite)).await;
    assert!(sent.files.is_empty());
    same(both);
    assert_eq!(snapshot(to.path()), snapshot(from.path()));
}

/// A sender that doesn't tell of attributes doesn't remove those that are there.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_asks_alone_is_told() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    let (file, copy) = (from.path().join("file"), to.path().join("file"));
    fs::write(&file, "file").unwrap();
    fs::write(&copy, "another").unwrap();
    let has_attributes = set(&file, "user.a", Some(b"a")).is_ok();
    let (sent, received) = with_attributes(
        &file,
        to.path(),
        (false, false),
        ReceiveOptions {
            owners: false,
            groups: false,
            ..options(Policy::Overwrite)
        },
    )
    .await;
    assert_eq!((received.altered.count, sent.altered.count), (2, 2));
    assert!(received.altered.examples[0].contains("`--xattrs`"));
    assert!(all(&copy).is_empty());
    if has_attributes {
        set(&copy, "user.mine", Some(b"a")).unwrap();
    }
    let before = all(&copy);
    // The content is there now.
    let asks = ReceiveOptions {
        owners: false,
        groups: false,
        ..options(Policy::Overwrite)
    };
    let (sent, _) = with_attributes(&file, to.path(), (false, false), asks).await;
    assert!(sent.files.is_empty());
    assert_eq!(all(&copy), before);
    let both = (true, true);
    let (sent, _) = with_attributes(&file, to.path(), both, policy(Policy::Overwrite)).await;
    assert_eq!(sent.skipped.count, 2);
    assert_eq!(all(&copy), before);
}

/// Longer ones than an entry takes stay, and the file arrives.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn attributes_that_are_too_long_are_left_out() {
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        skipped("no disk here takes long attributes");
        return;
    }
    let (from, to) = (tempfile::tempdir_in(memory).unwrap(), tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, "file").unwrap();
    if set(&file, "user.long", Some(&[7; 40_000])).is_err() {
        skipped("no disk here takes long attributes");
        return;
    }
    let with = ReceiveOptions {
        attributes: true,
        ..policy(Policy::Refuse)
    };
    let (sent, received) = with_attributes(&file, to.path(), (true, false), with).await;
    assert_eq!((sent.skipped.count, received.altered.count), (1, 0));
    assert_eq!(fs::read(to.path().join("file")).unwrap(), b"file");
}

/// People see its name: no more than one that the file system takes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_attribute_that_cannot_be_set_is_shown_as_it_may_be() {
    let to = tempdir().unwrap();
    let (ours, theirs) = pair();
    let play = async {
        let mut sender = Puppet::new(ours);
        let mut hello = Hello::new(Role::Sender);
        hello.features = Hello::ATTRIBUTES;
        sender.say(&Message::Hello(hello)).await;
        let attribute = Attribute {
            name: "user.\u{1b}[2J".to_owned(),
            value: vec![0; 30_000],
        };
        let directory = Entry {
            attributes: vec![attribute],
            ..entry("dir", Kind::Directory, 0)
        };
        sender.offer(vec![directory]).await;
        while sender.hear().await.is_some() {}
    };
    let receiving = receive(theirs, to.path(), options(Policy::Refuse), Progress::new());
    let (received, ()) = tokio::join!(receiving, play);
    let told = received.unwrap().altered.examples.join(";");
    if !told.contains("extended attribute") {
        return skipped("the file system takes long attributes");
    }
    assert!(told.contains("user.\\u{1b}[2J is unchanged"), "{told}");
}

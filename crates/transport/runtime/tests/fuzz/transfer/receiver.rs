//! Our receiver against a sender made by hand.

use super::script::{PARTS, Script, What};
use super::*;

/// What is in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Thing {
    File(Vec<u8>),
    Directory,
    Link(String),
    Other,
}

/// A thing with its mode and number of names.
type Item = (Thing, u32, u64);

/// Puts a file, or what transfers may have left of one, where the next one goes.
fn lay(choices: &mut Choices<'_>, dir: &Path, outside: &Path, script: &mut Script) {
    let name = PARTS[choices.below(6)];
    let above = ["", "", "a/", "b/"][choices.below(4)];
    let what = choices.byte() % 14;
    let size = some_groups(choices);
    let mut bytes = version(size, choices.byte());
    if what == 1 || what == 3 {
        let at = choices.below(4) * GROUP as usize;
        bytes
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|byte| *byte ^= 1);
    }
    let dir = dir.join(above);
    let path = match what {
        0 | 1 | 9 | 10 => dir.join(name),
        _ => dir.join(left_name(name)),
    };
    if fs::create_dir_all(&dir).is_err() || path.symlink_metadata().is_ok() {
        return;
    }
    if what == 4 {
        bytes.extend_from_slice(b"more");
    }
    let write = |path: &Path, mode: u32| {
        fs::write(path, &bytes).expect("room");
        mode_of(path, mode);
        let file = fs::File::open(path).expect("it is there");
        let time = UNIX_EPOCH + Duration::from_secs(u64::from(what));
        file.set_modified(time).expect("a time");
    };
    match what {
        0 | 1 => write(&path, 0o640),
        5 => symlink(outside.join("secret"), &path).expect("a link"),
        6 | 9 => {
            let twin = outside.join(left_name(name) + above.trim_end_matches('/'));
            if !twin.exists() {
                write(&twin, 0o600);
            }
            fs::hard_link(&twin, &path).expect("a link");
        }
        7 => write(&path, 0o644),
        8 => mkfifo(&path, Mode::S_IRWXU).expect("a pipe"),
        10 | 11 => fs::create_dir(&path).expect("a directory"),
        12 => {
            // A directory, and what says that it isn't complete.
            fs::write(&path, "").expect("room");
            mode_of(&path, 0o600);
            let _ = fs::create_dir(dir.join(name));
        }
        _ => write(&path, 0o600),
    }
    let there = script.there.entry(format!("{above}{name}")).or_default();
    there[usize::from(matches!(what, 0 | 1 | 9))] = bytes;
}

fn mode_of(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is there");
}

/// What a sender's manifest speaks for.
fn scope(choices: &mut Choices<'_>) -> Scope {
    let how = choices.byte();
    let mut scope = Scope {
        top: how & 1 > 0,
        dry_run: how & 6 == 6,
        ..Scope::default()
    };
    let rules: &[&str] = match how >> 5 {
        0 => &["- a"],
        1 => &["+ /b/***", "- *"],
        2 => &["- c/"],
        3 => &["- /a/b", "+ d", "- /link"],
        _ => &[],
    };
    for rule in rules {
        scope.filter.push(rule).expect("a rule");
    }
    scope
}

/// May a receiver that deletes have deleted what was there by that name?
fn may_go(
    name: &str,
    scope: &Scope,
    dotfiles: bool,
    before: &BTreeMap<String, Item>,
    manifest: &BTreeSet<String>,
) -> bool {
    if scope.dry_run || name.starts_with('.') && !dotfiles {
        return false;
    }
    // The first of the directories above it, or itself, that wasn't offered.
    let ends = name.match_indices('/').map(|(at, _)| at);
    let mut prefixes = ends.chain([name.len()]).map(|at| &name[..at]);
    let Some(first) = prefixes.find(|prefix| !manifest.contains(*prefix)) else {
        return false;
    };
    let below = [first].into_iter().chain(prefixes);
    let takes = |prefix: &str| {
        let is_directory = matches!(before.get(prefix), Some((Thing::Directory, ..)));
        let name = SafeName::parse(prefix).expect("a name");
        scope.filter.takes(&name, is_directory)
    };
    (first.contains('/') || scope.top) && { below }.all(takes)
}

/// Our receiver. A file has its final name only if it was offered with this size, and its right
/// hash was sent, or if it was there before; nothing is changed elsewhere, and nothing incomplete
/// stays but what another transfer can go on with. What was there goes only if the sender could
/// have it and doesn't.
pub(super) fn receiver(mut choices: Choices<'_>) {
    let flags = choices.byte();
    let around = directory();
    let dir = around.path().join("in");
    let outside = around.path().join("outside");
    fs::create_dir_all(&dir).expect("a directory");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("secret"), version(GROUP, 1)).expect("room");
    mode_of(&outside.join("secret"), 0o600);
    symlink(&outside, dir.join("link")).expect("a link");
    let mut script = Script::default();
    let more = choices.byte();
    let delete = more & 3 > 1;
    for _ in 0..choices.below(5) {
        lay(&mut choices, &dir, &outside, &mut script);
    }
    if flags & 3 > 0 {
        script.say(&Message::Hello(Hello::new(Role::Sender)));
    }
    let mut scope = Scope::default();
    if more & 12 > 0 {
        scope = self::scope(&mut choices);
        script.say(&Message::Scope(scope.clone()));
    }
    script.fixed = script.bytes.len();
    for _ in 0..MOST_STEPS {
        if choices.is_empty() {
            break;
        }
        script.step(&mut choices);
    }
    let keep = flags & 32 == 0;
    let default = ReceiveOptions::default();
    let options = ReceiveOptions {
        dotfiles: if flags & 4 > 0 {
            Dotfiles::Allow
        } else {
            Dotfiles::Refuse
        },
        links: match flags & 3 {
            1 => Links::Safe,
            2 => Links::All,
            _ => Links::None,
        },
        check_space: flags & 8 > 0,
        delete,
        checksum: flags & 16 > 0,
        keep_parts: if keep {
            default.keep_parts
        } else {
            Duration::ZERO
        },
        policy: match flags >> 6 {
            0 | 1 => Policy::Refuse,
            2 => Policy::Overwrite,
            _ => Policy::Rename,
        },
        ..default
    };
    let links = options.links;
    let (policy, before, beyond) = (options.policy, look_all(&dir), look_all(&outside));
    let (ours, theirs) = duplex(64 << 10);
    let progress = Progress::new();
    let receiving = receive(split(theirs), &dir, options, progress.clone());
    let (_, result) = run(receiving, ours, &script.bytes);
    let after = look_all(&dir);
    let offered = |name: &str, there: &Thing| {
        let name = unnumbered(name, policy);
        script.entries.iter().any(|(offer, what)| {
            let fits = match (there, what) {
                (Thing::File(content), What::File { size, .. }) => content.len() as u64 == *size,
                // Its content is that of an offered file, which is looked at below.
                (Thing::File(_), What::HardLink(_)) => true,
                (Thing::Directory, What::Directory) => true,
                (Thing::Link(target), What::Symlink(offered)) => {
                    let parsed = (SafeName::parse(offer), Target::parse(target));
                    let stays = |(name, target): (&SafeName, &Target)| {
                        target.stays_below_top(name, scope.top)
                    };
                    let safe = matches!(&parsed, (Ok(n), Some(t)) if stays((n, t)));
                    target == offered && (links == Links::All || links == Links::Safe && safe)
                }
                _ => false,
            };
            unnumbered(offer, policy) == name && fits
        })
    };
    let links_of = |name: &str| {
        let name = unnumbered(name, policy);
        let mut offers = script.entries.iter();
        let offer = offers.find(|(offer, _)| unnumbered(offer, policy) == name);
        offer.map(|(_, what)| what)
    };
    for (name, (there, mode, links)) in &after {
        let same = matches!(before.get(name), Some(old) if (&old.0, &old.1) == (there, mode));
        assert!(same || !scope.dry_run, "{name} has changed in a dry run");
        let is_part = name
            .rsplit('/')
            .next()
            .is_some_and(|name| name.contains(MARK));
        if same {
            continue;
        }
        let Thing::File(content) = there else {
            // An incomplete file is no directory, so a directory may have such a name.
            let may = !is_part || *there == Thing::Directory;
            assert!(offered(name, there) && may, "{name} is new: {result:?}");
            if matches!(there, Thing::Link(_)) {
                let new = !before.contains_key(name) || policy == Policy::Overwrite;
                assert!(new, "{name} is replaced: {result:?}");
                continue;
            }
            let made = !before.contains_key(name) || before.contains_key(&mark_of(name));
            assert!(made, "{name} is another: {result:?}");
            continue;
        };
        if is_part {
            // A former transfer's, which this one hasn't got to: only its mode is another.
            let former = matches!(before.get(name), Some((old, ..)) if old == there);
            let stays = keep && policy != Policy::Rename;
            let useful = content.is_empty() || content.len() as u64 >= GROUP;
            assert!(former || stays && useful, "{name} is left: {result:?}");
            assert_eq!((mode & 0o077, *links), (0, 1), "{name}");
            continue;
        }
        assert!(
            offered(name, there),
            "{name} has {} bytes: {result:?}",
            content.len()
        );
        let linked = matches!(links_of(name), Some(What::HardLink(_)));
        let same_content = match before.get(name) {
            Some((old, ..)) if old == there => true,
            // Another name of a file that was there.
            _ => linked && before.values().any(|(old, ..)| old == there),
        };
        let known = same_content || script.whole.contains(&hash(content));
        assert!(known, "{name} is no content: {result:?}");
        let new = !before.contains_key(name) || policy == Policy::Overwrite;
        assert!(new, "{name} is replaced: {result:?}");
    }
    // A sender may go while the receiver deletes, when everything else is on disk.
    let deletes = delete
        && policy != Policy::Rename
        && matches!(progress.phase(), Phase::Syncing | Phase::Done);
    let manifest = manifest(&script.bytes);
    for (name, (there, ..)) in &before {
        let is_part = name.contains(MARK) && *there != Thing::Directory;
        let goes = deletes && may_go(name, &scope, flags & 4 > 0, &before, &manifest);
        assert!(
            is_part || goes || after.contains_key(name),
            "{name} is gone: {result:?}"
        );
    }
    if let Ok(summary) = &result
        && policy != Policy::Rename
        && !scope.dry_run
    {
        let files = script.entries.iter();
        let files = files.filter(|(_, what)| what.size().is_some());
        let left_out = &summary.skipped.examples;
        let comes = |name: &str| {
            !left_out
                .iter()
                .any(|it| it.starts_with(&format!("{name}: ")))
        };
        let files = files.filter(|(name, _)| comes(name));
        for (name, ..) in files.take(summary.file_count as usize) {
            let there = after.get(name).map(|(there, ..)| there);
            assert!(
                there.is_some_and(|there| offered(name, there)),
                "{name} isn't there"
            );
        }
    }
    let beside = fs::read_dir(around.path()).expect("it is there").count();
    assert_eq!(beside, 2, "something is outside");
    let mut now = look_all(&outside);
    for (name, item) in &mut now {
        // A name less is no harm, and neither is one more for what has a name inside already.
        item.2 = beyond.get(name).map_or(item.2, |before| before.2);
    }
    assert!(now == beyond, "what is outside has changed: {result:?}");
}

/// What these bytes offer until the manifest ends: a script may say more, and other things.
fn manifest(mut said: &[u8]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    while let Some((header, rest)) = said.split_first_chunk()
        && let Ok(header) = Header::decode(*header)
        && let Some((body, rest)) = rest.split_at_checked(header.len)
    {
        said = rest;
        match Message::decode(header.kind, body) {
            Ok(Message::Entries(entries)) => {
                names.extend(entries.into_iter().map(|entry| entry.name.to_string()));
            }
            Ok(Message::Offered(_)) | Err(_) => break,
            Ok(_) => {}
        }
    }
    names
}

/// The name of the marker of a directory.
fn mark_of(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((above, name)) => format!("{above}/{}", left_name(name)),
        None => left_name(name),
    }
}

/// A name without the numbers that `--rename` gives.
fn unnumbered(name: &str, policy: Policy) -> String {
    if policy != Policy::Rename {
        return name.to_owned();
    }
    let part = |part: &str| match part.rsplit_once(" (") {
        Some((name, _)) => name.to_owned(),
        None => part.to_owned(),
    };
    name.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn look_all(dir: &Path) -> BTreeMap<String, Item> {
    let mut found = BTreeMap::new();
    look(dir, "", &mut found);
    found
}

/// All below a directory, by name.
fn look(dir: &Path, above: &str, found: &mut BTreeMap<String, Item>) {
    for item in fs::read_dir(dir).expect("it is there") {
        let item = item.expect("it is there");
        let name = format!("{above}{}", item.file_name().to_string_lossy());
        // Meanwhile, old parts may be removed.
        let Ok(metadata) = item.metadata() else {
            continue;
        };
        let kind = metadata.file_type();
        let thing = if kind.is_dir() {
            look(&item.path(), &format!("{name}/"), found);
            Thing::Directory
        } else if kind.is_file() {
            match fs::read(item.path()) {
                Ok(content) => Thing::File(content),
                Err(_) => continue,
            }
        } else {
            assert!(kind.is_symlink() || kind.is_fifo());
            match fs::read_link(item.path()) {
                Ok(target) => Thing::Link(target.to_string_lossy().into_owned()),
                Err(_) => Thing::Other,
            }
        };
        // A directory's number of names is that of the directories in it.
        let links = if kind.is_dir() { 0 } else { metadata.nlink() };
        found.insert(name, (thing, metadata.mode(), links));
    }
}

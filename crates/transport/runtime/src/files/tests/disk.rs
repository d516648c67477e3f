//! What a receiver does to its disk, in which order, and what a crash or a failing disk leaves.

use super::*;
use nix::errno::Errno;
use nix::sys::stat::fstat;
use receive::{Disk, Os};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use tempfile::{TempDir, tempdir};

/// An operation; files and directories go by inode.
#[derive(Clone, Debug, PartialEq)]
enum Op {
    MakeDir { dir: u64, name: String },
    Create { dir: u64, name: String },
    Write { file: u64, len: u64 },
    SetLen { file: u64, len: u64 },
    SetOwner { inode: u64 },
    Restore { inode: u64 },
    Symlink { dir: u64, name: String },
    Link { dir: u64, name: String },
    RestoreLink { dir: u64, name: String },
    SyncFile { file: u64 },
    Rename { dir: u64, from: String, to: String },
    Remove { dir: u64, name: String },
    RemoveDir { dir: u64, name: String },
    SyncDir { dir: u64 },
}

impl Op {
    fn kind(&self) -> &'static str {
        match self {
            Op::MakeDir { .. } => "make dir",
            Op::Create { name, .. } if name.starts_with(".top.") => "mark",
            Op::Create { .. } => "create",
            Op::Write { .. } => "write",
            Op::SetLen { .. } => "set len",
            Op::SetOwner { .. } => "set owner",
            Op::Restore { .. } => "restore",
            Op::Symlink { .. } => "symlink",
            Op::Link { .. } => "link",
            Op::RestoreLink { .. } => "restore link",
            Op::SyncFile { .. } => "sync file",
            Op::Rename { .. } => "rename",
            Op::Remove { .. } => "remove",
            Op::RemoveDir { .. } => "remove dir",
            Op::SyncDir { .. } => "sync dir",
        }
    }
}

/// An operation that was done.
#[derive(Clone, Debug)]
struct Step {
    op: Op,
    /// What was made.
    made: Option<u64>,
    /// Files that had been reported as saved before it began.
    reported: u64,
}

type Fault = Box<dyn FnMut(&Op) -> Option<Errno> + Send>;

/// A real disk that records what is done to it, and fails when it is told to.
pub(super) struct TestDisk {
    progress: Arc<Progress>,
    inner: Mutex<(Vec<Step>, Fault)>,
}

impl fmt::Debug for TestDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestDisk")
    }
}

impl TestDisk {
    fn new(
        progress: &Arc<Progress>,
        fault: impl FnMut(&Op) -> Option<Errno> + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            progress: progress.clone(),
            inner: Mutex::new((Vec::new(), Box::new(fault))),
        })
    }

    /// The write that would pass so many bytes fails.
    pub(super) fn that_fails_after(bytes: u64, errno: Errno) -> Arc<Self> {
        let mut left = bytes;
        Self::new(&Progress::new(), move |op| match op {
            Op::Write { len, .. } if *len > left => Some(errno),
            Op::Write { len, .. } => {
                left -= len;
                None
            }
            _ => None,
        })
    }

    /// Removing a directory or anything else fails so.
    pub(super) fn that_cannot_remove(directory: Errno, other: Errno) -> Arc<Self> {
        Self::new(&Progress::new(), move |op| match op {
            Op::RemoveDir { .. } => Some(directory),
            Op::Remove { name, .. } => (!name.contains(".manyway-part-")).then_some(other),
            _ => None,
        })
    }

    /// Whoever listens learns that something is being removed, and has time to react.
    pub(super) fn that_tells_of_removals(
        told: tokio::sync::mpsc::UnboundedSender<()>,
    ) -> Arc<Self> {
        Self::new(&Progress::new(), move |op| {
            if matches!(op, Op::Remove { .. }) && told.send(()).is_ok() {
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
            None
        })
    }

    /// Before a hard link is made, somebody puts another file in the place of this one.
    pub(super) fn that_replaces_before_it_links(file: std::path::PathBuf) -> Arc<Self> {
        Self::new(&Progress::new(), move |op| {
            if matches!(op, Op::Link { .. }) {
                fs::write(file.with_file_name("secret"), "secret").unwrap();
                fs::rename(file.with_file_name("secret"), &file).unwrap();
            }
            None
        })
    }

    /// Nobody may give files away.
    pub(super) fn that_keeps_owners() -> Arc<Self> {
        let fails = |op: &Op| matches!(op, Op::SetOwner { .. }).then_some(Errno::EPERM);
        Self::new(&Progress::new(), fails)
    }

    /// It has no hard links.
    pub(super) fn that_cannot_link() -> Arc<Self> {
        let fails = |op: &Op| matches!(op, Op::Link { .. }).then_some(Errno::EPERM);
        Self::new(&Progress::new(), fails)
    }

    /// One operation at a time, so that the record has their order.
    fn step<T>(
        &self,
        op: Op,
        act: impl FnOnce() -> io::Result<T>,
        made: impl FnOnce(&T) -> Option<u64>,
    ) -> io::Result<T> {
        let (steps, fault) = &mut *self.inner.lock().unwrap();
        let reported = self.progress.files_done();
        if let Some(errno) = fault(&op) {
            return Err(errno.into());
        }
        let done = act()?;
        let made = made(&done);
        steps.push(Step { op, made, reported });
        Ok(done)
    }

    fn steps(&self) -> Vec<Step> {
        self.inner.lock().unwrap().0.clone()
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.steps().iter().map(|step| step.op.kind()).collect()
    }
}

fn inode(of: impl AsFd) -> u64 {
    fstat(of).unwrap().st_ino
}

fn inode_at(dir: BorrowedFd<'_>, name: &str) -> u64 {
    let stat = nix::sys::stat::fstatat(dir, name, nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW);
    stat.unwrap().st_ino
}

impl Disk for TestDisk {
    fn make_dir(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        let op = Op::MakeDir {
            dir: inode(dir),
            name: name.to_owned(),
        };
        let made = |_: &()| Some(inode_at(dir, name));
        self.step(op, || Os.make_dir(dir, name), made)
    }

    fn create(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<fs::File> {
        let op = Op::Create {
            dir: inode(dir),
            name: name.to_owned(),
        };
        self.step(op, || Os.create(dir, name), |file| Some(inode(file)))
    }

    fn write(&self, file: &fs::File, bytes: &[u8], at: u64) -> io::Result<()> {
        let op = Op::Write {
            file: inode(file),
            len: bytes.len() as u64,
        };
        self.step(op, || Os.write(file, bytes, at), |()| None)
    }

    fn punch(&self, file: &fs::File, at: u64, len: u64) -> io::Result<()> {
        // The next write, or the end, counts.
        Os.punch(file, at, len)
    }

    fn set_len(&self, file: &fs::File, len: u64) -> io::Result<()> {
        let op = Op::SetLen {
            file: inode(file),
            len,
        };
        self.step(op, || Os.set_len(file, len), |()| None)
    }

    fn set_owner(&self, of: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let op = Op::SetOwner { inode: inode(of) };
        self.step(op, || Os.set_owner(of, uid, gid), |()| None)
    }

    fn set_owner_of_link(
        &self,
        dir: BorrowedFd<'_>,
        name: &str,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> io::Result<()> {
        let op = Op::SetOwner {
            inode: inode_at(dir, name),
        };
        let set = || Os.set_owner_of_link(dir, name, uid, gid);
        self.step(op, set, |()| None)
    }

    fn set_attribute(
        &self,
        of: BorrowedFd<'_>,
        name: &str,
        value: Option<&[u8]>,
    ) -> io::Result<()> {
        Os.set_attribute(of, name, value)
    }

    fn restore(&self, of: BorrowedFd<'_>, entry: &Entry) -> io::Result<()> {
        let op = Op::Restore { inode: inode(of) };
        self.step(op, || Os.restore(of, entry), |()| None)
    }

    fn symlink(&self, dir: BorrowedFd<'_>, target: &str, name: &str) -> io::Result<()> {
        let op = Op::Symlink {
            dir: inode(dir),
            name: name.to_owned(),
        };
        let made = |_: &()| Some(inode_at(dir, name));
        self.step(op, || Os.symlink(dir, target, name), made)
    }

    fn link(&self, of: (BorrowedFd<'_>, &str), dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        let op = Op::Link {
            dir: inode(dir),
            name: name.to_owned(),
        };
        let made = |_: &()| Some(inode_at(dir, name));
        self.step(op, || Os.link(of, dir, name), made)
    }

    fn restore_link(&self, dir: BorrowedFd<'_>, name: &str, mtime: Timestamp) -> io::Result<()> {
        let op = Op::RestoreLink {
            dir: inode(dir),
            name: name.to_owned(),
        };
        self.step(op, || Os.restore_link(dir, name, mtime), |()| None)
    }

    fn set_time(&self, of: BorrowedFd<'_>, mtime: manyway_transfer::Timestamp) -> io::Result<()> {
        let op = Op::Restore { inode: inode(of) };
        self.step(op, || Os.set_time(of, mtime), |()| None)
    }

    fn sync_file(&self, file: &fs::File) -> io::Result<()> {
        let op = Op::SyncFile { file: inode(file) };
        self.step(op, || Os.sync_file(file), |()| None)
    }

    fn rename(&self, dir: BorrowedFd<'_>, from: &str, to: &str, replace: bool) -> io::Result<()> {
        let op = Op::Rename {
            dir: inode(dir),
            from: from.to_owned(),
            to: to.to_owned(),
        };
        self.step(op, || Os.rename(dir, from, to, replace), |()| None)
    }

    fn remove(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        let op = Op::Remove {
            dir: inode(dir),
            name: name.to_owned(),
        };
        self.step(op, || Os.remove(dir, name), |()| None)
    }

    fn remove_dir(&self, dir: BorrowedFd<'_>, name: &str) -> io::Result<()> {
        let op = Op::RemoveDir {
            dir: inode(dir),
            name: name.to_owned(),
        };
        self.step(op, || Os.remove_dir(dir, name), |()| None)
    }

    fn sync_dir(&self, dir: BorrowedFd<'_>) -> io::Result<()> {
        let op = Op::SyncDir { dir: inode(dir) };
        self.step(op, || Os.sync_dir(dir), |()| None)
    }
}

/// What a crash can leave of a file.
#[derive(Default)]
struct Content {
    len: u64,
    restored: bool,
    synced: bool,
}

/// What a crash can leave of a directory.
#[derive(Default)]
struct Names {
    now: HashMap<String, u64>,
    /// As of the last sync.
    durable: HashMap<String, u64>,
    synced: bool,
}

/// A disk whose caches a crash may empty in any order: what was synced is there afterwards, what
/// wasn't may be there or not.
struct Model<'a> {
    root: u64,
    /// The files sent, in the manifest's order.
    sent: &'a [(&'a str, u64)],
    files: HashMap<u64, Content>,
    /// Symbolic links, and whether they have their time.
    links: HashMap<u64, bool>,
    dirs: HashMap<u64, Names>,
}

impl<'a> Model<'a> {
    fn new(root: &Path, sent: &'a [(&'a str, u64)]) -> Self {
        Self {
            root: fs::metadata(root).unwrap().ino(),
            sent,
            files: HashMap::new(),
            links: HashMap::new(),
            dirs: HashMap::new(),
        }
    }

    fn apply(&mut self, step: &Step) {
        self.check_reported(step.reported);
        match &step.op {
            Op::MakeDir { dir, name } => {
                let made = step.made.unwrap();
                self.change(*dir).insert(name.clone(), made);
                self.dirs.insert(made, Names::default());
            }
            Op::Create { dir, name } => {
                let made = step.made.unwrap();
                self.change(*dir).insert(name.clone(), made);
                self.files.insert(made, Content::default());
            }
            Op::Write { file, len } => {
                let content = self.files.get_mut(file).unwrap();
                content.len += len;
                content.synced = false;
            }
            Op::SetLen { file, len } => {
                let content = self.files.get_mut(file).unwrap();
                content.len = *len;
                content.synced = false;
            }
            Op::SetOwner { inode } => {
                // Before it has its mode and time.
                assert!(
                    self.files
                        .get(inode)
                        .is_none_or(|content| !content.restored)
                );
            }
            Op::Restore { inode } => match self.files.get_mut(inode) {
                Some(content) => {
                    content.restored = true;
                    content.synced = false;
                }
                None => self.dirs.get_mut(inode).unwrap().synced = false,
            },
            Op::Symlink { dir, name } => {
                let made = step.made.unwrap();
                self.change(*dir).insert(name.clone(), made);
                self.links.insert(made, false);
            }
            Op::Link { dir, name } => {
                self.change(*dir).insert(name.clone(), step.made.unwrap());
            }
            Op::RestoreLink { dir, name } => {
                let link = self.dirs[dir].now[name];
                *self.links.get_mut(&link).unwrap() = true;
            }
            Op::SyncFile { file } => self.files.get_mut(file).unwrap().synced = true,
            Op::Rename { dir, from, to } => {
                let file = self.change(*dir).remove(from).unwrap();
                self.change(*dir).insert(to.clone(), file);
                if let Some(restored) = self.links.get(&file) {
                    assert!(restored, "{to}");
                    return;
                }
                // From here on, a crash may leave the file under its final name.
                let content = &self.files[&file];
                let whole = self
                    .sent
                    .iter()
                    .any(|(name, len)| name.rsplit('/').next() == Some(to) && *len == content.len);
                assert!(whole && content.restored && content.synced, "{to}");
            }
            Op::Remove { dir, name } | Op::RemoveDir { dir, name } => {
                self.change(*dir).remove(name).unwrap();
            }
            Op::SyncDir { dir } => {
                let names = self.dirs.entry(*dir).or_default();
                names.durable = names.now.clone();
                names.synced = true;
            }
        }
    }

    fn change(&mut self, dir: u64) -> &mut HashMap<String, u64> {
        let names = self.dirs.entry(dir).or_default();
        names.synced = false;
        &mut names.now
    }

    /// Files that were reported survive a crash, with the directories above them.
    fn check_reported(&self, files: u64) {
        for (name, _) in &self.sent[..files as usize] {
            let mut at = self.root;
            for component in name.split('/') {
                let durable = self.dirs.get(&at).map(|names| &names.durable);
                let below = durable.and_then(|names| names.get(component));
                at = *below.unwrap_or_else(|| panic!("{name} is reported, but not durable"));
            }
            assert!(self.files[&at].synced, "{name}");
        }
    }
}

const SENT: [(&str, u64); 4] = [
    ("top/a", 10),
    ("top/b", 700_000),
    ("top/c/d/e", 0),
    ("top/f", 1),
];

struct Run {
    _from: TempDir,
    to: TempDir,
    disk: Arc<TestDisk>,
    /// What the sender was told.
    told: u64,
    ends: (
        Result<SendSummary, TransferError>,
        Result<ReceiveSummary, TransferError>,
    ),
}

async fn run(fault: impl FnMut(&Op) -> Option<Errno> + Send + 'static) -> Run {
    run_with(ReceiveOptions::default(), fault).await
}

async fn run_with(
    options: ReceiveOptions,
    fault: impl FnMut(&Op) -> Option<Errno> + Send + 'static,
) -> Run {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    for (name, len) in SENT {
        let path = from.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content(len as usize)).unwrap();
    }
    std::os::unix::fs::symlink("a", from.path().join("top/link")).unwrap();
    let (told, done) = (Progress::new(), Progress::new());
    let disk = TestDisk::new(&done, fault);
    let options = ReceiveOptions {
        disk: Some(disk.clone()),
        ..options
    };
    let (ours, theirs) = pair();
    let sources = Sources::new([from.path().join("top")]).unwrap();
    let ends = tokio::join!(
        send(ours, sources, told.clone()),
        receive(theirs, to.path(), options, done)
    );
    Run {
        _from: from,
        to,
        disk,
        told: told.files_done(),
        ends,
    }
}

impl Run {
    /// The files here under final names are whole; the first `reported` of those sent are here.
    fn check(&self, reported: u64) {
        let here = names(self.to.path());
        for name in &here {
            let path = self.to.path().join(name);
            let is_file = fs::symlink_metadata(&path).unwrap().is_file();
            if is_file && !name.contains(".manyway-part-") {
                let (_, len) = SENT.iter().find(|(sent, _)| sent == name).expect(name);
                assert!(fs::read(path).unwrap() == content(*len as usize), "{name}");
            }
        }
        for (name, _) in &SENT[..reported as usize] {
            assert!(here.iter().any(|other| other == name), "{name} in {here:?}");
        }
    }
}

/// At every step, a crash leaves no partial file under a final name, and every file that was
/// reported.
#[tokio::test]
async fn what_is_named_is_whole_and_what_is_reported_is_durable() {
    let run = run(|_| None).await;
    run.ends.1.as_ref().unwrap();
    let mut model = Model::new(run.to.path(), &SENT);
    for step in run.disk.steps() {
        model.apply(&step);
    }
    model.check_reported(4);
    assert_eq!(model.links.len(), 1);
    // Modes and times of directories, too.
    assert_eq!(model.dirs.len(), 4);
    assert!(model.dirs.values().all(|names| names.synced));
    run.check(4);
}

#[tokio::test]
async fn a_file_is_written_synced_named_and_its_directory_synced() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("f"), "content").unwrap();
    let disk = TestDisk::new(&Progress::new(), |_| None);
    let options = ReceiveOptions {
        disk: Some(disk.clone()),
        ..ReceiveOptions::default()
    };
    let (_, received) = transfer([from.path().join("f")], to.path(), options).await;
    received.unwrap();
    assert_eq!(
        disk.kinds(),
        [
            "create",
            "write",
            "restore",
            "sync file",
            "rename",
            "sync dir"
        ]
    );
}

#[tokio::test]
async fn a_crash_after_any_step_leaves_only_whole_files_under_final_names() {
    // How many steps there are depends on how many files are synced at a time.
    for last in 0.. {
        let mut done = 0;
        let run = run(move |_| {
            done += 1;
            (done > last).then_some(Errno::EIO)
        })
        .await;
        let mut model = Model::new(run.to.path(), &SENT);
        for step in run.disk.steps() {
            model.apply(&step);
        }
        model.check_reported(run.told);
        run.check(run.told);
        if run.ends.1.is_ok() {
            assert!(last > 4 * SENT.len() && run.told == SENT.len() as u64);
            break;
        }
    }
}

#[tokio::test]
async fn a_disk_that_fails_at_any_operation_is_named_with_the_cause() {
    for (kind, doing) in [
        ("make dir", "top: creating the directory failed"),
        ("mark", "top: creating the directory failed"),
        ("create", "top/a: creating failed"),
        ("write", "top/a: writing failed"),
        ("restore", "top/a: setting mode and time failed"),
        ("symlink", "top/link: making the link failed"),
        ("restore link", "top/link: making the link failed"),
        ("sync file", "syncing failed"),
        ("rename", "top/a: naming failed"),
        ("sync dir", "syncing failed"),
    ] {
        for (errno, code, cause) in [
            (
                Errno::ENOSPC,
                FailureCode::DiskFull,
                "No space left on device",
            ),
            (Errno::EIO, FailureCode::Write, "Input/output error"),
        ] {
            let mut failed = false;
            let none_kept = ReceiveOptions {
                keep_parts: std::time::Duration::ZERO,
                ..ReceiveOptions::default()
            };
            let run = run_with(none_kept, move |op| {
                let now = op.kind() == kind && !std::mem::replace(&mut failed, op.kind() == kind);
                now.then_some(errno)
            })
            .await;
            let (sent, received) = (run.ends.0.as_ref(), run.ends.1.as_ref());
            let (sent, received) = (sent.unwrap_err(), received.unwrap_err());
            let text = received.to_string();
            assert!(
                text.contains(doing) && text.contains(cause),
                "{kind}: {text}"
            );
            assert_eq!((sent.code(), received.code()), (Some(code), Some(code)));
            assert_eq!(sent.to_string(), format!("the other side gave up: {text}"));
            run.check(run.told);
            let left = names(run.to.path());
            let size = |name: &String| fs::metadata(run.to.path().join(name)).unwrap().len();
            let parts = left.iter().filter(|name| name.contains(".manyway-part-"));
            assert!(parts.map(size).all(|size| size == 0), "{left:?}");
        }
    }
}

/// What a disk has failed to take may be in memory alone, whence the next transfer would read it.
#[tokio::test]
async fn what_cannot_be_synced_does_not_stay() {
    let mut written = HashMap::new();
    let run = run(move |op| {
        if let Op::Write { file, len } = op {
            *written.entry(*file).or_insert(0) += len;
        }
        let fails = |file| written.get(file).is_some_and(|&len| len > 10);
        matches!(op, Op::SyncFile { file } if fails(file)).then_some(Errno::EIO)
    })
    .await;
    run.ends.1.as_ref().unwrap_err();
    let mut left = names(run.to.path());
    left.retain(|name| run.to.path().join(name).is_file());
    assert!(left.iter().all(|name| !name.contains(".b.")), "{left:?}");
}

/// Another transfer could go on with a part that is about to be removed.
#[tokio::test]
async fn an_old_part_is_locked_while_it_is_removed() {
    let (from, to) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("f"), "f").unwrap();
    let part = to.path().join(".old.manyway-part-01234567");
    fs::write(&part, "old").unwrap();
    let (at, (seen, locked)) = (part.clone(), std::sync::mpsc::channel());
    let disk = TestDisk::new(&Progress::new(), move |op| {
        if matches!(op, Op::Remove { name, .. } if name.contains(".old.")) {
            seen.send(fs::File::open(&at).unwrap().try_lock().is_err())
                .unwrap();
        }
        None
    });
    let options = ReceiveOptions {
        keep_parts: std::time::Duration::ZERO,
        disk: Some(disk),
        ..ReceiveOptions::default()
    };
    std::thread::sleep(std::time::Duration::from_millis(50));
    let ends = transfer([from.path().join("f")], to.path(), options).await;
    ends.1.unwrap();
    assert!(locked.recv().unwrap());
}

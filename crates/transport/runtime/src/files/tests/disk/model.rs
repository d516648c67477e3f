//! What a crash can leave of a directory.

use super::*;
use std::os::unix::fs::{FileExt, symlink};

/// What a crash can leave of a file.
struct Content {
    file: Arc<fs::File>,
    restored: bool,
    /// Is its content on disk?
    synced: bool,
    /// Are its mode and time?
    settled: bool,
}

impl Content {
    fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.file.metadata().unwrap().len() as usize];
        self.file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }
}

/// What a crash can leave of a directory.
#[derive(Default)]
pub(super) struct Names {
    now: HashMap<String, u64>,
    /// As of the last sync.
    durable: HashMap<String, u64>,
    pub(super) synced: bool,
}

/// A symbolic link.
pub(super) struct Link {
    target: String,
    /// It has its time.
    restored: bool,
}

/// What a crash leaves of what wasn't synced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    /// Are the names there?
    names: bool,
    /// Is the content?
    content: bool,
}

impl Crash {
    pub(super) fn all() -> [Self; 3] {
        let crash = |(names, content)| Self { names, content };
        [(true, true), (true, false), (false, false)].map(crash)
    }
}

/// A disk whose caches a crash may empty in any order: what was synced is there afterwards, what
/// wasn't may be there or not.
pub(super) struct Model {
    root: u64,
    /// The files sent, in the manifest's order.
    sent: Vec<(String, Vec<u8>)>,
    /// Which of them the receiver reports, one after the other.
    due: Vec<usize>,
    files: HashMap<u64, Content>,
    /// The names of the directories that were there at first.
    paths: HashMap<u64, String>,
    pub(super) links: HashMap<u64, Link>,
    pub(super) dirs: HashMap<u64, Names>,
}

impl Model {
    /// Of a directory as it is on disk, into which these files are sent.
    pub(super) fn new(root: &Path, sent: Vec<(String, Vec<u8>)>) -> Self {
        let mut model = Self {
            root: fs::metadata(root).unwrap().ino(),
            sent,
            due: Vec::new(),
            files: HashMap::new(),
            paths: HashMap::new(),
            links: HashMap::new(),
            dirs: HashMap::new(),
        };
        model.walk(root, "");
        model
    }

    fn walk(&mut self, dir: &Path, below: &str) {
        let mut names = HashMap::new();
        for item in fs::read_dir(dir).unwrap() {
            let path = item.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            names.insert(name.clone(), metadata.ino());
            if metadata.is_dir() {
                self.walk(&path, &format!("{below}{name}/"));
            } else {
                let content = Content {
                    file: Arc::new(fs::File::open(&path).unwrap()),
                    restored: true,
                    synced: true,
                    settled: true,
                };
                self.files.insert(metadata.ino(), content);
            }
        }
        let inode = fs::metadata(dir).unwrap().ino();
        self.paths.insert(inode, below.to_owned());
        let names = Names {
            now: names.clone(),
            durable: names,
            synced: true,
        };
        self.dirs.insert(inode, names);
    }

    /// A transfer begins, which reports these of the files.
    pub(super) fn begin(&mut self, due: Vec<usize>) {
        self.due = due;
    }

    pub(super) fn apply(&mut self, step: &Step) {
        self.check_reported(step.reported);
        let made = || step.made.clone().unwrap();
        match &step.op {
            Op::MakeDir { dir, name } => {
                self.change(*dir).insert(name.clone(), made().inode);
                self.dirs.insert(made().inode, Names::default());
            }
            Op::Create { dir, name } => {
                let Made { inode, file } = made();
                self.change(*dir).insert(name.clone(), inode);
                let content = Content {
                    file: file.unwrap(),
                    restored: false,
                    synced: false,
                    settled: false,
                };
                self.files.insert(inode, content);
            }
            Op::Write { file, .. } | Op::SetLen { file, .. } => {
                self.files.get_mut(file).unwrap().synced = false;
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
                    content.settled = false;
                }
                None => self.dirs.get_mut(inode).unwrap().synced = false,
            },
            Op::Symlink { dir, name, target } => {
                self.change(*dir).insert(name.clone(), made().inode);
                let link = Link {
                    target: target.clone(),
                    restored: false,
                };
                self.links.insert(made().inode, link);
            }
            Op::Link { dir, name } => {
                self.change(*dir).insert(name.clone(), made().inode);
            }
            Op::RestoreLink { dir, name } => {
                let link = self.dirs[dir].now[name];
                self.links.get_mut(&link).unwrap().restored = true;
            }
            Op::SyncFile { file } => {
                let content = self.files.get_mut(file).unwrap();
                (content.synced, content.settled) = (true, true);
            }
            Op::Rename { dir, from, to } => {
                let file = self.change(*dir).remove(from).unwrap();
                self.change(*dir).insert(to.clone(), file);
                if let Some(link) = self.links.get(&file) {
                    assert!(link.restored, "{to}");
                    return;
                }
                // From here on, a crash may leave the file under its final name.
                let content = &self.files[&file];
                let bytes = content.read();
                let mut sent = self.sent.iter();
                let whole =
                    sent.any(|(name, sent)| name.rsplit('/').next() == Some(to) && bytes == *sent);
                let durable = content.synced && content.settled;
                assert!(whole && content.restored && durable, "{to}");
            }
            Op::Remove { dir, name } | Op::RemoveDir { dir, name } => {
                if !name.contains(".manyway-part-") && !self.makes_room(*dir, name) {
                    // What the sender doesn't have goes when all it has is there for good.
                    self.check_all();
                }
                self.change(*dir).remove(name).unwrap();
            }
            Op::SyncDir { dir } => {
                let names = self.dirs.entry(*dir).or_default();
                names.durable = names.now.clone();
                names.synced = true;
            }
        }
    }

    /// Is it in the way of what is sent? Of a directory, the file that replaces it must be there.
    fn makes_room(&self, dir: u64, name: &str) -> bool {
        let Some(below) = self.paths.get(&dir) else {
            return false;
        };
        let path = format!("{below}{name}/");
        let is_below = |name: &str| path.starts_with(&format!("{name}/"));
        if let Some((_, sent)) = self.sent.iter().find(|(name, _)| is_below(name)) {
            let mut complete = self.files.values();
            assert!(
                complete.any(|file| file.synced && file.settled && file.read() == *sent),
                "{path}"
            );
            return true;
        }
        is_below("top/link") || self.sent.iter().any(|(name, _)| name.starts_with(&path))
    }

    fn change(&mut self, dir: u64) -> &mut HashMap<String, u64> {
        let names = self.dirs.entry(dir).or_default();
        names.synced = false;
        &mut names.now
    }

    /// Files that were reported survive a crash, with the directories above them.
    pub(super) fn check_reported(&self, files: u64) {
        for number in &self.due[..files as usize] {
            self.check(*number);
        }
    }

    /// The same for all of them.
    pub(super) fn check_all(&self) {
        (0..self.sent.len()).for_each(|number| self.check(number));
    }

    fn check(&self, number: usize) {
        let (name, sent) = &self.sent[number];
        let mut at = self.root;
        for component in name.split('/') {
            let durable = self.dirs.get(&at).map(|names| &names.durable);
            let below = durable.and_then(|names| names.get(component));
            at = *below.unwrap_or_else(|| panic!("{name} is reported, but not durable"));
        }
        let content = &self.files[&at];
        assert!(content.synced && content.read() == *sent, "{name}");
    }

    /// Makes what a crash leaves.
    pub(super) fn crashed(&self, crash: Crash) -> TempDir {
        let at = tempdir().unwrap();
        self.leave(self.root, crash, at.path());
        at
    }

    fn leave(&self, dir: u64, crash: Crash, at: &Path) {
        let Some(names) = self.dirs.get(&dir) else {
            return;
        };
        let names = match crash.names {
            true => &names.now,
            false => &names.durable,
        };
        for (name, inode) in names {
            let path = at.join(name);
            if let Some(link) = self.links.get(inode) {
                symlink(&link.target, &path).unwrap();
            } else if let Some(content) = self.files.get(inode) {
                let mut bytes = content.read();
                if !content.synced && !crash.content {
                    // Size and time may be there before it.
                    bytes.fill(0);
                }
                fs::write(&path, bytes).unwrap();
                let metadata = content.file.metadata().unwrap();
                set_mode(&path, metadata.mode() & 0o777);
                let file = fs::File::open(&path).unwrap();
                file.set_modified(metadata.modified().unwrap()).unwrap();
            } else {
                fs::create_dir(&path).unwrap();
                self.leave(*inode, crash, &path);
            }
        }
    }
}

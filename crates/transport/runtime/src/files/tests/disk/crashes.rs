//! What a crash leaves, and that the same transfer completes afterwards.

use super::model::{Crash, Model};
use super::*;

const SENT: [(&str, usize); 4] = [
    ("top/a", 10),
    ("top/b", 700_000),
    ("top/c/d/e", 0),
    ("top/f", 1),
];

/// The files that are sent.
fn sent() -> Vec<(String, Vec<u8>)> {
    SENT.map(|(name, len)| (name.to_owned(), content(len)))
        .to_vec()
}

/// Is a transfer killed before that step?
type Before = Box<dyn FnMut(&Op) -> bool + Send>;

/// What is sent, again and again.
pub(super) struct Case {
    from: TempDir,
    options: ReceiveOptions,
    /// What is there already.
    old: Vec<(String, Vec<u8>)>,
}

/// A transfer that may have ended early.
pub(super) struct Run {
    pub(super) disk: Arc<TestDisk>,
    /// What the sender was told.
    pub(super) told: u64,
    pub(super) ends: (
        Result<SendSummary, TransferError>,
        Result<ReceiveSummary, TransferError>,
    ),
}

impl Case {
    pub(super) fn new(options: ReceiveOptions) -> Self {
        let from = tempdir().unwrap();
        write(from.path(), &sent(), 1_500_000_000);
        std::os::unix::fs::symlink("a", from.path().join("top/link")).unwrap();
        Self {
            from,
            options,
            old: Vec::new(),
        }
    }

    /// Files that have changed meanwhile, and others that are to be deleted.
    fn changed() -> Self {
        let mut b = content(700_000);
        b[200_000..200_100].fill(0);
        let old = [
            ("top/b", b),
            ("top/c/g", content(20)),
            ("top/f", vec![7]),
            ("top/gone/h", content(30)),
        ];
        let options = ReceiveOptions {
            delete: true,
            ..policy(Policy::Overwrite)
        };
        Self {
            old: old.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec(),
            ..Self::new(options)
        }
    }

    /// Directories that have become files or links, and the other way round.
    fn other_kinds() -> Self {
        let old = [
            ("top/a/x", content(10)),
            ("top/b/y/z", content(20)),
            ("top/c/d", content(30)),
            ("top/link/u", content(40)),
        ];
        let old = old.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec();
        Self {
            old,
            ..Self::changed()
        }
    }

    /// A directory with what is there already.
    pub(super) fn to(&self) -> TempDir {
        let to = tempdir().unwrap();
        write(to.path(), &self.old, 1_000_000_000);
        to
    }

    /// A transfer whose disk fails so.
    pub(super) async fn run(
        &self,
        to: &Path,
        fault: impl FnMut(&Op) -> Option<Errno> + Send + 'static,
    ) -> Run {
        let (told, done) = (Progress::new(), Progress::new());
        let disk = TestDisk::new(&done, fault);
        let options = ReceiveOptions {
            disk: Some(disk.clone()),
            ..self.options.clone()
        };
        let (ours, theirs) = pair();
        let sources = Sources::new([self.from.path().join("top")]).unwrap();
        let ends = tokio::join!(
            send(ours, sources, told.clone()),
            receive(theirs, to, options, done)
        );
        let told = told.files_done();
        Run { disk, told, ends }
    }

    /// A transfer that is killed before such a step.
    async fn stopped(&self, to: &Path, mut at: impl FnMut(&Op) -> bool + Send + 'static) -> Run {
        let mut stopped = false;
        let run = self.run(to, move |op| {
            stopped |= at(op);
            stopped.then_some(Errno::EIO)
        });
        run.await
    }

    /// Which of the files aren't there.
    fn due(&self, to: &Path) -> Vec<usize> {
        let time = |path: &Path| fs::metadata(path).ok()?.modified().ok();
        let there = |name: &str| time(&to.join(name)) == time(&self.from.path().join(name));
        let due = SENT
            .iter()
            .enumerate()
            .filter(|(_, (name, _))| !there(name));
        due.map(|(number, _)| number).collect()
    }

    /// The files here under final names are whole.
    pub(super) fn check(&self, to: &Path) {
        let sent = sent();
        for name in finals(to) {
            let path = to.join(&name);
            if fs::symlink_metadata(&path).unwrap().is_file() {
                let mut versions = sent.iter().chain(&self.old);
                let bytes = fs::read(path).unwrap();
                let known = versions.any(|version| *version == (name.clone(), bytes.clone()));
                assert!(known, "{name}");
            }
        }
    }

    /// Whatever a crash leaves, no file is wrong, and the same transfer completes.
    async fn survive(&self, model: &Model) {
        for crash in Crash::all() {
            let to = model.crashed(crash);
            self.check(to.path());
            let paths = [self.from.path().join("top")];
            let (_, received) = transfer(paths, to.path(), self.options.clone()).await;
            received.unwrap_or_else(|error| panic!("{crash:?}: {error}"));
            let contents = |dir: &Path| {
                let name = |name| (fs::read(dir.join(&name)).ok(), name);
                names(dir).into_iter().map(name).collect::<Vec<_>>()
            };
            assert!(
                contents(to.path()) == contents(self.from.path()),
                "{crash:?}"
            );
        }
    }

    /// Stops a transfer after each step in turn, and cuts the power then.
    async fn cut_everywhere(&self, interrupted: Option<fn() -> Before>) {
        // How many steps there are depends on how many files are synced at a time.
        for last in 0.. {
            let to = self.to();
            let mut model = Model::new(to.path(), sent());
            if let Some(at) = interrupted {
                let due = self.due(to.path());
                let first = self.stopped(to.path(), at()).await;
                first.ends.1.as_ref().unwrap_err();
                model.begin(due);
                first.disk.steps().iter().for_each(|step| model.apply(step));
            }
            model.begin(self.due(to.path()));
            let mut done = 0;
            let next = move |_: &Op| {
                done += 1;
                done > last
            };
            let run = self.stopped(to.path(), next).await;
            run.disk.steps().iter().for_each(|step| model.apply(step));
            model.check_reported(run.told);
            self.check(to.path());
            self.survive(&model).await;
            if run.ends.1.is_ok() {
                model.check_all();
                assert!(last > 5);
                break;
            }
        }
    }
}

fn write(dir: &Path, files: &[(String, Vec<u8>)], seconds: u64) {
    for (name, bytes) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        set_time(&path, seconds, 0);
    }
}

/// The nth step of that kind.
fn nth(kind: &'static str, n: usize) -> Before {
    let mut seen = 0;
    Box::new(move |op| {
        seen += usize::from(op.kind() == kind);
        seen == n
    })
}

/// At every step, a crash leaves no partial file under a final name, and every file that was
/// reported.
#[tokio::test]
async fn what_is_named_is_whole_and_what_is_reported_is_durable() {
    let case = Case::new(ReceiveOptions::default());
    let to = case.to();
    let mut model = Model::new(to.path(), sent());
    model.begin(case.due(to.path()));
    let run = case.run(to.path(), |_| None).await;
    run.ends.1.as_ref().unwrap();
    run.disk.steps().iter().for_each(|step| model.apply(step));
    model.check_reported(4);
    assert_eq!(model.links.len(), 1);
    // Modes and times of directories, too.
    assert_eq!(model.dirs.len(), 4);
    assert!(model.dirs.values().all(|names| names.synced));
    case.check(to.path());
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
    let mut kinds = disk.kinds();
    // The directory as it was is synced meanwhile.
    if kinds.len() > 6 {
        let first = kinds.iter().position(|kind| *kind == "sync dir");
        kinds.remove(first.unwrap());
    }
    assert_eq!(
        kinds,
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
async fn a_power_cut_after_any_step_leaves_only_whole_files_under_final_names() {
    Case::new(ReceiveOptions::default())
        .cut_everywhere(None)
        .await;
}

/// One file in part, and others complete.
#[tokio::test]
async fn a_power_cut_in_a_transfer_that_goes_on_leaves_only_whole_files() {
    let case = Case::new(ReceiveOptions::default());
    case.cut_everywhere(Some(|| nth("write", 4))).await;
}

/// Nothing is to be sent any more, but what a killed receiver has named isn't durable yet.
#[tokio::test]
async fn what_is_there_is_durable_when_success_is_reported() {
    let case = Case::new(ReceiveOptions::default());
    for n in 1..=3 {
        let to = case.to();
        let mut model = Model::new(to.path(), sent());
        model.begin(case.due(to.path()));
        let first = case.stopped(to.path(), nth("sync dir", n)).await;
        first.disk.steps().iter().for_each(|step| model.apply(step));
        model.begin(case.due(to.path()));
        let second = case.run(to.path(), |_| None).await;
        second.ends.1.as_ref().unwrap();
        second
            .disk
            .steps()
            .iter()
            .for_each(|step| model.apply(step));
        model.check_all();
    }
}

/// Whenever the transfer that has made them was killed.
#[tokio::test]
async fn directories_get_their_modes_from_the_transfer_that_completes_them() {
    let case = Case::new(ReceiveOptions::default());
    let modes = |dir: &Path| {
        let mode = |name: &str| fs::metadata(dir.join(name)).unwrap().mode();
        ["top", "top/c", "top/c/d"].map(mode)
    };
    for last in 0..12 {
        let to = case.to();
        let mut done = 0;
        let next = move |_: &Op| {
            done += 1;
            done > last
        };
        case.stopped(to.path(), next).await.ends.1.unwrap_err();
        case.run(to.path(), |_| None).await.ends.1.unwrap();
        assert_eq!(modes(to.path()), modes(case.from.path()), "{last}");
    }
}

/// Files that are sent again by ranges, and what is deleted.
#[tokio::test]
async fn a_power_cut_in_a_sync_leaves_old_or_new_files() {
    Case::changed().cut_everywhere(None).await;
}

#[tokio::test]
async fn a_power_cut_while_kinds_change_leaves_old_or_new_files() {
    let case = Case::other_kinds();
    case.cut_everywhere(None).await;
    case.cut_everywhere(Some(|| nth("write", 4))).await;
}

#[tokio::test]
async fn a_power_cut_in_a_sync_that_goes_on_leaves_old_or_new_files() {
    Case::changed()
        .cut_everywhere(Some(|| nth("write", 4)))
        .await;
}

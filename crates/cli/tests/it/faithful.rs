//! Copies that rsync can't tell from their originals: links, holes, owners, modes, times,
//! attributes and ACLs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::common::{Finished, Running, eventually, manyway, skipped};

/// A user whom every system has, and who may do nothing in particular.
const NOBODY: u32 = 65_534;

/// What a tree has that can be different. `setfattr`, `setfacl` and `chown` may not be there, or
/// not be permitted: then the tree has less.
const MAKE: &str = "
mkdir -p d/empty d/deep/er 'd/a b'
printf hello > d/file; printf x > d/deep/er/x; : > d/nothing
chmod 0640 d/file; chmod 0444 d/deep/er/x; chmod 0751 d/deep
ln -s file d/safe; ln -s ../file d/deep/up; ln -s nowhere d/dangling
ln -s /etc/passwd d/absolute; ln -s ../../out d/out
ln d/file d/deep/second; ln d/file 'd/a b/third'
truncate -s 300M d/sparse
printf data | dd of=d/sparse bs=1 seek=123456789 conv=notrunc 2>/dev/null
truncate -s 70000 d/hole
setfattr -n user.color -v blue d/file 2>/dev/null
setfattr -n user.color -v red d/empty 2>/dev/null
setfacl -m u:54321:r d/nothing 2>/dev/null
setfacl -d -m u:54321:rx d/empty 2>/dev/null
chown 54321:54322 d/deep/er/x 2>/dev/null
chown -h 54321:54322 d/dangling 2>/dev/null
chown 54323 d/empty 2>/dev/null
: > d/program; chmod 6755 d/program
mkdir d/shared d/anybodys; chmod 2775 d/shared; chmod 1777 d/anybodys
touch -h -d '2001-02-03 04:05:06.789' d/dangling d/file d/empty
touch -d '1969-01-01 00:00:00.5' d/deep
sync d/sparse; true
";

/// What is different afterwards, without other content.
const CHANGE: &str = "
chmod 0600 d/file; chmod 0700 d/deep; chmod 0555 d/empty
chmod 0755 d/program d/shared; chmod 4777 d/hole
setfattr -x user.color d/file 2>/dev/null
setfattr -n user.shape -v round d/file 2>/dev/null
setfacl -b d/nothing 2>/dev/null
chown 54324:54325 d/nothing 2>/dev/null
rm 'd/a b/third'; ln d/deep/er/x 'd/a b/third'
ln -sfn file d/dangling
touch -h -d '2011-02-03 04:05:06.789' d/safe d/deep d
";

struct Place {
    dir: TempDir,
    user: Option<u32>,
}

impl Place {
    /// A directory of a user who is not root, or of whoever runs the test.
    fn new(user: Option<u32>) -> Self {
        let dir = TempDir::new().unwrap();
        if let Some(user) = user {
            chown(dir.path(), Some(user), Some(user)).unwrap();
        }
        Self { dir, user }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.path());
        become_user(self.user, &mut command);
        command
    }

    fn shell(&self, script: &str) {
        let done = self.command("sh", &["-c", script]).status().unwrap();
        assert!(done.success());
    }

    /// Sends `d` into `in`; what both sides end with.
    fn copy(&self, receiver: &[&str], sender: &[&str]) -> [Finished; 2] {
        self.copy_from(self.user, receiver, sender)
    }

    /// The same, with another user's sender.
    fn copy_from(&self, user: Option<u32>, receiver: &[&str], sender: &[&str]) -> [Finished; 2] {
        let start = |user: Option<u32>, arguments: &[&str], more: &[&str]| {
            let mut command = manyway(self.path(), arguments);
            command.args(more);
            become_user(user, &mut command);
            Running(command.spawn().unwrap())
        };
        let common = [
            "--once",
            "-q",
            "--path",
            "127.0.0.1",
            "--ticket-file",
            "ticket",
        ];
        let receive = [&["recv", "in"][..], &common].concat();
        let receiver = start(self.user, &receive, receiver);
        let ticket = self.path().join("ticket");
        eventually("the ticket", || {
            fs::read_to_string(&ticket).ok().filter(|t| t.len() > 9)
        });
        let common = ["send", "d", "-q", "--path", "127.0.0.1", "--to", "@ticket"];
        let sent = start(user, &common, sender).finish();
        let ended = [sent, receiver.finish()];
        fs::remove_file(&ticket).unwrap();
        ended
    }

    /// What rsync would have to do.
    fn differences(&self) -> String {
        let compare = ["-aHAXcn", "--delete", "--itemize-changes", "d/", "in/d/"];
        let compared = self.command("rsync", &compare).output().unwrap();
        assert!(compared.status.success(), "{compared:?}");
        String::from_utf8(compared.stdout).unwrap()
    }

    fn blocks(&self, name: &str) -> u64 {
        fs::metadata(self.path().join(name)).unwrap().blocks()
    }
}

fn become_user(user: Option<u32>, command: &mut Command) {
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
}

#[test]
fn rsync_finds_no_difference() {
    if Command::new("rsync").arg("--version").output().is_err() {
        assert!(std::env::var_os("MANYWAY_REQUIRE_RSYNC").is_none());
        writeln!(std::io::stderr(), "skipped: it takes rsync").unwrap();
        return;
    }
    let place = TempDir::new().unwrap();
    let root = fs::metadata(place.path()).unwrap().uid() == 0;
    for user in [None, Some(NOBODY)] {
        if user.is_some() && !root {
            continue;
        }
        compare(&Place::new(user));
    }
}

fn compare(place: &Place) {
    place.shell(MAKE);
    // Only root gives files away, and only then are there such.
    let all = ["--perms", "-X", "-A", "-o", "-g", "--links=all"];
    for ended in place.copy(&all, &["-X", "-A"]) {
        ended.ok();
    }
    assert_eq!(place.differences(), "");
    for name in ["sparse", "hole"] {
        let (copy, original) = (format!("in/d/{name}"), format!("d/{name}"));
        let (copy, original) = (place.blocks(&copy), place.blocks(&original));
        assert!(
            copy <= original + original / 100,
            "{name}: {copy} of {original}"
        );
    }

    place.shell(CHANGE);
    assert_ne!(place.differences(), "");
    let all = [&all[..], &["--overwrite"]].concat();
    for ended in place.copy(&all, &["-X", "-A"]) {
        ended.ok();
    }
    assert_eq!(place.differences(), "");

    // Without the options, what is different is said, if it can be known.
    fs::remove_dir_all(place.path().join("in")).unwrap();
    let [sent, received] = place.copy(&[], &[]);
    assert_eq!((sent.code, received.code), (6, 6));
    let told = "2 names left out or changed at the receiver:\n  d/absolute: a symbolic link";
    assert!(received.stderr.contains(told), "{received:?}");
    assert_eq!(place.differences().matches("cL+++").count(), 2);
}

/// A file or a directory that can't be read doesn't keep the others back, and with `--delete`, what
/// the receiver has of it stays.
#[test]
fn what_cannot_be_read_is_left_out() {
    let place = TempDir::new().unwrap();
    let root = fs::metadata(place.path()).unwrap().uid() == 0;
    let place = Place::new(root.then_some(NOBODY));
    place
        .shell("mkdir -p d/closed d/half; for f in a closed/f half/f secret; do echo > d/$f; done");
    for ended in place.copy(&[], &[]) {
        ended.ok();
    }
    place.shell("echo new > d/a; echo new > d/secret; chmod 0 d/secret d/closed; chmod 400 d/half");
    let [sent, received] = place.copy(&["--overwrite", "--delete"], &[]);
    place.shell("chmod -R u=rwX d");
    assert_eq!((sent.code, received.code), (6, 6), "{sent:?} {received:?}");
    let told = "manyway: 3 names left out:
  d/closed: listing failed at the sender: Permission denied (os error 13); make it readable, or \
leave it out
  d/half/f: listing failed at the sender: Permission denied (os error 13); make it readable, or \
leave it out
  d/secret: opening failed at the sender: Permission denied (os error 13); make it readable, or \
leave it out\n";
    assert_eq!(sent.stderr, told);
    let told = "manyway: 3 names left out:
  d/closed: the sender can't read it
  d/half/f: the sender can't read it
  d/secret: the sender can't read it\n";
    assert_eq!(received.stderr, told);
    let read = |name: &str| fs::read_to_string(place.path().join("in/d").join(name)).unwrap();
    assert_eq!(
        ["a", "closed/f", "half/f", "secret"].map(read),
        ["new\n", "\n", "\n", "\n"]
    );
}

/// A receiver gets what root sends, with modes that keep its own user out, and goes on with it.
#[test]
fn what_keeps_its_user_out_is_brought_up_to_date() {
    let place = TempDir::new().unwrap();
    if fs::metadata(place.path()).unwrap().uid() != 0 {
        return skipped("it takes root");
    }
    for mode in ["000", "200", "300", "400", "444", "500", "600"] {
        let place = Place::new(Some(NOBODY));
        place.shell("mkdir -p d/m/deep; for f in a m/a m/f m/gone m/deep/a; do echo > d/$f; done");
        let close = format!("chmod {mode} d/m/deep d/m/f d/m");
        place.shell(&close);
        let mirror = ["--overwrite", "--delete", "--perms"];
        let all = |options: &[&str]| {
            for ended in place.copy_from(None, options, &[]) {
                ended.ok();
            }
        };
        let modes = || {
            ["m", "m/deep", "m/f"].map(|name| {
                let found = fs::metadata(place.path().join("in/d").join(name)).unwrap();
                format!("{:03o}", found.mode() & 0o777)
            })
        };
        all(&mirror);
        assert_eq!(modes(), [mode; 3]);
        all(&[]);
        all(&mirror);
        assert_eq!(modes(), [mode; 3]);

        place.shell("chmod 700 d/m d/m/deep; echo new > d/m/a; echo new > d/m/deep/b; rm d/m/gone");
        place.shell("chmod 640 d/m/f");
        place.shell(&format!("chmod {mode} d/m/deep d/m"));
        let [dry, _] = place.copy_from(None, &mirror, &["--dry-run"]);
        // It opens nothing up.
        assert_eq!(
            dry.code,
            if mode == "500" { 0 } else { 7 },
            "{mode}: {dry:?}"
        );
        all(&mirror);
        assert_eq!(modes(), [mode, mode, "640"]);
        let read = |name: &str| fs::read_to_string(place.path().join("in/d").join(name)).unwrap();
        assert_eq!(["m/a", "m/deep/b"].map(read), ["new\n"; 2]);
        assert!(!place.path().join("in/d/m/gone").exists());
        // All of it goes, too.
        place.shell("chmod 700 d/m d/m/deep; rm -r d/m");
        all(&mirror);
        assert!(!place.path().join("in/d/m").exists());
    }
}

//! A directory in which the commands of one page run, one after the other, as for its reader.

use std::fs::{self, File};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::pages::{self, top};

/// Only a command that hangs takes as long.
const PATIENCE: Duration = Duration::from_secs(900);

/// The port of relays on pages; here another one may be free.
const RELAY_PORT: &str = ":45170";

/// What commands print for others, as pages show it, and how it begins in truth.
const PRINTED: [(&str, &str); 4] = [
    ("mw1…", "mw1"),
    ("mr1…", "mr1"),
    ("id1…", "id1"),
    (REGISTRY, "https://127.0.0.1:"),
];

/// Every other host is this folder.
const SSH: &str = "sh -c 'cd server && exec sh -c \"$*\"'";

/// The registry on pages.
const REGISTRY: &str = "https://registry.example:45180#7xkq…";

/// The code on pages; a true one is another each time.
const CODE: &str = "7-guitar-saddle-orbit";

/// The reader's directory, and the commands that run there.
pub(super) struct Place {
    dir: TempDir,
    /// Takes the place of `RELAY_PORT`.
    relay_port: String,
    /// Commands so far.
    commands: usize,
    listeners: Vec<Listener>,
    /// The last of each kind that one of them printed.
    printed: [Option<String>; PRINTED.len()],
    /// What `export` has set.
    environment: Vec<(String, String)>,
}

/// A command that waits for others.
struct Listener {
    child: Child,
    /// It ends with the first of them.
    once: bool,
    output: PathBuf,
    /// What the page shows of its output.
    shown: Vec<String>,
}

impl Place {
    pub(super) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        for folder in ["scenarios", "docs"] {
            std::os::unix::fs::symlink(top().join(folder), dir.path().join(folder)).unwrap();
        }
        fs::write(dir.path().join("film.mkv"), vec![7; 1 << 20]).unwrap();
        for folder in ["photos", "server"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        fs::write(dir.path().join("photos/sea.jpg"), "waves").unwrap();
        let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        Place {
            dir,
            relay_port: format!(":{}", free.unwrap().port()),
            commands: 0,
            listeners: Vec::new(),
            printed: Default::default(),
            environment: Vec::new(),
        }
    }

    /// Runs a command as it stands; what is wrong with what it does.
    pub(super) fn run(&mut self, command: &pages::Command) -> Result<(), String> {
        let words = self.true_words(&command.words);
        let shown = command.output.iter().map(|line| self.pattern(line));
        let shown: Vec<String> = shown
            .map(|line| line.replace(REGISTRY, "…").replace(CODE, "…"))
            .collect();
        if let Some(variables) = words.strip_prefix("export ") {
            let variables = variables.split(' ').filter_map(|it| it.split_once('='));
            let own = variables.map(|(name, value)| (name.to_owned(), value.replace("~/", "")));
            self.environment.extend(own);
            return Ok(());
        }
        self.commands += 1;
        let output = self.dir.path().join(format!(".output-{}", self.commands));
        let child = self.shell(&words, File::create(&output).unwrap());
        if waits(&command.words) {
            self.listeners.push(Listener {
                child,
                once: words.contains("--once"),
                output,
                shown,
            });
            let enrols = self
                .environment
                .iter()
                .any(|(name, _)| name == "MANYWAY_REGISTRY");
            // What others need of the rest is what it prints for them.
            let ready = if enrols && words.starts_with("manyway relay") {
                Some("Enrolled at the registry")
            } else if words.contains("--code") {
                Some("The code works once")
            } else {
                None
            };
            return self.learn(ready);
        }
        let code = end(child);
        let said = fs::read_to_string(output).unwrap();
        note(&mut self.printed, &said);
        // A page may show an error.
        let error = shown.iter().any(|line| line.starts_with("manyway: "));
        if (code != Some(0)) != error {
            return Err(format!("ends with {code:?}:\n{said}"));
        }
        match shown.is_empty() {
            true => Ok(()),
            false => compare(&shown, &said, true),
        }
    }

    /// What `export` has set is for one block.
    pub(super) fn another_shell(&mut self) {
        self.environment.clear();
    }

    /// A page's command, with what others have printed meanwhile in place of its examples.
    fn true_words(&self, shown: &str) -> String {
        let mut words = self.pattern(shown);
        for (printed, (example, _)) in self.printed.iter().zip(PRINTED) {
            if let Some(printed) = printed {
                words = words.replace(example, printed);
            }
        }
        words
    }

    /// A page's line, with `…` for what is another each time.
    fn pattern(&self, shown: &str) -> String {
        let is_id = |word: &str| word.starts_with("id1") && word.ends_with('…');
        let words = shown.split(' ');
        let words = words.map(|word| if is_id(word) { "id1…" } else { word });
        let words = words.collect::<Vec<_>>().join(" ");
        words.replace(RELAY_PORT, &self.relay_port)
    }

    /// Ends what waits; it must have said what the page shows.
    pub(super) fn close(&mut self) -> Result<(), String> {
        for mut listener in std::mem::take(&mut self.listeners) {
            if !listener.once {
                listener.child.kill().ok();
            }
            end(listener.child);
            let said = fs::read_to_string(listener.output).unwrap();
            compare(&listener.shown, &said, listener.once)?;
        }
        Ok(())
    }

    fn shell(&self, words: &str, output: File) -> Child {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_manyway"));
        let folder = program.parent().unwrap().display();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
        // A shell that becomes the command, where it is a single one: so it can be ended.
        let single = words.starts_with("manyway ") && !words.contains(['&', '|', ';', '>']);
        let line = if single {
            format!("exec {words}")
        } else {
            words.to_owned()
        };
        Command::new("sh")
            .args(["-c", &line])
            .current_dir(self.dir.path())
            .env("PATH", path)
            .env("HOME", self.dir.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME")
            .env("MANYWAY_SSH", SSH)
            // Of this user's connections, `top` shows the page's.
            .env("XDG_RUNTIME_DIR", self.dir.path())
            .env("TMPDIR", self.dir.path())
            .envs(self.environment.iter().cloned())
            .env("COLUMNS", "200")
            // This host alone: nothing listens to the network.
            .env("MANYWAY_PATH", "127.0.0.1")
            .stdin(Stdio::null())
            .stderr(output.try_clone().unwrap())
            .stdout(output)
            .spawn()
            .unwrap()
    }

    /// Waits until the last listener has printed these words, or else something for others.
    fn learn(&mut self, ready: Option<&str>) -> Result<(), String> {
        let listener = self.listeners.last_mut().expect("it was just started");
        let started = Instant::now();
        loop {
            let said = fs::read_to_string(&listener.output).unwrap();
            // Whole lines only: the last word might still grow.
            if said.ends_with('\n') {
                let printed = note(&mut self.printed, &said);
                if ready.map_or(printed, |ready| said.contains(ready)) {
                    return Ok(());
                }
            }
            if listener.child.try_wait().unwrap().is_some() || started.elapsed() > PATIENCE {
                return Err(format!("it isn't there for others:\n{said}"));
            }
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for listener in &mut self.listeners {
            listener.child.kill().ok();
            listener.child.wait().ok();
        }
    }
}

/// Keeps what a command has printed for others; whether there is something.
fn note(printed: &mut [Option<String>], said: &str) -> bool {
    let mut any = false;
    for (kept, (_, prefix)) in printed.iter_mut().zip(PRINTED) {
        if let Some(found) = said.split_whitespace().rfind(|it| it.starts_with(prefix)) {
            *kept = Some(found.to_owned());
            any = true;
        }
    }
    any
}

/// Receivers, relays, registries and senders that wait for somebody with what they print.
fn waits(words: &str) -> bool {
    let fetches = words.contains("mw1…") || words.contains(CODE);
    let said = |option: &&str| words.contains(*option);
    let sends_to = words.contains(" --to ") || words.contains('@');
    (words.starts_with("manyway recv") && !fetches)
        || words.starts_with("manyway registry")
        || (words.starts_with("manyway relay") && !["--invite", "--revoke"].iter().any(said))
        || (words.starts_with("manyway send") && !sends_to)
}

fn end(mut child: Child) -> Option<i32> {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > PATIENCE {
            child.kill().ok();
        }
        sleep(Duration::from_millis(10));
    }
    child.wait().unwrap().code()
}

/// `…` in a shown line stands for anything, and as a line for any lines. If `whole`, the output has
/// nothing more.
fn compare(shown: &[String], said: &str, whole: bool) -> Result<(), String> {
    let mut lines = said.lines().map(str::trim);
    let mut skips = false;
    for line in shown {
        let line = line.trim();
        if line == "…" {
            skips = true;
            continue;
        }
        let found = match skips {
            true => lines.any(|said| fits(line, said)),
            false => lines.next().is_some_and(|said| fits(line, said)),
        };
        if !found {
            return Err(format!("the page shows {line:?}, not so:\n{said}"));
        }
        skips = false;
    }
    match whole && !skips && lines.any(|line| !line.is_empty()) {
        true => Err(format!("it says more than the page shows:\n{said}")),
        false => Ok(()),
    }
}

fn fits(shown: &str, said: &str) -> bool {
    let mut parts = shown.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(last) = parts.next_back() else {
        return shown == said;
    };
    let Some(mut rest) = said.strip_prefix(first) else {
        return false;
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn only_ellipses_stand_for_something_else() {
    assert!(fits("a … c", "a b c") && fits("mw1…", "mw1abc") && fits("a", "a"));
    assert!(fits("at …:", "at a:b:") && fits("a … b … c", "a b b c c") && !fits("a…a", "a"));
    assert!(!fits("a", "a b") && !fits("a … c", "a b d") && !fits("a … c", "a b c d"));
    let shown = |lines: &[&str]| lines.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
    let said = "a\nb\nc\n";
    assert!(compare(&shown(&["a", "…", "c"]), said, true).is_ok());
    assert!(compare(&shown(&["a", "…"]), said, true).is_ok());
    assert!(compare(&shown(&["a"]), said, true).is_err());
    assert!(compare(&shown(&["a"]), said, false).is_ok());
    assert!(compare(&shown(&["a", "c"]), said, true).is_err());
}

//! One-time codes: two hosts that share a code find each other at a registry.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread::spawn;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::service::{Relay, Service};
use crate::common::{Finished, Running, manyway};
use manyway_registry::client::{ClientError, PairingError, redeem};
use manyway_registry::{Code, RegistryUrl};
use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

const HOST: [&str; 5] = ["--path", "127.0.0.1", "--token-file", "tokens", "--code"];

/// A registry, a host of a code in its directory, and guests in another one that has no token.
struct Place {
    dir: TempDir,
    guests: TempDir,
    registry: Service,
    url: RegistryUrl,
}

impl Place {
    fn new(registry: &[&str]) -> Self {
        let (dir, guests) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let registry = Service::registry_with(dir.path(), registry);
        let content: Vec<u8> = (0..300_000_u32)
            .map(|n| (n.wrapping_mul(n) >> 5) as u8)
            .collect();
        for at in [&dir, &guests] {
            fs::write(at.path().join("file"), &content).unwrap();
            fs::create_dir(at.path().join("in")).unwrap();
        }
        Self {
            dir,
            guests,
            url: registry.url(),
            registry,
        }
    }

    /// A host that has shown its code.
    fn host(&self, arguments: &[&str]) -> (Service, String) {
        let url = self.url.to_string();
        let line = [arguments, &HOST, &["--registry", &url]].concat();
        let mut host = Service::start(self.dir.path(), &line);
        host.hear("The code works once, within ");
        let words = host.said.split_whitespace();
        let mut codes: Vec<&str> = words.filter(|word| Code::is_meant(word)).collect();
        codes.dedup();
        assert_eq!(codes.len(), 1, "{}", host.said);
        let code = codes[0].to_owned();
        assert_eq!(code.split('-').count(), 4);
        (host, code)
    }

    fn guest(&self, arguments: &[&str]) -> Running {
        let mut command = manyway(self.guests.path(), arguments);
        command.env("MANYWAY_PATH", "127.0.0.1");
        command.env("MANYWAY_REGISTRY", self.url.to_string());
        Running(command.spawn().unwrap())
    }

    /// What the guest says that gives this code, as a sentence.
    fn refused(&self, code: &str) -> (i32, String) {
        told(self.guest(&["recv", code, "new"]).finish())
    }
}

fn told(finished: Finished) -> (i32, String) {
    let last = finished.stderr.lines().last().unwrap_or_default();
    assert!(
        !finished
            .stderr
            .contains(|c: char| c.is_control() && c != '\n'),
        "{finished:?}"
    );
    (finished.code, last.to_owned())
}

fn same(a: &Path, b: &Path) {
    assert!(fs::read(a).unwrap() == fs::read(b).unwrap());
}

/// The same code with another word, which is one, too.
fn wrong(code: &str, guess: usize) -> String {
    let (rest, last) = code.rsplit_once('-').unwrap();
    let words = ["acorn", "acrobat", "airport", "album", "almond", "alpine"];
    let others = words.iter().filter(|word| **word != last);
    let word = others.cycle().nth(guess).unwrap();
    format!("{rest}-{word}")
}

/// The guest needs the registry and the code, and nothing else: not even a token.
#[test]
fn a_code_stands_for_a_ticket_in_both_directions_and_is_in_no_log() {
    let place = Place::new(&[]);
    let _relay = Service::relay(place.dir.path(), &place.url.to_string(), "relay.key");
    let (sender, first) = place.host(&["send", "file", "-vvv"]);
    // It says more than a pipe holds.
    let sender = spawn(|| sender.finish().ok());
    let received = place.guest(&["recv", &first, "in", "-vvv"]).finish().ok();
    let sent = sender.join().unwrap();
    same(
        &place.dir.path().join("file"),
        &place.guests.path().join("in/file"),
    );
    let (receiver, second) = place.host(&["recv", "in", "-vvv"]);
    let receiver = spawn(|| receiver.finish().ok());
    // As people write it, from a file.
    let written = format!("{}\n", second.to_uppercase().replace('-', "  "));
    fs::write(place.guests.path().join("code"), written).unwrap();
    let fetched = place.guest(&["send", "file", "--to", "@code", "-vvv"]);
    let fetched = fetched.finish().ok();
    let got = receiver.join().unwrap();
    same(
        &place.guests.path().join("file"),
        &place.dir.path().join("in/file"),
    );
    // Once each is shown, on purpose.
    for (host, code) in [(&sent, &first), (&got, &second)] {
        assert_eq!(host.stderr.matches(code.as_str()).count(), 1);
    }
    let registry = place.registry.end();
    assert!(registry.contains("enrolled relay="), "the log is on");
    let all = [sent, received, fetched, got].map(|ended| ended.stderr);
    let all = all
        .concat()
        .replacen(&first, "", 1)
        .replacen(&second, "", 1)
        + &registry;
    for code in [&first, &second] {
        let (_, words) = code.split_once('-').unwrap();
        assert!(!all.to_lowercase().contains(words), "{all}");
    }
    // The prefix of a ticket, and some of what follows it.
    let ticket = all.match_indices("mw1").any(|(at, _)| {
        let rest = all[at + 3..].chars();
        rest.take_while(char::is_ascii_alphanumeric).count() > 20
    });
    assert!(!ticket, "{all}");
}

/// The relays of `--via` come with the code, and access to them.
#[test]
fn the_guest_gets_the_relays_of_the_host() {
    let place = Place::new(&[]);
    let relay = Relay::start(place.dir.path(), "relay");
    let (receiver, code) = place.host(&["recv", "in", "--via", &relay.text]);
    // Long enough for the path through the relay to come up.
    let limit = ["--limit", "1Mbps"];
    let sent = place.guest(&[&["send", "file", "--json", "--to", &code], &limit[..]].concat());
    let sent = sent.finish().ok().json();
    receiver.finish().ok();
    let paths = sent["paths"].as_array().unwrap();
    assert!(paths.iter().any(|path| path["relay"] == true), "{sent}");
    relay.end();
}

/// The address of a service that says hello.
fn greeter() -> String {
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = service.local_addr().unwrap().to_string();
    spawn(move || {
        for tcp in service.incoming() {
            tcp.unwrap().write_all(b"hello").unwrap();
        }
    });
    address
}

/// `serve` and its guest go on after the code has been used, and end together.
#[test]
fn a_code_leads_to_the_services_of_a_host() {
    let place = Place::new(&[]);
    let target = greeter();
    let (host, code) = place.host(&["serve", "--allow", &target]);
    // For that, a program would need the code again and again.
    assert!(!host.said.contains("ProxyCommand"), "{}", host.said);
    let connected = place.guest(&["connect", "--stdio", "-q", &code]);
    assert_eq!(connected.finish().ok().stdout, "hello");
    let (status, said) = told(place.guest(&["connect", "--stdio", &code]).finish());
    assert_eq!(status, 4, "{said}");
    let ended = host.finish().ok().stderr;
    let gone = "stopped: the other side has ended, and a code works only once\n";
    assert!(ended.ends_with(gone), "{ended}");
}

/// A guest whose network has gone for a while comes back without the code, and its host has waited.
#[test]
fn a_host_waits_for_its_guest_to_come_back() {
    let place = Place::new(&[]);
    let target = greeter();
    let (mut host, code) = place.host(&["serve", "--allow", &target]);
    let (registry, from) = (place.url.to_string(), format!("0:{target}"));
    let common = ["forward", &code, "--path", "127.0.0.1", "-L", &from];
    let line = [&common[..], &["--registry", &registry]].concat();
    let mut guest = Service::start(place.guests.path(), &line);
    guest.hear("Forwarding 127.0.0.1:");
    guest.process.signal("STOP");
    host.hear("manyway waits for the other side to come back.");
    guest.process.signal("CONT");
    guest.hear("; trying again");
    let (_, port) = guest.said.split_once("Forwarding 127.0.0.1:").unwrap();
    let port: u16 = port.split(' ').next().unwrap().parse().unwrap();
    let mut said = String::new();
    let mut tcp = TcpStream::connect(("127.0.0.1", port)).unwrap();
    tcp.read_to_string(&mut said).unwrap();
    assert_eq!(said, "hello");
    drop(guest.end());
    host.finish().ok();
}

#[test]
fn a_code_waits_no_longer_than_expire_says() {
    let place = Place::new(&[]);
    let (host, _code) = place.host(&["recv", "in", "--expire", "2s"]);
    let ended = host.finish();
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(
        ended.stderr.contains("works once, within 2 s."),
        "{ended:?}"
    );
    let told = "manyway: nobody came within 2 s (`--expire`): start this again\n";
    assert!(ended.stderr.ends_with(told), "{ended:?}");
}

/// Somebody has used the code, so it isn't that nobody came.
#[test]
fn a_guest_who_does_not_come_is_told_as_such() {
    let place = Place::new(&[]);
    let (host, code) = place.host(&["send", "file", "--carrier", "udp", "--expire", "8s"]);
    let guest = place.guest(&["recv", &code, "in", "--carrier", "tcp"]);
    assert_eq!(guest.finish().code, 3);
    let ended = host.finish();
    assert_eq!(ended.code, 3, "{ended:?}");
    let told = "the code was used, but no transfer began within 8 s";
    assert!(ended.stderr.contains(told), "{ended:?}");
}

#[test]
fn programs_read_the_code_as_an_object() {
    let place = Place::new(&["--code-life", "90s"]);
    let url = place.url.to_string();
    let line = [
        "send",
        "file",
        "-q",
        "--progress",
        "json",
        "--registry",
        &url,
    ];
    let mut command = manyway(place.dir.path(), &[&line[..], &HOST].concat());
    let mut host = Running(command.spawn().unwrap());
    let mut output = std::io::BufReader::new(host.0.stdout.take().unwrap());
    let mut object = String::new();
    std::io::BufRead::read_line(&mut output, &mut object).unwrap();
    let object: Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["event"], "code");
    assert_eq!(object["registry"], place.url.to_string());
    assert_eq!(object["valid_seconds"], 90);
    let code = object["code"].as_str().unwrap();
    place.guest(&["recv", code, "in"]).finish().ok();
    // With `-q` the screen has the code alone.
    assert_eq!(host.finish().ok().stderr, format!("{code}\n"));
}

#[test]
fn of_two_users_of_one_code_one_gets_the_files() {
    let place = Place::new(&[]);
    let (sender, code) = place.host(&["send", "file"]);
    let both = [0, 1].map(|n| {
        let dir = format!("in{n}");
        place.guest(&["recv", &code, &dir])
    });
    let mut ended = both.map(Running::finish);
    sender.finish().ok();
    ended.sort_by_key(|ended| ended.code);
    let [served, late] = ended;
    assert_eq!(served.code, 0, "{served:?}");
    let (status, words) = told(late);
    assert_eq!(status, 4);
    insta::assert_snapshot!("used_twice", words);
    let copies = ["in0", "in1"].map(|dir| place.guests.path().join(dir).join("file").exists());
    assert_eq!(copies.iter().filter(|copied| **copied).count(), 1);
    // Nor does it work later.
    let (status, words) = place.refused(&code);
    assert!(
        status == 4 && words.contains("used this code already"),
        "{words}"
    );
}

#[test]
fn a_wrong_word_ends_a_code_and_a_hundred_guesses_get_nothing() {
    let place = Place::new(&["--request-rate", "100000"]);
    let (sender, code) = place.host(&["send", "file"]);
    let (status, words) = place.refused(&wrong(&code, 0));
    assert_eq!(status, 4);
    insta::assert_snapshot!("wrong_words_at_the_guest", words);
    // Nothing came for it.
    assert!(!place.guests.path().join("new").exists());
    let (status, words) = told(sender.finish());
    assert_eq!(status, 4);
    insta::assert_snapshot!("wrong_words_at_the_host", words);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let urls = std::slice::from_ref(&place.url);
    for guess in 1..100 {
        // The right one is among them.
        let text = match guess {
            50 => code.clone(),
            _ => wrong(&code, guess),
        };
        let mut rng = ChaCha20Rng::seed_from_u64(guess as u64);
        let code = text.parse().unwrap();
        let error = runtime.block_on(redeem(urls, &code, &mut rng)).unwrap_err();
        assert!(
            matches!(&error, PairingError::Client(ClientError::Refused { code, .. })
                if code == "code_wrong"),
            "{error}"
        );
    }
}

#[test]
fn a_code_that_nobody_uses_ends_on_both_sides() {
    let place = Place::new(&["--code-life", "1s"]);
    let (sender, code) = place.host(&["send", "file"]);
    let (status, words) = told(sender.finish());
    let expired = "manyway: the registry says: the code has expired, since nobody used it in time: \
                   make a new one";
    assert_eq!((status, &*words), (4, expired));
    assert_eq!(place.refused(&code), (4, expired.to_owned()));
}

/// Neither costs the try that a code allows.
#[test]
fn mistyped_words_and_numbers_are_told() {
    let place = Place::new(&[]);
    let (sender, code) = place.host(&["send", "file"]);
    let mut typo: Vec<&str> = code.split('-').collect();
    let swapped = format!("{}x", typo[2]);
    let right = typo[2];
    typo[2] = &swapped;
    let (status, words) = place.refused(&typo.join("-"));
    let expected = format!(
        "manyway: the code is not valid: no code has the word \"{swapped}\" (number 2): is it \
         \"{right}\"? (if you mean a directory, write ./ before its name)"
    );
    assert_eq!((status, words), (2, expected));
    assert!(!place.guests.path().join(typo.join("-")).exists());
    let (_, words) = code.split_once('-').unwrap();
    let (status, words) = place.refused(words);
    assert!(
        status == 2 && words.contains("a code begins with a number and a dash"),
        "{words}"
    );
    let (_, rest) = code.split_once('-').unwrap();
    let (status, words) = place.refused(&format!("999999-{rest}"));
    assert_eq!(status, 4);
    insta::assert_snapshot!("wrong_number", words);
    place.guest(&["recv", &code, "in"]).finish().ok();
    sender.finish().ok();
}

/// What fails at the guest's own host fails before the code is used.
#[test]
fn a_guests_own_mistakes_dont_use_a_code_up() {
    let place = Place::new(&[]);
    let (sender, code) = place.host(&["recv", "in"]);
    for arguments in [
        &["send", "missing", "--to", &code][..],
        &["send", "file", "--to", &code, "--via", "mr1x"],
        &["send", "file", "--to", &code, "--path", "192.0.2.1"],
        &["recv", &code, "no/such/parent"],
        &["recv", &code, "--code", "--token-file", "x"],
        &["send", "file", "--to", &code, "--code"],
    ] {
        let ended = place.guest(arguments).finish();
        assert_ne!(ended.code, 0, "{arguments:?}");
        assert!(!ended.stderr.contains("the registry says"), "{ended:?}");
    }
    // The access that comes with the code needs no token: a file of another registry, or none,
    // isn't in the way.
    let own = ["--token-file", "missing"];
    let sent = place.guest(&[&["send", "file", "--to", &code], &own[..]].concat());
    sent.finish().ok();
    sender.finish().ok();
}

#[test]
fn what_is_missing_is_told() {
    let place = Place::new(&[]);
    let url = place.url.to_string();
    let mut said = Vec::new();
    let mut fails = |arguments: &[&str]| {
        let ended = Running(manyway(place.dir.path(), arguments).spawn().unwrap()).finish();
        let (status, words) = told(ended);
        said.push(format!("{status}: {words}"));
    };
    let path = ["--path", "127.0.0.1"];
    fails(&[&["send", "file", "--code"], &path[..]].concat());
    fails(&[&["send", "file", "--code", "--registry", &url], &path[..]].concat());
    fails(&[&["recv", "7-guitar-saddle-orbit", "in"], &path[..]].concat());
    fails(&[&["recv", "7-guitar-saddle", "in"], &path[..]].concat());
    fails(
        &[
            &["send", "file", "--to", "7", "--registry", &url],
            &path[..],
        ]
        .concat(),
    );
    fails(
        &[
            &["send", "file", "host:dir", "--code", "--registry", &url],
            &path[..],
        ]
        .concat(),
    );
    insta::assert_snapshot!(said.join("\n"));
    // Who has exported the URL for codes needs no token for anything else.
    let alone = [&["recv", "in", "--expire", "1s"], &path[..]].concat();
    let mut alone = manyway(place.dir.path(), &alone);
    let ended = Running(alone.env("MANYWAY_REGISTRY", &url).spawn().unwrap()).finish();
    assert_eq!(ended.code, 3, "{ended:?}");
    let words = "the registry is used for one-time codes, and not for relays";
    assert!(ended.stderr.contains(words), "{ended:?}");
}

#[test]
fn a_registry_that_is_down_is_told_by_both() {
    let place = Place::new(&[]);
    let url = place.url.to_string();
    place.registry.end();
    let fails = |arguments: &[&str], why: &str| {
        let mut command = manyway(place.dir.path(), arguments);
        command.args(["--path", "127.0.0.1", "--registry", &url]);
        let ended = Running(command.spawn().unwrap()).finish();
        let (status, words) = told(ended);
        assert_eq!(status, 3, "{words}");
        let why = format!("manyway: {why}no registry answers: 127.0.0.1: ");
        assert!(words.starts_with(&why), "{words}");
    };
    fails(&["recv", "7-guitar-saddle-orbit", "in"], "");
    let needs = "`--code` needs a registry: try again later, or leave it out and give the other \
                 side the ticket: ";
    let code = ["--code", "--token-file", "tokens"];
    for command in [
        &["send", "file"][..],
        &["recv", "in"],
        &["send", "-"],
        &["serve", "--allow", "localhost:22"],
    ] {
        fails(&[command, &code].concat(), needs);
    }
}

//! Every command in the book and in the other pages for readers.
//!
//! Each page is followed from its top in a directory of its own, and what it shows as output has to
//! come. What the reader has already, a comment above a block makes: `<!-- before: COMMAND -->`. A
//! block that takes another host, root or minutes says so there, `<!-- not run: why -->`; of its
//! commands, options, files, packages and scripts have to exist. `cargo`, `sudo` and the scripts of
//! `.ci` and `packaging` never run here: a build isn't started within a build.

mod known;
mod pages;
mod place;

use std::sync::Mutex;

use pages::Command;
use place::Place;

/// `cargo run -- …` is the program that these tests have.
fn own(command: &Command) -> Option<Command> {
    let ways = [
        "cargo run --release --features research -- ",
        "cargo run --release -- ",
    ];
    let program = ways.iter().find_map(|way| command.words.strip_prefix(way));
    let words = match program {
        Some(rest) => format!("manyway {rest}"),
        None => command.words.clone(),
    };
    let elsewhere = [
        "cargo ",
        "sudo ",
        ".ci/",
        "packaging/",
        "mdbook ",
        "MANYWAY_",
        "INSTA_",
    ];
    let runs = !elsewhere.iter().any(|word| words.starts_with(word));
    runs.then(|| Command {
        words,
        output: command.output.clone(),
    })
}

/// What is wrong with a page's commands, one after the other.
fn follow(page: &str) -> Vec<String> {
    let mut place = Place::new();
    let mut faults = Vec::new();
    for block in pages::blocks(page) {
        place.another_shell();
        for command in &block.before {
            if let Err(fault) = place.run(command) {
                faults.push(format!("{}: {}\n{fault}", block.at, command.words));
            }
        }
        for command in &block.commands {
            let fault = match (&block.not_run, own(command)) {
                (None, Some(own)) => place.run(&own).err(),
                (Some(_), Some(own)) => known::fault(&own.words),
                (_, None) => known::fault(&command.words),
            };
            if let Some(fault) = fault {
                faults.push(format!("{}: {}\n{fault}", block.at, command.words));
            }
        }
    }
    if let Err(fault) = place.close() {
        faults.push(format!("{page}: {fault}"));
    }
    faults
}

#[test]
fn every_command_does_what_its_page_says() {
    let only = std::env::var("MANYWAY_PAGE").unwrap_or_default();
    let pages = Mutex::new(pages::names());
    let faults = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(page) = pages.lock().unwrap().pop() else {
                        return;
                    };
                    if page.contains(&only) {
                        faults.lock().unwrap().extend(follow(&page));
                    }
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

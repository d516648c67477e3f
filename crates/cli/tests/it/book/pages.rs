//! The commands of the pages: fenced blocks of `sh` and `console`.

use std::fs;
use std::path::PathBuf;

/// A fenced block of commands.
#[derive(Debug)]
pub(super) struct Block {
    /// Its page and line.
    pub(super) at: String,
    /// Why nobody runs it here: what `<!-- not run: … -->` above it says.
    pub(super) not_run: Option<String>,
    /// What has to be there for its commands: what `<!-- before: … -->` above it says.
    pub(super) before: Vec<Command>,
    pub(super) commands: Vec<Command>,
}

/// A command, and what a `console` block shows of its output.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Command {
    pub(super) words: String,
    pub(super) output: Vec<String>,
}

pub(super) fn top() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The pages that readers get, from the top folder.
pub(super) fn names() -> Vec<String> {
    let summary = fs::read_to_string(top().join("docs/SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1);
    let pages = links.map(|rest| format!("docs/{}", rest.split(')').next().unwrap()));
    let outside = ["README.md", "CONTRIBUTING.md", "adapters/noq/README.md"];
    pages.chain(outside.map(str::to_owned)).collect()
}

/// The blocks of a page, in its order.
pub(super) fn blocks(page: &str) -> Vec<Block> {
    parse(page, &fs::read_to_string(top().join(page)).unwrap())
}

fn parse(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut above = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            match line
                .strip_prefix("<!-- ")
                .and_then(|it| it.strip_suffix(" -->"))
            {
                Some(comment) => above.push(comment),
                None => above.clear(),
            }
            continue;
        };
        let inside = lines.by_ref().map(|(_, line)| line.trim_start());
        let inside: Vec<&str> = inside.take_while(|line| !line.starts_with("```")).collect();
        let commands = match language {
            "sh" => script(&inside),
            "console" => session(&inside),
            _ => Vec::new(),
        };
        let above = std::mem::take(&mut above);
        let said = |key| above.iter().filter_map(move |it| it.strip_prefix(key));
        let before = said("before: ").map(|words: &str| Command {
            words: words.to_owned(),
            output: Vec::new(),
        });
        if !commands.is_empty() {
            blocks.push(Block {
                at: format!("{page}:{}", index + 1),
                not_run: said("not run: ").next().map(str::to_owned),
                before: before.collect(),
                commands,
            });
        }
    }
    blocks
}

/// Commands alone, with comments after them, over several lines if those end with a backslash.
fn script(lines: &[&str]) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        let line = line.split(" # ").next().unwrap_or(line).trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words = line.trim_end_matches('\\').trim_end();
        match commands.last_mut().filter(|_| goes_on) {
            Some(command) => command.words = format!("{} {words}", command.words),
            None => commands.push(Command {
                words: words.to_owned(),
                output: Vec::new(),
            }),
        }
        goes_on = line.ends_with('\\');
    }
    commands
}

/// Commands after `$`, and their output.
fn session(lines: &[&str]) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    for line in lines {
        if let Some(words) = line.strip_prefix("$ ") {
            commands.push(Command {
                words: words.to_owned(),
                output: Vec::new(),
            });
        } else if let Some(command) = commands.last_mut() {
            command.output.push((*line).to_owned());
        }
    }
    commands
}

#[test]
fn blocks_have_commands_and_output() {
    let page = "a\n<!-- before: pwd -->\n<!-- not run: far away -->\n```sh\nmanyway send x \\\n    \
                --to y   # z\n\n# w\nls\n```\n```json\n{}\n```\n```console\n$ manyway recv\n  \
                mw1…\n$ pwd\n```\n";
    let blocks = parse("page.md", page);
    let words = |block: &Block| {
        let commands = block.commands.iter();
        commands.map(|it| it.words.clone()).collect::<Vec<_>>()
    };
    assert_eq!(blocks[0].at, "page.md:4");
    assert_eq!(blocks[0].before[0].words, "pwd");
    assert!(blocks[1].before.is_empty());
    assert_eq!(blocks[0].not_run.as_deref(), Some("far away"));
    assert_eq!(words(&blocks[0]), ["manyway send x --to y", "ls"]);
    assert_eq!((blocks.len(), blocks[1].not_run.as_deref()), (2, None));
    assert_eq!(words(&blocks[1]), ["manyway recv", "pwd"]);
    assert_eq!(blocks[1].commands[0].output, ["mw1…"]);
}

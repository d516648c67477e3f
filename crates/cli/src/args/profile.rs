//! Profiles: options from a file, for those that neither the command line nor the environment sets.
//!
//! They become words of the command line, so that the definition of the options decides about them
//! as about all others: values, what conflicts, what needs what.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};
use manyway_registry::Code;
use manyway_units::printable;
use strsim::osa_distance;
use toml::{Table, Value};

use super::words::{split_off, texts, words};
use crate::state::config_file;

/// Most bytes of the file.
const MAX_FILE: u64 = 1 << 20;
/// Most characters shown of a name from the file.
const MAX_NAME: usize = 100;
/// A key with at most this many typing errors is taken for an option's.
const NEAR: usize = 2;
/// Options that have no place in a profile: those that choose it, and what asks for help.
const NEVER: [&str; 4] = ["profile", "config", "help", "version"];

/// Where options come from that the command line and the environment leave out.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProfileArgs {
    /// Take options from the table [profile.NAME] of the configuration file
    ///
    /// The keys are the long names of options. The command line and the environment take
    /// precedence, and --no-OPTION turns off a flag of the profile.
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) profile: Option<String>,

    /// Configuration file [default: ~/.config/manyway/config.toml]
    ///
    /// $XDG_CONFIG_HOME replaces ~/.config.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
}

/// The command line with what the profile adds.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    pub(super) line: Vec<OsString>,
    origin: Option<Origin>,
}

/// A profile that can't be used.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) message: String,
    /// Whether it asks for errors as JSON.
    pub(super) json: bool,
}

/// What a profile has added.
#[derive(Debug)]
struct Origin {
    file: PathBuf,
    profile: String,
    keys: Vec<String>,
}

impl Expanded {
    /// Ends the program because of a wrong command line, and says what the profile has to do with
    /// it.
    pub(super) fn exit(&self, error: &clap::Error) -> ! {
        let told = self.origin.as_ref().filter(|_| error.use_stderr());
        if let Some(origin) = told {
            let screen = crate::screen::Screen::quiet();
            let note = origin.note(error);
            screen.error(&format!(
                "{}\n{note}",
                error.render().to_string().trim_end()
            ));
            std::process::exit(error.exit_code());
        }
        error.exit()
    }
}

impl Origin {
    fn note(&self, error: &clap::Error) -> String {
        let named = |key: &&String| {
            let is = |text: &String| {
                let rest = text.strip_prefix(&format!("--{key}"));
                rest.is_some_and(|rest| {
                    !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-')
                })
            };
            match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(text)) => is(text),
                Some(ContextValue::Strings(texts)) => texts.iter().any(is),
                _ => false,
            }
        };
        let guilty: Vec<&str> = self.keys.iter().filter(named).map(String::as_str).collect();
        let (profile, file) = (&self.profile, self.file.display());
        match guilty.is_empty() {
            true => {
                let keys = self.keys.join(", ");
                format!("[profile.{profile}] of {file} sets {keys}: correct it, or leave it out")
            }
            false => {
                let keys = guilty.join(", ");
                format!("[profile.{profile}] of {file} sets {keys}: correct it there")
            }
        }
    }
}

/// Adds what the profile says to a command line, if one names a profile.
///
/// # Errors
/// There is no such profile, or it is wrong.
pub(super) fn expand(command: &Command, line: Vec<OsString>) -> Result<Expanded, Wrong> {
    // What is wrong shows when the whole line is read.
    let lenient = command.clone().ignore_errors(true);
    let unchanged = |line| Expanded { line, origin: None };
    let (rest, off) = split_off(command, &line);
    let Ok(matches) = lenient.clone().try_get_matches_from(&rest) else {
        return Ok(unchanged(line));
    };
    let mut lenient = lenient;
    lenient.build();
    let wrong_with = |table: &Table, message| Wrong {
        message,
        json: table.get("json") == Some(&Value::Boolean(true))
            || table.get("progress") == Some(&Value::String("json".to_owned())),
    };
    let unread = |message| wrong_with(&Table::new(), message);
    let named = matches.get_one::<PathBuf>("config");
    let Some(name) = matches.get_one::<String>("profile") else {
        if matches.value_source("config") == Some(ValueSource::CommandLine) {
            return Err(unread(
                "`--config` has no effect without a profile: name a table [profile.NAME] of the \
                 file with `--profile NAME`"
                    .to_owned(),
            ));
        }
        if let Some(name) = off.first() {
            return Err(unread(format!(
                "`--no-{name}` turns off a flag of a profile, and you have named none: leave it out"
            )));
        }
        if let Ok(file) = file(named) {
            check_unused(&lenient, &file).map_err(unread)?;
        }
        return Ok(unchanged(line));
    };
    let file = file(named).map_err(unread)?;
    let (profiles, metadata) = read(&file).map_err(unread)?;
    let table = choose(&file, &profiles, name).map_err(unread)?;
    let wrong = |message| wrong_with(table, message);
    check_keys(&lenient, &file, &profiles).map_err(wrong)?;
    let target = Target::of(&lenient, &matches);
    for name in &off {
        target.check_off(name).map_err(wrong)?;
    }
    let mut added = Added::default();
    for (key, value) in table.iter().filter(|(key, _)| !off.contains(key)) {
        added.take(&lenient, &target, key, value).map_err(|found| {
            let key = printable(key, MAX_NAME);
            wrong(format!(
                "{}: [profile.{name}]: `{key}` {found}",
                file.display()
            ))
        })?;
    }
    if metadata.mode() & 0o077 != 0
        && let Some(key) = &added.secret
    {
        let (file, mode) = (file.display(), metadata.mode() & 0o7777);
        return Err(wrong(format!(
            "{file}: [profile.{name}]: `{key}` is a secret, and other users can read it (mode \
             {mode:04o}): run chmod 600 {file}, or write the secret to a file of its own and give \
             @FILE"
        )));
    }
    Ok(Expanded {
        line: added.put_into(rest),
        origin: Some(Origin {
            profile: printable(name, MAX_NAME),
            file,
            keys: added.keys,
        }),
    })
}

/// The configuration file's path.
fn file(named: Option<&PathBuf>) -> Result<PathBuf, String> {
    match named {
        Some(file) => Ok(file.clone()),
        None => config_file("config.toml")
            .map_err(|_| "no configuration file: set HOME, or name it with `--config FILE`".into()),
    }
}

/// The profiles of a file, one of which is used.
fn read(file: &Path) -> Result<(Table, Metadata), String> {
    let shown = file.display();
    let failed = |error: std::io::Error| format!("can't read {shown}: {error}");
    let metadata = fs::metadata(file).map_err(failed)?;
    if !is_possible(&metadata) {
        return Err(format!(
            "{shown} isn't a configuration file: it must be a regular file of at most 1 MiB"
        ));
    }
    // It names programs to run, as ssh's does.
    let owner = metadata.uid();
    if (owner != 0 && owner != nix::unistd::geteuid().as_raw()) || metadata.mode() & 0o022 != 0 {
        return Err(format!(
            "other users can change {shown}: make it yours, and run chmod go-w {shown}"
        ));
    }
    let text = text(file).map_err(failed)?;
    Ok((parse(file, &text)?, metadata))
}

fn is_possible(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.len() <= MAX_FILE
}

fn text(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let opened = fs::File::open(file)?;
    opened.take(MAX_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// Looks for mistakes in a file that no profile comes from: whoever writes an option into it
/// expects an effect. That a file is missing, or another user's, has none.
fn check_unused(root: &Command, file: &Path) -> Result<(), String> {
    if !fs::metadata(file).is_ok_and(|metadata| is_possible(&metadata)) {
        return Ok(());
    }
    match text(file) {
        Ok(text) => check_keys(root, file, &parse(file, &text)?),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(format!("can't read {}: {error}", file.display()))
        }
        Err(_) => Ok(()),
    }
}

/// The profiles. No message quotes the file, which may hold secrets.
fn parse(file: &Path, text: &str) -> Result<Table, String> {
    let shown = file.display();
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
        let before = text.get(..error.span().map_or(0, |span| span.start));
        let line = 1 + before.unwrap_or("").matches('\n').count();
        format!(
            "{shown}, line {line}: a line is KEY = VALUE, with texts in quotes, or [profile.NAME] \
             (TOML: {})",
            error.message()
        )
    })?;
    let no_place = |key: &str| {
        let key = printable(key, MAX_NAME);
        format!("{shown}: unknown key `{key}`: options belong in tables called [profile.NAME]")
    };
    if let Some(key) = table.keys().find(|key| *key != "profile") {
        return Err(no_place(key));
    }
    match table.remove("profile") {
        None => Ok(Table::new()),
        Some(Value::Table(profiles)) => {
            match profiles.iter().find(|(_, table)| !table.is_table()) {
                Some((key, _)) => Err(no_place(&format!("profile.{key}"))),
                None => Ok(profiles),
            }
        }
        Some(_) => Err(no_place("profile")),
    }
}

fn choose<'a>(file: &Path, profiles: &'a Table, name: &str) -> Result<&'a Table, String> {
    profiles.get(name).and_then(Value::as_table).ok_or_else(|| {
        let names: Vec<String> = profiles.keys().map(|n| printable(n, MAX_NAME)).collect();
        let names = match names.is_empty() {
            true => "it has none".to_owned(),
            false => format!("it has {}", names.join(", ")),
        };
        let name = printable(name, MAX_NAME);
        format!("{} has no table [profile.{name}]: {names}", file.display())
    })
}

/// Are all keys of all profiles options or arguments of some command?
fn check_keys(root: &Command, file: &Path, profiles: &Table) -> Result<(), String> {
    for (name, table) in profiles {
        let mut keys = table.as_table().into_iter().flat_map(Table::keys);
        if let Some(key) = keys.find(|key| !is_key(root, key)) {
            let hint = match nearest(root, key) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => "keys are long names of options, which `manyway help COMMAND` lists".into(),
            };
            let (name, key) = (printable(name, MAX_NAME), printable(key, MAX_NAME));
            return Err(format!(
                "{}: [profile.{name}]: `{key}` isn't an option: {hint}",
                file.display()
            ));
        }
    }
    Ok(())
}

fn is_key(root: &Command, key: &str) -> bool {
    fn has(command: &Command, key: &str) -> bool {
        command
            .get_arguments()
            .any(|argument| is_option(argument, key))
            || command.get_subcommands().any(|command| has(command, key))
    }
    !NEVER.contains(&key) && (root.find_subcommand(key).is_some() || has(root, key))
}

/// The option that a mistyped key nearly names.
fn nearest(root: &Command, key: &str) -> Option<String> {
    fn collect<'a>(command: &'a Command, options: &mut Vec<&'a str>) {
        let known = command.get_arguments().filter(|known| !known.is_hide_set());
        options.extend(known.filter_map(Arg::get_long));
        command
            .get_subcommands()
            .for_each(|command| collect(command, options));
    }
    let mut options = Vec::new();
    collect(root, &mut options);
    options.retain(|option| !NEVER.contains(option));
    let distance = |option: &&str| osa_distance(option, key);
    let nearest = options.into_iter().min_by_key(distance)?;
    (osa_distance(nearest, key) <= NEAR).then(|| nearest.to_owned())
}

fn is_option(argument: &Arg, key: &str) -> bool {
    argument.get_long() == Some(key) && !argument.is_hide_set()
}

/// The subcommand that the options are for.
struct Target<'a> {
    /// Of the program's subcommands.
    name: &'a str,
    command: &'a Command,
    matches: &'a ArgMatches,
}

impl<'a> Target<'a> {
    fn of(root: &'a Command, matches: &'a ArgMatches) -> Self {
        let mut target = Self {
            name: matches.subcommand_name().unwrap_or_default(),
            command: root,
            matches,
        };
        while let Some((name, below)) = target.matches.subcommand()
            && let Some(command) = target.command.find_subcommand(name)
        {
            (target.command, target.matches) = (command, below);
        }
        target
    }

    /// Do the command line or the environment set it?
    fn is_set(&self, argument: &Arg) -> bool {
        let id = argument.get_id().as_str();
        let known = self.matches.try_contains_id(id).unwrap_or(false);
        known
            && matches!(
                self.matches.value_source(id),
                Some(ValueSource::CommandLine | ValueSource::EnvVariable)
            )
    }

    /// Is it a switch of this command that nothing else turns on?
    fn check_off(&self, name: &str) -> Result<(), String> {
        let mut options = self.command.get_arguments();
        match options.find(|option| option.get_long() == Some(name)) {
            None => Err(format!(
                "`--no-{name}`: `manyway {}` has no --{name}",
                self.name
            )),
            Some(option) if self.is_set(option) => Err(format!(
                "`--no-{name}`: the command line or the environment sets --{name}"
            )),
            Some(_) => Ok(()),
        }
    }

    /// Does something that is set exclude it?
    fn is_excluded(&self, argument: &Arg) -> bool {
        let conflict = |a, b| self.command.get_arg_conflicts_with(a).contains(&b);
        let mut set = self
            .command
            .get_arguments()
            .filter(|other| self.is_set(other));
        set.any(|other| conflict(argument, other) || conflict(other, argument))
    }
}

/// What a profile adds to the command line.
#[derive(Debug, Default)]
struct Added {
    options: Vec<OsString>,
    positional: Vec<OsString>,
    keys: Vec<String>,
    /// A key with a secret.
    secret: Option<String>,
}

impl Added {
    /// Adds a key's option, unless the command doesn't have it or something else decides. The error
    /// says what is wrong with the key.
    fn take(
        &mut self,
        root: &Command,
        target: &Target<'_>,
        key: &str,
        value: &Value,
    ) -> Result<(), String> {
        let mut options = target.command.get_arguments();
        let option = options.find(|argument| is_option(argument, key));
        // `registry` is a command, and an option of others.
        if key == target.name || option.is_none() && root.find_subcommand(key).is_some() {
            let words = texts(value).ok_or("takes the command's arguments: a list of texts")?;
            let mut positionals = target.command.get_positionals();
            if key == target.name && !positionals.any(|argument| target.is_set(argument)) {
                self.note(key, &words);
                self.positional = words.into_iter().map(OsString::from).collect();
            }
            return Ok(());
        }
        let Some(option) = option else {
            return Ok(());
        };
        let words = words(option, value)?;
        if !target.is_set(option) && !target.is_excluded(option) {
            self.note(key, &texts(value).unwrap_or_default());
            self.options.extend(words);
        }
        Ok(())
    }

    fn note(&mut self, key: &str, values: &[String]) {
        self.keys.push(key.to_owned());
        let is_secret =
            |part: &str| part.starts_with("mw1") || part.starts_with("mr1") || Code::is_meant(part);
        let secret = |text: &String| text.split(',').any(is_secret);
        if values.iter().any(secret) {
            self.secret.get_or_insert_with(|| key.to_owned());
        }
    }

    /// Options go before `--`, after which only arguments come.
    fn put_into(&self, mut line: Vec<OsString>) -> Vec<OsString> {
        let end = line.iter().position(|word| word == "--");
        let at = end.unwrap_or(line.len());
        line.splice(at..at, self.options.iter().cloned());
        if !self.positional.is_empty() {
            line.extend(end.is_none().then(|| "--".into()));
            line.extend(self.positional.iter().cloned());
        }
        line
    }
}

#[cfg(test)]
mod tests;

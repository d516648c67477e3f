//! A scenario file with assignments: parsed, swept, resolved, and its errors located.

use std::fs;
use std::io::Read;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::assign::{self, canonical};
use crate::experiment::Experiment;
use crate::fault::Fault;
use crate::file::File;
use crate::overlay::OverlayExperiment;
use crate::problem::{Problem, ScenarioError, Sources, hint, shortened};
use crate::resolve;
use crate::sweep;
use crate::tree::{self, Failure, Found, Key, Node, Origin, Segment, Table, Value, Why};

/// The largest file that is read, in bytes.
pub const MAX_FILE: u64 = 16 << 20;

/// A scenario as written, with assignments made to it: what all its points have in common, and how
/// to get them.
///
/// ```
/// let text = r#"
///     name = "one flow"
///     duration = "10 s"
///     [links.a]
///     rate = "10 Mbps"
///     delay = "10 ms"
///     [paths.p]
///     links = ["a"]
///     [flows.f]
///     paths = ["p"]
///     [sweep]
///     law = ["reno", "balia"]
/// "#;
/// let mut scenario = manyway_scenario::Scenario::parse(text, "one.toml")?;
/// scenario.set("links.a.rate=20Mbps")?;
/// let points = scenario.points()?;
/// assert_eq!(points.len(), 2);
/// assert_eq!(points[1].set, [("law".to_owned(), "balia".to_owned())]);
/// assert_eq!(points[1].experiment.flows[0].law.name(), "balia");
/// # Ok::<(), manyway_scenario::ScenarioError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Scenario {
    sources: Sources,
    tree: Table,
    file: File,
}

/// Swept keys and their values at a point.
type Setting = Vec<(String, String)>;

/// One combination of the sweep's values.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The swept keys and their values here, as written: the same keys at every point, none without
    /// a sweep. Of `cases`, the case's name as `case`; where cases have none, every key that one of
    /// them sets, with an empty value where this one doesn't.
    pub set: Vec<(String, String)>,
    /// What is to be run.
    pub experiment: Experiment,
}

/// One combination of the sweep's values, of a scenario with an `[overlay]`.
#[derive(Debug, Clone, PartialEq)]
pub struct OverlayPoint {
    /// The swept keys and their values here, as of [`Point::set`].
    pub set: Vec<(String, String)>,
    /// What is to be run.
    pub experiment: OverlayExperiment,
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// If it can't be read, is larger than [`MAX_FILE`], isn't UTF-8, and as of
    /// [`Scenario::parse`].
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text = read(path).map_err(|message| problem_in(&file, message))?;
        Scenario::parse(&text, &file)
    }

    /// Reads a text that stands in a file of this name; the name is for messages, and for the
    /// folder of traces.
    ///
    /// # Errors
    /// If it isn't TOML, has keys that don't exist or values of the wrong type or without their
    /// unit. Whether the parts fit together is found out by [`Scenario::points`], when all
    /// assignments are made.
    pub fn parse(text: &str, file_name: &str) -> Result<Self, ScenarioError> {
        let sources = Sources {
            file: file_name.to_owned(),
            text: text.to_owned(),
            assignments: Vec::new(),
        };
        let tree = parse_tree(&sources)?;
        let file = read_file(&tree, &sources)?;
        Ok(Scenario {
            sources,
            tree,
            file,
        })
    }

    /// Assigns a value to a key: `links.wifi.rate=10 Mbps`, `law=balia`, `links.*.queue=20
    /// packets`, `seed=7`.
    ///
    /// A bare key is one of the top level or of `[defaults]`; `*` stands for every name. The value
    /// is TOML, or text without quotes. A key that was swept has the new value in every point.
    ///
    /// # Errors
    /// If it isn't of the form `key=value`, if there is no such key, or if the value isn't one for
    /// it; the scenario is as before then.
    pub fn set(&mut self, assignment: &str) -> Result<(), ScenarioError> {
        self.sources.assignments.push(assignment.to_owned());
        match self.changed(assignment) {
            Ok(changed) => {
                (self.tree, self.file) = changed;
                Ok(())
            }
            Err(error) => {
                self.sources.assignments.pop();
                Err(error)
            }
        }
    }

    /// The tree with the last assignment made to it, and the file that it is.
    fn changed(&self, assignment: &str) -> Result<(Table, File), ScenarioError> {
        let origin = Origin::Assignment(self.sources.assignments.len() - 1);
        let mut tree = self.tree.clone();
        assign(&mut tree, assignment, origin).map_err(|(key, message)| Problem {
            place: self.sources.place(Some(origin)),
            key,
            message,
        })?;
        let file = read_file(&tree, &self.sources)?;
        Ok((tree, file))
    }

    /// Its name; empty if it has none, which [`Scenario::points`] complains of.
    pub fn name(&self) -> &str {
        self.file.name.as_deref().unwrap_or("")
    }

    /// What the file says about it.
    pub fn about(&self) -> &str {
        self.file.about.as_deref().unwrap_or("")
    }

    /// The seed from which those of all runs are made.
    pub fn seed(&self) -> u64 {
        self.file.seed.unwrap_or(1)
    }

    /// How many times each point is to be run.
    pub fn repeat(&self) -> u32 {
        self.file.repeat.unwrap_or(1)
    }

    /// The file with the assignments made to it; defaults are not filled in.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file's name, as given.
    pub fn file_name(&self) -> &str {
        &self.sources.file
    }

    /// The file's text, without the assignments.
    pub fn text(&self) -> &str {
        &self.sources.text
    }

    /// The assignments made so far.
    pub fn assignments(&self) -> &[String] {
        &self.sources.assignments
    }

    /// Whether it has an `[overlay]`: then [`Scenario::overlay_points`] has its points.
    pub fn is_overlay(&self) -> bool {
        self.file.overlay.is_some()
    }

    /// Every combination of the sweep's values, resolved and checked; a single point without a
    /// sweep. The first swept key changes slowest.
    ///
    /// # Errors
    /// Everything that is wrong with the first point that can't be run, or with the sweep itself.
    pub fn points(&self) -> Result<Vec<Point>, ScenarioError> {
        self.points_by(resolve::experiment)
    }

    /// The same for the packet level, where each group with `fluid = true` is one flow that stands
    /// for all of its `count` ([`Flow::fluid`](crate::Flow::fluid)).
    ///
    /// # Errors
    /// As of [`Scenario::points`], and if a group or a link on its paths can't be a fluid's.
    pub fn packet_points(&self) -> Result<Vec<Point>, ScenarioError> {
        self.points_by(resolve::experiment_of_packets)
    }

    /// The same for flows that are production sessions: what a flow says nothing about is as
    /// sessions have it.
    ///
    /// # Errors
    /// As of [`Scenario::points`], and if a key has a value that sessions don't take.
    pub fn session_points(&self) -> Result<Vec<Point>, ScenarioError> {
        self.points_by(resolve::experiment_of_sessions)
    }

    /// The same for flows that are processes and connections of the kernel's.
    ///
    /// # Errors
    /// As of [`Scenario::points`], and if a key has a value that live flows don't take.
    pub fn live_points(&self) -> Result<Vec<Point>, ScenarioError> {
        self.points_by(resolve::experiment_live)
    }

    fn points_by(
        &self,
        resolve: impl Fn(&File) -> Result<Experiment, Vec<Fault>>,
    ) -> Result<Vec<Point>, ScenarioError> {
        let subflows = |experiment: &Experiment| {
            let flows = experiment.flows.iter();
            flows.map(|flow| flow.paths.len()).sum()
        };
        let points = self.resolved(resolve, subflows)?;
        let point = |(set, experiment)| Point { set, experiment };
        Ok(points.into_iter().map(point).collect())
    }

    /// The same for a scenario with an `[overlay]`.
    ///
    /// # Errors
    /// As of [`Scenario::points`], and if there is no `[overlay]`.
    pub fn overlay_points(&self) -> Result<Vec<OverlayPoint>, ScenarioError> {
        let points = self.resolved(resolve::overlay, OverlayExperiment::listed)?;
        let point = |(set, experiment)| OverlayPoint { set, experiment };
        Ok(points.into_iter().map(point).collect())
    }

    /// Every point by `resolve`, with what it sets; `parts` is how many subflows or the like one
    /// has in memory.
    fn resolved<T>(
        &self,
        resolve: impl Fn(&File) -> Result<T, Vec<Fault>>,
        parts: impl Fn(&T) -> usize,
    ) -> Result<Vec<(Setting, T)>, ScenarioError> {
        let fault = |fault: Fault| self.problem_at(&self.tree, fault);
        let sweep = sweep::Sweep::of(&self.tree).map_err(fault)?;
        resolve::check_runs(&self.file, sweep.points()).map_err(fault)?;
        let mut total = 0;
        let mut points = Vec::new();
        for index in 0..sweep.points() {
            let (set, experiment) = self.point(&sweep, index, &resolve)?;
            total += parts(&experiment);
            resolve::check_total(total, sweep.points()).map_err(fault)?;
            points.push((set, experiment));
        }
        Ok(points)
    }

    fn point<T>(
        &self,
        sweep: &sweep::Sweep,
        index: usize,
        resolve: impl Fn(&File) -> Result<T, Vec<Fault>>,
    ) -> Result<(Setting, T), ScenarioError> {
        let mut tree = self.tree.clone();
        tree.shift_remove("sweep");
        let set = sweep
            .apply(&mut tree, index)
            .map_err(|fault| self.problem_at(&self.tree, fault))?;
        read_file(&tree, &self.sources)?;
        assign::inherit(&mut tree);
        let file = read_file(&tree, &self.sources)?;
        let experiment = resolve(&file).map_err(|faults| {
            let mut problems: Vec<Problem> = Vec::new();
            for fault in faults {
                let mut problem = self.problem_at(&tree, fault);
                // Points before this one were fine, so it takes these values to go wrong.
                if index > 0 {
                    let values = set.iter().map(|(key, value)| format!("{key} = {value}"));
                    problem.message +=
                        &format!(" (with {})", values.collect::<Vec<_>>().join(", "));
                }
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
            ScenarioError::new(problems)
        })?;
        Ok((set, experiment))
    }

    fn problem_at(&self, tree: &Table, fault: Fault) -> Problem {
        locate(tree, &self.sources, &fault.key, fault.at_key, fault.message)
    }
}

/// Makes an assignment; the error may have a key.
fn assign(
    tree: &mut Table,
    assignment: &str,
    origin: Origin,
) -> Result<(), (Option<String>, String)> {
    let plain = |message| (None, message);
    let (key, value) = assignment.split_once('=').ok_or_else(|| {
        plain("not an assignment: write key=value, such as links.wifi.rate=10Mbps".to_owned())
    })?;
    let key = Key::parse(key).map_err(plain)?;
    let at_key = |message| (Some(key.to_string()), message);
    let target = canonical(&key).map_err(at_key)?;
    let mut node = parse_value(value).map_err(at_key)?;
    node.relocate(origin);
    if target.name(0) != Some("sweep") {
        sweep::forget(tree, &target);
    }
    assign::assign(tree, &target, &node).map_err(at_key)?;
    assign::check_default_used(tree, &target).map_err(at_key)
}

/// A problem with what `key` leads to.
fn locate(tree: &Table, sources: &Sources, key: &Key, at_key: bool, message: String) -> Problem {
    let (origin, inherited) = match tree::find(tree, key) {
        Found::Value {
            node,
            key,
            inherited,
        } => {
            let origin = if at_key { key } else { node.origin };
            (Some(origin), inherited)
        }
        Found::Missing { inside } => (inside, false),
    };
    // What a flow has from [defaults] was written there.
    let shown = match inherited {
        true => Key::of(["defaults"]).joined(&key.segments()[2..]),
        false => key.clone(),
    };
    Problem {
        place: sources.place(origin),
        key: (!key.segments().is_empty()).then(|| shown.to_string()),
        message,
    }
}

fn problem_in(file: &str, message: String) -> ScenarioError {
    let place = crate::problem::Place::File(file.to_owned());
    Problem {
        place,
        key: None,
        message,
    }
    .into()
}

fn read(path: &Path) -> Result<String, String> {
    let explain = |error: std::io::Error| format!("can't be read: {error}");
    if fs::metadata(path).map_err(explain)?.is_dir() {
        return Err("is a directory: name the scenario file in it".to_owned());
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(explain)?;
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(explain)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!(
            "is larger than {} MiB, the most that a scenario may have",
            MAX_FILE >> 20
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1;
        format!("is not UTF-8 text: line {line} has a byte that can't be in it")
    })
}

fn parse_tree(sources: &Sources) -> Result<Table, ScenarioError> {
    let problem = |at: Option<usize>, message: String| Problem {
        place: sources.place(at.map(Origin::File)),
        key: None,
        message,
    };
    if sources.text.len() as u64 > MAX_FILE {
        return Err(problem(None, format!("is larger than {} MiB", MAX_FILE >> 20)).into());
    }
    if let Some(at) = tree::too_deep(&sources.text) {
        return Err(problem(Some(at), TOO_DEEP.to_owned()).into());
    }
    let document = DeTable::parse(&sources.text).map_err(|error| {
        let at = error.span().map(|span| span.start);
        let message = error.message().replace('\n', ", ");
        problem(at, format!("not TOML: {message}"))
    })?;
    let tree = tree::from_document(document.get_ref());
    tree.map_err(|number| {
        problem(
            Some(number.at),
            format!("the number {} is too large", number.text),
        )
        .into()
    })
}

const TOO_DEEP: &str = "nested too deep: a scenario needs fewer brackets or dots";

/// The value of an assignment: TOML where it is, else text.
fn parse_value(text: &str) -> Result<Node, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("nothing follows the =: write key=value".to_owned());
    }
    if tree::too_deep(text).is_some() {
        return Err(TOO_DEEP.to_owned());
    }
    match DeValue::parse(text) {
        Ok(value) => tree::from_toml(&value)
            .map_err(|number| format!("the number {} is too large", number.text)),
        Err(error) if text.starts_with(['[', '{', '"', '\'']) => {
            let message = error.message().replace('\n', ", ");
            Err(format!("{} is not TOML: {message}", shortened(text, 40)))
        }
        Err(_) => Ok(Node {
            value: Value::Text(text.to_owned()),
            origin: Origin::File(0),
        }),
    }
}

/// Reads the tree as a file, or finds every value that can't be read.
fn read_file(tree: &Table, sources: &Sources) -> Result<File, ScenarioError> {
    let first = match tree::decode::<File>(tree) {
        Ok(file) => {
            let folder = Path::new(&sources.file).parent();
            return Ok(File {
                folder: folder.unwrap_or(Path::new("")).to_owned(),
                ..file
            });
        }
        Err(failure) => failure,
    };
    // Take what is wrong out of a copy, and look whether anything else is.
    let mut rest = tree.clone();
    let mut failure = first;
    let (mut problems, mut keys) = (Vec::new(), Vec::new());
    loop {
        let message = describe(&rest, &failure);
        // What holds something that has been taken out may miss it.
        let reported = |key: &Key| key.segments().starts_with(failure.key.segments());
        if !keys.iter().any(reported) {
            problems.push(locate(
                &rest,
                sources,
                &failure.key,
                failure.at_key,
                message,
            ));
        }
        keys.push(failure.key.clone());
        if keys.len() > 20 || !tree::remove(&mut rest, &failure.key) {
            break;
        }
        match tree::decode::<File>(&rest) {
            Ok(_) => break,
            Err(next) => failure = next,
        }
    }
    Err(ScenarioError::new(problems))
}

fn describe(tree: &Table, failure: &Failure) -> String {
    let value = match tree::find(tree, &failure.key) {
        Found::Value { node, .. } => node.value.to_string(),
        Found::Missing { .. } => "it".to_owned(),
    };
    match &failure.why {
        Why::Message(message) => message.clone(),
        Why::Expected(what) => format!("{value} is not {what}"),
        Why::UnknownKey(allowed) => {
            let key = match failure.key.segments().last() {
                Some(Segment::Key(key)) => key,
                _ => "",
            };
            let hint = hint(key, allowed.iter().copied());
            format!("unknown key{hint}; allowed are {}", allowed.join(", "))
        }
        Why::UnknownWord(allowed) => {
            let hint = hint(value.trim_matches('"'), allowed.iter().copied());
            let allowed: Vec<_> = allowed.iter().map(|word| format!("{word:?}")).collect();
            format!("{value} is not one of {}{hint}", allowed.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;

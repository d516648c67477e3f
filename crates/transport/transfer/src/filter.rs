//! Rules for names that a sender leaves out, as `rsync` has them.

use crate::name::SafeName;
use fast_glob::glob_match;
use manyway_units::printable;
use std::fmt;

/// An ordered list of rules. The first one that matches a name decides; a name that none matches is
/// taken. What is below a directory that isn't taken isn't taken either: who walks a tree doesn't
/// enter it.
///
/// ```
/// # use manyway_transfer::{Filter, SafeName};
/// let mut filter = Filter::default();
/// filter.push("+ *.jpg")?;
/// filter.push("- /photos/cache/")?;
/// let takes = |name, is_dir| filter.takes(&SafeName::parse(name).unwrap(), is_dir);
/// assert!(takes("photos/cache/a.jpg", false) && !takes("photos/cache", true));
/// # Ok::<(), manyway_transfer::RuleError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    rules: Vec<Rule>,
    bytes: usize,
}

/// A rule: `+ PATTERN` takes what matches, `- PATTERN` leaves it out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    text: String,
    takes: bool,
    /// Only directories match.
    directories: bool,
    /// For [`glob_match`], from the top.
    glob: String,
    /// The same for what is below what matches, if that matches, too.
    below: Option<String>,
}

const CLASS: &str = "in brackets, `[:` begins a class, which is one of alnum, alpha, blank, cntrl, \
                     digit, graph, lower, print, punct, space, upper and xdigit, and ends with \
                     `:]`; write `\\[:` for these two characters";

impl Filter {
    /// Most bytes of all rules, with three for each.
    pub const MAX_BYTES: usize = 60 << 10;

    /// Appends a rule.
    ///
    /// `*` stands for any characters but `/`, `?` for one byte, `[a-z]` for one of these, with
    /// POSIX's classes of ASCII as in `[[:lower:]]`, `**` between slashes for any directories, and
    /// `\` makes the next character an ordinary one. A pattern that begins with `/` matches from
    /// the top, any other one the end of a name. With a `/` at its end it matches directories only;
    /// with `/***`, a directory and all below it.
    ///
    /// # Errors
    /// Says what is wrong with the rule.
    pub fn push(&mut self, rule: &str) -> Result<(), RuleError> {
        let parsed = Rule::parse(rule).map_err(|problem| RuleError {
            rule: printable(rule, 80),
            problem,
        })?;
        self.bytes += rule.len() + 3;
        if self.bytes > Self::MAX_BYTES {
            return Err(RuleError {
                rule: printable(rule, 80),
                problem: "there are too many rules before it: all together may have 60 KiB",
            });
        }
        self.rules.push(parsed);
        Ok(())
    }

    /// Appends the rules of a file: one on each line. Empty lines, and those that begin with `#` or
    /// `;`, are no rules.
    ///
    /// # Errors
    /// The number of the line, from 1, and what is wrong with it.
    pub fn push_lines(&mut self, text: &str) -> Result<(), (usize, RuleError)> {
        for (line, number) in text.lines().zip(1..) {
            if !line.trim().is_empty() && !line.starts_with(['#', ';']) {
                self.push(line).map_err(|error| (number, error))?;
            }
        }
        Ok(())
    }

    /// Is that name taken, if the directories above it are?
    pub fn takes(&self, name: &SafeName, is_directory: bool) -> bool {
        let matching = |rule: &&Rule| rule.matches(name.as_str(), is_directory);
        self.rules
            .iter()
            .find(matching)
            .is_none_or(|rule| rule.takes)
    }

    /// The rules, as they were given.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.text.as_str())
    }
}

impl Rule {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (takes, pattern) = match text.split_at_checked(2) {
            Some(("+ ", pattern)) => (true, pattern),
            Some(("- ", pattern)) => (false, pattern),
            _ => return Err("it begins neither with `+ ` nor with `- `"),
        };
        if pattern.chars().any(char::is_control) {
            return Err("it has a control character");
        }
        let (whole, tree) = match pattern.strip_suffix("/***") {
            Some(directory) => (directory, true),
            None => (pattern, false),
        };
        let (whole, directories) = match whole.strip_suffix('/') {
            Some(directory) => (directory, true),
            None => (whole, false),
        };
        let glob = match whole.strip_prefix('/') {
            Some(from_top) => escape(from_top)?,
            None => format!("**/{}", escape(whole)?),
        };
        Ok(Self {
            text: text.to_owned(),
            takes,
            directories: directories || tree,
            below: tree.then(|| format!("{glob}/**")),
            glob,
        })
    }

    fn matches(&self, name: &str, is_directory: bool) -> bool {
        let below = |glob: &String| glob_match(glob, name);
        ((is_directory || !self.directories) && glob_match(&self.glob, name))
            || self.below.as_ref().is_some_and(below)
    }
}

/// Makes what means something to [`glob_match`] and nothing to `rsync` an ordinary character.
fn escape(pattern: &str) -> Result<String, &'static str> {
    if pattern.split('/').any(str::is_empty) {
        return Err("it names nothing, or has an empty name between slashes");
    }
    let stars = |name: &str| name.contains("**") && name != "**";
    if pattern.split('/').any(stars) {
        return Err("`**` can only stand alone between slashes: write `**/*x` or `*x`");
    }
    let mut glob = String::with_capacity(pattern.len() + 4);
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                push_literal(
                    &mut glob,
                    characters.next().ok_or("it ends with a backslash")?,
                );
            }
            '[' => {
                glob.push('[');
                glob.extend(characters.next_if(|&next| matches!(next, '!' | '^')));
                let (mut first, mut in_range) = (true, false);
                loop {
                    let next = characters.next().ok_or("a `[` has no `]`")?;
                    match next {
                        '[' if characters.next_if_eq(&':').is_some() => {
                            if in_range {
                                return Err("a class such as `[:digit:]` can't end a range");
                            }
                            push_class(&mut glob, &mut characters)?;
                        }
                        ']' if !first => break,
                        '/' => return Err("a `/` can't stand between `[` and `]`"),
                        '-' => glob.push('-'),
                        '\\' => {
                            push_literal(&mut glob, characters.next().ok_or("a `[` has no `]`")?);
                        }
                        next => push_literal(&mut glob, next),
                    }
                    in_range = next == '-' && !first;
                    first = false;
                }
                glob.push(']');
            }
            '{' | '}' | '!' => push_literal(&mut glob, character),
            character => glob.push(character),
        }
    }
    Ok(glob)
}

/// Takes the rest of a class, behind its `[:`, and appends its characters.
fn push_class(
    glob: &mut String,
    characters: &mut impl Iterator<Item = char>,
) -> Result<(), &'static str> {
    let name: String = characters.take_while(|&c| c != ':').collect();
    let ranges: &[(char, char)] = match &*name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "blank" => &[('\t', '\t'), (' ', ' ')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        // And `/`, which names don't have.
        "punct" => &[('!', '.'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return Err(CLASS),
    };
    if characters.next() != Some(']') {
        return Err(CLASS);
    }
    for &(first, last) in ranges {
        push_literal(glob, first);
        glob.push('-');
        push_literal(glob, last);
    }
    Ok(())
}

/// A backslash before a letter could mean another character to [`glob_match`].
fn push_literal(glob: &mut String, character: char) {
    if character.is_ascii_punctuation() {
        glob.push('\\');
    }
    glob.push(character);
}

/// A rule that isn't one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    rule: String,
    problem: &'static str,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rule `{}` is not valid: {}", self.rule, self.problem)
    }
}

impl std::error::Error for RuleError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(rules: &[&str]) -> Filter {
        let mut filter = Filter::default();
        rules.iter().for_each(|rule| filter.push(rule).unwrap());
        filter
    }

    fn takes(rules: &[&str], name: &str) -> bool {
        let (name, is_directory) = match name.strip_suffix('/') {
            Some(directory) => (directory, true),
            None => (name, false),
        };
        filter(rules).takes(&SafeName::parse(name).unwrap(), is_directory)
    }

    /// Each pattern with names that it matches and others; a name of a directory ends with `/`.
    #[test]
    fn patterns_match_as_rsyncs_do() {
        let cases: [(&str, &[&str], &[&str]); 21] = [
            (
                "*.tmp",
                &["a.tmp", "d/e/.tmp", "d.tmp/"],
                &["a.tmpx", "x.tmp/a"],
            ),
            ("/a", &["a", "a/"], &["b/a", "ab"]),
            ("a/b", &["a/b", "x/a/b", "a/b/"], &["a/x/b", "xa/b"]),
            ("/a/*", &["a/b", "a/b/"], &["a", "a/b/c", "x/a/b"]),
            (
                "cache/",
                &["cache/", "x/cache/"],
                &["cache", "cache/x", "xcache/"],
            ),
            ("/a/***", &["a/", "a/b", "a/b/c"], &["a", "b/a/", "ab/c"]),
            ("d/***", &["d/", "x/d/", "x/d/e/f"], &["d", "xd/e"]),
            ("**/x", &["x", "a/x", "a/b/x"], &["a/xx"]),
            ("/a/**/z", &["a/z", "a/b/z", "a/b/c/z"], &["z", "b/a/z"]),
            ("?", &["a", "d/b"], &["ab", "é"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "-x", "x"]),
            ("[!a-c]x", &["dx"], &["ax", "x"]),
            ("[]!{]", &["]", "!", "{"], &["a", "[]"]),
            (
                "x[[:digit:]].o",
                &["x7.o"],
                &["x:.o", "xd.o", "xd].o", "x[.o"],
            ),
            ("[^[:alpha:]_]", &["7", "-"], &["a", "Z", "_"]),
            (
                "[[:upper:]x-z[:digit:]-]",
                &["A", "y", "0", "-"],
                &["a", "w", "+"],
            ),
            ("[-[:digit:]]", &["-", "5"], &["+"]),
            ("[]\\[:digt]x", &["[x", ":x", "dx", "]x"], &["5x", "ax"]),
            ("a\\*b", &["a*b"], &["axb"]),
            ("{a,b}", &["{a,b}"], &["a", "b"]),
            ("!a", &["!a", "d/!a"], &["b", "a"]),
        ];
        for (pattern, matching, others) in cases {
            let rule = format!("- {pattern}");
            for name in matching {
                assert!(!takes(&[&rule], name), "{pattern} {name}");
            }
            for name in others {
                assert!(takes(&[&rule], name), "{pattern} {name}");
            }
        }
        // Where the pattern begins at the top, the same holds.
        assert!(!takes(&["- /!a"], "!a") && takes(&["- /!a"], "b"));
        assert!(!takes(&["- /{a}"], "{a}") && takes(&["- /{a}"], "a"));
    }

    /// As C has them for ASCII. Names have no control characters, and neither has a class others.
    #[test]
    fn classes_have_their_characters() {
        let is = |class: &str, c: char| match class {
            "alnum" => c.is_ascii_alphanumeric(),
            "alpha" => c.is_ascii_alphabetic(),
            "blank" | "space" => c == ' ',
            "cntrl" => false,
            "digit" => c.is_ascii_digit(),
            "graph" => c.is_ascii_graphic(),
            "lower" => c.is_ascii_lowercase(),
            "print" => c.is_ascii_graphic() || c == ' ',
            "punct" => c.is_ascii_punctuation(),
            "upper" => c.is_ascii_uppercase(),
            _ => c.is_ascii_hexdigit(),
        };
        let classes = [
            "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
            "space", "upper", "xdigit",
        ];
        for class in classes {
            let rules = [format!("- /x[[:{class}:]]"), format!("- /x[![:{class}:]]")];
            for c in (' '..='~').filter(|c| !"/\\".contains(*c)) {
                let taken = rules
                    .each_ref()
                    .map(|rule| takes(&[rule], &format!("x{c}")));
                assert_eq!(taken, [!is(class, c), is(class, c)], "{class} {c}");
            }
            assert!(takes(&[&rules[0]], "xé"));
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = ["+ keep.tmp", "- *.tmp", "+ */", "+ *.jpg", "- *"];
        for name in ["d/keep.tmp", "d/", "d/e/", "a.jpg", "d/a.jpg"] {
            assert!(takes(&rules, name), "{name}");
        }
        for name in ["a.tmp", "d/a.txt", "x"] {
            assert!(!takes(&rules, name), "{name}");
        }
        assert!(takes(&[], "anything"));
    }

    #[test]
    fn what_is_no_rule_says_why() {
        let mut filter = Filter::default();
        let told: Vec<String> = [
            "*.tmp", "-a", "", "- ", "- /", "- a//b", "- [a", "- a\\", "- a**",
        ]
        .into_iter()
        .chain(["- [a/b]", "+ x\u{1b}[2J", "- []", "+ /***"])
        .chain([
            "- [[:digits:]]",
            "- [[:digit]",
            "- [[:]",
            "- [[:digit:",
            "- [a-[:digit:]]",
        ])
        .map(|rule| filter.push(rule).unwrap_err().to_string())
        .collect();
        insta::assert_snapshot!(told.join("\n"));
        assert_eq!(filter, Filter::default());
    }

    #[test]
    fn files_have_a_rule_on_each_line() {
        let mut filter = Filter::default();
        filter.push_lines("# x\n\n; y\n+ a b\r\n- #c\n").unwrap();
        assert_eq!(filter.rules().collect::<Vec<_>>(), ["+ a b", "- #c"]);
        let (line, error) = filter.push_lines("- a\n\nb\n- c").unwrap_err();
        assert_eq!(line, 3);
        assert!(error.to_string().contains("`b`"), "{error}");
    }

    #[test]
    fn rules_are_bounded() {
        let mut filter = Filter::default();
        let rule = format!("- {}", "x".repeat(1019));
        for _ in 0..60 {
            filter.push(&rule).unwrap();
        }
        assert!(filter.push("- x").is_err());
    }

    proptest! {
        /// Whatever a peer sends, and in time that its length bounds.
        #[test]
        fn anything_is_a_rule_or_an_error(
            rule in "[+-] ([a\\[\\]!^*?\\\\/{}é,-]|\\[:|:]|digit){0,40}",
            name in "[a*é/{]{1,40}",
        ) {
            let mut filter = Filter::default();
            if let (Ok(()), Ok(name)) = (filter.push(&rule), SafeName::parse(&name)) {
                filter.takes(&name, true);
            }
        }

        /// A name that is written with a backslash before each character matches itself alone.
        #[test]
        fn an_escaped_name_is_itself(
            name in "[a-c*?\\[\\]{}!^,-]{1,8}",
            other in "[a-c*?{}!^,-]{1,8}",
        ) {
            let pattern: String = name.chars().flat_map(|c| ['\\', c]).collect();
            let rule = format!("- /{pattern}");
            prop_assert!(!takes(&[&rule], &name));
            prop_assert_eq!(takes(&[&rule], &other), other != name);
        }
    }
}

//! From the paths and rules of a command line to what is sent.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use manyway::files::{Filter, Sources};

use crate::args::ContentArgs;
use crate::exit::usage;

/// Checks the paths and rules. With `contents`, a directory with a slash at its end stands for what
/// is in it, as in rsync.
pub(crate) fn sources(
    paths: &[OsString],
    args: &ContentArgs,
    contents: bool,
) -> anyhow::Result<Sources> {
    let filter = filter(args)?;
    paths.iter().try_for_each(|path| check_path(path))?;
    let of_contents = |path: &&OsString| contents && stands_for_contents(path);
    let mut sources = match (paths.iter().find(of_contents), paths.len()) {
        (Some(dir), 1) => Sources::contents(dir)?,
        (Some(dir), _) => {
            let dir = dir.display();
            return Err(usage(format!(
                "{dir} stands for that directory's contents and must be the only argument: name \
                 the directory without the slash at its end, or sync it with a separate command"
            )));
        }
        (None, _) => Sources::new(paths)?,
    };
    sources = sources.filter(filter);
    if let Some(size) = args.max_size {
        sources = sources.max_size(size.bytes());
    }
    Ok(match args.dry_run {
        true => sources.dry_run(),
        false => sources,
    })
}

/// Refuses a path that can't be sent as it stands.
fn check_path(path: &OsStr) -> anyhow::Result<()> {
    let shown = path.display();
    match fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() => Err(usage(format!(
            "{shown}: cannot be sent: it is neither a file nor a directory (`send -` sends what a \
             program writes)"
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(usage(format!(
            "{shown}: cannot be sent: a part of it is a file, not a directory: check its slashes"
        ))),
        _ => Ok(()),
    }
}

fn stands_for_contents(path: &OsString) -> bool {
    let bytes = path.as_bytes();
    bytes.ends_with(b"/") || matches!(bytes.rsplit(|b| *b == b'/').next(), Some(b"." | b".."))
}

fn filter(args: &ContentArgs) -> anyhow::Result<Filter> {
    let mut filter = Filter::default();
    let options = [
        ("include", '+', &args.include),
        ("exclude", '-', &args.exclude),
    ];
    for (option, sign, patterns) in options {
        for pattern in patterns {
            let pushed = filter.push(&format!("{sign} {pattern}"));
            pushed.map_err(|error| usage(format!("`--{option}`: {error}")))?;
        }
    }
    for file in &args.filter_from {
        let shown = file.display();
        let text = read(file).map_err(|error| usage(format!("can't read {shown}: {error}")))?;
        let pushed = filter.push_lines(&text);
        pushed.map_err(|(line, error)| usage(format!("{shown}, line {line}: {error}")))?;
    }
    Ok(filter)
}

/// A file that may be none of rules isn't read whole.
fn read(file: &Path) -> std::io::Result<String> {
    use std::io::Read;
    /// Comments may be longer than rules.
    const MOST: u64 = 1 << 20;
    let mut text = String::new();
    let read = fs::File::open(file)?
        .take(MOST + 1)
        .read_to_string(&mut text)?;
    match read as u64 > MOST {
        true => Err(std::io::Error::other("it is larger than 1 MiB")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> ContentArgs {
        ContentArgs {
            exclude: Vec::new(),
            include: Vec::new(),
            filter_from: Vec::new(),
            max_size: None,
            dry_run: false,
        }
    }

    #[test]
    fn rules_come_in_their_order_and_errors_say_where() {
        let at = tempfile::tempdir().unwrap();
        let file = at.path().join("rules");
        fs::write(&file, "# those of the office\n+ */\n- *\n").unwrap();
        let mut args = ContentArgs {
            exclude: vec!["*.tmp".to_owned()],
            include: vec!["*.jpg".to_owned()],
            filter_from: vec![file.clone()],
            ..args()
        };
        let filter = filter(&args).unwrap();
        let rules: Vec<_> = filter.rules().collect();
        assert_eq!(rules, ["+ *.jpg", "- *.tmp", "+ */", "- *"]);

        fs::write(&file, "+ */\n*.o\n").unwrap();
        let error = super::filter(&args).unwrap_err().to_string();
        assert!(
            error.contains("rules, line 2: the rule `*.o` is not valid"),
            "{error}"
        );
        fs::remove_file(&file).unwrap();
        let error = super::filter(&args).unwrap_err().to_string();
        assert!(
            error.starts_with("can't read") && error.contains("rules"),
            "{error}"
        );
        args.filter_from.clear();
        args.exclude[0] = "[a".to_owned();
        let error = super::filter(&args).unwrap_err().to_string();
        assert_eq!(
            error,
            "`--exclude`: the rule `- [a` is not valid: a `[` has no `]`"
        );
    }

    #[test]
    fn a_slash_at_the_end_stands_for_the_contents() {
        for (path, contents) in [
            ("a/", true),
            (".", true),
            ("..", true),
            ("a/..", true),
            ("a/.", true),
            ("/", true),
            ("a", false),
            ("a/b", false),
            ("a/.b", false),
            (".a", false),
        ] {
            assert_eq!(stands_for_contents(&path.into()), contents, "{path}");
        }
        let at = tempfile::tempdir().unwrap();
        fs::write(at.path().join("x"), "").unwrap();
        let mut dir = at.path().as_os_str().to_owned();
        let names = |paths: &[OsString], contents| {
            let sources = sources(paths, &args(), contents)?;
            anyhow::Ok(sources.names().count())
        };
        assert_eq!(names(&[dir.clone()], true).unwrap(), 1);
        dir.push("/");
        assert_eq!(names(&[dir.clone()], true).unwrap(), 0);
        assert_eq!(names(&[dir.clone()], false).unwrap(), 1);
        let both = [dir, at.path().join("x").into()];
        let error = names(&both, true).unwrap_err().to_string();
        assert!(error.contains("must be the only argument"), "{error}");
    }
}

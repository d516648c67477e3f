//! Decides what happens to a name that already exists.

use crate::entry::Kind;
use crate::name::SafeName;

/// How a receiver treats names that exist already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Nothing is received if any file of the transfer exists already. Existing directories are
    /// filled.
    #[default]
    Refuse,
    /// Existing files are replaced once the new ones are complete. Existing directories are filled.
    Overwrite,
    /// What exists is left alone, directories included; what arrives gets a new name: `name
    /// (1).ext`.
    Rename,
}

/// What a name stands for on the receiver's disk; symbolic links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Nothing has that name.
    Nothing,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, wherever it points.
    Symlink,
    /// A device, pipe or socket.
    Other,
}

/// What to do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Make it: nothing is in the way.
    Create,
    /// Fill the directory that exists.
    Merge,
    /// Replace the file (or link) that exists, also by a directory.
    Replace,
    /// Make it under the next free [`numbered`] name.
    Rename,
    /// Give up, and say why.
    Refuse(Conflict),
}

/// Why an entry cannot take its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// The file exists, and the policy is to refuse.
    #[error(
        "it exists already at the receiver; receive with --overwrite to replace it, with --rename \
         to keep both"
    )]
    Exists,
    /// A file or link is to go where a directory is.
    #[error(
        "a directory of that name exists at the receiver; receive with --overwrite --delete to \
         replace it, with --rename to keep both"
    )]
    IsDirectory,
    /// The same, at the top, where `--delete` removes nothing.
    #[error(
        "a directory of that name exists at the receiver; move it away, or receive with --rename \
         to keep both"
    )]
    IsTopDirectory,
    /// The same, and what is deleted may go, but the directory is none of that.
    #[error(
        "at the receiver `--delete` keeps the directory of that name: something in it is \
         excluded, hidden, mounted or incomplete, or it is at the top; move it away, or receive \
         with --rename"
    )]
    KeepsDirectory,
    /// A directory is to go where a file is.
    #[error(
        "at the receiver that name is a file, not a directory; receive with --overwrite to \
         replace it, with --rename to keep both"
    )]
    NotDirectory,
    /// A directory is to go where a file or link is that has further names.
    #[error(
        "at the receiver that name is a file with another name (a hard link), which makes no way \
         for a directory; remove it there, or receive with --rename to keep both"
    )]
    HasOtherName,
    /// A directory is to go where a symbolic link is. Following it could lead out of the receiving
    /// directory.
    #[error(
        "at the receiver that name is a symbolic link, which is not followed; receive with \
         --overwrite to replace it, with --rename to keep both"
    )]
    IsSymlink,
    /// Another entry of the same transfer has got that name: not every file system tells `a` from
    /// `A`, or `é` from `e` with an accent.
    #[error(
        "the receiver's file system doesn't distinguish this name from another one of this \
         transfer, such as one in upper or lower case; rename one of them, or receive into \
         another file system"
    )]
    Alias,
    /// Something is to go where a device, pipe or socket is.
    #[error(
        "at the receiver that name is a device, pipe or socket; move it away, or receive with \
         --rename"
    )]
    IsSpecial,
}

/// Decides what to do with an entry of kind `kind`, which isn't left out, where `existing` has its
/// name.
pub fn decide(policy: Policy, kind: &Kind, existing: Existing) -> Decision {
    use Decision::{Create, Merge, Refuse, Rename, Replace};
    match (kind, existing) {
        (_, Existing::Nothing) => Create,
        _ if policy == Policy::Rename => Rename,
        (Kind::Directory, Existing::Directory) => Merge,
        (_, Existing::Directory) => Refuse(Conflict::IsDirectory),
        (_, Existing::Other) => Refuse(Conflict::IsSpecial),
        _ if policy == Policy::Overwrite => Replace,
        (Kind::Directory, Existing::Symlink) => Refuse(Conflict::IsSymlink),
        (Kind::Directory, _) => Refuse(Conflict::NotDirectory),
        _ => Refuse(Conflict::Exists),
    }
}

/// The `n`-th other name for a file or directory: `notes.txt` gives `notes (1).txt`, `a.tar.gz`
/// gives `a (1).tar.gz`.
///
/// `name` is one component of a [`SafeName`], and so is the result: where it would be longer than
/// [`SafeName::MAX_COMPONENT`], the part before the number is cut.
pub fn numbered(name: &str, n: u32) -> String {
    let (stem, extension) = split_extension(name);
    let tail = format!(" ({n}){extension}");
    let room = SafeName::MAX_COMPONENT.saturating_sub(tail.len());
    format!("{}{tail}", cut(stem, room))
}

/// `text`, cut at a character boundary to at most `max` bytes.
pub fn cut(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Splits off the extension with its dot; a leading dot and overlong tails are no extension.
fn split_extension(name: &str) -> (&str, &str) {
    const LONGEST: usize = 32;
    let dot = |text: &str| {
        text.rfind('.')
            .filter(|&at| at > 0 && name.len() - at <= LONGEST)
    };
    let Some(last) = dot(name) else {
        return (name, "");
    };
    let at = match dot(&name[..last]) {
        Some(before) if &name[before..last] == ".tar" => before,
        _ => last,
    };
    name.split_at(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Target;
    use proptest::prelude::*;

    #[test]
    fn every_decision() {
        let mut table = String::new();
        for existing in [
            Existing::Nothing,
            Existing::File,
            Existing::Directory,
            Existing::Symlink,
            Existing::Other,
        ] {
            for kind in [Kind::File, Kind::Directory] {
                let decide = |policy| decide(policy, &kind, existing);
                let policies = [Policy::Refuse, Policy::Overwrite, Policy::Rename];
                let [a, b, c] = policies.map(|p| format!("{:?}", decide(p)));
                table += &format!(
                    "{:9} over {:9}: {a:21} {b:21} {c}\n",
                    format!("{kind:?}"),
                    format!("{existing:?}")
                );
            }
        }
        insta::assert_snapshot!(table);
    }

    /// A link takes a name as a file does.
    #[test]
    fn links_are_decided_as_files_are() {
        use Existing::{Directory, File, Nothing, Other, Symlink};
        let symlink = Kind::Symlink(Target::parse("a").unwrap());
        for policy in [Policy::Refuse, Policy::Overwrite, Policy::Rename] {
            for existing in [Nothing, File, Directory, Symlink, Other] {
                let file = decide(policy, &Kind::File, existing);
                for kind in [&symlink, &Kind::HardLink(0)] {
                    assert_eq!(decide(policy, kind, existing), file);
                }
            }
        }
    }

    #[test]
    fn numbers_go_before_the_extension() {
        let names = [
            "notes.txt",
            "a.tar.gz",
            ".bashrc",
            "Makefile",
            "v1.2",
            ".a.b",
            "x.",
            "tar.gz",
            ".tar.gz",
        ];
        insta::assert_snapshot!(names.map(|n| numbered(n, 1)).join("\n"), @r"
        notes (1).txt
        a (1).tar.gz
        .bashrc (1)
        Makefile (1)
        v1 (1).2
        .a (1).b
        x (1).
        tar (1).gz
        .tar (1).gz
        ");
    }

    #[test]
    fn only_short_endings_are_extensions() {
        assert_eq!(numbered("a.b.c", 1), "a.b (1).c");
        // With its dot, the longest extension has 32 bytes.
        let longest = format!("long name.{}", "e".repeat(31));
        assert_eq!(
            numbered(&longest, 1),
            format!("long name (1).{}", "e".repeat(31))
        );
        let longer = format!("{longest}e");
        assert_eq!(numbered(&longer, 1), format!("{longer} (1)"));
    }

    proptest! {
        #[test]
        fn numbered_names_are_safe_and_differ(name in "[a-zé.€]{1,255}", n in 1u32..1_000_000) {
            if let Ok(safe) = SafeName::parse(&name) {
                let other = numbered(safe.as_str(), n);
                prop_assert!(SafeName::parse(&other).is_ok(), "{}", other);
                prop_assert_ne!(&other, safe.as_str());
                prop_assert_ne!(numbered(safe.as_str(), n + 1), other);
            }
        }
    }
}

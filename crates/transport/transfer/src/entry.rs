//! What a manifest says of one file, directory or link.

use crate::name::SafeName;
use std::fmt;

/// One file, directory or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name below the receiving directory.
    pub name: SafeName,
    /// What it is.
    pub kind: Kind,
    /// Length in bytes; 0 for all but files.
    pub size: u64,
    /// How many of them lie in holes: zeros that take no room on the sender's disk, as that says.
    pub holes: u64,
    /// May later entries be further names of this file? See [`Kind::HardLink`].
    pub shared: bool,
    /// Permission bits, [`Entry::MODE_MASK`] only.
    pub mode: u16,
    /// Time of last modification.
    pub mtime: Timestamp,
    /// Whose it is, if the receiver asked for that.
    pub owner: Option<Owner>,
    /// Extended attributes and ACLs, if both sides want them; ascending by name.
    pub attributes: Vec<Attribute>,
}

impl Entry {
    /// The mode bits that travel: read, write and execute for owner, group and others, and the
    /// [special ones](Entry::SPECIAL).
    pub const MODE_MASK: u16 = 0o7777;
    /// The bits for set-user-ID, set-group-ID, and sticky.
    pub const SPECIAL: u16 = 0o7000;
    /// Longest encoding of all [`Entry::attributes`], in bytes.
    pub const MAX_ATTRIBUTES: usize = 32 << 10;

    /// An empty one with neither permissions nor a time.
    pub fn new(name: SafeName, kind: Kind) -> Self {
        Self {
            name,
            kind,
            size: 0,
            holes: 0,
            shared: false,
            mode: 0,
            mtime: Timestamp::default(),
            owner: None,
            attributes: Vec::new(),
        }
    }

    /// Is this a file (and not another name of one)?
    pub fn is_file(&self) -> bool {
        self.kind == Kind::File
    }

    /// Is this a directory?
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// Bytes of names, targets and attributes that it holds.
    pub fn text_len(&self) -> usize {
        let target = match &self.kind {
            Kind::Symlink(target) => target.as_str().len(),
            _ => 0,
        };
        let owner = self.owner.as_ref();
        let owner = owner.map_or(0, |owner| owner.user.len() + owner.group.len());
        let attributes: usize = self.attributes.iter().map(Attribute::encoded_len).sum();
        self.name.as_str().len() + target + owner + attributes
    }
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink(Target),
    /// A further name of a file: the [shared](Entry::shared) one of that number, counted from 0 in
    /// the manifest's order.
    HardLink(u64),
    /// It exists at the sender and is not sent. What the receiver has by that name stays.
    LeftOut(Cause),
}

/// Where a symbolic link points: text of 1 to [`Target::MAX_LEN`] bytes without NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(String);

impl Target {
    /// Longest target, in bytes: a path without its NUL.
    pub const MAX_LEN: usize = 4095;

    /// Takes what a link can hold.
    pub fn parse(target: &str) -> Option<Self> {
        let fits = (1..=Self::MAX_LEN).contains(&target.len()) && !target.contains('\0');
        fits.then(|| Self(target.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Does a link of that name lead to something that is sent with it? The target is relative and
    /// stays below the first component of `name`, which is a directory; or, with `top`, below the
    /// directory that `name` is in: see [`Scope::top`](crate::Scope::top).
    ///
    /// `..` may stand at the beginning only: after the name of another link, it would lead above
    /// wherever that one points.
    pub fn stays_below_top(&self, name: &SafeName, top: bool) -> bool {
        let above = if top { 1 } else { 2 };
        if self.0.starts_with('/') || name.depth() < above {
            return false;
        }
        let (up, mut below) = self.climb();
        up <= name.depth() - above && !below.any(|c| c == "..")
    }

    /// Does a link of that name, where all of the top is sent, lead to a name at the top that
    /// begins with a dot?
    pub fn is_hidden_at_top(&self, name: &SafeName) -> bool {
        let (up, mut below) = self.climb();
        up + 1 == name.depth() && below.next().is_some_and(|c| c.starts_with('.'))
    }

    /// How many `..` stand at the beginning, and the components that follow.
    fn climb(&self) -> (usize, impl Iterator<Item = &str>) {
        let components = self.0.split('/').filter(|c| !matches!(*c, "" | "."));
        let up = components.clone().take_while(|c| *c == "..").count();
        (up, components.skip(up))
    }
}

/// Why a sender leaves something out. The numbers are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// 0: it is a device, a pipe or a socket.
    Special = 0,
    /// 1: it is an incomplete file of an interrupted transfer.
    Incomplete = 1,
    /// 2: it is a symbolic link whose target can't travel.
    Target = 2,
    /// 3: it is larger than the sender's user wants to send.
    TooLarge = 3,
    /// 4: the sender can't read it.
    Unreadable = 4,
    /// 5: it changed between its listing and its end.
    Changed = 5,
    /// 6: it was listed, and isn't there any more.
    Vanished = 6,
}

impl Cause {
    const ALL: [Self; 7] = [
        Self::Special,
        Self::Incomplete,
        Self::Target,
        Self::TooLarge,
        Self::Unreadable,
        Self::Changed,
        Self::Vanished,
    ];

    /// The cause with that number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Special => "a device, a pipe or a socket",
            Cause::Incomplete => "an incomplete file",
            Cause::Target => "a symbolic link whose target isn't UTF-8 or is too long",
            Cause::TooLarge => "larger than the limit",
            Cause::Unreadable => "the sender can't read it",
            Cause::Changed => "it changed while it was sent",
            Cause::Vanished => "it vanished before it was sent",
        })
    }
}

/// A time of day: seconds and nanoseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, less than 10⁹.
    pub nanos: u32,
}

/// Whose a file is at the sender. A name is empty if the sender knows none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Name of the user.
    pub user: String,
    /// Name of the group.
    pub group: String,
}

impl Owner {
    /// Longest name, in bytes.
    pub const MAX_NAME: usize = 128;

    /// Can it travel?
    pub fn is_valid(&self) -> bool {
        let fits = |name: &str| name.len() <= Self::MAX_NAME && !name.contains(char::is_control);
        fits(&self.user) && fits(&self.group)
    }
}

/// An extended attribute or an ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Begins with `user.`, or is one of [`Attribute::ACLS`].
    pub name: String,
    /// As the system keeps it.
    pub value: Vec<u8>,
}

impl Attribute {
    /// Longest name, in bytes.
    pub const MAX_NAME: usize = 255;
    /// The names under which Linux keeps ACLs.
    pub const ACLS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

    /// May an attribute of that name travel? Those that give rights, such as
    /// `security.capability`, never do.
    pub fn is_name(name: &str) -> bool {
        let user = name.strip_prefix("user.");
        Self::ACLS.contains(&name)
            || user.is_some_and(|rest| {
                !rest.is_empty() && name.len() <= Self::MAX_NAME && !rest.contains('\0')
            })
    }

    /// Is it an ACL?
    pub fn is_acl(&self) -> bool {
        Self::ACLS.contains(&self.name.as_str())
    }

    /// At most so many bytes on the wire.
    pub fn encoded_len(&self) -> usize {
        const LENGTHS: usize = 5;
        self.name.len() + self.value.len() + LENGTHS
    }

    /// May these be an entry's? Their names ascend, and together they are not too long.
    pub fn are_valid(list: &[Self]) -> bool {
        let len: usize = list.iter().map(Self::encoded_len).sum();
        len <= Entry::MAX_ATTRIBUTES
            && list.is_sorted_by(|a, b| a.name < b.name)
            && list.iter().all(|attribute| Self::is_name(&attribute.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stays(name: &str, target: &str) -> bool {
        let target = Target::parse(target).unwrap();
        target.stays_below_top(&SafeName::parse(name).unwrap(), false)
    }

    #[test]
    fn a_safe_target_stays_below_the_top() {
        for target in [
            "b", "b/c", "./b", "../b", "..", "../", "..//b/", "b/./c", "...",
        ] {
            assert!(stays("top/a/link", target), "{target}");
        }
        for target in ["/b", "../../b", "../..", "b/../c", "../b/..", "./../../b"] {
            assert!(!stays("top/a/link", target), "{target}");
        }
        assert!(stays("top/link", "b") && !stays("top/link", "../b"));
        // It would point beside what is sent.
        assert!(!stays("link", "b"));
        // Where all of the top is sent, it doesn't.
        for (name, target, expected) in [
            ("link", "b", true),
            ("link", "../b", false),
            ("a/link", "../b", true),
            ("a/link", "../../b", false),
            ("link", "/b", false),
        ] {
            let target = Target::parse(target).unwrap();
            let name = SafeName::parse(name).unwrap();
            assert_eq!(target.stays_below_top(&name, true), expected, "{name}");
        }
    }

    #[test]
    fn a_link_to_a_dotfile_at_the_top_is_known() {
        for (name, target, expected) in [
            ("link", ".bashrc", true),
            ("link", "./.ssh/id", true),
            ("a/link", "../.bashrc", true),
            ("a/b/link", "../../.ssh/id", true),
            ("link", "bashrc", false),
            ("link", "a/.hidden", false),
            ("a/link", ".hidden", false),
            ("a/b/link", "../.hidden", false),
            ("a/link", "..", false),
        ] {
            let target = Target::parse(target).unwrap();
            let name = SafeName::parse(name).unwrap();
            assert_eq!(target.is_hidden_at_top(&name), expected, "{name}");
        }
    }

    #[test]
    fn targets_are_what_a_link_can_hold() {
        assert!(Target::parse("").is_none() && Target::parse("a\0").is_none());
        assert!(Target::parse(&"a".repeat(Target::MAX_LEN)).is_some());
        assert!(Target::parse(&"a".repeat(Target::MAX_LEN + 1)).is_none());
    }

    #[test]
    fn attributes_that_give_rights_do_not_travel() {
        for name in ["user.a", "user.mime type", "system.posix_acl_access"] {
            assert!(Attribute::is_name(name), "{name}");
        }
        for name in [
            "security.capability",
            "trusted.overlay.opaque",
            "system.nfs4_acl",
            "user.",
            "user.a\0",
            "",
            &format!("user.{}", "a".repeat(251)),
        ] {
            assert!(!Attribute::is_name(name), "{name}");
        }
    }

    #[test]
    fn attributes_ascend_and_are_bounded() {
        let attribute = |name: &str, len: usize| Attribute {
            name: name.to_owned(),
            value: vec![0; len],
        };
        let most = Entry::MAX_ATTRIBUTES - "user.a".len() - 5;
        assert!(Attribute::are_valid(&[attribute("user.a", most)]));
        assert!(!Attribute::are_valid(&[attribute("user.a", most + 1)]));
        let [a, b] = [attribute("user.a", 1), attribute("user.b", 0)];
        assert!(Attribute::are_valid(&[a.clone(), b.clone()]));
        assert!(!Attribute::are_valid(&[b, a.clone()]));
        assert!(!Attribute::are_valid(&[a.clone(), a]));
    }

    #[test]
    fn kinds_and_lengths() {
        let name = SafeName::parse("top/a").unwrap();
        let kinds = [
            Kind::File,
            Kind::Directory,
            Kind::HardLink(1),
            Kind::Symlink(Target::parse("b").unwrap()),
        ];
        let is = |kind: &Kind| {
            let entry = Entry::new(name.clone(), kind.clone());
            (entry.is_file(), entry.is_directory(), entry.text_len())
        };
        let expected = [(true, false, 5), (false, true, 5), (false, false, 5)];
        assert_eq!(kinds.each_ref().map(is)[..3], expected);
        assert_eq!(is(&kinds[3]), (false, false, 6));
        let mut all = Entry::new(name, kinds[3].clone());
        let (user, group) = ("ann".to_owned(), "us".to_owned());
        all.owner = Some(Owner {
            uid: 1,
            gid: 2,
            user,
            group,
        });
        all.attributes = ["user.a", Attribute::ACLS[0]]
            .map(|name| Attribute {
                name: name.to_owned(),
                value: Vec::new(),
            })
            .to_vec();
        let acls: Vec<_> = all.attributes.iter().map(Attribute::is_acl).collect();
        assert_eq!(acls, [false, true]);
        let attributes = "user.a".len() + Attribute::ACLS[0].len() + 2 * 5;
        assert_eq!(all.text_len(), "top/a".len() + 1 + 5 + attributes);
        let causes = Cause::ALL.map(|cause| cause.to_string());
        assert!(causes.iter().all(|text| text.len() > 5), "{causes:?}");
    }

    #[test]
    fn owners_have_short_names() {
        let owner = |user: &str, group: &str| Owner {
            uid: 1,
            gid: 2,
            user: user.to_owned(),
            group: group.to_owned(),
        };
        assert!(owner("ann", "").is_valid());
        assert!(!owner("a\nb", "").is_valid() && !owner("", &"g".repeat(129)).is_valid());
    }

    #[test]
    fn causes_have_numbers() {
        for cause in Cause::ALL {
            assert_eq!(Cause::from_number(cause as u8), Some(cause));
        }
        assert_eq!(Cause::from_number(7), None);
    }

    proptest! {
        /// Followed from the link, however deep, with other safe links on the way or not.
        #[test]
        fn no_safe_target_climbs_out(
            target in "(\\.\\.|\\.|a|b|/){1,9}",
            depth in 1..6usize,
        ) {
            let name = vec!["d"; depth].join("/");
            prop_assume!(Target::parse(&target).is_some());
            if stays(&name, &target) {
                let mut level = depth as i64 - 1;
                for component in target.split('/') {
                    match component {
                        ".." => level -= 1,
                        "" | "." => {}
                        _ => level += 1,
                    }
                    prop_assert!(level >= 1, "{target} at {name}");
                }
            }
        }
    }
}

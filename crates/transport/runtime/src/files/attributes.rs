//! Extended attributes and ACLs that travel.

use super::summary::Skipped;
use manyway_os::file::attributes::{Of, names, value};
use manyway_transfer::{Agreement, Attribute, Hello};
use std::io;

/// Which of them count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds {
    /// Those whose names begin with `user.`.
    pub(super) user: bool,
    pub(super) acls: bool,
}

impl Kinds {
    /// Those that both sides want.
    pub(super) fn agreed(agreed: Agreement) -> Self {
        Self {
            user: agreed.has(Hello::ATTRIBUTES),
            acls: agreed.has(Hello::ACLS),
        }
    }

    pub(super) fn any(self) -> bool {
        self.user || self.acls
    }

    /// Does whoever wants extended attributes miss that one? What labels files for this system
    /// alone, such as `security.selinux`, nobody does.
    fn misses(self, name: &str) -> bool {
        self.user && (name.starts_with("trusted.") || name == "security.capability")
    }

    pub(super) fn want(self, name: &str) -> bool {
        Attribute::is_name(name)
            && match Attribute::ACLS.contains(&name) {
                true => self.acls,
                false => self.user,
            }
    }
}

/// What this side asks for, and the other doesn't.
pub(super) fn not_agreed(ours: Hello, agreed: Agreement) -> Skipped {
    let mut missing = Skipped::default();
    for (feature, what) in [
        (
            Hello::ATTRIBUTES,
            "extended attributes aren't sent: use `--xattrs` on both sides",
        ),
        (Hello::ACLS, "ACLs aren't sent: use `--acls` on both sides"),
    ] {
        if ours.features & feature > 0 && !agreed.has(feature) {
            missing.add("everything", what);
        }
    }
    missing
}

/// Those of a file or directory, ascending by name. `missed` gets the names of others that
/// [don't travel](Attribute::is_name).
pub(super) fn read(
    of: Of<'_>,
    kinds: Kinds,
    mut missed: impl FnMut(&str),
) -> io::Result<Vec<Attribute>> {
    let mut found = Vec::new();
    for name in names(of)? {
        let name = match String::from_utf8(name) {
            Ok(name) => name,
            Err(error) if kinds.user && error.as_bytes().starts_with(b"user.") => {
                return Err(io::Error::other("a name isn't UTF-8"));
            }
            Err(_) => continue,
        };
        if kinds.want(&name) {
            let value = value(of, &name)?;
            found.push(Attribute { name, value });
        } else if kinds.misses(&name) {
            missed(&name);
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

use super::allowance::Allowance;
use super::disk::{Disk, Os};
use super::transfers::Transfers;
#[cfg(doc)]
use manyway_transfer::Target;
use manyway_transfer::{Entry, Hello, Kind, Policy, Role, SafeName};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a receiver may choose.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// What to do about names that exist.
    pub policy: Policy,
    /// Give files and directories all permission bits that the sender's have, and the special ones:
    /// a file its setuid bit with `owners`, and its setgid bit with `groups`. By default, the
    /// process's umask holds for them, as for any new file, and no special bits are set.
    pub keep_modes: bool,
    /// Give files, directories and links the sender's owners, by name where it exists here and by
    /// number otherwise. It takes the rights to do so.
    pub owners: bool,
    /// The same for groups.
    pub groups: bool,
    /// Give files and directories the sender's extended attributes, if it sends them: those whose
    /// names begin with `user.`. Only Linux has them.
    pub attributes: bool,
    /// The same for POSIX ACLs. With them, all permission bits are kept.
    pub acls: bool,
    /// What to do about names at the top that begin with a dot.
    pub dotfiles: Dotfiles,
    /// Which symbolic links to take.
    pub links: Links,
    /// How much content to take; default: no limit.
    pub allowance: Option<Allowance>,
    /// Refuse a transfer that is larger than the free space, before it begins, and end one that
    /// comes to leave no more than a reserve: 1 % of the file system, at most 100 MB (default).
    /// Without, a transfer fails when the disk is full; a file system that compresses may have room
    /// for more than it says.
    pub check_space: bool,
    /// Compare the content of files that have the right size already; by default, a file that has
    /// the right time, too, is taken for the same.
    pub checksum: bool,
    /// Once all has arrived, delete from the directories that were sent what the sender doesn't
    /// have; by default, it stays. What the sender has left out on purpose stays in any case. With
    /// [`Policy::Overwrite`], a directory also makes way for a file or link, once that is complete.
    /// With [`Policy::Rename`], everything stays.
    pub delete: bool,
    /// How long incomplete files are kept, for another transfer of the same file to go on with;
    /// default: 7 days. What is older is removed when a transfer into the directory begins, unless
    /// one of these `transfers` has done so in the last 10 minutes. If 0, they go as soon as a
    /// transfer ends early.
    pub keep_parts: Duration,
    /// The transfers that know of each other: those with clones of these options. One whose sender
    /// has been silent for 5 s ends if another into the same directory needs a file that it holds.
    pub transfers: Transfers,
    #[cfg(test)]
    pub(in crate::files) disk: Option<Arc<dyn Disk>>,
}

impl ReceiveOptions {
    /// What a receiver with these options says at first.
    pub fn hello(&self) -> Hello {
        let wanted = [
            (self.owners || self.groups, Hello::OWNERS),
            (self.attributes, Hello::ATTRIBUTES),
            (self.acls, Hello::ACLS),
        ];
        let wanted = wanted.into_iter().filter(|(wanted, _)| *wanted);
        Hello {
            features: wanted.map(|(_, feature)| feature).sum(),
            ..Hello::new(Role::Receiver)
        }
    }

    /// Do all permission bits stay?
    pub(super) fn keeps_modes(&self) -> bool {
        self.keep_modes || self.acls
    }

    /// Do incomplete files stay? With other names, no transfer finds them again.
    pub(super) fn keeps(&self) -> bool {
        !self.keep_parts.is_zero() && self.policy != Policy::Rename
    }

    /// Does what the sender doesn't have go?
    pub(super) fn deletes(&self) -> bool {
        self.delete && self.policy != Policy::Rename
    }

    /// Do names at the top that begin with a dot go, too? Nobody is asked about that.
    pub(super) fn deletes_hidden(&self) -> bool {
        matches!(self.dotfiles, Dotfiles::Allow)
    }

    /// Where to write.
    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        #[cfg(test)]
        if let Some(disk) = &self.disk {
            return disk.clone();
        }
        Arc::new(Os)
    }
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            keep_modes: false,
            owners: false,
            groups: false,
            attributes: false,
            acls: false,
            dotfiles: Dotfiles::default(),
            links: Links::default(),
            allowance: None,
            check_space: true,
            checksum: false,
            delete: false,
            keep_parts: Duration::from_secs(7 * 86_400),
            transfers: Transfers::default(),
            #[cfg(test)]
            disk: None,
        }
    }
}

/// Which symbolic links a receiver takes. It never follows one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Those that [stay below the top](Target::stays_below_top) of what is sent. Others could lead
    /// programs that follow them to files that the sender chooses. At the top, a name that begins
    /// with a dot counts as such unless [all are taken](Dotfiles::Allow).
    #[default]
    Safe,
    /// All.
    All,
    /// None.
    None,
}

impl Links {
    /// Why it doesn't take that entry, if it is a symbolic link; `top` is the
    /// [scope's](manyway_transfer::Scope::top), and `dotfiles` whether all of them are taken.
    pub(super) fn refusal(self, entry: &Entry, top: bool, dotfiles: bool) -> Option<&'static str> {
        let Kind::Symlink(target) = &entry.kind else {
            return None;
        };
        match self {
            Links::All => None,
            Links::Safe if top && !dotfiles && target.is_hidden_at_top(&entry.name) => {
                Some("a symbolic link to a name that begins with a dot (`--allow-dotfiles`)")
            }
            Links::Safe if target.stays_below_top(&entry.name, top) => None,
            Links::Safe => {
                Some("a symbolic link that leads out of the sent directory (`--links all`)")
            }
            Links::None => Some("a symbolic link (`--links none`)"),
        }
    }
}

/// What a receiver does about names at the top that begin with a dot, such as `.ssh` and `.bashrc`:
/// in a home directory, such files decide which programs run.
#[derive(Clone, Default)]
pub enum Dotfiles {
    /// Refuses the transfer.
    #[default]
    Refuse,
    /// Takes them.
    Allow,
    /// Asks, once for each transfer, with the first names and the number of all; `true` takes them.
    /// The call may block.
    Ask(AskDotfiles),
}

/// See [`Dotfiles::Ask`].
pub type AskDotfiles = Arc<dyn Fn(&[SafeName], u64) -> bool + Send + Sync>;

impl fmt::Debug for Dotfiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dotfiles::Refuse => "Refuse",
            Dotfiles::Allow => "Allow",
            Dotfiles::Ask(_) => "Ask",
        })
    }
}

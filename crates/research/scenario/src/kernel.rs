//! Flows of the kernel's own TCP and MPTCP, which run at the live level.

use std::fmt;
use std::str::FromStr;

/// What a law of the kernel begins with in a file.
const PREFIX: &str = "kernel:";

/// The longest name that the kernel has for a congestion control: `TCP_CA_NAME_MAX` with a final
/// zero.
const MAX_NAME: usize = 15;

/// A connection of the kernel's with one of its congestion controls: `kernel:mptcp:cubic`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelLaw {
    /// Who cuts the bytes into packets.
    pub protocol: KernelProtocol,
    /// What the kernel calls the congestion control, as in `tcp_available_congestion_control`. Each
    /// subflow of MPTCP has it.
    pub name: String,
}

/// A transport protocol of the kernel's.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum KernelProtocol {
    /// One path.
    Tcp,
    /// One path or several (RFC 8684).
    Mptcp,
}

impl KernelLaw {
    /// Whether a text is meant to be one.
    pub(crate) fn is_meant(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// Most paths of a connection: MPTCP's path manager takes no more addresses from its peer.
    pub fn most_paths(&self) -> usize {
        match self.protocol {
            KernelProtocol::Tcp => 1,
            KernelProtocol::Mptcp => 8,
        }
    }
}

impl FromStr for KernelLaw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no law of the kernel's: write kernel:tcp:NAME or kernel:mptcp:NAME, \
                 as in kernel:mptcp:cubic"
            )
        };
        let rest = text.strip_prefix(PREFIX).ok_or_else(wrong)?;
        let (protocol, name) = rest.split_once(':').ok_or_else(wrong)?;
        let protocol = match protocol {
            "tcp" => KernelProtocol::Tcp,
            "mptcp" => KernelProtocol::Mptcp,
            _ => return Err(wrong()),
        };
        let usual = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(usual) {
            return Err(format!(
                "{name:?} can't be the name of a congestion control: the kernel's have 1 to \
                 {MAX_NAME} letters, digits, - and _"
            ));
        }
        Ok(Self {
            protocol,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for KernelLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            KernelProtocol::Tcp => "tcp",
            KernelProtocol::Mptcp => "mptcp",
        };
        write!(f, "{PREFIX}{protocol}:{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_other_way_round() {
        for text in ["kernel:tcp:bbr", "kernel:mptcp:cubic", "kernel:mptcp:t_lia"] {
            assert!(KernelLaw::is_meant(text));
            assert_eq!(text.parse::<KernelLaw>().unwrap().to_string(), text);
        }
        for wrong in [
            "kernel:bbr",
            "kernel:udp:bbr",
            "kernel:tcp:",
            "kernel:tcp:sixteen_letters_",
            "kernel:tcp:a b",
            "kernel:tcp:\u{1b}",
            "bbr",
        ] {
            assert!(wrong.parse::<KernelLaw>().is_err(), "{wrong}");
        }
    }
}

//! What the laws need of this host, and what to do where it is missing.

use std::fs;
use std::path::Path;

use libbpf_rs::btf::{self, Btf};

/// Where the kernel describes its types.
const BTF: &str = "/sys/kernel/btf/vmlinux";
const MPTCP: &str = "/proc/sys/net/mptcp/enabled";

/// What this host has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    pub(crate) root: bool,
    pub(crate) btf: bool,
    /// Congestion controls can be programs.
    pub(crate) struct_ops: bool,
    /// Programs can read the kernel's structures by their types.
    pub(crate) casts: bool,
    pub(crate) mptcp: bool,
}

impl Host {
    /// This host.
    pub(crate) fn here() -> Self {
        let types = Path::new(BTF).exists().then(Btf::from_vmlinux);
        let types = types.and_then(Result::ok);
        let has_struct = |name| {
            let types = types.as_ref();
            types.is_some_and(|btf| btf.type_by_name::<btf::types::Struct<'_>>(name).is_some())
        };
        let has_function = |name| {
            let types = types.as_ref();
            types.is_some_and(|btf| btf.type_by_name::<btf::types::Func<'_>>(name).is_some())
        };
        Self {
            root: rustix::process::geteuid().is_root(),
            btf: types.is_some(),
            struct_ops: has_struct("bpf_struct_ops_tcp_congestion_ops"),
            casts: has_function("bpf_rdonly_cast"),
            mptcp: has_struct("mptcp_sock") && Path::new(MPTCP).exists(),
        }
    }

    /// What is missing for `list` and `unload`.
    pub(crate) fn check_root(self) -> Result<(), String> {
        if self.root {
            return Ok(());
        }
        Err("only root sees and changes the kernel's congestion controls: run it with sudo".into())
    }

    /// What is missing for `load`; `release` is the kernel's.
    pub(crate) fn check(self, release: &str) -> Result<(), String> {
        self.check_root()?;
        let kernel = format!("this kernel ({release})");
        if !self.btf {
            return Err(format!(
                "{kernel} doesn't describe its types: {BTF} is missing. It has to be built with \
                 CONFIG_DEBUG_INFO_BTF=y, as those of Debian, Ubuntu and Fedora are"
            ));
        }
        if !self.struct_ops {
            return Err(format!(
                "{kernel} takes no programs as congestion control (struct_ops). It has to be \
                 Linux 6.2 or later, with CONFIG_BPF_SYSCALL=y and CONFIG_BPF_JIT=y"
            ));
        }
        if !self.casts {
            return Err(format!(
                "{kernel} is too old: programs can't look at the other subflows of a connection \
                 (bpf_rdonly_cast). It has to be Linux 6.2 or later"
            ));
        }
        if !self.mptcp {
            return Err(format!(
                "{kernel} has no MPTCP, and without it there is nothing to couple. It has to be \
                 built with CONFIG_MPTCP=y"
            ));
        }
        Ok(())
    }
}

/// What keeps a loaded law from working for MPTCP.
pub(crate) fn warning() -> Option<String> {
    let enabled = fs::read_to_string(MPTCP).unwrap_or_default();
    (enabled.trim() == "0").then(|| {
        "MPTCP is switched off here: switch it on with `sysctl -w net.mptcp.enabled=1`".into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Host = Host {
        root: true,
        btf: true,
        struct_ops: true,
        casts: true,
        mptcp: true,
    };

    fn said(host: Host) -> String {
        host.check("5.4.0").unwrap_err()
    }

    #[test]
    fn each_thing_that_is_missing_has_its_remedy() {
        assert_eq!(ALL.check("6.18.0"), Ok(()));
        assert!(said(Host { root: false, ..ALL }).contains("sudo"));
        assert!(said(Host { btf: false, ..ALL }).contains("CONFIG_DEBUG_INFO_BTF"));
        let old = Host {
            struct_ops: false,
            ..ALL
        };
        assert!(said(old).contains("(5.4.0)") && said(old).contains("struct_ops"));
        assert!(
            said(Host {
                casts: false,
                ..ALL
            })
            .contains("6.2 or later")
        );
        assert!(
            said(Host {
                mptcp: false,
                ..ALL
            })
            .contains("CONFIG_MPTCP")
        );
    }

    #[test]
    fn what_is_missing_first_is_named_first() {
        let nothing = Host {
            root: false,
            btf: false,
            struct_ops: false,
            casts: false,
            mptcp: false,
        };
        assert!(said(nothing).contains("sudo"));
        assert!(
            said(Host {
                root: true,
                ..nothing
            })
            .contains("BTF")
        );
    }
}

//! `manyway kernel`: hands over to `manyway-kernel`, a program of its own (adapters/kernel), so
//! that this one doesn't depend on libbpf.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

use crate::args::KernelArgs;

const PROGRAM: &str = "manyway-kernel";

/// Becomes that program, if it is there.
pub(crate) fn run(args: &KernelArgs) -> anyhow::Result<()> {
    let error = Command::new(program()).args(&args.rest).exec();
    if error.kind() == ErrorKind::NotFound {
        bail!(
            "{PROGRAM} isn't installed: in the source tree, install it beside manyway with `cargo \
             install --path adapters/kernel`"
        );
    }
    Err(error).context(format!("{PROGRAM} doesn't start"))
}

/// Beside this program, or wherever the shell would find it.
fn program() -> PathBuf {
    let beside = std::env::current_exe().map(|this| this.with_file_name(PROGRAM));
    beside
        .ok()
        .filter(|path| path.exists())
        .unwrap_or_else(|| PROGRAM.into())
}

//! `manyway-kernel`, also `manyway kernel`: manyway's laws as congestion controls of this host's
//! kernel, for its MPTCP. docs/kernel.md is the guide.

mod laws;
mod loaded;
mod requirements;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use manyway_control::LawSpec;

use crate::requirements::Host;

/// Coupled congestion control for this kernel's MPTCP.
///
/// Loads laws into the running kernel, as congestion controls that every program can use.
#[derive(Debug, Parser)]
#[command(name = "manyway kernel", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  manyway kernel load balia
  sysctl -w net.ipv4.tcp_congestion_control=balia
  mptcpize run curl -O https://…
  manyway kernel load ewtcp:a=0.25 --as ewtcp4
  manyway kernel unload ewtcp4";

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a law a congestion control of the kernel's; it stays until `unload` or a restart
    Load {
        /// lia, olia, balia, coupled, semicoupled, ewtcp or ewtcp:a=WEIGHT
        law: LawSpec,
        /// Its name in the kernel; the law's own, if not given
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
    },
    /// Show what is loaded
    List,
    /// Remove one; connections that use it keep it until they end
    Unload {
        /// Its name in the kernel
        #[arg(value_name = "LAW")]
        name: String,
    },
}

/// Why a command failed, and what to do.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Missing(String),
    #[error("the kernel can't run {law}: it can run {}", loaded::LAWS.join(", "))]
    NoSuchLaw { law: String },
    #[error(
        "{0:?} can't be a congestion control's name: take 1 to 15 letters, digits, `_` and `-`"
    )]
    Name(String),
    #[error(
        "the kernel has a congestion control called {name} already{}, or load this one under \
         another name, `--as NAME`", if *ours {
            format!(", loaded by manyway: unload it first, `manyway kernel unload {name}`")
        } else {
            ", which manyway hasn't loaded: remove it".into()
        }
    )]
    Exists { name: String, ours: bool },
    #[error("manyway has loaded no congestion control called {name:?}{}{}", if *there {
            ": the kernel has it from elsewhere"
        } else {
            ""
        }, match ours.len() {
            0 => String::new(),
            _ => format!("; loaded are {}", ours.join(", ")),
        }
    )]
    NotOurs {
        name: String,
        there: bool,
        ours: Vec<String>,
    },
    #[error(
        "{0} is what connections here use by default: choose another one first, `sysctl -w \
         net.ipv4.tcp_congestion_control=cubic`"
    )]
    Default(String),
    #[error("{0}: {1}")]
    File(&'static str, io::Error),
    #[error("{0} failed: {1}. The kernel's log may say more (dmesg)")]
    Kernel(&'static str, libbpf_rs::Error),
    #[error("this kernel's congestion controls look different from what manyway knows")]
    Layout,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(text) => {
            // Without standard output the status says it.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let _ = writeln!(io::stderr(), "manyway kernel: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// What to print.
fn run(command: Command) -> Result<String, Failure> {
    let host = Host::here();
    match command {
        Command::Load { law, name } => {
            let release = rustix::system::uname();
            let release = release.release().to_string_lossy();
            host.check(&release).map_err(Failure::Missing)?;
            let name = name.unwrap_or_else(|| law.name().into());
            laws::load(&law, &name)?;
            let warning = requirements::warning().map(|text| format!("Warning: {text}\n"));
            Ok(format!(
                "{law} is loaded as {name}. Use it for every connection from now on:\n  sysctl -w \
                 net.ipv4.tcp_congestion_control={name}\n{}",
                warning.unwrap_or_default()
            ))
        }
        Command::List => {
            host.check_root().map_err(Failure::Missing)?;
            let all = loaded::list()?;
            if all.is_empty() {
                return Ok("nothing is loaded\n".into());
            }
            let row = |one: &loaded::Loaded| {
                format!("{:<16} {:<12} {:>5}\n", one.name, one.law, one.uses)
            };
            let rows: String = all.iter().map(row).collect();
            Ok(format!(
                "{:<16} {:<12} {:>5}\n{rows}",
                "name", "law", "uses"
            ))
        }
        Command::Unload { name } => {
            host.check_root().map_err(Failure::Missing)?;
            Ok(match loaded::unload(&name)? {
                0 => format!("{name} is unloaded\n"),
                uses => format!("{name} is unloaded; {uses} sockets or namespaces still use it\n"),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}

//! `manyway completions` and `manyway man`: what shells and `man` know of the command line, made
//! from the options' definition.

use std::fs;
use std::io::ErrorKind;

use anyhow::Context;
use clap_complete::aot;

use crate::args::{Cli, CompletionsArgs, ManArgs, Shell};
use crate::screen::Screen;
use crate::summary::print_text;

pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    print_text(&script(args.shell))
}

fn script(shell: Shell) -> String {
    let shell = match shell {
        Shell::Bash => aot::Shell::Bash,
        Shell::Zsh => aot::Shell::Zsh,
        Shell::Fish => aot::Shell::Fish,
    };
    let mut script = Vec::new();
    aot::generate(shell, &mut Cli::definition(), "manyway", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

pub(crate) fn man(screen: &Screen, args: &ManArgs) -> anyhow::Result<()> {
    let dir = &args.dir;
    let made = match fs::create_dir(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    made.and_then(|()| clap_mangen::generate_to(Cli::definition(), dir))
        .with_context(|| format!("can't write man pages into {}", dir.display()))?;
    screen.say(&format!("man pages written into {}", dir.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_know_commands_and_options() {
        for (shell, option) in [
            (Shell::Bash, "--overwrite"),
            (Shell::Zsh, "--overwrite"),
            (Shell::Fish, "-l overwrite"),
        ] {
            let script = script(shell);
            for word in ["recv", "completions", option] {
                assert!(script.contains(word), "{shell:?}: {word}");
            }
        }
    }

    #[test]
    fn only_options_of_files_complete_their_names() {
        let script = script(Shell::Bash);
        let recv = script.split("manyway__subcmd__recv)").last().unwrap();
        let after = |option: &str| {
            let (_, rest) = recv.split_once(&format!("{option})")).unwrap();
            rest.split(";;").next().unwrap().to_owned()
        };
        assert!(after("--identity").contains("compgen -f"));
        assert!(!after("--cc").contains("compgen -f"), "{}", after("--cc"));
    }

    #[test]
    fn there_is_a_page_for_each_command() {
        let dir = tempfile::tempdir().unwrap();
        clap_mangen::generate_to(Cli::definition(), dir.path()).unwrap();
        let page = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(page("manyway.1").contains("manyway\\-send(1)"));
        // Everything about rare options, too.
        let send = page("manyway-send.1");
        assert!(send.contains("MANYWAY_RECEIVE_WINDOW"), "{send}");
        assert!(send.contains("Examples:"), "{send}");
    }
}

//! `manyway kernel` hands over to a program of its own.

use std::process::{Command, Output};

use tempfile::TempDir;

use crate::common::{install, script};

/// `manyway kernel …`, in a directory of its own, for it looks beside itself.
fn kernel(dir: &TempDir, arguments: &[&str]) -> (i32, String) {
    let here = dir.path().join("manyway");
    if !here.exists() {
        install(env!("CARGO_BIN_EXE_manyway").as_ref(), &here);
    }
    let mut command = Command::new(here);
    command
        .arg("kernel")
        .args(arguments)
        .env("PATH", dir.path());
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let said = String::from_utf8([stdout, stderr].concat()).unwrap();
    (status.code().unwrap(), said)
}

#[test]
fn it_says_how_to_install_what_is_not_there() {
    let dir = TempDir::new().unwrap();
    let (code, said) = kernel(&dir, &["load", "lia"]);
    assert_eq!(code, 1);
    assert!(
        said.contains("cargo install --path adapters/kernel"),
        "{said}"
    );
}

#[test]
fn words_and_status_are_the_other_programs() {
    let dir = TempDir::new().unwrap();
    let other = dir.path().join("manyway-kernel");
    script(&other, "echo \"$# $1 $2 $3\"\nexit 3");
    let (code, said) = kernel(&dir, &["load", "--as", "two words"]);
    assert_eq!((code, said.as_str()), (3, "3 load --as two words\n"));
    let (_, said) = kernel(&dir, &["--help"]);
    assert_eq!(said, "1 --help  \n");
}

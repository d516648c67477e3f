//! Everything behind a report in one file, to be published beside a paper.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use crate::claims;

/// How to cite the program.
const CITATION: &str = include_str!("../../CITATION.cff");

const README: &str = "\
# Results of manyway

`report.html` has each table and figure of the papers beside what was found, `report.json` the same
for programs. `claims` has what the papers say and what the results are asked for. `data` has all
numbers of the studies, their pages and plots; `studies` has what the report needs of them.
`CITATION.cff` says how to cite the program. `manyway reproduce --full` made all of this, and makes
it again.
";

/// Packs the report in `dir`, and what `files` it was made from, given below `dir`, into
/// `manyway-results.tar` there. The same files give the same archive, byte for byte.
///
/// # Errors
///
/// When a file can't be read or the archive can't be written.
pub(super) fn write(dir: &Path, files: &[PathBuf]) -> io::Result<PathBuf> {
    let mut entries = BTreeMap::from([
        ("CITATION.cff".to_owned(), CITATION.as_bytes().to_vec()),
        ("README.md".to_owned(), README.as_bytes().to_vec()),
    ]);
    for (paper, text) in claims::texts() {
        entries.insert(format!("claims/{paper}.toml"), text.as_bytes().to_vec());
    }
    for file in files {
        let name = file.to_string_lossy().into_owned();
        entries.insert(name, fs::read(dir.join(file))?);
    }
    let path = dir.join("manyway-results.tar");
    let unfinished = dir.join(".manyway-results.tar");
    let mut archive = tar::Builder::new(BufWriter::new(File::create(&unfinished)?));
    for (name, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("manyway-results/{name}"), &content[..])?;
    }
    let file = archive.into_inner()?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?;
    fs::rename(unfinished, &path)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn an_archive_has_what_a_reader_needs_and_is_always_the_same() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        fs::write(dir.path().join("report.html"), "<html>").unwrap();
        fs::write(dir.path().join("data/wvegas.json"), "{}").unwrap();
        fs::write(dir.path().join("data/other.json"), "not asked for").unwrap();
        let files = ["report.html", "data/wvegas.json"].map(PathBuf::from);
        let path = write(dir.path(), &files).unwrap();
        let first = fs::read(&path).unwrap();
        let mut archive = tar::Archive::new(&first[..]);
        let mut names = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_string_lossy().into_owned();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            if name.ends_with("CITATION.cff") {
                assert!(text.starts_with("cff-version: "), "{text}");
            }
            names.push(name.strip_prefix("manyway-results/").unwrap().to_owned());
        }
        let own = ["CITATION.cff", "README.md"];
        let claims = claims::texts().map(|(paper, _)| format!("claims/{paper}.toml"));
        let mut expected: Vec<String> = own.map(str::to_owned).into_iter().chain(claims).collect();
        expected.extend(["data/wvegas.json", "report.html"].map(str::to_owned));
        expected.sort();
        assert_eq!(names, expected);
        fs::write(dir.path().join("report.html"), "<html>").unwrap();
        write(dir.path(), &files).unwrap();
        assert!(fs::read(&path).unwrap() == first);
        assert!(write(dir.path(), &[PathBuf::from("missing")]).is_err());
    }
}

//! Widths of lines and targets of links.

use std::path::{Path, PathBuf};

/// A line with more characters than the limit.
#[derive(Debug)]
pub struct Overlong {
    /// Its number in the file, from 1.
    pub line: usize,
    /// Its length in characters.
    pub characters: usize,
}

/// Lines of a Rust file, a script or a Markdown page with more than `limit` characters.
///
/// In Markdown (`markdown`), tables and fenced blocks may be wider, and so may a line that is one
/// word, such as a link: they can't be broken.
pub fn overlong_lines(text: &str, limit: usize, markdown: bool) -> Vec<Overlong> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let content = line.trim_start();
        if markdown && content.starts_with("```") {
            fenced = !fenced;
        }
        let excused = markdown && (fenced || content.starts_with('|'))
            || !content
                .trim_start_matches(['/', '!', '#', '-', '*', ' '])
                .contains(' ');
        let characters = line.chars().count();
        if characters > limit && !excused {
            found.push(Overlong {
                line: index + 1,
                characters,
            });
        }
    }
    found
}

/// Links of a Markdown page to files that don't exist, as written.
///
/// `page` is the page's path, which relative links count from.
pub fn broken_links(page: &Path, text: &str) -> Vec<String> {
    let folder = page.parent().map_or_else(PathBuf::new, Path::to_owned);
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .filter(|target| !target.contains("://") && !target.starts_with(['#', '<']))
        .filter(|target| !target.contains(' ') && !target.starts_with("mailto:"))
        .filter(|target| {
            let file = target.split('#').next().unwrap_or(target);
            !folder.join(file).exists()
        })
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_could_be_broken_is_too_wide() {
        let wide = "word ".repeat(30);
        let url = "x".repeat(150);
        let page = format!("{wide}\n| {wide} |\n```\n{wide}\n```\n{url}\n");
        let lines = |markdown| {
            let found = overlong_lines(&page, 100, markdown);
            found.iter().map(|it| it.line).collect::<Vec<_>>()
        };
        assert_eq!(lines(true), [1]);
        assert_eq!(lines(false), [1, 2, 4]);
    }

    #[test]
    fn characters_are_counted_and_not_bytes() {
        assert!(overlong_lines(&"ä ".repeat(50), 100, false).is_empty());
    }

    #[test]
    fn links_to_files_are_followed_from_the_page() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("there.md"), "").unwrap();
        let text = "[a](there.md#x) [b](gone.md) [c](https://example.org/x) [d](#here)";
        assert_eq!(
            broken_links(&folder.path().join("page.md"), text),
            ["gone.md"]
        );
    }
}

//! Widths of lines, links and what they lead to.

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

/// What stands outside of a Markdown page's fenced blocks.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if !fenced && !fence {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// Targets of a Markdown page's links, as written.
pub fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let rests = prose.split("](").skip(1);
    let targets = rests.filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// The anchors of a Markdown page: of its headings, as forges and mdBook make them, and those that
/// it names itself.
pub fn anchors(text: &str) -> Vec<String> {
    let prose = prose(text);
    let mut found: Vec<String> = Vec::new();
    for line in prose.lines() {
        if let Some((_, rest)) = line.split_once("<a id=\"") {
            found.extend(rest.split_once('"').map(|(name, _)| name.to_owned()));
        }
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug = slug(heading.trim());
        // The second of the same heading is `slug-1`.
        let numbers = (1..).map(|n| format!("{slug}-{n}"));
        let mut names = std::iter::once(slug.clone()).chain(numbers);
        found.extend(names.find(|name| !found.contains(name)));
    }
    found
}

fn slug(heading: &str) -> String {
    // Of a link, its text.
    let mut shown = String::new();
    for (n, part) in heading.split("](").enumerate() {
        let part = match n {
            0 => part,
            _ => part.split_once(')').map_or("", |(_, rest)| rest),
        };
        shown.push_str(part);
    }
    let kept = shown.chars().filter_map(|it| match it {
        ' ' => Some('-'),
        '-' | '_' => Some(it),
        _ => it.is_alphanumeric().then_some(it),
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// Links of a Markdown page to files or headings that don't exist, as written.
///
/// `page` is the page's path, which relative links count from.
pub fn broken_links(page: &Path, text: &str) -> Vec<String> {
    let folder = page.parent().map_or_else(PathBuf::new, Path::to_owned);
    let own = anchors(text);
    let is_broken = |target: &String| {
        let (file, anchor) = target.split_once('#').unwrap_or((target.as_str(), ""));
        let path = folder.join(file);
        if !file.is_empty() && !path.exists() {
            return true;
        }
        let there = match file {
            "" => own.clone(),
            _ if file.ends_with(".md") => {
                anchors(&std::fs::read_to_string(path).unwrap_or_default())
            }
            _ => return false,
        };
        !anchor.is_empty() && !there.iter().any(|name| name == anchor)
    };
    let inside = links(text).into_iter().filter(|target| {
        let foreign = target.contains("://") || target.starts_with("mailto:");
        !foreign && !target.starts_with('<') && !target.contains(' ')
    });
    inside.filter(is_broken).collect()
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
    fn links_to_files_and_headings_are_followed_from_the_page() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("there.md"), "# X\n## X\n").unwrap();
        let text = "# Here\n[a](there.md#x) [b](gone.md) [c](https://example.org/x) [d](#here)\n\
                    [e](there.md#y) [f](#nowhere) [g](there.md#x-1) [h](there.md#x-2)\n\
                    ```\n[i](gone.md)\n```\n";
        assert_eq!(
            broken_links(&folder.path().join("page.md"), text),
            ["gone.md", "there.md#y", "#nowhere", "there.md#x-2"]
        );
    }

    #[test]
    fn anchors_are_those_of_forges() {
        let page = "# A page\n```sh\n# no heading\n```\n## `[links.NAME]` and *Fig. 1(a)*\n\
                    <a id=\"own\"></a>\n### [Linked](x.md): it's _so_\n#hashtag\n";
        let expected = ["a-page", "linksname-and-fig-1a", "own", "linked-its-_so_"];
        assert_eq!(anchors(page), expected);
    }
}

/// Text from elsewhere made fit for a terminal and for one line of a log.
///
/// Characters that can't be seen but change what is seen are escaped as in Rust (`\n`, `\u{202e}`):
/// control characters, separators of lines and paragraphs, and the format characters of Unicode
/// (category Cf) that turn the direction of text, join or part its neighbours without a width, or
/// carry annotations and tags. So a text can't move the cursor, begin a line of its own, or look
/// like another text.
///
/// The result has at most `max` characters, then `…` if there were more.
pub fn printable(text: &str, max: usize) -> String {
    let mut out = String::new();
    let mut room = max;
    for c in text.chars() {
        let escape = is_invisible(c).then(|| c.escape_default());
        let width = escape.as_ref().map_or(1, ExactSizeIterator::len);
        if width > room {
            out.push('…');
            break;
        }
        room -= width;
        match escape {
            Some(escape) => out.extend(escape),
            None => out.push(c),
        }
    }
    out
}

/// Does it act on what is shown without being shown?
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'                        // soft hyphen
            | '\u{61c}'                     // Arabic letter mark
            | '\u{180e}'                    // Mongolian vowel separator
            | '\u{200b}'..='\u{200f}'       // zero width; marks of direction
            | '\u{2028}'..='\u{202e}'       // separators; embeddings and overrides
            | '\u{2060}'..='\u{206f}'       // word joiner, isolates, deprecated ones
            | '\u{feff}'                    // byte order mark
            | '\u{fff9}'..='\u{fffb}'       // interlinear annotations
            | '\u{1bca0}'..='\u{1bca3}'     // shorthand
            | '\u{1d173}'..='\u{1d17a}'     // music
            | '\u{e0000}'..='\u{e007f}' // tags
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_acts_on_the_terminal_is_shown_instead() {
        for (text, shown) in [
            ("plain ü 漢字 👩", "plain ü 漢字 👩"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\nmanyway: b\r", "a\\nmanyway: b\\r"),
            ("exe.\u{202e}gpj", "exe.\\u{202e}gpj"),
            ("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}"),
            ("\u{9b}31m\u{7f}\0", "\\u{9b}31m\\u{7f}\\u{0}"),
            ("\u{2028}\u{2029}\u{85}", "\\u{2028}\\u{2029}\\u{85}"),
            ("\u{2066}\u{61c}\u{e0041}", "\\u{2066}\\u{61c}\\u{e0041}"),
        ] {
            assert_eq!(printable(text, 100), shown);
        }
    }

    #[test]
    fn the_limit_counts_what_is_shown_and_cuts_no_escape() {
        assert_eq!(printable("ééé", 3), "ééé");
        assert_eq!(printable("éééé", 3), "ééé…");
        assert_eq!(printable("ab\u{1b}c", 7), "ab…");
        assert_eq!(printable("ab\u{1b}", 8), "ab\\u{1b}");
        assert_eq!(printable("a", 0), "…");
    }

    proptest! {
        #[test]
        fn it_is_bounded_and_clean(text in any::<String>(), max in 0usize..20) {
            let shown = printable(&text, max);
            prop_assert!(!shown.chars().any(is_invisible));
            prop_assert!(shown.chars().count() <= max + 1);
        }
    }
}

//! Pages made from a text with `{names}` in the place of what a run gives.

/// A page under way.
pub(crate) struct Page(String);

impl Page {
    /// The text, with nothing filled in yet.
    pub(crate) fn new(text: &str) -> Self {
        Page(text.to_owned())
    }

    /// Puts `value`, a number or a table, wherever the text has `{name}`.
    ///
    /// # Panics
    ///
    /// When the text has no such name.
    #[must_use]
    pub(crate) fn fill(self, name: &str, value: &str) -> Self {
        let place = format!("{{{name}}}");
        assert!(self.0.contains(&place), "the page has no {place}");
        Page(self.0.replace(&place, value.trim_end()))
    }

    /// The page in Markdown.
    pub(crate) fn text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_their_names_were() {
        let page = Page::new("{n} runs:\n\n{table}\n\nSo {n}.\n");
        let page = page.fill("n", "3").fill("table", "| a |\n|---|\n");
        assert_eq!(page.text(), "3 runs:\n\n| a |\n|---|\n\nSo 3.\n");
    }

    #[test]
    #[should_panic(expected = "the page has no {rows}")]
    fn a_name_that_the_text_lacks_is_a_mistake() {
        let _ = Page::new("{n} runs").fill("rows", "");
    }
}

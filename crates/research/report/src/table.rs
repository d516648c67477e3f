//! Aligned text tables, for terminals and for Markdown. A table holds cells that its caller has
//! formatted; it aligns them and changes none.

use std::fmt;

use comfy_table::{CellAlignment, Table as Grid, presets};

/// A column's heading and the alignment of its cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    heading: String,
    alignment: CellAlignment,
}

impl Column {
    /// A column of text.
    pub fn left(heading: impl Into<String>) -> Self {
        Self {
            heading: heading.into(),
            alignment: CellAlignment::Left,
        }
    }

    /// A column of numbers.
    pub fn right(heading: impl Into<String>) -> Self {
        Self {
            heading: heading.into(),
            alignment: CellAlignment::Right,
        }
    }
}

/// Rows under headings. `Display` is the terminal's form, two blanks between columns and no frame;
/// [`Table::markdown`] is the form for documents.
///
/// ```
/// use manyway_report::{Column, Table};
///
/// let mut table = Table::new([Column::left("path"), Column::right("Mbps")]);
/// table.row(["eth0", "40.0"]);
/// table.row(["wlan0", "9.5"]);
/// assert_eq!(table.to_string(), "path   Mbps\neth0   40.0\nwlan0   9.5\n");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns and no rows yet.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Missing cells stay blank, cells beyond the last column are dropped.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
        self
    }

    /// The table in Markdown, cells padded so that the source reads well too.
    pub fn markdown(&self) -> String {
        let mut grid = self.grid();
        grid.load_style(presets::ASCII_MARKDOWN);
        let text = grid.to_string();
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        let rule = lines.next().unwrap_or_default();
        let body: String = lines.map(|line| format!("{line}\n")).collect();
        format!("{head}\n{}\n{body}", self.aligned_rule(rule))
    }

    /// Markdown says in the rule under the headings which columns stand to the right.
    fn aligned_rule(&self, rule: &str) -> String {
        let cells = rule.trim_matches('|').split('|');
        let cells: Vec<String> = cells
            .zip(&self.columns)
            .map(|(cell, column)| match column.alignment {
                CellAlignment::Right => format!("{}:", &cell[1..]),
                _ => cell.to_owned(),
            })
            .collect();
        format!("|{}|", cells.join("|"))
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::new();
        grid.set_header(self.columns.iter().map(|column| column.heading.as_str()));
        grid.add_rows(&self.rows);
        for (index, column) in self.columns.iter().enumerate() {
            if let Some(shown) = grid.column_mut(index) {
                shown.set_cell_alignment(column.alignment);
            }
        }
        grid
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut grid = self.grid();
        grid.load_style(presets::NOTHING);
        for index in 0..self.columns.len() {
            if let Some(shown) = grid.column_mut(index) {
                shown.set_padding((if index == 0 { 0 } else { 2 }, 0));
            }
        }
        grid.to_string()
            .lines()
            .try_for_each(|line| writeln!(f, "{}", line.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new([
            Column::left("law"),
            Column::right("goodput"),
            Column::right("share"),
            Column::left("remark"),
        ]);
        table.row(["lia", "39.1 Mbps", "0.50", "coupled"]);
        table.row(["balia", "38.0 Mbps", "0.486", ""]);
        table.row(["größer", "7 Mbps"]);
        table.row(["cubic", "40 Mbps", "0.6", "uncoupled", "dropped"]);
        table
    }

    #[test]
    fn terminal_form() {
        insta::assert_snapshot!(sample().to_string());
    }

    #[test]
    fn markdown_form() {
        insta::assert_snapshot!(sample().markdown());
    }

    #[test]
    fn an_empty_table_is_its_headings() {
        let table = Table::new([Column::left("a"), Column::right("b")]);
        assert_eq!(table.to_string(), "a  b\n");
    }
}

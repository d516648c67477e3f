//! Tables, and whoever takes their rows. Nothing here knows what the rows mean.

use crate::files::SHEETS;

/// A table that a level fills: tidy, one row for each thing of each run.
#[derive(Debug, Clone)]
pub struct Sheet {
    /// The file's name, with its ending.
    pub name: &'static str,
    /// The headings.
    pub columns: Vec<String>,
}

impl Sheet {
    /// A table with these headings.
    pub fn new(name: &'static str, columns: &[&str]) -> Self {
        debug_assert!(
            SHEETS.contains(&name),
            "{name} would stay beside later results"
        );
        Self {
            name,
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
        }
    }
}

/// What takes the rows of the tables of a level, which it knows beforehand.
pub trait Tables {
    /// Why a row can't be taken.
    type Error;

    /// Adds a row to the sheet of this name, which must be one that the level named.
    ///
    /// # Errors
    /// If the row can't be taken.
    fn row<T: AsRef<[u8]>>(
        &mut self,
        sheet: &str,
        cells: impl IntoIterator<Item = T>,
    ) -> Result<(), Self::Error>;

    /// Adds a row for each value of a series, with its time from the start in seconds; values that
    /// aren't finite have none.
    ///
    /// # Errors
    /// As of [`Tables::row`].
    fn series(
        &mut self,
        sheet: &str,
        head: &[&str],
        interval_s: f64,
        values: &[f64],
    ) -> Result<(), Self::Error> {
        // Whole nanoseconds, so that three times 0.1 s are 0.3 s.
        let interval_ns = (interval_s * 1e9).round();
        let finite = (1_u32..).zip(values).filter(|(_, value)| value.is_finite());
        for (n, value) in finite {
            let cells = [number(f64::from(n) * interval_ns / 1e9), number(*value)];
            let cells = cells.iter().map(String::as_str);
            self.row(sheet, head.iter().copied().chain(cells))?;
        }
        Ok(())
    }
}

/// The shortest text that reads as the same number; an empty cell where there is none.
pub fn number(value: f64) -> String {
    match value.is_finite() {
        true => value.to_string(),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Times(Vec<String>);

    impl Tables for Times {
        type Error = std::convert::Infallible;

        fn row<T: AsRef<[u8]>>(
            &mut self,
            _: &str,
            cells: impl IntoIterator<Item = T>,
        ) -> Result<(), Self::Error> {
            let first = cells.into_iter().next().unwrap();
            self.0
                .push(String::from_utf8(first.as_ref().to_vec()).unwrap());
            Ok(())
        }
    }

    #[test]
    fn times_are_as_people_write_them() {
        let mut times = Times(Vec::new());
        times
            .series(
                "series.csv",
                &[],
                0.1,
                &[1.0, f64::NAN, 1.0, 1.0, 1.0, 1.0, 1.0],
            )
            .unwrap();
        assert_eq!(times.0, ["0.1", "0.3", "0.4", "0.5", "0.6", "0.7"]);
    }
}

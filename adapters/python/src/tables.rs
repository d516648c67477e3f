//! Tables in memory, as the CSV of `manyway run --out`.

use csv::Writer;
use manyway_results::{Sheet, Tables};

/// The tables of a level.
#[derive(Debug)]
pub(crate) struct Memory(Vec<(&'static str, Writer<Vec<u8>>)>);

impl Memory {
    /// Tables with their headings.
    pub(crate) fn new(sheets: &[Sheet]) -> csv::Result<Self> {
        let tables = sheets.iter().map(|sheet| {
            let mut writer = Writer::from_writer(Vec::new());
            writer.write_record(&sheet.columns)?;
            Ok((sheet.name, writer))
        });
        Ok(Self(tables.collect::<csv::Result<_>>()?))
    }

    /// Each table's file name and text.
    pub(crate) fn finish(self) -> csv::Result<Vec<(&'static str, Vec<u8>)>> {
        let tables = self.0.into_iter().map(|(name, writer)| {
            let text = writer.into_inner();
            Ok((name, text.map_err(|error| error.into_error())?))
        });
        tables.collect()
    }
}

impl Tables for Memory {
    type Error = csv::Error;

    fn row<T: AsRef<[u8]>>(
        &mut self,
        sheet: &str,
        cells: impl IntoIterator<Item = T>,
    ) -> csv::Result<()> {
        match self.0.iter_mut().find(|(name, _)| *name == sheet) {
            Some((_, writer)) => writer.write_record(cells),
            None => Err(std::io::Error::other(format!("no sheet is called {sheet}")).into()),
        }
    }
}

//! The names of all files that a result may consist of, so that a new result replaces an older one
//! as a whole. This module names files; it neither writes nor removes any.

/// The object of `--json`.
pub const RESULT: &str = "result.json";

/// All tables: of the packet level, of overlays, and of `manyway compare`.
pub(crate) const SHEETS: [&str; 8] = [
    "comparison.csv",
    "flows.csv",
    "links.csv",
    "rates.csv",
    "runs.csv",
    "series.csv",
    "subflows.csv",
    "transfers.csv",
];

/// All kinds of pictures.
pub const PLOTS: [&str; 10] = [
    "comparison",
    "drops",
    "iterations",
    "loads",
    "prices",
    "queues",
    "rates",
    "rtts",
    "sweep",
    "windows",
];

/// Is that the name of a table, a picture or a log of packets of a result, such as `flows.csv` or
/// `rates-07.svg`? If a folder has a [`RESULT`], whatever has such a name belongs to it.
pub fn is_part(name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let kind = match stem.rsplit_once('-') {
        Some((kind, number)) if is_number(number) => kind,
        _ => stem,
    };
    match extension {
        "svg" => PLOTS.contains(&kind),
        "csv" => kind == "packets" || SHEETS.contains(&name),
        "pcapng" => kind == "packets",
        "sqlog" => stem.starts_with("qlog-") && stem.contains("-path-"),
        _ => false,
    }
}

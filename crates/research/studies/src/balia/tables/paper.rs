//! The paper's numbers, by law.

use crate::claims::number;

/// The laws of Tables III to V, in the paper's order; its Max is `lia`.
pub(crate) const LAWS: [&str; 6] = ["ewtcp", "semicoupled", "lia", "balia", "coupled", "olia"];

/// A law and what the paper measured of it.
#[derive(Debug, Copy, Clone)]
pub(crate) struct Column {
    pub(crate) law: &'static str,
    /// Table III: goodput of a multipath and of a single-path flow, Mbps.
    pub(crate) multipath: f64,
    pub(crate) single: f64,
    /// Table IV, Mbps.
    pub(crate) aggregation: f64,
    /// Table V: the longest time to convergence, s, and goodput of all single-path flows, Mbps.
    pub(crate) convergence: f64,
    pub(crate) singles: f64,
}

/// Tables III, IV and V.
pub(crate) fn columns() -> [Column; 6] {
    LAWS.map(|law| Column {
        law,
        multipath: number("balia/table-3", &format!("{law}, multipath")),
        single: number("balia/table-3", &format!("{law}, single path")),
        aggregation: number("balia/table-4", law),
        convergence: number(convergence(law), law),
        singles: number("balia/table-5-sp-tcp", law),
    })
}

/// The claim that has a law's time to convergence.
pub(crate) fn convergence(law: &str) -> &'static str {
    match law {
        "olia" => "balia/table-5-olia",
        _ => "balia/table-5",
    }
}

/// What the paper has of a law.
pub(crate) fn of(law: &str) -> Option<Column> {
    columns().into_iter().find(|column| column.law == law)
}

//! The paper's numbers, by law.

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

/// Tables III, IV and V, in their order; the paper's Max is `lia`.
pub(crate) const COLUMNS: [Column; 6] = [
    column("ewtcp", (2.75, 0.951), 9.26, (3.25, 13.89)),
    column("semicoupled", (2.65, 1.07), 9.27, (7.46, 15.35)),
    column("lia", (2.60, 1.13), 9.26, (17.75, 15.80)),
    column("balia", (2.52, 1.22), 9.27, (14.73, 16.28)),
    column("coupled", (2.44, 1.29), 9.28, (94.36, 16.64)),
    column("olia", (2.61, 1.12), 9.19, (58.5, 16.97)),
];

const fn column(
    law: &'static str,
    (multipath, single): (f64, f64),
    aggregation: f64,
    (convergence, singles): (f64, f64),
) -> Column {
    Column {
        law,
        multipath,
        single,
        aggregation,
        convergence,
        singles,
    }
}

/// What the paper has of a law.
pub(crate) fn of(law: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.law == law)
}

//! All studies.

use crate::study::Study;
use crate::{
    balia, bmc, criteria, fair, fluid, mpath, optima, overlay, planetlab, sessions, wvegas,
};

/// Every study, in the order in which `all` runs them.
pub static STUDIES: &[&dyn Study] = &[
    &sessions::USUAL,
    &sessions::STATEFUL,
    &fair::Fair,
    &balia::Balia,
    &wvegas::WvegasPaper,
    &bmc::BmcThesis,
    &mpath::MpathPaper,
    &planetlab::PlanetLab,
    &overlay::OverlayPaper,
    &fluid::FluidModel,
    &criteria::DesignCriteria,
    &optima::Optima,
];

/// The study of this name.
pub fn find(name: &str) -> Option<&'static dyn Study> {
    STUDIES.iter().copied().find(|study| study.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_fit_files() {
        let mut names: Vec<&str> = STUDIES.iter().map(|study| study.name()).collect();
        for name in &names {
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
            assert!(find(name).is_some_and(|study| study.name() == *name));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STUDIES.len());
        assert!(find("all").is_none(), "`all` stands for all of them");
    }
}

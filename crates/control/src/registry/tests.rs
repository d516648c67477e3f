use super::*;

#[test]
fn every_name_makes_the_controller_it_names() {
    for (name, about) in names() {
        let made = controller(name, &Options::default()).unwrap();
        assert_eq!(made.name(), name);
        assert!(!about.is_empty());
        if let Some(law) = law(name).unwrap() {
            assert_eq!(law.name(), name);
        }
    }
    assert!(law("cubic").unwrap().is_none());
}

#[test]
fn unknown_names_are_told_what_exists() {
    let error = controller("Ballia", &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown congestion control \"Ballia\" (did you mean \"balia\"?); known are reno, ewtcp, coupled, semicoupled, lia, balia, generalized, cubic"
    );
    let error = controller("x", &Options::default()).unwrap_err();
    assert_eq!(
        error,
        LawError::Unknown(UnknownLaw {
            name: "x".into(),
            suggestion: None
        })
    );
    let long = "l".repeat(1 << 20);
    let error = controller(&long, &Options::default()).unwrap_err();
    assert!(matches!(error, LawError::Unknown(unknown) if unknown.name.len() == 64));
}

#[test]
fn edits_counts_insertions_deletions_and_replacements() {
    assert_eq!(edits("", "abc"), 3);
    assert_eq!(edits("abc", ""), 3);
    assert_eq!(edits("kitten", "sitting"), 3);
    assert_eq!(edits("lia", "balia"), 2);
}

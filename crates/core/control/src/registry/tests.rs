use super::*;
use crate::controller::Controller;
use crate::law::WindowLaw;
use crate::laws::{AnyController, AnyLaw, Fluid, Generalized};
use crate::options::Options;

/// The law `name` with each parameter at a fraction, 0 to 1, of its range; an infinite end stands
/// for itself at 1. BMC's weights, which have to fit together, are left equal.
pub(crate) fn spec_from(name: &str, fractions: [f64; 4]) -> LawSpec {
    let is_weight = |key: &str| key.starts_with('d') && key.len() == 2;
    let spec = spec(name);
    let chosen = spec
        .parameters()
        .map(|(parameter, _)| parameter)
        .filter(|parameter| !is_weight(parameter.key))
        .zip(fractions.into_iter().cycle())
        .map(|(parameter, fraction)| {
            let Range {
                low,
                high,
                high_included,
                whole,
                ..
            } = parameter.range;
            // Most of the choice near the low end, where the values of interest are.
            let value = match (fraction == 1.0, high.is_finite()) {
                _ if whole => low + ((high - low) * fraction).round(),
                (true, true) if !high_included => low + (high - low) * 0.999,
                (true, _) => high,
                (_, true) => low + (high - low) * fraction.powi(8).max(1e-6),
                (_, false) => low + fraction / (1.0 - fraction),
            };
            (parameter.key.to_owned(), value)
        });
    LawSpec::new(name, chosen).unwrap()
}

pub(crate) fn spec(text: &str) -> LawSpec {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    text.parse::<LawSpec>().unwrap_err().to_string()
}

#[test]
fn every_name_makes_the_controller_it_names() {
    for law in laws() {
        let name = law.name();
        assert_eq!(spec(name), law);
        assert_eq!(law.controller(&Options::default()).name(), name);
        assert!(!law.about().is_empty());
        if let Some(law) = law.window_law() {
            assert_eq!(law.name(), name);
        }
    }
    for law in [LawSpec::lia(), LawSpec::reno(), LawSpec::mpath()] {
        assert_eq!(spec(law.name()), law);
    }
    assert_eq!(spec("auto"), LawSpec::default());
    assert_eq!(spec("background"), LawSpec::background());
}

#[test]
fn laws_tell_what_they_can() {
    let names = |can: &dyn Fn(&LawSpec) -> bool| -> Vec<_> {
        let able = laws().filter(|law| can(law));
        able.map(|law| law.name()).collect()
    };
    let by_delay = |law: &LawSpec| law.capabilities().signal == Signal::Delay;
    assert_eq!(names(&by_delay), ["background", "wvegas", "wvegas-printed"]);
    let by_both = |law: &LawSpec| law.capabilities().signal == Signal::LossAndDelay;
    assert_eq!(names(&by_both), ["auto"]);
    let by_rate = |law: &LawSpec| law.capabilities().signal == Signal::Rate;
    assert_eq!(names(&by_rate), ["bbr"]);
    let rate_based = |law: &LawSpec| law.controller(&Options::default()).rate_based();
    assert_eq!(names(&rate_based), ["bbr"]);
    let timed = |law: &LawSpec| law.capabilities().receive_times;
    let timed = names(&timed);
    assert_eq!(timed, ["auto", "background", "wvegas", "wvegas-printed"]);
    assert_eq!(names(&|law| !law.capabilities().paced), ["mpath"]);
    assert_eq!(names(&|law| law.path_manager().is_some()), ["mpath"]);
    let without = |law: &LawSpec| matches!(law.fluid(), Fluid::None { .. });
    let own = [
        "olia",
        "cubic",
        "dctcp",
        "bbr",
        "auto",
        "background",
        "mpath",
        "wvegas-printed",
        "bmc",
        "bmc-proportion",
        "bmc-balance",
    ];
    assert_eq!(names(&without), own);
    let fluid = spec("wvegas:total_alpha=20,min_alpha=3").fluid();
    let delay = Fluid::Delay {
        total_alpha: 20.0,
        min_alpha: 3.0,
    };
    assert_eq!(fluid, delay);
    let manager = spec("mpath:beta=0.1,tau=3").path_manager();
    let manager = manager.map(|it| (it.beta, it.probe_patience));
    assert_eq!(manager, Some((0.1, 3.0)));
}

#[test]
fn parameters_reach_the_law() {
    let made = spec("generalized:beta=0.3,n=2,eta=0.4,cap=1.5").window_law();
    let want = Generalized {
        beta: 0.3,
        n: 2.0,
        eta: 0.4,
        cap: 1.5,
    };
    assert_eq!(made, Some(AnyLaw::Generalized(want)));
    let AnyController::Ewtcp(made) = spec("ewtcp:a=0.25").controller(&Options::default()) else {
        panic!("ewtcp is another controller");
    };
    assert_eq!(made.law().a, 0.25);
}

#[test]
fn defaults_are_in_range_and_explained() {
    for (parameter, value) in laws().flat_map(|law| law.parameters().collect::<Vec<_>>()) {
        assert_eq!(value, parameter.default);
        assert!(parameter.range.contains(parameter.default), "{parameter:?}");
        assert!(!parameter.range.contains(f64::NAN));
        assert!(!parameter.meaning.is_empty());
    }
}

/// Where `docs/laws.md` has the registry's tables.
const MARKS: [&str; 2] = [
    "<!-- laws: MANYWAY_UPDATE_LAWS=1 cargo test -p manyway-control writes what follows -->\n",
    "<!-- /laws -->",
];

/// The tables of `docs/laws.md`: the laws, then their parameters.
fn tables() -> String {
    let mut text = "| law | what it is | acts on | paced | fluid model |\n\
                    |---|---|---|---|---|\n"
        .to_owned();
    for law in laws() {
        let can = law.capabilities();
        let signal = match can.signal {
            Signal::Loss => "losses",
            Signal::LossAndDelay => "losses, delay",
            Signal::Delay => "delay",
            Signal::Rate => "delivery rate, losses",
        };
        let paced = if can.paced { "yes" } else { "no" };
        let fluid = match law.fluid() {
            Fluid::Window(_) => "yes".to_owned(),
            Fluid::Delay { .. } => "yes, by delays".to_owned(),
            Fluid::None { nearest } => format!("no; nearest: {nearest}"),
        };
        let (name, about) = (law.name(), law.about());
        text += &format!("| `{name}` | {about} | {signal} | {paced} | {fluid} |\n");
    }
    text += "\n| parameter | of | default | allowed | what it does |\n|---|---|--:|---|---|\n";
    let mut listed: Vec<Parameter> = Vec::new();
    for (parameter, _) in laws().flat_map(|law| law.parameters().collect::<Vec<_>>()) {
        if !listed.contains(parameter) {
            listed.push(*parameter);
        }
    }
    // Numbered parameters, such as weights by path, have one meaning and one row.
    for alike in listed.chunk_by(|one, next| one.meaning == next.meaning) {
        let (parameter, last) = (&alike[0], &alike[alike.len() - 1]);
        let takes = |law: &LawSpec| law.parameters().any(|(other, _)| other == parameter);
        let of: Vec<_> = laws().filter(takes).map(|law| law.name()).collect();
        let Parameter {
            key,
            default,
            range,
            meaning,
        } = parameter;
        let of = of.join("`, `");
        let keys = match alike.len() {
            1 => format!("`{key}`"),
            _ => format!("`{key}` to `{}`", last.key),
        };
        text += &format!("| {keys} | `{of}` | {default} | {range} | {meaning} |\n");
    }
    text
}

#[test]
fn the_guide_has_the_tables_of_the_registry() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/laws.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let (before, rest) = guide.split_once(MARKS[0]).expect("the guide has the marks");
    let (committed, after) = rest.split_once(MARKS[1]).expect("the guide has the marks");
    let tables = tables();
    if std::env::var_os("MANYWAY_UPDATE_LAWS").is_some() {
        let [begin, end] = MARKS;
        std::fs::write(path, format!("{before}{begin}{tables}{end}{after}")).unwrap();
        return;
    }
    assert!(
        committed == tables,
        "docs/laws.md is not up to date: run MANYWAY_UPDATE_LAWS=1 cargo test -p manyway-control"
    );
}

/// Equal specifications have equal text, and the text gives the specification back.
#[test]
fn text_form() {
    for (given, canonical) in [
        ("lia", "lia"),
        (" lia ", "lia"),
        ("ewtcp:a=1", "ewtcp"),
        ("ewtcp:a=0.25", "ewtcp:a=0.25"),
        ("ewtcp: a = 2.5e-1", "ewtcp:a=0.25"),
        ("generalized:n=inf,beta=0.2,eta=0.5", "generalized"),
        ("generalized:cap=1.5,n=3", "generalized:n=3,cap=1.5"),
        ("generalized:beta=0,cap=infinity", "generalized:beta=0"),
        ("wvegas:drain=1,total_alpha=15", "wvegas:total_alpha=15"),
        ("bmc:d1=0.25,d2=0.75", "bmc:d1=0.25,d2=0.75"),
    ] {
        let made = spec(given);
        assert_eq!(made.to_string(), canonical);
        assert_eq!(spec(canonical), made);
    }
    assert_ne!(spec("ewtcp:a=0.5"), spec("ewtcp"));
    assert_eq!(format!("{:?}", spec("ewtcp:a=0.5")), "LawSpec(ewtcp:a=0.5)");

    let made = LawSpec::new("ewtcp", [("a".to_owned(), 0.5)]).unwrap();
    assert_eq!(made, spec("ewtcp:a=0.5"));
}

#[test]
fn unknown_names_are_told_what_exists() {
    let names: Vec<_> = laws().map(|law| law.name()).collect();
    let known = names.join(", ");
    let message =
        |name, hint| format!("unknown congestion control {name:?}{hint}; known are {known}");
    let hint = " (did you mean \"balia\"?)";
    assert_eq!(refusal("Ballia"), message("Ballia", hint));
    assert_eq!(refusal("x:a=1"), message("x", ""));
    let long = "l".repeat(1 << 20);
    let error = long.parse::<LawSpec>().unwrap_err();
    assert!(matches!(error, LawError::Unknown { name, .. } if name.len() == 64));
}

#[test]
fn wrong_parameters_are_told_what_is_allowed() {
    for (text, message) in [
        (
            "generalized:bata=1",
            "generalized has no parameter \"bata\" (did you mean \"beta\"?); it takes beta (0 to \
             1000), n (1 to inf), eta (0 to 1000), cap (1 to inf)",
        ),
        ("lia:a=1", "lia has no parameter \"a\"; it takes none"),
        (
            "ewtcp:a=0",
            "ewtcp: a = 0 is out of range; allowed is more than 0, at most 1000",
        ),
        (
            "ewtcp:a=inf",
            "ewtcp: a = inf is out of range; allowed is more than 0, at most 1000",
        ),
        (
            "generalized:n=nan",
            "generalized: n = NaN is out of range; allowed is 1 to inf",
        ),
        (
            "ewtcp:a=big",
            "ewtcp: a = \"big\" is not a number; allowed is more than 0, at most 1000",
        ),
        (
            "wvegas:drain=0.5",
            "wvegas: drain = 0.5 is out of range; allowed is 0 or 1",
        ),
        (
            "bmc-proportion:k=4",
            "bmc-proportion: k = 4 is out of range; allowed is more than 0, less than 4",
        ),
        (
            "bmc:d1=0.5,d2=0.4",
            "bmc: the weights d1 to d2 sum to 0.9, but weights must sum to p = 1: change one, or \
             set p=0.9",
        ),
        (
            "bmc:d1=0.5",
            "bmc: the weight d1 is 0.5, but weights must sum to p = 1: change one, or set p=0.5",
        ),
        (
            "bmc:d1=0.5,d3=0.5",
            "bmc: the weight d2 is missing, but d3 is given; give all from d1 to d3",
        ),
        ("ewtcp:a=1,a=2", "ewtcp: a is given twice; give it once"),
        (
            "mpath:alpha=0",
            "mpath: alpha = 0 is out of range; allowed is more than 0, at most 1",
        ),
        (
            "mpath:beta=1.5",
            "mpath: beta = 1.5 is out of range; allowed is more than 0, at most 1",
        ),
        (
            "ewtcp:0.5",
            "ewtcp: \"0.5\" is not of the form key=value; write ewtcp:a=1",
        ),
        (
            "ewtcp:",
            "ewtcp: \"\" is not of the form key=value; write ewtcp:a=1",
        ),
        ("lia:", "lia: \"\" is not of the form key=value; write lia"),
    ] {
        assert_eq!(refusal(text), message);
    }
    let long = format!("ewtcp:{}=1", "a".repeat(1 << 20));
    assert!(refusal(&long).len() < 200);
    let error = LawSpec::new("ewtcp", [("b".to_owned(), 0.5)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ewtcp has no parameter \"b\"; it takes a (more than 0, at most 1000)"
    );
}

//! `--pick`: from the command line to the configuration of relay selection.

use std::collections::BTreeSet;

use manyway::Rate;
use manyway::control::rate_control::{LiveConfig, SelectConfig};
use manyway::relay::RelayId;

use crate::args::{RelaySourceArgs, SelectionArgs};
use crate::exit::usage;

/// Least demand in bits/s, as with `--limit`.
const MIN_DEMAND: f64 = 8000.0;

/// The configuration that `--pick` and its companions ask for; `None` without `--pick`.
///
/// # Errors
/// Options that can't be met, or that contradict one another.
pub(crate) fn config(
    args: &SelectionArgs,
    relays: &RelaySourceArgs,
    limit: Option<Rate>,
    connects: bool,
) -> anyhow::Result<Option<LiveConfig>> {
    let Some(paths) = args.pick else {
        return Ok(None);
    };
    if !connects {
        return Err(usage(
            "only the initiator, the side that connects, can use `--pick`: name the receiver with \
             `--to` or HOST:DIR, or leave `--pick` out",
        ));
    }
    if relays.via.is_empty() && relays.registry.is_empty() {
        return Err(usage(
            "`--pick` needs relays to choose from: name some with `--via`, or name a `--registry`",
        ));
    }
    let demand = demand(args, limit)?;
    let mut select = SelectConfig::new(paths.into());
    if let Some(choice) = args.choice {
        select = select.with_choice(choice.into());
    }
    if let Some(reselect) = args.reselect {
        select = select.with_reselection(reselect.into());
    }
    let demand = demand.map(Rate::bytes_per_sec);
    Ok(Some(LiveConfig::new(select, demand)))
}

fn demand(args: &SelectionArgs, limit: Option<Rate>) -> anyhow::Result<Option<Rate>> {
    match (args.demand, limit) {
        (Some(demand), _) if demand.bits_per_sec() < MIN_DEMAND => Err(usage(format!(
            "`--demand {demand}` is out of range: choose 8 kbps or more"
        ))),
        (Some(demand), Some(limit)) if demand.bits_per_sec() > limit.bits_per_sec() => {
            Err(usage(format!(
                "`--demand {demand}` exceeds `--limit {limit}`: choose a larger limit or a smaller \
                 demand"
            )))
        }
        (None, None) if args.reselect.is_some() => Err(usage(
            "`--reselect` needs a target rate: add `--demand RATE` or `--limit RATE`",
        )),
        (demand, limit) => Ok(demand.or(limit)),
    }
}

/// Checks that `--via` and `--relays` allow as many relays as `--pick` wants.
///
/// # Errors
/// They don't.
pub(super) fn check_count(
    pick: Option<u16>,
    via: &BTreeSet<RelayId>,
    relays: &RelaySourceArgs,
) -> anyhow::Result<()> {
    let Some(pick) = pick.map(usize::from) else {
        return Ok(());
    };
    let (named, from_registry) = (via.len(), usize::from(relays.relays));
    if relays.registry.is_empty() && pick > named {
        return Err(usage(format!(
            "`--pick {pick}` needs {pick} relays, but `--via` names {named}: name more, or choose \
             `--pick {named}` or less"
        )));
    }
    if !relays.registry.is_empty() && pick > named + from_registry {
        let via = match named {
            0 => String::new(),
            named => format!(" and `--via` names {named}"),
        };
        return Err(usage(format!(
            "`--pick {pick}` needs {pick} relays, but `--relays {from_registry}` allows \
             {from_registry}{via}: choose `--relays {}` or more, or a smaller `--pick`",
            pick - named
        )));
    }
    Ok(())
}

/// What to say when fewer relays turn up.
pub(super) fn too_few(pick: usize, known: usize) -> String {
    format!(
        "manyway found {known} of the {pick} relays for `--pick {pick}` and continues without the \
         others. Choose a larger `--relays`, name more with `--via`, or choose `--pick {}` or less",
        known.max(1)
    )
}

#[cfg(test)]
mod tests {
    use manyway::control::rate_control::{Choice, Reselection};

    use super::*;
    use crate::args::{ChoiceName, ReselectName};

    fn via(count: u8) -> (BTreeSet<RelayId>, RelaySourceArgs) {
        let ids = (0..count).map(|n| RelayId([n; 32])).collect();
        let relays = RelaySourceArgs {
            via: (0..count).map(|n| format!("mr1{n}")).collect(),
            registry: Vec::new(),
            relays: 50,
            token_file: None,
        };
        (ids, relays)
    }

    fn registry(count: u16) -> RelaySourceArgs {
        let key = "a".repeat(52);
        let url = format!("https://registry.example#{key}").parse();
        RelaySourceArgs {
            via: Vec::new(),
            registry: vec![url.unwrap()],
            relays: count,
            token_file: None,
        }
    }

    fn picking(pick: u16) -> SelectionArgs {
        SelectionArgs {
            pick: Some(pick),
            ..SelectionArgs::default()
        }
    }

    fn error(result: anyhow::Result<impl std::fmt::Debug>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn options_become_a_configuration() {
        let (_, relays) = via(4);
        let args = SelectionArgs {
            pick: Some(2),
            choice: Some(ChoiceName::Proportional),
            reselect: Some(ReselectName::Slowest),
            demand: Some(Rate::from_mbps(8.0)),
        };
        let limit = Some(Rate::from_mbps(16.0));
        let wanted = config(&args, &relays, limit, true).unwrap().unwrap();
        assert_eq!(wanted.select.paths, 2);
        assert_eq!(wanted.select.choice, Choice::Proportional { error: 0.0 });
        assert_eq!(wanted.select.reselection, Reselection::Slowest);
        assert_eq!(wanted.demand, Some(1e6));
        let wanted = config(&picking(2), &relays, limit, true).unwrap();
        assert_eq!(wanted.unwrap().demand, Some(2e6), "the limit");
        let wanted = config(&picking(2), &relays, None, true).unwrap();
        assert_eq!(wanted.unwrap().demand, None);
        let none = config(&SelectionArgs::default(), &relays, None, false).unwrap();
        assert_eq!(none, None);
    }

    #[test]
    fn contradictions_are_errors() {
        let (_, relays) = via(4);
        let demand = |mbps| SelectionArgs {
            demand: Some(Rate::from_mbps(mbps)),
            ..picking(2)
        };
        let limit = Some(Rate::from_mbps(10.0));
        let said = error(config(&demand(20.0), &relays, limit, true));
        assert!(
            said.contains("--demand 20") && said.contains("--limit 10"),
            "{said}"
        );
        let said = error(config(&demand(0.0), &relays, None, true));
        assert!(
            said.contains("--demand") && said.contains("8 kbps"),
            "{said}"
        );
        let reselect = SelectionArgs {
            reselect: Some(ReselectName::All),
            ..picking(2)
        };
        let said = error(config(&reselect, &relays, None, true));
        assert!(
            said.contains("--reselect") && said.contains("--demand"),
            "{said}"
        );
        let said = error(config(&picking(2), &relays, None, false));
        assert!(said.contains("--pick") && said.contains("--to"), "{said}");
        let said = error(config(&picking(2), &via(0).1, None, true));
        assert!(
            said.contains("--via") && said.contains("--registry"),
            "{said}"
        );
    }

    #[test]
    fn too_many_relays_are_an_error_with_the_numbers() {
        let (ids, relays) = via(3);
        assert!(check_count(Some(3), &ids, &relays).is_ok());
        assert!(check_count(None, &BTreeSet::new(), &relays).is_ok());
        assert_eq!(
            error(check_count(Some(4), &ids, &relays)),
            "`--pick 4` needs 4 relays, but `--via` names 3: name more, or choose `--pick 3` or \
             less"
        );
        let none = BTreeSet::new();
        assert!(check_count(Some(50), &none, &registry(50)).is_ok());
        assert_eq!(
            error(check_count(Some(60), &none, &registry(50))),
            "`--pick 60` needs 60 relays, but `--relays 50` allows 50: choose `--relays 60` or \
             more, or a smaller `--pick`"
        );
        assert_eq!(
            error(check_count(Some(60), &ids, &registry(50))),
            "`--pick 60` needs 60 relays, but `--relays 50` allows 50 and `--via` names 3: choose \
             `--relays 57` or more, or a smaller `--pick`"
        );
        assert_eq!(
            too_few(4, 1),
            "manyway found 1 of the 4 relays for `--pick 4` and continues without the others. \
             Choose a larger `--relays`, name more with `--via`, or choose `--pick 1` or less"
        );
    }
}

//! `--pick`: from the command line to a selection of relays.

use std::collections::BTreeSet;

use manyway::Rate;
use manyway::control::rate_control::{LiveConfig, SelectConfig};
use manyway::relay::RelayId;

use crate::args::{Pick, Relays};
use crate::exit::usage;

/// A demand below this is a mistake, bits/s: as of `--limit`.
const LEAST_DEMAND: f64 = 8000.0;

/// What `--pick` and those that go with it ask for; `None` without it.
///
/// # Errors
/// Options that can't be met, or that contradict one another.
pub(crate) fn selection(
    pick: &Pick,
    relays: &Relays,
    limit: Option<Rate>,
    connects: bool,
) -> anyhow::Result<Option<LiveConfig>> {
    let Some(paths) = pick.pick else {
        return Ok(None);
    };
    if !connects {
        return Err(usage(
            "--pick is for the side that connects: give the receiver's ticket (--to) or HOST:DIR, \
             or leave --pick out",
        ));
    }
    if relays.via.is_empty() && relays.registry.is_empty() {
        return Err(usage(
            "--pick chooses among relays, and there are none: name some with --via, or a \
             --registry",
        ));
    }
    let demand = demand(pick, limit)?;
    let mut select = SelectConfig::new(paths.into());
    if let Some(choice) = pick.choice {
        select = select.with_choice(choice.into());
    }
    if let Some(reselect) = pick.reselect {
        select = select.with_reselection(reselect.into());
    }
    let demand = demand.map(Rate::bytes_per_sec);
    Ok(Some(LiveConfig::new(select, demand)))
}

fn demand(pick: &Pick, limit: Option<Rate>) -> anyhow::Result<Option<Rate>> {
    match (pick.demand, limit) {
        (Some(demand), _) if demand.bits_per_sec() < LEAST_DEMAND => Err(usage(format!(
            "--demand {demand} is out of range: choose 8 kbps or more"
        ))),
        (Some(demand), Some(limit)) if demand.bits_per_sec() > limit.bits_per_sec() => {
            Err(usage(format!(
                "--demand {demand} can't be met with --limit {limit}: choose a larger limit or a \
                 smaller demand"
            )))
        }
        (None, None) if pick.reselect.is_some() => Err(usage(
            "--reselect needs to know what is enough: give --demand RATE or --limit RATE",
        )),
        (demand, limit) => Ok(demand.or(limit)),
    }
}

/// That there will be as many relays as `--pick` wants, as far as that is known before a registry
/// is asked.
///
/// # Errors
/// There can't be.
pub(crate) fn check_number(
    pick: Option<u16>,
    via: &BTreeSet<RelayId>,
    relays: &Relays,
) -> anyhow::Result<()> {
    let Some(pick) = pick else { return Ok(()) };
    let (named, from_registry) = (via.len(), usize::from(relays.relays));
    if relays.registry.is_empty() && usize::from(pick) > named {
        return Err(usage(format!(
            "--pick {pick} of {named} {}: name more with --via, or choose --pick {named} or less",
            relays_named(named)
        )));
    }
    if !relays.registry.is_empty() && usize::from(pick) > named + from_registry {
        let least = usize::from(pick) - named;
        return Err(usage(format!(
            "--pick {pick} of {} relays (--relays {from_registry}{}): choose --relays {least} or \
             more, or a smaller --pick",
            named + from_registry,
            match named {
                0 => String::new(),
                named => format!(", {named} by --via"),
            }
        )));
    }
    Ok(())
}

/// What to say when there turn out to be fewer.
pub(crate) fn too_few(pick: usize, known: usize) -> String {
    format!(
        "There are {known} {}, fewer than --pick {pick}: going on with what there is. Choose a \
         larger --relays, name others with --via, or choose --pick {} or less",
        relays_named(known),
        known.max(1)
    )
}

fn relays_named(number: usize) -> &'static str {
    match number {
        1 => "relay",
        _ => "relays",
    }
}

#[cfg(test)]
mod tests {
    use manyway::control::rate_control::{Choice, Reselection};

    use super::*;
    use crate::args::{ChoiceName, ReselectName};

    fn via(count: u8) -> (BTreeSet<RelayId>, Relays) {
        let ids = (0..count).map(|n| RelayId([n; 32])).collect();
        let relays = Relays {
            via: (0..count).map(|n| format!("mr1{n}")).collect(),
            registry: Vec::new(),
            relays: 50,
            token_file: None,
        };
        (ids, relays)
    }

    fn registry(count: u16) -> Relays {
        let key = "a".repeat(52);
        let url = format!("https://registry.example#{key}").parse();
        Relays {
            via: Vec::new(),
            registry: vec![url.unwrap()],
            relays: count,
            token_file: None,
        }
    }

    fn picking(pick: u16) -> Pick {
        Pick {
            pick: Some(pick),
            ..Pick::default()
        }
    }

    fn error(result: anyhow::Result<impl std::fmt::Debug>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn options_become_a_selection() {
        let (_, relays) = via(4);
        let pick = Pick {
            pick: Some(2),
            choice: Some(ChoiceName::Proportional),
            reselect: Some(ReselectName::Slowest),
            demand: Some(Rate::from_mbps(8.0)),
        };
        let limit = Some(Rate::from_mbps(16.0));
        let config = selection(&pick, &relays, limit, true).unwrap().unwrap();
        assert_eq!(config.select.paths, 2);
        assert_eq!(config.select.choice, Choice::Proportional { error: 0.0 });
        assert_eq!(config.select.reselection, Reselection::Slowest);
        assert_eq!(config.demand, Some(1e6));
        let config = selection(&picking(2), &relays, limit, true).unwrap();
        assert_eq!(config.unwrap().demand, Some(2e6), "the limit");
        let config = selection(&picking(2), &relays, None, true).unwrap();
        assert_eq!(config.unwrap().demand, None);
        let none = selection(&Pick::default(), &relays, None, false).unwrap();
        assert_eq!(none, None);
    }

    #[test]
    fn what_contradicts_itself_is_said() {
        let (_, relays) = via(4);
        let demand = |mbps| Pick {
            demand: Some(Rate::from_mbps(mbps)),
            ..picking(2)
        };
        let limit = Some(Rate::from_mbps(10.0));
        let said = error(selection(&demand(20.0), &relays, limit, true));
        assert!(
            said.contains("--demand 20") && said.contains("--limit 10"),
            "{said}"
        );
        let said = error(selection(&demand(0.0), &relays, None, true));
        assert!(
            said.contains("--demand") && said.contains("8 kbps"),
            "{said}"
        );
        let reselect = Pick {
            reselect: Some(ReselectName::All),
            ..picking(2)
        };
        let said = error(selection(&reselect, &relays, None, true));
        assert!(
            said.contains("--reselect") && said.contains("--demand"),
            "{said}"
        );
        let said = error(selection(&picking(2), &relays, None, false));
        assert!(said.contains("--pick") && said.contains("--to"), "{said}");
        let said = error(selection(&picking(2), &via(0).1, None, true));
        assert!(
            said.contains("--via") && said.contains("--registry"),
            "{said}"
        );
    }

    #[test]
    fn more_than_there_are_is_said_with_the_numbers() {
        let (ids, relays) = via(3);
        assert!(check_number(Some(3), &ids, &relays).is_ok());
        assert!(check_number(None, &BTreeSet::new(), &relays).is_ok());
        insta::assert_snapshot!(error(check_number(Some(4), &ids, &relays)),
            @"--pick 4 of 3 relays: name more with --via, or choose --pick 3 or less");
        let none = BTreeSet::new();
        assert!(check_number(Some(50), &none, &registry(50)).is_ok());
        insta::assert_snapshot!(error(check_number(Some(60), &none, &registry(50))),
            @"--pick 60 of 50 relays (--relays 50): choose --relays 60 or more, or a smaller --pick");
        insta::assert_snapshot!(error(check_number(Some(60), &ids, &registry(50))),
            @"--pick 60 of 53 relays (--relays 50, 3 by --via): choose --relays 57 or more, or a smaller --pick");
        insta::assert_snapshot!(too_few(4, 1),
            @"There are 1 relay, fewer than --pick 4: going on with what there is. Choose a larger --relays, name others with --via, or choose --pick 1 or less");
    }
}

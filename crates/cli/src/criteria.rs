//! `manyway criteria`: which design criteria a law meets.

use manyway_fluid::criteria::{
    Criteria, Criterion, Domain, Row, Rtts, Subject, Tradeoff, Verdict, evaluate, table_1, tradeoff,
};
use manyway_report::{Column, Table};
use manyway_results::criteria::{domain, one_law, whole_table};

use crate::args::CriteriaArgs;
use crate::exit::usage;
use crate::screen::Screen;
use crate::summary::print_json;

pub(crate) fn run(screen: &Screen, args: &CriteriaArgs) -> anyhow::Result<()> {
    let domain = domain(
        args.paths.as_ref(),
        &args.rtts,
        args.samples as usize,
        args.seed,
    )
    .map_err(usage)?;
    let Some(law) = &args.law else {
        let rows = table_1(&domain);
        return match args.json {
            true => print_json(&whole_table(&domain, &rows)),
            false => {
                show_table(screen, &domain, &rows);
                Ok(())
            }
        };
    };
    let subject = Subject::law(law).map_err(|error| usage(error.to_string()))?;
    let found = evaluate(&subject, &domain);
    let tradeoff = subject.laws().next().and_then(|law| tradeoff(*law));
    if args.json {
        return print_json(&one_law(&found, tradeoff));
    }
    show(screen, &found);
    if let Some(tradeoff) = tradeoff {
        show_tradeoff(screen, &tradeoff);
    }
    Ok(())
}

fn holds(verdict: &Verdict) -> &'static str {
    match verdict.holds {
        Some(true) => "yes",
        Some(false) => "no",
        None => "undefined",
    }
}

/// The domain of the evaluation, in words.
fn describe(domain: &Domain) -> String {
    let paths = match (domain.paths.start(), domain.paths.end()) {
        (least, most) if least == most => format!("{least} paths"),
        (least, most) => format!("{least} to {most} paths"),
    };
    let millis = |seconds: &f64| format!("{}", (seconds * 1e6).round() / 1e3);
    let rtts = match &domain.rtts {
        _ if domain.equal_rtts() => "of equal round-trip times".to_owned(),
        Rtts::Between(low, high) => format!(
            "with round-trip times between {} and {} ms",
            millis(low),
            millis(high)
        ),
        Rtts::Equal(rtt) => format!("of {} ms", millis(rtt)),
        Rtts::Each(rtts) => {
            let rtts: Vec<String> = rtts.iter().map(millis).collect();
            format!("of {} ms", rtts.join(", "))
        }
    };
    format!(
        "{paths} {rtts}, {} points (seed {}) with rates over {} decades off ties",
        domain.samples, domain.seed, domain.decades
    )
}

fn show(screen: &Screen, found: &Criteria) {
    screen.say(&format!("{}: {}\n", found.law, describe(&found.domain)));
    let mut table = Table::new(["", "criterion", "holds"].map(Column::left));
    for verdict in &found.verdicts {
        let criterion = verdict.criterion;
        table.row([&criterion.to_string(), criterion.about(), holds(verdict)]);
    }
    screen.say(&table.to_string());
    for verdict in &found.verdicts {
        screen.say(&format!("{} {}", verdict.criterion, because(verdict)));
    }
    if found.jump_at_ties > 1e-6 {
        screen.say(
            "Where the largest rates tie, the Jacobian jumps. C0 and C2 require a continuous one.",
        );
    }
}

/// The tradeoff that Table II describes, in numbers.
fn show_tradeoff(screen: &Screen, found: &Tradeoff) {
    screen
        .say("\nOn the paper's networks, with links of 20 Mbps and round-trip times of 100 ms:\n");
    let mut table = Table::new([Column::left(""), Column::right(""), Column::left("")]);
    // Rounding must not turn a zero into -0.000.
    let number = |value: f64| format!("{:.3}", if value.abs() < 5e-4 { 0.0 } else { value });
    let mut row = |what: &str, value: f64, unit: &str| {
        table.row([what.to_owned(), number(value), unit.to_owned()]);
    };
    let of_reno = "of its rate";
    row(
        "two paths through one bottleneck with a Reno flow",
        found.shared,
        of_reno,
    );
    row(
        "one path sharing with a Reno flow, the other alone",
        found.beside,
        of_reno,
    );
    row(
        "correction of rates at fixed prices",
        found.correction,
        "1/s",
    );
    row("convergence of the network", found.convergence, "1/s");
    row(
        "reduction by a loss",
        found.oscillation,
        "of the source's rate",
    );
    let text = table.to_string();
    screen.say(text.trim_start_matches(['\n', ' ']).trim_end());
}

fn because(verdict: &Verdict) -> String {
    match (&verdict.witness, &verdict.undefined, verdict.theorem) {
        (Some(witness), ..) => format!("fails at {witness}."),
        (None, Some(reason), _) => format!("is undefined: {reason}."),
        (None, None, Some(theorem)) => format!("is proved: {}.", theorem.trim_end_matches('.')),
        (None, None, None) => format!(
            "holds at all {} points and in the search from the worst of them; no proof is known.",
            verdict.points
        ),
    }
}

fn show_table(screen: &Screen, domain: &Domain, rows: &[Row]) {
    screen.say(&format!("Table I of Peng et al.: {}\n", describe(domain)));
    let columns = Criterion::ALL.map(|criterion| Column::left(criterion.to_string()));
    let mut table = Table::new([Column::left("law")].into_iter().chain(columns));
    let mut differs = false;
    for row in rows {
        let cells = row.found.verdicts.iter().enumerate().map(|(n, verdict)| {
            let other = row
                .paper
                .is_some_and(|paper| verdict.holds != Some(paper[n]));
            differs |= other;
            format!("{}{}", holds(verdict), if other { " *" } else { "" })
        });
        let cells: Vec<String> = cells.collect();
        table.row([row.label.clone()].into_iter().chain(cells));
    }
    screen.say(&table.to_string());
    if differs {
        screen
            .say("* The paper's table differs; it covers up to 8 paths of equal round-trip times.");
    }
    screen.say(
        "max is the paper's fluid of lia; balia, lia and reno are the implemented laws. \
        `manyway criteria LAW` shows the evidence.",
    );
}

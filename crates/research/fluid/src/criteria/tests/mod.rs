use std::sync::atomic::AtomicBool;

use super::*;

mod closed_forms;
mod theorems;

fn law(text: &str) -> FluidLaw {
    let subject = Subject::law(text).unwrap();
    *subject.laws().next().unwrap()
}

fn small() -> Domain {
    Domain {
        samples: 200,
        ..Domain::default()
    }
}

/// Table I under its hypotheses; Coupled's C4 has no value, as its Jacobian is singular.
#[test]
fn table_1_is_as_printed() {
    let rows = table_1(&small());
    let holds = |label: &str| {
        let row = rows
            .iter()
            .find(|row| row.label.starts_with(label))
            .unwrap();
        row.found.verdicts.each_ref().map(|verdict| verdict.holds)
    };
    for row in &rows {
        assert_eq!(row.disagreements(), [], "{}", row.label);
        for verdict in &row.found.verdicts {
            assert_eq!(verdict.witness.is_some(), verdict.holds == Some(false));
            assert_eq!(verdict.undefined.is_some(), verdict.holds.is_none());
        }
    }
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(holds("ewtcp"), [yes; 6]);
    assert_eq!(holds("coupled"), [yes, yes, no, no, None, yes]);
    assert_eq!(holds("generalized"), [no, yes, yes, yes, yes, yes]);
    // Eq. (1)-(2), as it runs: neither its class' C1 nor its C2.
    assert_eq!(holds("balia"), [no, no, no, yes, yes, yes]);
    assert_eq!(holds("lia"), holds("max"));
    // All of the class' yeses are proved, and the search agrees.
    let class = &rows
        .iter()
        .find(|row| row.label.starts_with("gen"))
        .unwrap()
        .found;
    for criterion in [Criterion::C2, Criterion::C3, Criterion::C4, Criterion::C5] {
        assert!(class.of(criterion).theorem.is_some(), "{criterion}");
    }
    assert!(class.jump_at_ties > 0.1 && rows[0].found.jump_at_ties < 1e-6);
}

/// Where losses cut only the subflow that has them; the theory of `auto` in docs/laws.md has this.
#[test]
fn a_group_of_auto_has_no_utility_and_meets_the_rest() {
    let group = Subject::law("auto-group").unwrap();
    let found = evaluate(&group, &small());
    let holds = found.verdicts.each_ref().map(|verdict| verdict.holds);
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(holds, [no, yes, yes, yes, yes, yes]);
    // Two subflows, 0.664 of a Reno flow each: √(3/1.7 · 1/2 · 1/2).
    let found = tradeoff(law("auto-group")).unwrap();
    assert!((found.shared - 1.328).abs() < 1e-3, "{found:?}");
}

#[test]
fn the_same_seed_gives_the_same_evidence() {
    let balia = Subject::law("balia").unwrap();
    assert_eq!(evaluate(&balia, &small()), evaluate(&balia, &small()));
    let other = Domain { seed: 2, ..small() };
    assert_ne!(evaluate(&balia, &small()), evaluate(&balia, &other));
}

/// `Φ(x + h Δx)`.
fn shifted(law: &FluidLaw, point: &Point, change: &[f64], h: f64) -> Vec<f64> {
    let rates = point.rates.iter().zip(change).map(|(x, dx)| x + h * dx);
    let rates: Vec<f64> = rates.collect();
    law.phis(&rates, &point.rtts).as_slice().to_vec()
}

/// Every witness by φ alone, without the Jacobian that found it.
fn check(name: &str, witness: &Witness) {
    let law = law(&witness.law);
    let point = &witness.point;
    // A thousandth of what keeps points off ties.
    let h = 1e-6;
    let slope = |of: usize, along: usize| {
        let mut change = vec![0.0; point.rates.len()];
        change[along] = point.rates[along];
        let (before, after) = (
            shifted(&law, point, &change, -h),
            shifted(&law, point, &change, h),
        );
        (after[of] - before[of]) / (2.0 * h * point.rates[along])
    };
    match &witness.evidence {
        Evidence::Entries {
            of: (r, j),
            entry,
            transposed,
        } => {
            let found = (slope(r - 1, j - 1), slope(j - 1, r - 1));
            let apart = (entry - transposed).abs();
            assert!(
                (found.0 - entry).abs() < 0.1 * apart,
                "{name}: {witness} {found:?}"
            );
            assert!(
                (found.1 - transposed).abs() < 0.1 * apart,
                "{name}: {witness} {found:?}"
            );
        }
        Evidence::Change { change, product } => {
            let h = 1e-3;
            let before = shifted(&law, point, change, -h);
            let after = shifted(&law, point, change, h);
            let terms = before.iter().zip(&after).zip(change);
            let terms: Vec<f64> = terms.map(|((b, a), dx)| (a - b) / (2.0 * h) * dx).collect();
            let size: f64 = terms.iter().map(|term| term.abs()).sum();
            let found: f64 = terms.iter().sum();
            // Coupled's product is 0: what is left is the rounding of φ.
            let most = change.iter().fold(0.0, |most: f64, dx| most.max(dx.abs()));
            let rounding = 1e-15 * before.iter().copied().fold(0.0, f64::max) * most / h;
            assert!(found > -1e-6 * size - rounding, "{name}: {witness} {found}");
            assert!(
                (found - product).abs() < 1e-3 * size + rounding,
                "{name}: {witness} {found}"
            );
        }
        Evidence::OwnPrice {
            link_carries,
            slope,
        } => {
            let mut prices = law.phis(&point.rates, &point.rtts).as_slice().to_vec();
            let least = prices.iter().copied().fold(f64::INFINITY, f64::min);
            for r in link_carries {
                prices[r - 1] += 1e-7 * least;
            }
            let traffic =
                |rates: &[f64]| -> f64 { link_carries.iter().map(|r| rates[r - 1]).sum() };
            let after = response(&law, &point.rtts, &prices, Some(&point.rates)).unwrap();
            let found = (traffic(&after) - traffic(&point.rates)) / (1e-7 * least);
            assert!(
                *slope > 0.0 && (found / slope - 1.0).abs() < 0.05,
                "{name}: {witness} {found}"
            );
        }
        Evidence::Traffic { traffic, .. } => assert!(traffic.1 > traffic.0, "{name}: {witness}"),
        Evidence::Limit {
            path,
            when,
            phi_after_1e6,
            phi_after_1e12,
        } => {
            assert_eq!(*when, "as the path's rate vanishes", "{name}");
            let mut change = vec![0.0; point.rates.len()];
            change[path - 1] = point.rates[path - 1];
            let near = shifted(&law, point, &change, 1e-7 - 1.0)[path - 1];
            assert!(
                (near / phi_after_1e6 - 1.0).abs() < 1e-3,
                "{name}: {witness}"
            );
            assert!(
                (phi_after_1e12 / phi_after_1e6 - 1.0).abs() < 1e-3,
                "{name}: {witness}"
            );
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn witnesses_are_what_they_say() {
    let unequal = Domain {
        rtts: Rtts::Between(0.01, 0.3),
        ..small()
    };
    let mut checked = 0;
    for domain in [small(), unequal] {
        for row in table_1(&domain) {
            for verdict in &row.found.verdicts {
                if let Some(witness) = &verdict.witness {
                    check(&format!("{} {}", row.label, verdict.criterion), witness);
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 20, "{checked}");
    let ten = Domain {
        paths: 10..=10,
        ..small()
    };
    let max = Subject::law("max").unwrap();
    check(
        "10 paths",
        &judge(Criterion::C2, &max, &ten).witness.unwrap(),
    );
}

/// Theorem IV.1's limit of eight paths: nine are safe too, off ties, and ten aren't, whatever the
/// norm.
#[test]
fn ten_paths_break_c2_and_nine_do_not() {
    let domain = |paths| Domain {
        paths: paths..=paths,
        ..small()
    };
    for name in ["semicoupled", "max", "generalized:beta=1,n=4"] {
        let subject = Subject::law(name).unwrap();
        let holds = |paths| judge(Criterion::C2, &subject, &domain(paths)).holds;
        assert_eq!((holds(9), holds(10)), (Some(true), Some(false)), "{name}");
    }
    // For every β the worst of n = ∞ is three paths that nearly tie, with nearly nothing on the
    // others; for n = 1 one path that has nearly all, where 1 + 8/β paths are the limit.
    let definite = |text: &str, (top, paths): (usize, usize)| {
        let mut rates = vec![0.01; paths];
        rates[..top].fill(0.9999 * Domain::TOP);
        rates[0] = Domain::TOP;
        let rtts = vec![0.1; paths];
        let seen = local::definiteness(&law(text), &Point { rates, rtts });
        seen.unwrap().value < 0.0
    };
    for (beta, limit) in [(1.0, 9), (0.5, 17), (0.2, 41)] {
        let first = format!("generalized:beta={beta},n=1");
        assert!(definite(&first, (1, limit)) && !definite(&first, (1, limit + 1)));
        let infinite = format!("generalized:beta={beta}");
        assert!(
            definite(&infinite, (3, 9)) && !definite(&infinite, (3, 10)),
            "{beta}"
        );
    }
}

/// Theorem IV.1 (1) claims C1 for all round-trip times. It has a gap where a link carries several
/// of a source's paths: here by the paper's own closed form (35)-(36).
#[test]
fn the_class_breaks_c1_with_unequal_round_trip_times() {
    let beta = 0.05;
    let rates = [10_000.0, 8600.0, 2000.0, 490.0, 350.0];
    let rtts = [0.16, 0.015, 0.082, 0.049, 0.042];
    let law = law("generalized:beta=0.05");
    let mut prices = law.phis(&rates, &rtts).as_slice().to_vec();
    let closed = |prices: &[f64]| -> Vec<f64> {
        let products = || prices.iter().zip(rtts).map(|(q, tau)| q * tau * tau);
        // With n = ∞ the largest a_r is 1.
        let c = 2.0 / products().fold(f64::INFINITY, f64::min);
        let a: Vec<f64> = products()
            .map(|p| 2.0 * beta / (2.0 * beta + p * c - 2.0))
            .collect();
        let sum: f64 = a.iter().sum();
        a.iter().map(|a| a / sum * c.sqrt()).collect()
    };
    for (x, own) in closed(&prices).iter().zip(rates) {
        assert!((x / own - 1.0).abs() < 1e-9);
    }
    prices[0] += 1e-9;
    prices[1] += 1e-9;
    let after = closed(&prices);
    assert!(after[0] + after[1] > 18_600.0 + 11.0, "{after:?}");
}

/// As it runs, eq. (1)-(2), Balia has three answers to equal prices: the equal split, and α = (√69
/// − 5)/2 either way, where `(1+α)(4+α) = 15`.
#[test]
fn balia_as_it_runs_has_three_answers_to_equal_prices() {
    let law = law("balia");
    let (rtts, prices) = ([0.1f64; 2], [1e-3f64; 2]);
    let alpha = (69f64.sqrt() - 5.0) / 2.0;
    let total = 2f64.sqrt() / (rtts[0] * prices[0].sqrt());
    for (start, expected) in [([2.0, 1.0], alpha), ([1.0, 2.0], 1.0 / alpha)] {
        let rates = response(&law, &rtts, &prices, Some(&start.map(|x| 100.0 * x))).unwrap();
        assert!(
            (rates[0] / rates[1] / expected - 1.0).abs() < 1e-8,
            "{rates:?}"
        );
        assert!(((rates[0] + rates[1]) / total - 1.0).abs() < 1e-8);
    }
    for phi in &law.phis(&[total / 2.0; 2], &rtts) {
        assert!((phi / prices[0] - 1.0).abs() < 1e-12);
    }
}

#[test]
fn phis_are_ordered_as_the_paper_says() {
    let chain = ["ewtcp", "semicoupled", "max", "coupled"];
    for pair in chain.windows(2) {
        let order = phi_order(&Subject::law(pair[0]).unwrap(), &law(pair[1]), &small());
        assert!(order.holds, "{pair:?}: {:?}", order.witness);
    }
    let reversed = phi_order(&Subject::law("max").unwrap(), &law("semicoupled"), &small());
    assert!(!reversed.holds && reversed.witness.is_some());
}

/// Section IV-A says that the Jacobians have the same order. They don't, not even with two paths:
/// only EWTCP's is below the others'.
#[test]
fn jacobians_are_not_ordered_as_the_paper_says() {
    let order =
        |more: &str, less: &str| jacobian_order(&Subject::law(more).unwrap(), &law(less), &small());
    for less in ["semicoupled", "max", "coupled"] {
        assert!(order("ewtcp", less).holds, "{less}");
    }
    for (more, less) in [("semicoupled", "max"), ("max", "coupled")] {
        let witness = order(more, less).witness.unwrap();
        assert_eq!(witness.point.rates.len(), 2);
        let Evidence::Difference { change, difference } = &witness.evidence else {
            panic!("{witness}");
        };
        // By φ alone.
        let h = 1e-3;
        let product = |text: &str| -> f64 {
            let law = law(text);
            let before = shifted(&law, &witness.point, change, -h);
            let after = shifted(&law, &witness.point, change, h);
            let terms = before.iter().zip(&after).zip(change);
            terms.map(|((b, a), dx)| (a - b) / (2.0 * h) * dx).sum()
        };
        let found = product(more) - product(less);
        assert!(
            *difference > 0.0 && (found / difference - 1.0).abs() < 1e-3,
            "{witness} {found}"
        );
    }
}

#[test]
fn an_evaluation_can_be_stopped() {
    let domain = Domain {
        samples: usize::MAX,
        ..Domain::default()
    };
    let stop = AtomicBool::new(true);
    let balia = Subject::law("balia").unwrap();
    assert_eq!(evaluate_until(&balia, &domain, &stop), None);
    assert_eq!(table_1_until(&domain, &stop), None);
}

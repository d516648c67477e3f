//! What becomes of a claim.

use serde::Serialize;

use crate::claims::{Claim, GateKind, Kind};
use crate::gate::Gate;

/// What becomes of a claim.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All its gates hold.
    Holds,
    /// Those about order hold, others don't.
    HoldsInOrder,
    /// Something doesn't hold.
    Fails,
    /// Only full runs judge it.
    FullOnly,
    /// There is nothing to judge.
    Illustration,
}

impl Verdict {
    /// All of them, the best first.
    pub const ALL: [Verdict; 5] = [
        Verdict::Holds,
        Verdict::HoldsInOrder,
        Verdict::Fails,
        Verdict::FullOnly,
        Verdict::Illustration,
    ];

    /// Of a claim, by the gates that judge it and were measured.
    pub(crate) fn of(claim: &Claim, gates: &[&Gate]) -> Self {
        let judging = |kind: Option<GateKind>| {
            let gates = gates.iter().filter(move |gate| {
                let own = gate.row.terms.kind;
                own != GateKind::Control && kind.is_none_or(|kind| own == kind)
            });
            gates.map(|gate| gate.holds())
        };
        match claim.kind {
            Kind::Illustration => Verdict::Illustration,
            Kind::Result if judging(None).next().is_none() => Verdict::FullOnly,
            Kind::Result if judging(None).all(|holds| holds) => Verdict::Holds,
            Kind::Result => {
                let mut order = judging(Some(GateKind::Order)).peekable();
                let ordered = order.peek().is_some() && order.all(|holds| holds);
                if ordered {
                    Verdict::HoldsInOrder
                } else {
                    Verdict::Fails
                }
            }
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::HoldsInOrder => "holds in order",
            Verdict::Fails => "doesn't hold",
            Verdict::FullOnly => "only with --full",
            Verdict::Illustration => "illustration",
        }
    }

    /// One character for it.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Verdict::Holds => "✓",
            Verdict::HoldsInOrder => "≈",
            Verdict::Fails => "✗",
            Verdict::FullOnly => "…",
            Verdict::Illustration => "–",
        }
    }

    /// Its name in style sheets.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::HoldsInOrder => "in-order",
            Verdict::Fails => "fails",
            Verdict::FullOnly => "full-only",
            Verdict::Illustration => "illustration",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::claim;
    use crate::gate::gate;

    #[test]
    fn order_is_worth_less_than_numbers_and_controls_nothing() {
        let (_, table_3) = claim("balia/table-3");
        let order = |wrong: f64| gate("balia/table-3-single-order").value(wrong, "");
        let number = |off: f64| gate("balia/table-3-single").cases([("lia", off)], "");
        let control = gate("balia/fluid-table-3-floor").value(100.0, "");
        for (gates, verdict) in [
            (vec![order(0.0), number(1.0)], Verdict::Holds),
            (vec![order(0.0), number(16.0)], Verdict::HoldsInOrder),
            (vec![order(1.0), number(1.0)], Verdict::Fails),
            (vec![number(16.0)], Verdict::Fails),
            (vec![number(1.0), control.clone()], Verdict::Holds),
            (vec![control.clone()], Verdict::FullOnly),
            (vec![], Verdict::FullOnly),
        ] {
            let gates: Vec<&Gate> = gates.iter().collect();
            assert_eq!(Verdict::of(table_3, &gates), verdict);
        }
        assert_eq!(
            Verdict::of(claim("balia/figure-1").1, &[]),
            Verdict::Illustration
        );
    }
}

//! A primal-dual interior-point method for the α-fair family.
//!
//! With prices `p` of links, worths `v` of flows, and `z`, `q` for the bounds of rates and demands,
//! an optimum has `v = w y^−a`, `v_s = (Aᵀp)_r + q_s − z_r`, and products of 0 of each bound's room
//! and its price. A central path has positive products instead, which go to 0 along it: Boyd and
//! Vandenberghe, Convex Optimization, §11.7; the steps are Mehrotra's, SIAM J. Optim. 2 (1992).

use std::ops::Range;

use super::factor::{MOST_PAIRS, Matrix};

/// `maximise Σ w_s y_s^(1−a)/(1−a)` with `A x ≤ 1`, `y = B x ≤ m`, `x ≥ 0`, without dimensions.
/// Each link has a route over it.
pub(super) struct Problem {
    pub(super) a: f64,
    pub(super) links: usize,
    pub(super) flows: Vec<Flow>,
}

/// One of its flows.
pub(super) struct Flow {
    /// `ln w_s`: with a large `a`, weights differ by more than numbers can.
    pub(super) log_weight: f64,
    /// `m_s`.
    pub(super) demand: Option<f64>,
    /// The links of each route, with what a unit of its rate takes of them.
    pub(super) routes: Vec<Vec<(usize, f64)>>,
    /// Rates to start from, for which there is room on all links and in the demand.
    pub(super) start: Vec<f64>,
}

/// A point, or a step between two.
struct Point {
    /// Each route's rate, each link's room, and what each flow's demand leaves.
    room: Vec<f64>,
    /// The price of each of these bounds, in the same order: a route's is what it costs too much.
    /// A flow without a demand has a room of 1 at a price of 0.
    price: Vec<f64>,
    /// What each flow would pay for more.
    worth: Vec<f64>,
}

/// What a step is to change, linearly.
struct Goal {
    /// The product of each bound's room and price.
    products: Vec<f64>,
    /// The logarithm of each flow's `v y^a`.
    worths: Vec<f64>,
}

/// More steps aren't taken.
const STEPS: usize = 200;

/// How far to go towards the nearest bound.
const KEPT: f64 = 0.99;

/// Products go down to this part of what flows pay. Further down rounding grows faster than they
/// shrink; there, full steps towards this end are as good as iterative refinement.
const END: f64 = 1e-14;

/// The least part of the products that one step aims at.
const LEAST: f64 = 1e-6;

/// Worths and rates are told that they differ by no more than a factor of `exp(5)`.
const APART: f64 = 5.0;

/// A flow's worth stays between those of this part of its rate and as many times it.
const AROUND: f64 = 10.0;

impl Problem {
    /// Follows the central path until it is `enough` for the rates, the prices, and the part that
    /// products are of what flows pay; or until it leads nowhere. False if too many links share
    /// routes.
    pub(super) fn solve(&self, mut enough: impl FnMut(&[f64], &[f64], f64) -> bool) -> bool {
        let groups = self.flows.iter().map(|flow| {
            let links = flow.routes.iter().flatten();
            links.map(|&(link, _)| link).collect()
        });
        let Some(mut matrix) = Matrix::of(self.links, groups, MOST_PAIRS) else {
            return false;
        };
        let mut at = self.start();
        for _ in 0..STEPS {
            let scales = self.scales(&at);
            let whole: f64 = scales.iter().sum();
            let mean = dot(&at.room, &at.price) / whole;
            let [rates, ..] = self.parts(&at.room);
            let [_, prices, _] = self.parts(&at.price);
            if !mean.is_finite() || enough(rates, prices, mean) {
                break;
            }
            self.assemble(&at, &mut matrix);
            matrix.factorise();
            let mut goal = self.optimum(&at);
            let ahead = self.step(&at, &goal, &matrix);
            let (far, dear) = lengths(&at, &ahead, 1.0);
            let left = at.moved(&ahead, (far, dear));
            let left = dot(&left.room, &left.price) / whole;
            let aim = mean * (left / mean).powi(3).clamp(LEAST, 1.0);
            let aim = aim.max(END);
            let changes = ahead.room.iter().zip(&ahead.price);
            for ((product, scale), (room, price)) in
                goal.products.iter_mut().zip(&scales).zip(changes)
            {
                *product += aim * scale - far * room * dear * price;
            }
            let [ahead_rates, ..] = self.parts(&ahead.room);
            let grown = self.totals(ahead_rates);
            for (s, y) in self.totals(rates).into_iter().enumerate() {
                let (y, v) = (far * grown[s] / y, dear * ahead.worth[s] / at.worth[s]);
                goal.worths[s] += (0.5 * (self.a * y * y + v * v)).min(1.0);
            }
            let step = self.step(&at, &goal, &matrix);
            at = at.moved(&step, lengths(&at, &step, KEPT));
            self.keep_worths(&mut at);
        }
        true
    }

    /// Half of the rooms are left, and prices are what flows pay for what they have.
    fn start(&self) -> Point {
        let rates: Vec<f64> = self
            .flows
            .iter()
            .flat_map(|flow| flow.start.clone())
            .collect();
        let totals = self.totals(&rates);
        let worth = self.flows.iter().zip(&totals);
        let worth: Vec<f64> = worth.map(|(flow, &y)| self.worth(flow, y)).collect();
        let mut paid = vec![0.0; self.links];
        for ((s, route), rate) in self.routes().zip(&rates) {
            route
                .iter()
                .for_each(|&(link, _)| paid[link] += worth[s] * rate);
        }
        let loads = self.loads(&rates);
        let dear = self.route_prices(&paid);
        let dearer = self.routes().zip(dear);
        let dearer = dearer.map(|((s, _), price)| (price - worth[s]).max(worth[s]));
        let free = self.flows.iter().zip(&totals);
        let free = free.map(|(flow, y)| flow.demand.map_or(1.0, |m| m - y));
        let content = self.flows.iter().zip(&worth);
        let content = content.map(|(flow, v)| flow.demand.map_or(0.0, |_| *v));
        Point {
            price: dearer.chain(paid.iter().copied()).chain(content).collect(),
            room: rates
                .iter()
                .copied()
                .chain(loads.iter().map(|load| 1.0 - load))
                .chain(free)
                .collect(),
            worth,
        }
    }

    /// `w y^−a`.
    fn worth(&self, flow: &Flow, y: f64) -> f64 {
        (flow.log_weight - self.a * y.ln()).exp()
    }

    /// Takes worths back to where they mean something. Rates that grow by many times in a step can
    /// leave them far away, from where the next steps hardly lead back.
    fn keep_worths(&self, at: &mut Point) {
        let [rates, ..] = self.parts(&at.room);
        let totals = self.totals(rates);
        for ((flow, y), worth) in self.flows.iter().zip(totals).zip(&mut at.worth) {
            let (least, most) = (self.worth(flow, AROUND * y), self.worth(flow, y / AROUND));
            *worth = worth.max(least).min(most);
        }
    }

    /// The goal that is the optimum: products of 0, and worths that are right.
    fn optimum(&self, at: &Point) -> Goal {
        let [rates, ..] = self.parts(&at.room);
        let totals = self.totals(rates);
        let worths = self.flows.iter().zip(&totals).zip(&at.worth);
        let worths = worths.map(|((flow, y), v)| {
            let off = flow.log_weight - self.a * y.ln() - v.ln();
            off.clamp(-APART, APART)
        });
        let products = at.room.iter().zip(&at.price);
        Goal {
            products: products.map(|(room, price)| -room * price).collect(),
            worths: worths.collect(),
        }
    }

    /// What each bound's product is relative to: what its flow pays, or all flows over its link.
    /// So flows that count for little are as near to their optimum as others.
    fn scales(&self, at: &Point) -> Vec<f64> {
        let [rates, ..] = self.parts(&at.room);
        let paid: Vec<f64> = self
            .totals(rates)
            .iter()
            .zip(&at.worth)
            .map(|(y, v)| y * v)
            .collect();
        let mut links = vec![0.0; self.links];
        for (s, route) in self.routes() {
            route.iter().for_each(|&(link, _)| links[link] += paid[s]);
        }
        let routes = self.routes().map(|(s, _)| paid[s]);
        let demands = self.flows.iter().zip(&paid);
        let demands = demands.map(|(flow, paid)| flow.demand.map_or(0.0, |_| *paid));
        routes.chain(links).chain(demands).collect()
    }

    /// How much steeper a flow's worth and its demand's price get with its total.
    fn stiffness(&self, at: &Point) -> Vec<f64> {
        let ([rates, _, free], [.., content]) = (self.parts(&at.room), self.parts(&at.price));
        let one = |(s, y): (usize, &f64)| self.a * at.worth[s] / y + content[s] / free[s];
        self.totals(rates).iter().enumerate().map(one).collect()
    }

    /// `A H⁻¹ Aᵀ` and the links' own part. A flow's block of `H` is a diagonal `D` and its
    /// stiffness `c` between all of its routes. With `e = D⁻¹`, which can be large, its inverse is
    /// kept as a sum of squares, in which nothing cancels: `e_r e_q / Σe` by the difference of any
    /// two routes, and `1 / (1/Σe + c)` by their mean.
    fn assemble(&self, at: &Point, matrix: &mut Matrix) {
        matrix.clear();
        let ([rates, room, _], [dearer, prices, _]) = (self.parts(&at.room), self.parts(&at.price));
        let stiffness = self.stiffness(at);
        let mut column = Vec::new();
        for ((flow, range), stiff) in self.flows.iter().zip(self.ranges()).zip(stiffness) {
            let ease: Vec<f64> = range.map(|r| rates[r] / dearer[r]).collect();
            let total: f64 = ease.iter().sum();
            for (r, one) in flow.routes.iter().enumerate() {
                for (q, other) in flow.routes[..r].iter().enumerate() {
                    combine(&mut column, [(1.0, one), (-1.0, other)]);
                    matrix.add(ease[r] * (ease[q] / total), &column);
                }
            }
            let parts = ease.iter().map(|ease| ease / total);
            combine(&mut column, parts.zip(&flow.routes));
            matrix.add(1.0 / (1.0 / total + stiff), &column);
        }
        for (link, (room, price)) in room.iter().zip(prices).enumerate() {
            matrix.add(room / price, &[(link, 1.0)]);
        }
    }

    /// The step that brings a goal and all linear conditions, by the factorised matrix.
    fn step(&self, at: &Point, goal: &Goal, matrix: &Matrix) -> Point {
        let ([rates, room, free], [dearer, prices, content]) =
            (self.parts(&at.room), self.parts(&at.price));
        let [by_route, by_link, by_demand] = self.parts(&goal.products);
        let totals = self.totals(rates);
        let short = self
            .flows
            .iter()
            .enumerate()
            .map(|(s, flow)| flow.demand.map_or(0.0, |m| m - totals[s] - free[s]));
        let short: Vec<f64> = short.collect();
        // The right-hand side of `H dx + Aᵀ dp`: what all routes of a flow have in common, and what
        // each has beside it. Apart, the one doesn't round the other away.
        let common = (0..totals.len()).map(|s| {
            at.worth[s] * goal.worths[s] - (by_demand[s] - content[s] * short[s]) / free[s]
        });
        let common: Vec<f64> = common.collect();
        let dear = self.route_prices(prices);
        let own = self.routes().enumerate().map(|(r, (s, _))| {
            let off = dear[r] + content[s] - dearer[r] - at.worth[s];
            by_route[r] / rates[r] - off
        });
        let own: Vec<f64> = own.collect();
        let stiffness = self.stiffness(at);
        // What rates, and flows' totals, do when prices change.
        let respond = |prices: &[f64]| {
            let dear = self.route_prices(prices);
            let (mut changes, mut sums) = (Vec::with_capacity(own.len()), Vec::new());
            for (s, range) in self.ranges().enumerate() {
                let ease = |r: usize| rates[r] / dearer[r];
                let total: f64 = range.clone().map(ease).sum();
                let mean: f64 = range
                    .clone()
                    .map(|r| ease(r) / total * (own[r] - dear[r]))
                    .sum();
                let sum = (common[s] + mean) / (1.0 / total + stiffness[s]);
                sums.push(sum);
                changes.extend(
                    range.map(|r| ease(r) * (own[r] - dear[r] - mean) + ease(r) / total * sum),
                );
            }
            (changes, sums)
        };
        let (unmoved, _) = respond(&vec![0.0; self.links]);
        let loads = self.loads(rates).into_iter().zip(self.loads(&unmoved));
        let excess = loads
            .enumerate()
            .map(|(l, (load, more))| load + more + room[l] - 1.0 + by_link[l] / prices[l]);
        let price_changes = matrix.solve(&excess.collect::<Vec<f64>>());
        let (changes, sums) = respond(&price_changes);
        let worth =
            (0..sums.len()).map(|s| at.worth[s] * (goal.worths[s] - self.a * sums[s] / totals[s]));
        let rooms = (0..self.links).map(|l| (by_link[l] - room[l] * price_changes[l]) / prices[l]);
        let frees = self
            .flows
            .iter()
            .enumerate()
            .map(|(s, flow)| flow.demand.map_or(0.0, |_| short[s] - sums[s]));
        let frees: Vec<f64> = frees.collect();
        let dearer = (0..own.len()).map(|r| (by_route[r] - dearer[r] * changes[r]) / rates[r]);
        let contents = (0..frees.len()).map(|s| (by_demand[s] - content[s] * frees[s]) / free[s]);
        Point {
            worth: worth.collect(),
            price: dearer
                .chain(price_changes.iter().copied())
                .chain(contents)
                .collect(),
            room: changes
                .iter()
                .copied()
                .chain(rooms)
                .chain(frees.iter().copied())
                .collect(),
        }
    }

    /// What belongs to routes, to links and to flows.
    fn parts<'a>(&self, all: &'a [f64]) -> [&'a [f64]; 3] {
        let (rest, flows) = all.split_at(all.len() - self.flows.len());
        let (routes, links) = rest.split_at(rest.len() - self.links);
        [routes, links, flows]
    }

    /// Each flow's routes, by number.
    fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.flows.iter().scan(0, |next, flow| {
            let from = *next;
            *next += flow.routes.len();
            Some(from..*next)
        })
    }

    /// All routes with their flows' numbers.
    fn routes(&self) -> impl Iterator<Item = (usize, &Vec<(usize, f64)>)> {
        let flows = self.flows.iter().enumerate();
        flows.flat_map(|(s, flow)| flow.routes.iter().map(move |route| (s, route)))
    }

    fn totals(&self, rates: &[f64]) -> Vec<f64> {
        self.ranges()
            .map(|range| rates[range].iter().sum())
            .collect()
    }

    fn loads(&self, rates: &[f64]) -> Vec<f64> {
        let mut loads = vec![0.0; self.links];
        for ((_, route), rate) in self.routes().zip(rates) {
            route
                .iter()
                .for_each(|&(link, takes)| loads[link] += takes * rate);
        }
        loads
    }

    fn route_prices(&self, prices: &[f64]) -> Vec<f64> {
        let price = |route: &[(usize, f64)]| -> f64 {
            route
                .iter()
                .map(|&(link, takes)| takes * prices[link])
                .sum()
        };
        self.routes().map(|(_, route)| price(route)).collect()
    }
}

impl Point {
    /// After a step of these lengths, of rooms and of prices.
    fn moved(&self, step: &Point, (far, dear): (f64, f64)) -> Point {
        let add = |from: &[f64], by: &[f64], length: f64| -> Vec<f64> {
            from.iter()
                .zip(by)
                .map(|(from, by)| from + length * by)
                .collect()
        };
        Point {
            room: add(&self.room, &step.room, far),
            price: add(&self.price, &step.price, dear),
            worth: add(&self.worth, &step.worth, dear),
        }
    }
}

/// How much of a step rooms and prices can go: all of it, or this part of the way to the bound that
/// they meet first.
fn lengths(at: &Point, step: &Point, part: f64) -> (f64, f64) {
    let most = |from: &[f64], by: &[f64]| {
        let down = from.iter().zip(by).filter(|&(_, by)| *by < 0.0);
        let to_bound = down.map(|(from, by)| -from / by);
        (part * to_bound.fold(f64::INFINITY, f64::min)).min(1.0)
    };
    (most(&at.room, &step.room), most(&at.price, &step.price))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The sum of multiples of routes, each link once.
fn combine<'a>(
    sum: &mut Vec<(usize, f64)>,
    parts: impl IntoIterator<Item = (f64, &'a Vec<(usize, f64)>)>,
) {
    sum.clear();
    for (factor, route) in parts {
        sum.extend(route.iter().map(|&(link, takes)| (link, factor * takes)));
    }
    sum.sort_unstable_by_key(|&(link, _)| link);
    sum.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        kept.1 += if same { next.1 } else { 0.0 };
        same
    });
    sum.retain(|&(_, takes)| takes != 0.0);
}

#[cfg(test)]
mod tests;

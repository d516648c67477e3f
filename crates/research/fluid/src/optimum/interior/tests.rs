use super::*;

/// Two flows over three links: one with two routes and a demand, one with three, two of which are
/// the same.
fn problem(a: f64) -> Problem {
    let flow = |demand, start: &[f64], routes: &[&[(usize, f64)]]| Flow {
        log_weight: -0.5,
        demand,
        routes: routes.iter().map(|route| route.to_vec()).collect(),
        start: start.to_vec(),
    };
    Problem {
        a,
        links: 3,
        flows: vec![
            flow(
                Some(0.5),
                &[0.1, 0.2],
                &[&[(0, 1.0), (1, 0.5)], &[(2, 1.0)]],
            ),
            flow(
                None,
                &[0.1, 0.1, 0.2],
                &[&[(0, 2.0)], &[(0, 2.0)], &[(2, 0.7), (1, 0.1)]],
            ),
        ],
    }
}

/// How far the step is from all that it should bring, relative to the parts of each sum.
fn off(problem: &Problem, at: &Point, goal: &Goal, step: &Point) -> f64 {
    let next = at.moved(step, (1.0, 1.0));
    let ([rates, room, free], [dearer, prices, content]) =
        (problem.parts(&next.room), problem.parts(&next.price));
    let mut off = 0.0f64;
    for (load, room) in problem.loads(rates).iter().zip(room) {
        off = off.max((load + room - 1.0).abs());
    }
    let dear = problem.route_prices(prices);
    for (((s, _), price), dearer) in problem.routes().zip(dear).zip(dearer) {
        let sum = price + content[s] - dearer - next.worth[s];
        off = off.max(sum.abs() / (price.abs() + content[s].abs()));
    }
    let (old, new) = (problem.parts(&at.room)[0], problem.totals(rates));
    for (s, (old, new)) in problem.totals(old).iter().zip(&new).enumerate() {
        if let Some(demand) = problem.flows[s].demand {
            off = off.max((new + free[s] - demand).abs());
        }
        let (y, v) = (
            (new - old) / old,
            (next.worth[s] - at.worth[s]) / at.worth[s],
        );
        off = off.max((problem.a * y + v - goal.worths[s]).abs());
    }
    for n in 0..at.room.len() {
        let product = at.room[n] * step.price[n] + at.price[n] * step.room[n];
        off = off.max((product - goal.products[n]).abs() / (at.room[n] * at.price[n]).max(1e-300));
    }
    off
}

#[test]
fn a_step_brings_all_linear_conditions() {
    for a in [0.01, 1.0, 20.0] {
        let problem = problem(a);
        let mut at = problem.start();
        let groups = problem.flows.iter().map(|_| vec![0, 1, 2]);
        let mut matrix = Matrix::of(problem.links, groups, MOST_PAIRS).unwrap();
        // Away from where the links' and the demand's conditions hold.
        at.room.iter_mut().for_each(|room| *room *= 0.9);
        at.worth[0] *= 2.0;
        problem.assemble(&at, &mut matrix);
        matrix.factorise();
        let goal = problem.optimum(&at);
        let step = problem.step(&at, &goal, &matrix);
        let off = off(&problem, &at, &goal, &step);
        assert!(off < 1e-12, "{a}: {off}");
    }
}

/// Used routes cost next to nothing too much, so that their block of `H` is nearly singular.
#[test]
fn a_step_is_exact_near_the_end() {
    let problem = problem(1.0);
    let (mut last, mut points) = (None, 0);
    problem.solve(|rates, prices, missing| {
        points += 1;
        last = Some((rates.to_vec(), prices.to_vec(), missing));
        missing < 2.0 * END
    });
    let (rates, prices, missing) = last.unwrap();
    assert!(missing < 2.0 * END, "{missing}");
    // One more without the second-order corrector.
    assert!(points <= 11, "{points}");
    for (load, price) in problem.loads(&rates).iter().zip(&prices) {
        assert!(
            (load - 1.0).abs() < 1e-12 || *price < 1e-11,
            "{load} at {price}"
        );
    }
    let dear = problem.route_prices(&prices);
    let y = rates[2] + rates[3] + rates[4];
    let worth = problem.worth(&problem.flows[1], y);
    assert!((rates[0] + rates[1] - 0.5).abs() < 1e-12, "{rates:?}");
    assert!((rates[2] - rates[3]).abs() < 1e-6, "{rates:?}");
    for dear in &dear[2..] {
        assert!((dear / worth - 1.0).abs() < 1e-12, "{dear} for {worth}");
    }
}

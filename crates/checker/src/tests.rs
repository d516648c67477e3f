use super::*;

/// Two jugs of 3 and 5 litres; somebody may fill, empty or pour them. Nobody wants to see `wanted`
/// litres in one of them.
struct Jugs {
    wanted: u32,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Step {
    Fill(usize),
    Empty(usize),
    Pour(usize),
}

const SIZES: [u32; 2] = [3, 5];

impl Model for Jugs {
    type State = [u32; 2];
    type Step = Step;
    type Key = [u32; 2];

    fn start(&self) -> [u32; 2] {
        [0, 0]
    }

    fn steps(&self, _: &[u32; 2]) -> Vec<Step> {
        let of = |jug| [Step::Fill(jug), Step::Empty(jug), Step::Pour(jug)];
        [of(0), of(1)].concat()
    }

    fn take(&self, jugs: &mut [u32; 2], step: &Step) -> Result<(), String> {
        match *step {
            Step::Fill(jug) => jugs[jug] = SIZES[jug],
            Step::Empty(jug) => jugs[jug] = 0,
            Step::Pour(jug) => {
                let other = 1 - jug;
                let poured = jugs[jug].min(SIZES[other] - jugs[other]);
                jugs[jug] -= poured;
                jugs[other] += poured;
            }
        }
        match jugs.contains(&self.wanted) {
            true => Err(format!("{} litres", self.wanted)),
            false => Ok(()),
        }
    }

    fn key(&self, jugs: &[u32; 2]) -> [u32; 2] {
        *jugs
    }
}

#[test]
fn what_can_happen_is_found_in_the_fewest_steps() {
    let attack = explore(&Jugs { wanted: 4 }, 10).expect_err("it can be measured");
    assert_eq!(attack.steps.len(), 6, "{attack}");
    assert_eq!(attack.steps[0], Step::Fill(1), "{attack}");
    assert_eq!(
        explore(&Jugs { wanted: 4 }, 5).map(|it| it.complete),
        Ok(false)
    );
}

#[test]
fn what_can_not_happen_is_shown_by_all_states() {
    let explored = explore(&Jugs { wanted: 9 }, 100).expect("nothing holds that much");
    // At least one of the jugs is full or empty: 2 · 6 + 2 · 4 − 4.
    assert_eq!((explored.states, explored.complete), (16, true));
    assert!(explored.depth < 100);
}

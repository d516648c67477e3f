//! Explores a model's states breadth first, for tests: every state within some steps, each once,
//! the shortest way first.
//!
//! It owns the search and nothing of any model. A model stands beside the code that it is about and
//! calls that code, whose states often can't be copied (keys, senders): so a state is known by the
//! steps that lead to it, and is made anew by taking them again. A model says which states are
//! alike by their [key](Model::key), so that names and orders that don't matter aren't explored
//! twice.
//!
//! Why not the crate `stateright`: 0.31 brings 45 further crates (among them an HTTP server for its
//! explorer), which take 17 s of processor time to build, and its states have to be `Clone`, so a
//! model would have to repeat rules instead of calling the code that has them.

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What can happen, and what must not.
pub trait Model {
    /// Everything that matters to what happens next.
    type State;
    /// A step of an end, the network or an attacker.
    type Step: Clone + fmt::Debug;
    /// Stands for a state: states with equal keys have the same future.
    type Key: Hash;

    /// The first state; always the same one.
    fn start(&self) -> Self::State;

    /// What can happen next.
    fn steps(&self, state: &Self::State) -> Vec<Self::Step>;

    /// Lets it happen. The same steps always lead to the same state.
    ///
    /// # Errors
    /// A property is violated: in words.
    fn take(&self, state: &mut Self::State, step: &Self::Step) -> Result<(), String>;

    /// What the state is known by.
    fn key(&self, state: &Self::State) -> Self::Key;
}

/// What was explored without finding anything.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Explored {
    /// States that differ.
    pub states: usize,
    /// Steps from the first state to the farthest ones.
    pub depth: usize,
    /// There are no others: more steps would lead to none.
    pub complete: bool,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = if self.complete { ", all there are" } else { "" };
        write!(f, "{} states, {} steps deep{rest}", self.states, self.depth)
    }
}

/// A property that doesn't hold, and the fewest steps that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attack<S> {
    /// Which property, in words.
    pub property: String,
    /// What happens.
    pub steps: Vec<S>,
}

impl<S: fmt::Debug> fmt::Display for Attack<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}:", self.property)?;
        let mut steps = self.steps.iter().enumerate();
        steps.try_for_each(|(at, step)| writeln!(f, "  {}. {step:?}", at + 1))
    }
}

/// A state by how it is reached: the state before, and the step from there.
struct Reached<S> {
    from: usize,
    step: Option<S>,
}

/// Explores every state within `depth` steps of the first one.
///
/// # Errors
/// The first property that a step violates, and how to get there.
pub fn explore<M: Model>(model: &M, depth: usize) -> Result<Explored, Attack<M::Step>> {
    let mut reached = vec![Reached {
        from: 0,
        step: None,
    }];
    let mut seen = HashSet::from([fingerprint(&model.key(&model.start()))]);
    // States as many steps away as the round has begun.
    let mut front = 0..1;
    for round in 0..depth {
        for at in front.clone() {
            let before = way(&reached, at);
            for step in model.steps(&again(model, &before)) {
                let mut state = again(model, &before);
                if let Err(property) = model.take(&mut state, &step) {
                    let steps = before.iter().cloned().chain([step]).collect();
                    return Err(Attack { property, steps });
                }
                if seen.insert(fingerprint(&model.key(&state))) {
                    let step = Some(step);
                    reached.push(Reached { from: at, step });
                }
            }
        }
        front = front.end..reached.len();
        if front.is_empty() {
            return Ok(Explored {
                states: reached.len(),
                depth: round,
                complete: true,
            });
        }
    }
    Ok(Explored {
        states: reached.len(),
        depth,
        complete: false,
    })
}

/// Asserts that no property is violated within `depth` steps, and prints what was explored.
#[expect(
    clippy::print_stdout,
    reason = "shown by tests that fail, or with --nocapture"
)]
pub fn assert_holds<M: Model>(name: &str, model: &M, depth: usize) {
    match explore(model, depth) {
        Ok(explored) => println!("{name}: {explored}"),
        Err(attack) => panic!("{name}: {attack}"),
    }
}

/// Asserts that this property is violated within `depth` steps, and prints how.
#[expect(
    clippy::print_stdout,
    reason = "shown by tests that fail, or with --nocapture"
)]
pub fn assert_broken<M: Model>(name: &str, model: &M, depth: usize, property: &str) {
    match explore(model, depth) {
        Ok(explored) => panic!("{name}: no attack was found in {explored}"),
        Err(attack) => {
            println!("{name}: {attack}");
            assert_eq!(attack.property, property);
        }
    }
}

/// The steps that lead to a state.
fn way<S: Clone>(reached: &[Reached<S>], mut at: usize) -> Vec<S> {
    let mut steps = Vec::new();
    while let Some(step) = &reached[at].step {
        steps.push(step.clone());
        at = reached[at].from;
    }
    steps.reverse();
    steps
}

/// The state that these steps lead to.
fn again<M: Model>(model: &M, steps: &[M::Step]) -> M::State {
    let mut state = model.start();
    for step in steps {
        let taken = model.take(&mut state, step);
        assert_eq!(taken, Ok(()), "the model isn't deterministic: {step:?}");
    }
    state
}

/// 128 bits: two of a billion states have the same with a chance of 10⁻²¹.
fn fingerprint(key: &impl Hash) -> (u64, u64) {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, key).hash(&mut hasher);
        hasher.finish()
    };
    (half(0), half(1))
}

#[cfg(test)]
mod tests;

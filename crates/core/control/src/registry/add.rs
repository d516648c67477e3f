//! Laws that a program adds to the registry at run time.

use super::error::{LawError, shortened};
use crate::capabilities::Capabilities;
use crate::coupled::Coupled;
use crate::law::Law;
use crate::laws::{self, AnyController, Entry, Fluid};
use crate::options::Options;

/// Most letters of a name.
const MAX_NAME: usize = 64;

/// Adds a law to the registry of this process, for prototypes: from here on its name is one of a
/// law without parameters, in scenarios too. `make` gets the name and makes the law of one
/// connection, which [`Coupled`] runs. Such a law has no fluid form.
///
/// It stays until the process ends.
///
/// # Errors
/// [`LawError::Name`] if the name isn't of small letters, digits and hyphens with a letter first,
/// and [`LawError::Taken`] if a law has it already.
pub fn add<M>(name: &str, about: &str, make: M) -> Result<(), LawError>
where
    M: Fn(&'static str) -> Box<dyn Law> + Send + Sync + 'static,
{
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !begins || !name.chars().all(fits) || name.len() > MAX_NAME {
        let name = shortened(name);
        return Err(LawError::Name { name });
    }
    let entry = |name: &'static str| Entry {
        name,
        about: Box::leak(about.into()),
        parameters: &[],
        capabilities: Capabilities::LOSS,
        controller: Box::leak(Box::new(move |_: &[f64], options: &Options| {
            Ok(AnyController::Added(Coupled::new(make(name), *options)))
        })),
        fluid: |_| Fluid::None { nearest: "reno" },
        path_manager: None,
    };
    laws::add(name, entry).map_err(|taken| LawError::Taken { law: taken.name })
}

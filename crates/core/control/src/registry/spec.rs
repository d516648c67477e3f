//! A law with its parameters, checked: what everybody passes on instead of a name.

use std::fmt::{self, Debug, Display};
use std::str::FromStr;

use super::error::{LawError, nearest_of, shortened};
use crate::capabilities::Capabilities;
use crate::laws::{AnyController, AnyLaw, Entry, Fluid, entries};
use crate::options::Options;
use crate::parameter::Parameter;
use crate::paths::ManagerConfig;

/// A law with its parameters, checked, and what it can do. Parse it where text comes in, and pass
/// it on: whoever needs to know something about a law asks its specification, not its name.
///
/// Its text form is `name` or `name:key=value,key=value`, and parameters that are not named have
/// their defaults: `ewtcp`, `ewtcp:a=0.25`. [`Display`] names those only that differ from the
/// default, so that equal specifications have equal text.
///
/// ```
/// use manyway_control::LawSpec;
/// let mpath: LawSpec = "mpath:beta=0.1".parse()?;
/// assert_eq!(mpath.to_string(), "mpath:beta=0.1");
/// assert!(!mpath.capabilities().paced);
/// assert!(mpath.path_manager().is_some());
/// # Ok::<(), manyway_control::LawError>(())
/// ```
#[derive(Clone)]
pub struct LawSpec {
    entry: &'static Entry,
    /// One for each of the entry's parameters.
    values: Vec<f64>,
}

/// `auto`, adaptive coupling: what a connection runs unless somebody chooses.
impl Default for LawSpec {
    fn default() -> Self {
        Self::known("auto")
    }
}

impl LawSpec {
    /// The law `name` with some of its parameters chosen.
    ///
    /// # Errors
    /// [`LawError`] if there is no such law, if it has no such parameter, if a parameter comes
    /// twice or is out of its range, or if the parameters don't fit together.
    pub fn new(
        name: &str,
        parameters: impl IntoIterator<Item = (String, f64)>,
    ) -> Result<Self, LawError> {
        let mut builder = Builder::new(name)?;
        for (key, value) in parameters {
            let index = builder.index(&key)?;
            builder.set(index, value)?;
        }
        builder.finish()
    }

    /// `background`, for transfers to which everything else comes first.
    pub fn background() -> Self {
        Self::known("background")
    }

    /// LIA, of RFC 6356.
    pub fn lia() -> Self {
        Self::known("lia")
    }

    /// Reno, the baseline.
    pub fn reno() -> Self {
        Self::known("reno")
    }

    /// mPath, for a direct path and many through relays.
    pub fn mpath() -> Self {
        Self::known("mpath")
    }

    fn known(name: &str) -> Self {
        Self::new(name, []).expect("a name of the registry, and defaults")
    }

    /// Every law of the registry with its defaults, in the order in which to list them.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        entries().map(|entry| LawSpec {
            entry,
            values: entry.parameters.iter().map(|p| p.default).collect(),
        })
    }

    /// The law's name.
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// A line about the law.
    pub fn about(&self) -> &'static str {
        self.entry.about
    }

    /// All parameters with their values, the defaults included.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static Parameter, f64)> {
        self.entry
            .parameters
            .iter()
            .zip(self.values.iter().copied())
    }

    /// What the law needs from its surroundings.
    pub fn capabilities(&self) -> Capabilities {
        self.entry.capabilities
    }

    /// A controller without paths.
    pub fn controller(&self, options: &Options) -> AnyController {
        (self.entry.controller)(&self.values, options)
            .expect("checked when the specification was made")
    }

    /// The law as a fluid model sees it.
    pub fn fluid(&self) -> Fluid {
        (self.entry.fluid)(&self.values)
    }

    /// The window law, on any scalar; `None` where the controller keeps a state of its own.
    pub fn window_law(&self) -> Option<AnyLaw> {
        match self.fluid() {
            Fluid::Window(law) => Some(law),
            Fluid::Delay { .. } | Fluid::None { .. } => None,
        }
    }

    /// Settings for the path manager that decides which of the connection's relayed paths are open;
    /// `None` if the law comes without one and uses all the paths it is given.
    pub fn path_manager(&self) -> Option<ManagerConfig> {
        Some((self.entry.path_manager?)(&self.values))
    }
}

impl PartialEq for LawSpec {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.values == other.values
    }
}

impl Debug for LawSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LawSpec")
            .field(&format_args!("{self}"))
            .finish()
    }
}

impl Display for LawSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let chosen = self.entry.parameters.iter().zip(&self.values);
        let chosen = chosen.filter(|(parameter, value)| parameter.default != **value);
        for (i, (parameter, value)) in chosen.enumerate() {
            let separator = if i == 0 { ':' } else { ',' };
            write!(f, "{separator}{}={value}", parameter.key)?;
        }
        Ok(())
    }
}

impl FromStr for LawSpec {
    type Err = LawError;

    fn from_str(text: &str) -> Result<Self, LawError> {
        let (name, parameters) = match text.split_once(':') {
            Some((name, parameters)) => (name, Some(parameters)),
            None => (text, None),
        };
        let mut builder = Builder::new(name)?;
        for part in parameters.into_iter().flat_map(|list| list.split(',')) {
            let (key, value) = part.split_once('=').ok_or_else(|| LawError::NotAssigned {
                law: builder.entry.name,
                text: shortened(part),
                known: builder.entry.parameters,
            })?;
            let index = builder.index(key.trim())?;
            let value = value.trim();
            let number = value.parse().map_err(|_| LawError::NotANumber {
                law: builder.entry.name,
                parameter: &builder.entry.parameters[index],
                text: shortened(value),
            })?;
            builder.set(index, number)?;
        }
        builder.finish()
    }
}

struct Builder {
    entry: &'static Entry,
    values: Vec<Option<f64>>,
}

impl Builder {
    fn new(name: &str) -> Result<Self, LawError> {
        let name = name.trim();
        let entry =
            entries()
                .find(|entry| entry.name == name)
                .ok_or_else(|| LawError::Unknown {
                    name: shortened(name),
                    suggestion: nearest_of(name, entries().map(|entry| entry.name)),
                })?;
        Ok(Builder {
            entry,
            values: vec![None; entry.parameters.len()],
        })
    }

    fn index(&self, key: &str) -> Result<usize, LawError> {
        let keys = self.entry.parameters.iter().map(|parameter| parameter.key);
        keys.clone()
            .position(|known| known == key)
            .ok_or_else(|| LawError::UnknownParameter {
                law: self.entry.name,
                key: shortened(key),
                suggestion: nearest_of(key, keys),
                known: self.entry.parameters,
            })
    }

    fn set(&mut self, index: usize, value: f64) -> Result<(), LawError> {
        let law = self.entry.name;
        let parameter = &self.entry.parameters[index];
        if !parameter.range.contains(value) {
            return Err(LawError::OutOfRange {
                law,
                parameter,
                value,
            });
        }
        if self.values[index].replace(value).is_some() {
            let key = parameter.key;
            return Err(LawError::Twice { law, key });
        }
        Ok(())
    }

    fn finish(self) -> Result<LawSpec, LawError> {
        let law = self.entry.name;
        let defaults = self.entry.parameters.iter().map(|p| p.default);
        let chosen = self.values.into_iter().zip(defaults);
        let values: Vec<f64> = chosen
            .map(|(value, default)| value.unwrap_or(default))
            .collect();
        (self.entry.controller)(&values, &Options::default())
            .map_err(|reason| LawError::Inconsistent { law, reason })?;
        Ok(LawSpec {
            entry: self.entry,
            values,
        })
    }
}

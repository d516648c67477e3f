use std::fmt::{self, Debug, Display};
use std::str::FromStr;

use super::{AnyController, AnyLaw, Entry, Parameter, UnknownLaw, find, nearest_of, shortened};
use crate::law::Law;
use crate::options::Options;

/// A law by name with its parameters, checked.
///
/// Its text form is `name` or `name:key=value,key=value`, and parameters that are not named have
/// their defaults: `ewtcp`, `ewtcp:a=0.25`. [`Display`] names those only that differ from the
/// default, so that equal specifications have equal text.
///
/// ```
/// use manyway_control::registry::LawSpec;
/// let lia: LawSpec = "lia".parse()?;
/// assert_eq!(lia.name(), "lia");
/// assert_eq!(lia.to_string(), "lia");
/// # Ok::<(), manyway_control::LawError>(())
/// ```
#[derive(Clone)]
pub struct LawSpec {
    entry: &'static Entry,
    /// One for each of the entry's parameters.
    values: Vec<f64>,
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

    /// The law's name.
    pub fn name(&self) -> &'static str {
        self.entry.name
    }

    /// All parameters with their values, the defaults included.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let keys = self.entry.parameters.iter().map(|parameter| parameter.key);
        keys.zip(self.values.iter().copied())
    }

    /// A controller without paths.
    pub fn controller(&self, options: &Options) -> AnyController {
        (self.entry.controller)(&self.values, options)
            .expect("checked when the specification was made")
    }

    /// The window law, on any scalar; `None` where the controller keeps a state of its own.
    pub fn window_law(&self) -> Option<AnyLaw> {
        self.entry.law.map(|make| make(&self.values))
    }

    /// The window law on `f64`, as an object; `None` where the controller keeps a state of its own.
    pub fn law(&self) -> Option<Box<dyn Law>> {
        let law = self.window_law()?;
        Some(Box::new(law))
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
        let entry = find(name.trim())?;
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

/// A law that can't be had as it was asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LawError {
    /// There is no such law.
    #[error(transparent)]
    Unknown(#[from] UnknownLaw),
    /// The law has no such parameter.
    #[error("{law} has no parameter {key:?}{}; {}", super::hint(.suggestion), takes(.known))]
    UnknownParameter {
        /// The law.
        law: &'static str,
        /// The key asked for.
        key: String,
        /// The key nearest to it, if one is near.
        suggestion: Option<&'static str>,
        /// What the law takes.
        known: &'static [Parameter],
    },
    /// A parameter is out of its range.
    #[error("{law}: {} = {value} is out of range; allowed is {}", .parameter.key, .parameter.range)]
    OutOfRange {
        /// The law.
        law: &'static str,
        /// The parameter.
        parameter: &'static Parameter,
        /// The value asked for.
        value: f64,
    },
    /// A parameter's value is not a number.
    #[error("{law}: {} = {text:?} is not a number; allowed is \
        {}", .parameter.key, .parameter.range)]
    NotANumber {
        /// The law.
        law: &'static str,
        /// The parameter.
        parameter: &'static Parameter,
        /// What stands in the place of the number.
        text: String,
    },
    /// A parameter is given more than once.
    #[error("{law}: {key} is given twice; give it once")]
    Twice {
        /// The law.
        law: &'static str,
        /// The parameter's key.
        key: &'static str,
    },
    /// The parameters are in range one by one, but not together.
    #[error("{law}: {reason}")]
    Inconsistent {
        /// The law.
        law: &'static str,
        /// What doesn't fit, and how to mend it.
        reason: String,
    },
    /// Something behind the colon is not an assignment.
    #[error("{law}: {text:?} is not of the form key=value; write {}", example(.law, .known))]
    NotAssigned {
        /// The law.
        law: &'static str,
        /// What stands in the place of the assignment.
        text: String,
        /// What the law takes.
        known: &'static [Parameter],
    },
}

fn takes(known: &[Parameter]) -> String {
    if known.is_empty() {
        return "it takes none".to_owned();
    }
    let known: Vec<String> = known
        .iter()
        .map(|p| format!("{} ({})", p.key, p.range))
        .collect();
    format!("it takes {}", known.join(", "))
}

/// The law with its defaults written out.
fn example(law: &str, known: &[Parameter]) -> String {
    if known.is_empty() {
        return law.to_owned();
    }
    let known: Vec<String> = known
        .iter()
        .map(|p| format!("{}={}", p.key, p.default))
        .collect();
    format!("{law}:{}", known.join(","))
}

//! Links of the demo, as the command line names them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use manyway_network::LinkConfig;
use manyway_units::{Rate, format_duration, parse_duration};

/// A link with the same rate and delay both ways and a DropTail queue of one bandwidth-delay
/// product.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LinkSpec {
    rate: Rate,
    pub(crate) delay: Duration,
}

impl LinkSpec {
    pub(crate) fn rate(&self) -> f64 {
        self.rate.bits_per_sec()
    }

    /// Bytes of a file that pass in this time: the rate less headers and a start.
    pub(crate) fn carries_in(&self, time: Duration) -> u64 {
        (self.rate.bytes_per_sec() * time.as_secs_f64() * 0.95) as u64
    }

    /// Each direction of the link.
    pub(crate) fn config(&self) -> LinkConfig {
        LinkConfig::new(self.rate, self.delay)
    }
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.rate, format_duration(self.delay))
    }
}

/// `40 Mbps/10 ms + 20 Mbps/40 ms`.
pub(crate) fn list(links: &[LinkSpec]) -> String {
    let names: Vec<String> = links.iter().map(LinkSpec::to_string).collect();
    names.join(" + ")
}

/// The index of the fastest link; of equals, the one with the smallest delay.
pub(crate) fn best(links: &[LinkSpec]) -> Option<usize> {
    let order =
        |a: &LinkSpec, b: &LinkSpec| a.rate().total_cmp(&b.rate()).then(b.delay.cmp(&a.delay));
    (0..links.len()).max_by(|a, b| order(&links[*a], &links[*b]))
}

/// Text that isn't a link.
#[derive(Debug, thiserror::Error)]
#[error("{problem}: a link is RATE/DELAY, e.g. 40Mbps/10ms")]
pub(crate) struct ParseLinkError {
    problem: String,
}

impl FromStr for LinkSpec {
    type Err = ParseLinkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let problem = |problem: &dyn fmt::Display| ParseLinkError {
            problem: problem.to_string(),
        };
        // From the right: a rate may have a slash of its own (MB/s).
        let (rate, delay) = text.rsplit_once('/').ok_or_else(|| problem(&"no slash"))?;
        let link = Self {
            rate: rate.trim().parse().map_err(|error| problem(&error))?,
            delay: parse_duration(delay.trim()).map_err(|error| problem(&error))?,
        };
        link.config().validate().map_err(|error| problem(&error))?;
        Ok(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_as_people_write_them() {
        let link: LinkSpec = "40Mbps/10ms".parse().unwrap();
        assert_eq!((link.rate(), link.delay), (40e6, Duration::from_millis(10)));
        let link: LinkSpec = "2.5 MB/s / 40 ms".parse().unwrap();
        assert_eq!((link.rate(), link.delay), (20e6, Duration::from_millis(40)));
        assert_eq!(list(&[link, link]), "20 Mbps/40 ms + 20 Mbps/40 ms");
        let links = ["20Mbps/40ms", "40Mbps/20ms", "40Mbps/10ms"].map(|link| link.parse().unwrap());
        assert_eq!(best(&links), Some(2));
        for wrong in ["", "40Mbps", "40Mbps/", "/10ms", "0Mbps/10ms", "x/10ms"] {
            let error = wrong.parse::<LinkSpec>().unwrap_err();
            assert!(error.to_string().contains("RATE/DELAY"), "{error}");
        }
    }
}

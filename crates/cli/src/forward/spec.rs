//! What to forward, as `ssh` writes it: `[BIND:]PORT:HOST:PORT` and `[BIND:]PORT`.

use std::fmt;
use std::str::FromStr;

use manyway_wire::forward::Target;

/// The address to listen on if none is given.
const LOCALHOST: &str = "localhost";

/// `-L` and `-R`: an address to listen on, and the target of the connections that come there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forward {
    pub(super) listen: Target,
    pub(super) target: Target,
}

/// `-D`: an address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bind(pub(super) Target);

/// Text that is no [`Forward`].
#[derive(Debug, thiserror::Error)]
#[error(
    "this is not [BIND:]PORT:HOST:PORT, such as 8080:localhost:80 or \
     [::1]:8080:[2001:db8::1]:80; BIND is an address or localhost, 0.0.0.0 for all of IPv4"
)]
pub(crate) struct ForwardError;

/// Text that is no [`Bind`].
#[derive(Debug, thiserror::Error)]
#[error("this is not [BIND:]PORT, such as 1080 or 127.0.0.1:1080; BIND is an address or localhost")]
pub(crate) struct BindError;

/// Parts between colons that aren't within brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut within = false;
    let colon = |c: char| {
        within = match c {
            '[' => true,
            ']' => false,
            _ => within,
        };
        c == ':' && !within
    };
    text.split(colon).collect()
}

fn target(host: &str, port: &str) -> Option<Target> {
    format!("{host}:{port}").parse().ok()
}

/// An address of a host, or `localhost`: other names may have several.
fn bind(host: &str, port: &str) -> Option<Target> {
    let bind = target(host, port)?;
    let address = bind.host().parse::<std::net::IpAddr>().is_ok();
    (address || bind.host() == LOCALHOST).then_some(bind)
}

impl FromStr for Forward {
    type Err = ForwardError;

    fn from_str(text: &str) -> Result<Self, ForwardError> {
        let (listen, target) = match *parts(text) {
            [port, to, at] => (bind(LOCALHOST, port), target(to, at)),
            [host, port, to, at] => (bind(host, port), target(to, at)),
            _ => (None, None),
        };
        match (listen, target) {
            // Nobody listens on port 0; an address to listen on gets a free port for it.
            (Some(listen), Some(target)) if target.port() > 0 => Ok(Self { listen, target }),
            _ => Err(ForwardError),
        }
    }
}

impl FromStr for Bind {
    type Err = BindError;

    fn from_str(text: &str) -> Result<Self, BindError> {
        let bind = match *parts(text) {
            [port] => bind(LOCALHOST, port),
            [host, port] => bind(host, port),
            _ => None,
        };
        bind.map(Self).ok_or(BindError)
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.listen, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_written_as_for_ssh() {
        for (text, shown) in [
            ("8080:localhost:80", "localhost:8080 → localhost:80"),
            (
                "0.0.0.0:8080:example.org:80",
                "0.0.0.0:8080 → example.org:80",
            ),
            ("[::1]:1:[2001:db8::1]:2", "[::1]:1 → [2001:db8::1]:2"),
            ("0:[::1]:2", "localhost:0 → [::1]:2"),
        ] {
            assert_eq!(text.parse::<Forward>().unwrap().to_string(), shown);
        }
        for wrong in [
            "",
            "8080",
            "8080:80",
            "8080:localhost:x",
            "8080:localhost:0",
            "x:localhost:80",
            "::1:8080:localhost:80",
            "[::1:8080:localhost:80",
            "example.org:8080:localhost:80",
            "1:2:3:4:5",
            "8080::80",
        ] {
            assert!(wrong.parse::<Forward>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_port_alone_is_that_of_localhost() {
        let shown = |text: &str| text.parse::<Bind>().map(|Bind(bind)| bind.to_string());
        assert_eq!(shown("1080").unwrap(), "localhost:1080");
        assert_eq!(shown("[::1]:1080").unwrap(), "[::1]:1080");
        for wrong in ["", "x", "example.org:1", "1:2:3", "70000"] {
            assert!(shown(wrong).is_err(), "{wrong:?}");
        }
    }
}

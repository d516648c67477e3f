use std::fmt;
use std::str::FromStr;

use manyway_wire::relay::RelayId;

/// A registry's address: `https://HOST[:PORT][/][#KEY]`. With a key, only a registry that has it is
/// authentic, whatever certificates say. Without one, the system has to trust the host's
/// certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryUrl {
    /// Name or IP address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its key, if the URL has one.
    pub pin: Option<RelayId>,
}

/// The default port.
pub const PORT: u16 = 45180;

/// Why a text isn't a registry's URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It has another scheme.
    #[error("a registry's URL begins with https://")]
    Scheme,
    /// Its host is invalid.
    #[error(
        "the URL's host isn't a name or an address, as in https://registry.example:45180 or \
         https://[2001:db8::1]:45180"
    )]
    Host,
    /// Its port is invalid.
    #[error("the URL's port isn't a number from 1 to 65535")]
    Port,
    /// It has a path or more.
    #[error("a registry's URL has no path: https://HOST:PORT#KEY is all")]
    Path,
    /// The part after # isn't a key.
    #[error("what follows # isn't the registry's key, 52 letters and digits: copy the URL again")]
    Key,
}

impl FromStr for RegistryUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let rest = text
            .trim()
            .strip_prefix("https://")
            .ok_or(UrlError::Scheme)?;
        let (rest, pin) = match rest.split_once('#') {
            Some((rest, key)) => (rest, Some(key.parse().map_err(|_| UrlError::Key)?)),
            None => (rest, None),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '@']) {
            return Err(UrlError::Path);
        }
        let (host, port) = split(rest)?;
        Ok(Self { host, port, pin })
    }
}

fn split(rest: &str) -> Result<(String, u16), UrlError> {
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or(UrlError::Host)?;
            host.parse::<std::net::Ipv6Addr>()
                .map_err(|_| UrlError::Host)?;
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or(UrlError::Port)?),
            };
            (host, port)
        }
        None => match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '_');
    if host.is_empty() || host.len() > 253 || !host.chars().all(good) {
        return Err(UrlError::Host);
    }
    let port = match port {
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or(UrlError::Port)?,
        None => PORT,
    };
    Ok((host.to_owned(), port))
}

impl fmt::Display for RegistryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "https://[{}]:{}", self.host, self.port)?,
            false => write!(f, "https://{}:{}", self.host, self.port)?,
        }
        match &self.pin {
            Some(pin) => write!(f, "#{pin}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_written() {
        let pin = RelayId([7; 32]);
        for (text, again) in [
            ("https://a.example", "https://a.example:45180".to_owned()),
            (" https://192.0.2.1:1/ ", "https://192.0.2.1:1".to_owned()),
            (
                &format!("https://[2001:db8::1]:5/#{pin}"),
                format!("https://[2001:db8::1]:5#{pin}"),
            ),
        ] {
            let url: RegistryUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), again);
            assert_eq!(again.parse(), Ok(url));
        }
        for (text, error) in [
            ("http://a", UrlError::Scheme),
            ("https://", UrlError::Host),
            ("https://[::g]", UrlError::Host),
            ("https://a b", UrlError::Host),
            ("https://a:0", UrlError::Port),
            ("https://a:70000", UrlError::Port),
            ("https://a/b", UrlError::Path),
            ("https://me@a", UrlError::Path),
            ("https://a#b", UrlError::Key),
        ] {
            assert_eq!(text.parse::<RegistryUrl>(), Err(error), "{text}");
        }
    }
}

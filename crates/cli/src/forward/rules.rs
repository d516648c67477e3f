//! What a user lets the holders of a ticket do.

use std::fmt;
use std::str::FromStr;

use manyway_wire::forward::Target;

/// `--allow`: a target, or `*` in place of its host or port, which stands for any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    host: Option<String>,
    port: Option<u16>,
}

/// Text that is no rule.
#[derive(Debug, thiserror::Error)]
#[error("this is not HOST:PORT, such as localhost:22, 192.0.2.1:*, *:443 or [2001:db8::1]:80")]
pub(crate) struct RuleError;

/// Text that is no [`ListenRule`].
#[derive(Debug, thiserror::Error)]
#[error("this is not [BIND:]PORT, such as 8080, 192.0.2.1:8080, [::1]:8080 or 0.0.0.0:*")]
pub(crate) struct ListenRuleError;

impl Rule {
    /// Does it allow this target? Names are compared as text: `localhost` isn't 127.0.0.1.
    fn allows(&self, target: &Target) -> bool {
        let host = self.host.as_ref().is_none_or(|host| host == target.host());
        host && self.port.is_none_or(|port| port == target.port())
    }

    /// The only target that it allows, if that is so.
    fn only(&self) -> Option<Target> {
        Target::new(self.host.as_ref()?, self.port?).ok()
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (host, port) = text.rsplit_once(':').ok_or(RuleError)?;
        let any_host = host == "*";
        let any_port = port == "*";
        // A stand-in lets the rest be checked as a target's.
        let host_text = if any_host { "any" } else { host };
        let port_text = if any_port { "1" } else { port };
        let target = format!("{host_text}:{port_text}");
        let target: Target = target.parse().map_err(|_| RuleError)?;
        Ok(Self {
            host: (!any_host).then(|| target.host().to_owned()),
            port: (!any_port).then(|| target.port()),
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(target) = self.only() {
            return target.fmt(f);
        }
        match &self.host {
            Some(host) if host.contains(':') => write!(f, "[{host}]:*"),
            Some(host) => write!(f, "{host}:*"),
            None => match self.port {
                Some(port) => write!(f, "*:{port}"),
                None => f.write_str("*:*"),
            },
        }
    }
}

/// `--allow-listen`: as [`Rule`], of the addresses of this host; a port alone is that of 127.0.0.1,
/// which `localhost` means here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenRule(Rule);

impl FromStr for ListenRule {
    type Err = ListenRuleError;

    fn from_str(text: &str) -> Result<Self, ListenRuleError> {
        let rule = match text.contains(':') {
            true => text.parse(),
            false => format!("localhost:{text}").parse(),
        };
        let rule: Rule = rule.map_err(|_: RuleError| ListenRuleError)?;
        let host = rule.host.map(|host| here(&host).to_owned());
        Ok(Self(Rule { host, ..rule }))
    }
}

impl ListenRule {
    fn allows(&self, at: &Target) -> bool {
        let at = Target::new(here(at.host()), at.port());
        at.is_ok_and(|at| self.0.allows(&at))
    }
}

/// One name for the loopback address.
fn here(host: &str) -> &str {
    match host {
        "127.0.0.1" => "localhost",
        host => host,
    }
}

/// What is let through.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) connect: Vec<Rule>,
    pub(super) listen: Vec<ListenRule>,
}

impl Rules {
    /// The target of those who name none: the first one.
    pub(super) fn default_target(&self) -> Option<Target> {
        self.connect.first()?.only()
    }

    pub(super) fn may_connect(&self, target: &Target) -> bool {
        self.connect.iter().any(|rule| rule.allows(target))
    }

    pub(super) fn may_listen(&self, at: &Target) -> bool {
        self.listen.iter().any(|rule| rule.allows(at))
    }

    /// What `who` can do by them.
    pub(super) fn words(&self, who: &str) -> String {
        let list = |rules: &mut dyn Iterator<Item = String>| rules.collect::<Vec<_>>().join(", ");
        let connect = list(&mut self.connect.iter().map(Rule::to_string));
        let listen = list(&mut self.listen.iter().map(|ListenRule(rule)| rule.to_string()));
        match (connect.is_empty(), listen.is_empty()) {
            (false, false) => format!("{who} can connect to {connect} and listen on {listen}"),
            (_, true) => format!("{who} can connect to {connect}"),
            (true, _) => format!("{who} can listen on {listen}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    fn allows(text: &str, target: &str) -> bool {
        rule(text).allows(&target.parse().unwrap())
    }

    #[test]
    fn a_rule_allows_what_it_says_and_nothing_else() {
        assert!(allows("localhost:22", "LOCALHOST:22"));
        assert!(!allows("localhost:22", "localhost:23"));
        assert!(!allows("localhost:22", "127.0.0.1:22"));
        assert!(!allows("localhost:22", "xlocalhost:22"));
        assert!(allows("192.0.2.1:*", "192.0.2.1:9"));
        assert!(!allows("192.0.2.1:*", "192.0.2.2:9"));
        assert!(allows("*:443", "example.org:443"));
        assert!(!allows("*:443", "example.org:80"));
        assert!(allows("*:*", "[2001:db8::1]:1"));
        assert!(allows("[2001:DB8::1]:*", "[2001:db8:0::1]:1"));
    }

    #[test]
    fn rules_are_shown_as_they_are_written() {
        for text in [
            "localhost:22",
            "*:443",
            "*:*",
            "192.0.2.1:*",
            "[2001:db8::1]:*",
        ] {
            assert_eq!(rule(text).to_string(), text);
        }
        for wrong in [
            "",
            "*",
            "22",
            "localhost",
            "localhost:",
            "2001:db8::1:*",
            "a b:1",
            "*:x",
        ] {
            assert!(wrong.parse::<Rule>().is_err(), "{wrong}");
        }
        let told = "abc".parse::<ListenRule>().unwrap_err().to_string();
        assert!(told.contains("not [BIND:]PORT"), "{told}");
    }

    #[test]
    fn a_port_alone_is_that_of_this_host() {
        let rules = Rules {
            connect: Vec::new(),
            listen: vec!["8080".parse().unwrap(), "0.0.0.0:*".parse().unwrap()],
        };
        let may = |text: &str| rules.may_listen(&text.parse().unwrap());
        assert!(may("localhost:8080") && may("127.0.0.1:8080") && may("0.0.0.0:1"));
        assert!(!may("localhost:8081") && !may("192.0.2.1:8080"));
        assert_eq!(
            rules.words("Whoever has the ticket"),
            "Whoever has the ticket can listen on localhost:8080, 0.0.0.0:*"
        );
    }

    #[test]
    fn to_listen_localhost_and_its_address_are_one() {
        for (rule, at) in [
            ("127.0.0.1:8080", "localhost:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("127.0.0.1:*", "localhost:1"),
        ] {
            let rule: ListenRule = rule.parse().unwrap();
            assert!(rule.allows(&at.parse().unwrap()), "{rule:?} {at}");
        }
    }

    #[test]
    fn the_default_target_is_the_first_and_exact() {
        let rules = |connect: &[&str]| Rules {
            connect: connect.iter().map(|text| rule(text)).collect(),
            listen: vec!["1".parse().unwrap()],
        };
        let first = |connect: &[&str]| rules(connect).default_target().map(|t| t.to_string());
        assert_eq!(
            first(&["localhost:22", "*:*"]).as_deref(),
            Some("localhost:22")
        );
        assert_eq!(first(&["*:22"]), None);
        assert_eq!(
            rules(&["localhost:22", "*:80"]).words("Whoever uses the code"),
            "Whoever uses the code can connect to localhost:22, *:80 and listen on localhost:1"
        );
    }
}

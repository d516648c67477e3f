//! Holds the numbers of `docs/relays.md` to the code.

use std::path::Path;

use manyway_wire::relay::{
    CONSENT_LEN, CONSENT_LIFE, Consent, ForwardHeader, GRANT_LIFE, HELLO_INTERVAL, HELLO_LEN,
    LISTEN_LEN, ListenerName, MAX_RELAY_ADDRESSES, MINT_LEN, MINTED_MAX_LEN, Proof, REFUSED_LEN,
    RelayType, STALE_LEN, StreamType, VOUCHER_LEN,
};

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/relays.md");
    let text = std::fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn types_and_lengths() {
    let document = document();
    let (v4, v6) = (ForwardHeader::LEN_V4, ForwardHeader::LEN_V6);
    let shortest = MINTED_MAX_LEN - 2 * (v6 - v4);
    for (kind, name, length) in [
        (
            RelayType::Forward4,
            "FORWARD to IPv4",
            format!("{v4} and the packet"),
        ),
        (
            RelayType::Forward6,
            "FORWARD to IPv6",
            format!("{v6} and the packet"),
        ),
        (RelayType::Hello, "HELLO", HELLO_LEN.to_string()),
        (RelayType::Consent, "CONSENT", CONSENT_LEN.to_string()),
        (RelayType::Mint, "MINT", MINT_LEN.to_string()),
        (
            RelayType::Minted,
            "MINTED",
            format!("{shortest} to {MINTED_MAX_LEN}"),
        ),
        (RelayType::Stale, "STALE", STALE_LEN.to_string()),
        (RelayType::Listen, "LISTEN", LISTEN_LEN.to_string()),
        (RelayType::Refused, "REFUSED", REFUSED_LEN.to_string()),
    ] {
        let from = match kind {
            RelayType::Consent | RelayType::Minted | RelayType::Stale | RelayType::Refused => {
                "relay"
            }
            _ => "client",
        };
        let row = format!("| `{:#04x}` | {name} | {from} | {length} |", kind as u8);
        assert!(
            document.contains(&row),
            "docs/relays.md doesn't say {row:?}"
        );
    }
}

#[test]
fn sizes_and_times() {
    let document = document();
    for text in [
        format!("proof ({})", Proof::LEN),
        format!("the **consent** ({})", Consent::LEN),
        format!("voucher ({VOUCHER_LEN})"),
        format!("name ({})", ListenerName::LEN),
        format!("zeros ({}). **LISTEN**", HELLO_LEN - 41),
        format!("count (1, at most {MAX_RELAY_ADDRESSES})"),
        format!("at most {} s old", CONSENT_LIFE.as_secs()),
        format!("ends {} s after", GRANT_LIFE.as_secs()),
        format!("(every {} s", HELLO_INTERVAL.as_secs()),
        format!("at most {MINTED_MAX_LEN} for {MINT_LEN}"),
    ] {
        assert!(
            document.contains(&text),
            "docs/relays.md doesn't say {text:?}"
        );
    }
}

#[test]
fn types_and_lengths_over_tcp() {
    let document = document();
    for (kind, name, from) in [
        (StreamType::Hello, "HELLO", "client"),
        (StreamType::Welcome, "WELCOME", "relay"),
        (StreamType::Connect, "CONNECT", "client"),
        (StreamType::Listen, "LISTEN", "client"),
        (StreamType::Call, "CALL", "relay"),
        (StreamType::Answer, "ANSWER", "client"),
        (StreamType::Ok, "OK", "relay"),
        (StreamType::Refused, "REFUSED", "relay"),
        (StreamType::Ping, "PING", "both"),
        (StreamType::Leaving, "LEAVING", "relay"),
    ] {
        let len = kind.len();
        let row = format!("| `{:#04x}` | {name} | {from} | {len} |", kind as u8);
        assert!(
            document.contains(&row),
            "docs/relays.md doesn't say {row:?}"
        );
    }
}

//! What the fuzz targets in `fuzz/` run, and the test that replays their corpus. A registry reads
//! any input without a panic, and writes accepted input again as it was.

use std::net::SocketAddr;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::{
    AnswerOffer, AskVouchers, Call, EnrolClient, EnrolRelay, Listen, OpenMailbox, SendParcel,
    TakeOffer, WatchMailbox,
};
use crate::server::read;
use crate::{Code, Core, Limits, Problem, RegistryKey, RegistryUrl, Token, Tokens};

const TOKENS: &str = "relay r 0123456789abcdef0123\nclient c abcdefabcdefabcdefabcd 3\n";

/// A request: its first byte chooses the path, the next line is the bearer and the name, the rest
/// is the body.
pub fn request(bytes: &[u8]) {
    let Some((&path, rest)) = bytes.split_first() else {
        return;
    };
    let at = rest
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(rest.len());
    let head = String::from_utf8_lossy(&rest[..at]);
    let body = rest.get(at + 1..).unwrap_or_default();
    let mut core = core();
    let (now, from) = (
        Duration::from_secs(1_800_000_000),
        SocketAddr::from(([192, 0, 2, 1], 5)),
    );
    match path % 11 {
        0 => parsed::<EnrolRelay>(body, |body| {
            core.enrol_relay(now, from, &head, &body).map(drop)
        }),
        1 => parsed::<EnrolClient>(body, |body| {
            core.enrol_client(now, from, &head, &body).map(drop)
        }),
        2 => parsed::<AskVouchers>(body, |body| {
            core.vouchers(now, from, &head, &body).map(drop)
        }),
        3 => parsed::<Listen>(body, |body| {
            core.listen(now, from, &head, &head, &body).map(drop)
        }),
        4 => parsed::<Call>(body, |body| core.call(now, from, &head, &body).map(drop)),
        6 => parsed::<OpenMailbox>(body, |body| {
            core.open_mailbox(now, from, &head, &body).map(drop)
        }),
        7 => parsed::<TakeOffer>(body, |body| core.take_offer(now, from, 7, &body).map(drop)),
        8 => parsed::<AnswerOffer>(body, |body| core.answer_offer(now, from, 7, &body)),
        9 => parsed::<WatchMailbox>(body, |body| core.answer(now, 7, &body).map(drop)),
        10 => parsed::<SendParcel>(body, |body| core.reply(now, from, 7, &body)),
        _ => {
            assert!(
                core.open_lease(now, from, &head).is_err(),
                "nobody has a lease"
            );
        }
    }
}

/// A token file, a registry's URL, and a code.
pub fn text(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    Tokens::parse(text).ok();
    Token::from_text(text, crate::Role::Relay).ok();
    if let Ok(code) = text.parse::<Code>() {
        assert_eq!(code.to_string().parse(), Ok(code));
    }
    if let Ok(url) = text.parse::<RegistryUrl>() {
        assert_eq!(url.to_string().parse(), Ok(url));
    }
}

fn parsed<T: Serialize + DeserializeOwned + PartialEq>(
    body: &[u8],
    decide: impl FnOnce(T) -> Result<(), Problem>,
) {
    let Ok(value) = read::<T>(body) else { return };
    let again = serde_json::to_vec(&value).expect("our types are JSON");
    let again: T = serde_json::from_slice(&again).expect("we read what we write");
    assert!(again == value, "and it is the same");
    if let Err(problem) = decide(value) {
        assert!((400..=503).contains(&problem.status()));
    }
}

fn core() -> Core {
    let key = RegistryKey::generate(&mut ChaCha20Rng::seed_from_u64(1));
    let tokens = Tokens::parse(TOKENS).expect("they are right");
    Core::new(key, tokens, Limits::default(), [7; 32])
}

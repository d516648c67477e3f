//! Whether relays forward for us: this host connects with itself through each of them.

use std::time::Duration;

use manyway::relay::RelayTicket;
use manyway::{ConnectError, Endpoint, RelayAccess, RelayAddress};
use tokio::time::{Instant, sleep};

use super::report::{Kind, Report};
use crate::args::NetworkArgs;
use crate::close::DONE;
use crate::diagnosis::Diagnosis;
use crate::options;

/// How long a relay may take to answer the side that listens.
const REGISTRATION: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(20);

pub(super) async fn check(
    report: &mut Report,
    network: &NetworkArgs,
    relays: &[RelayTicket],
) -> anyhow::Result<()> {
    for relay in relays {
        let Some(address) = RelayAddress::of(relay).first().map(|relay| relay.address) else {
            continue;
        };
        let access = RelayAccess::of(relay);
        if access.is_empty() {
            report.problem(
                Kind::Relay,
                format!(
                    "the RELAY of {address} gives no access. Ask the relay's operator for one with \
                     access (`manyway relay --invite`)."
                ),
            );
            continue;
        }
        // Another port than the one of `--port`, which is taken.
        let network = NetworkArgs {
            port: 0,
            ..network.clone()
        };
        let listener = options::bind(&network).await?;
        let caller = options::bind(&network).await?;
        match through(&listener, &caller, relay, &access).await {
            Ok(rtt) => report.fine(
                Kind::Relay,
                format!(
                    "the relay {address} forwards for you, with a round-trip time of {:.1} ms",
                    rtt.as_secs_f64() * 1e3
                ),
            ),
            Err(ConnectError::TimedOut(seen)) => {
                tracing::info!("{seen}");
                report.problem(
                    Kind::Relay,
                    match Diagnosis::of(&seen) {
                        Diagnosis::NotAtRelay(at) => format!(
                            "the relay {at} answers, but nothing comes through it. Use another \
                             relay."
                        ),
                        other => other.to_string(),
                    },
                );
            }
            Err(error) => report.problem(Kind::Relay, format!("the relay {address}: {error}")),
        }
        caller.close().await;
        listener.close().await;
    }
    Ok(())
}

async fn through(
    listener: &Endpoint,
    caller: &Endpoint,
    relay: &RelayTicket,
    access: &[RelayAccess],
) -> Result<Duration, ConnectError> {
    let Ok(mut ticket) = listener.listen() else {
        return Err(ConnectError::Closed);
    };
    ticket.addresses.clear();
    listener.listen_at(&mut ticket, &RelayAddress::of(relay));
    // The relay knows the listener when it has told it its address.
    let until = Instant::now() + REGISTRATION;
    while listener.observed().is_empty() && Instant::now() < until {
        sleep(POLL).await;
    }
    let connection = caller.connect_through(&ticket, access).await?;
    let paths = connection.stats().paths;
    connection.close(DONE, "");
    Ok(paths.first().map_or(Duration::ZERO, |path| path.rtt))
}

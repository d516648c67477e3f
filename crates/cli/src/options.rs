//! From the options of a transfer to a bound endpoint.

use std::sync::Arc;

use anyhow::Context;
use manyway::control::bottleneck::BottleneckConfig;
use manyway::control::rate_control::LiveConfig;
use manyway::files::{Allowance, Dotfiles, Policy, ReceiveOptions, SafeName};
use manyway::{BindError, Carriers, Config, ConfigError, Endpoint, EndpointOptions, TcpOptions};
use manyway_units::printable;

use crate::args::{ArrivalArgs, GuardArgs, NetworkArgs};
use crate::exit::usage;
use crate::identity;
use crate::metered::Limit;
use crate::screen::Screen;

/// A forwarded TCP connection may take an eighth of the receive window: 8 MiB of 64 MiB are 670
/// Mbps at a round-trip time of 100 ms.
const WINDOW_SHARES: u64 = 8;

/// Checks the options and binds the sockets.
pub(crate) async fn bind(network: &NetworkArgs) -> anyhow::Result<Endpoint> {
    bind_with(network, config(network)?).await
}

/// As [`bind`], with records of each path for [`bottleneck`](manyway::control::bottleneck)
/// detection.
pub(crate) async fn bind_monitoring(
    network: &NetworkArgs,
    watch: BottleneckConfig,
) -> anyhow::Result<Endpoint> {
    let config = Config {
        watch: Some(watch),
        ..config(network)?
    };
    bind_with(network, config).await
}

/// As [`bind`], with selection among relays.
pub(crate) async fn bind_selecting(
    network: &NetworkArgs,
    selection: Option<LiveConfig>,
) -> anyhow::Result<Endpoint> {
    let config = Config {
        selection,
        ..config(network)?
    };
    bind_with(network, config).await
}

/// As [`bind`], for connections with streams of which nobody may read some.
pub(crate) async fn bind_for_streams(network: &NetworkArgs) -> anyhow::Result<Endpoint> {
    // Each stream is a TCP connection, and that is a file.
    manyway_os::open_files();
    let config = Config {
        window_shares: WINDOW_SHARES,
        ..config(network)?
    };
    bind_with(network, config).await
}

/// As [`bind`], with a configuration that was made from [`config`].
pub(crate) async fn bind_with(network: &NetworkArgs, config: Config) -> anyhow::Result<Endpoint> {
    let options = EndpointOptions {
        config,
        paths: network.interfaces.clone(),
        port: network.port,
        tcp: TcpOptions {
            carriers: network.carrier,
            congestion: network.tcp_cc.clone(),
        },
        qlog: network.qlog.clone(),
    };
    let bound = Endpoint::bind(options).await;
    bound.map_err(|error| match error {
        BindError::Log { .. } => error.into(),
        BindError::NoInterface { .. }
        | BindError::Unusable { .. }
        | BindError::NoAddress { .. } => usage(format!("`--path`: {error}")),
        error => anyhow::Error::new(error).context("can't open sockets"),
    })
}

/// Accepts TCP connections as well: a listener does, except with `--carrier udp`.
pub(crate) fn listen_tcp(endpoint: &Endpoint, network: &NetworkArgs) -> anyhow::Result<()> {
    if network.carrier == Carriers::Udp {
        return Ok(());
    }
    match endpoint.listen_tcp() {
        // Most peers use UDP.
        Err(error) if network.carrier == Carriers::Auto => {
            tracing::warn!(%error, "manyway accepts no TCP connections");
            Ok(())
        }
        listening => listening.context("can't accept TCP connections (`--carrier tcp`)"),
    }
}

/// What the options say of connections.
pub(crate) fn config(network: &NetworkArgs) -> anyhow::Result<Config> {
    let config = Config {
        cc: network.law(),
        scheduler: network.scheduler,
        limit: network.limit.as_ref().and_then(Limit::now),
        receive_window: network.receive_window.bytes(),
        identity: identity::read(network.identity.as_deref())?
            .map(|secrets| secrets.identity().clone()),
        ..Config::default()
    };
    config.validate().map_err(|error| {
        usage(match error {
            ConfigError::OutOfRange { field, range } => {
                format!(
                    "`--{}` is out of range: choose {range}",
                    field.replace('_', "-")
                )
            }
            other => other.to_string(),
        })
    })?;
    Ok(config)
}

/// What to take, and what to do with it. `ask` is whether the user can answer questions.
pub(crate) fn receive(
    screen: &Screen,
    arrival: ArrivalArgs,
    guard: &GuardArgs,
    ask: bool,
) -> ReceiveOptions {
    let policy = match (arrival.overwrite, arrival.rename) {
        (true, _) => Policy::Overwrite,
        (_, true) => Policy::Rename,
        _ => Policy::Refuse,
    };
    let dotfiles = match guard.allow_dotfiles {
        true => Dotfiles::Allow,
        false if ask => {
            let screen = screen.clone();
            Dotfiles::Ask(Arc::new(move |names, count| {
                screen.confirm(&question(names, count))
            }))
        }
        false => Dotfiles::Refuse,
    };
    ReceiveOptions {
        policy,
        keep_modes: arrival.perms,
        owners: arrival.owner,
        groups: arrival.group,
        attributes: arrival.xattrs,
        acls: arrival.acls,
        checksum: arrival.checksum,
        delete: arrival.delete,
        links: arrival.links.into(),
        dotfiles,
        allowance: guard.max_total.map(|size| Allowance::new(size.bytes())),
        keep_parts: guard.keep_parts,
        ..ReceiveOptions::default()
    }
}

fn question(names: &[SafeName], count: u64) -> String {
    let shown: Vec<String> = names
        .iter()
        .map(|name| printable(name.as_str(), 80))
        .collect();
    let more = if count > names.len() as u64 {
        ", …"
    } else {
        ""
    };
    format!(
        "The sender offers {count} name(s) that begin with a dot: {}{more}. In a home directory, \
         such files decide which programs run. Accept them?",
        shown.join(", ")
    )
}

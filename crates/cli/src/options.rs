//! From the options of a transfer to a bound endpoint.

use anyhow::Context;
use manyway::control::bottleneck::BottleneckConfig;
use manyway::control::rate_control::LiveConfig;
use manyway::files::{Policy, ReceiveOptions};
use manyway::{Carriers, Config, ConfigError, Endpoint, EndpointOptions, TcpOptions};

use crate::args::{ConflictArgs, NetworkArgs};
use crate::exit::usage;

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

async fn bind_with(network: &NetworkArgs, config: Config) -> anyhow::Result<Endpoint> {
    let options = EndpointOptions {
        config,
        paths: network.interfaces.clone(),
        port: network.port,
        tcp: TcpOptions {
            carriers: network.carrier,
            congestion: network.tcp_cc.clone(),
        },
    };
    Endpoint::bind(options).await.context("can't open sockets")
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

fn config(network: &NetworkArgs) -> anyhow::Result<Config> {
    let config = Config {
        cc: network.cc.clone(),
        limit: network.limit,
        receive_window: network.receive_window.bytes(),
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

/// What to do with existing names.
pub(crate) fn receive(conflict: ConflictArgs) -> ReceiveOptions {
    let policy = match (conflict.overwrite, conflict.rename) {
        (true, _) => Policy::Overwrite,
        (_, true) => Policy::Rename,
        _ => Policy::Refuse,
    };
    ReceiveOptions {
        policy,
        ..ReceiveOptions::default()
    }
}

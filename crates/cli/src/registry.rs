//! `manyway registry`: starts the registry's server and prints its URL.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use manyway_os::secret::{self, SecretError, Watch};
use manyway_registry::server::{Connections, Handle, Server, ServerConfig};
use manyway_registry::store::{Etcd, Store};
use manyway_registry::{Core, Limits, RegistryKey, RegistryUrl, Role, Tokens, tls};
use rand::rngs::{ChaCha20Rng, SysRng};
use rand::{Rng, SeedableRng};

use crate::args::RegistryArgs;
use crate::exit::{Stop, usage};
use crate::screen::Screen;
use crate::{families, metrics, state};

/// How often the registry looks whether its token file has changed.
const PERIOD: Duration = Duration::from_secs(1);

pub(crate) async fn run(screen: &Screen, args: RegistryArgs) -> anyhow::Result<()> {
    let mut rng =
        ChaCha20Rng::try_from_rng(&mut SysRng).context("the system provides no random numbers")?;
    let key_file = match &args.key_file {
        Some(file) => file.clone(),
        None => state::file("registry.key")?,
    };
    let key = RegistryKey::open(&key_file, &mut rng)?;
    let (watch, tokens) = tokens(screen, &args, &mut rng)?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => tls::file_server(certificate, key)?,
        _ => tls::pinned_server(&key)?,
    };
    let limits = Limits {
        allow_private: args.allow_private,
        relays_per_token: args.relays_per_token,
        rate: args.request_rate,
        code_life: args.code_life,
        ..Limits::default()
    };
    let store = match &*args.store {
        "memory" => Store::Memory,
        url => Store::Etcd(Box::new(Etcd::connect(url, key.id()).await?)),
    };
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    let config = ServerConfig {
        listen: families::available(screen, &args.listen),
        tls,
        core: Core::new(key, tokens, limits, seed),
        store,
        connections: Connections::default(),
    };
    let stop = Stop::listen(false);
    let server = Server::bind(config).await?;
    if let Some(address) = args.metrics {
        let handle = server.handle();
        metrics::serve(screen, address, move || handle.to_prometheus()).await?;
    }
    announce(screen, &server, &args)?;
    tokio::spawn(follow(screen.clone(), watch, server.handle()));
    server.run(stop.requested()).await;
    screen.say("Stopped. Relays keep running, and enrol again when the registry is back.");
    Ok(())
}

/// Reads the file that lists who may enrol, or creates it.
fn tokens(
    screen: &Screen,
    args: &RegistryArgs,
    rng: &mut ChaCha20Rng,
) -> anyhow::Result<(Watch, Tokens)> {
    let file = match &args.token_file {
        Some(file) => file.clone(),
        None => state::file("registry.tokens")?,
    };
    let watched = || Watch::start(&file, state::MAX_TOKEN_FILE);
    let (watch, text) = match watched()? {
        (watch, Some(text)) => (watch, text),
        (_, None) => {
            create(screen, &file, rng)?;
            let (watch, text) = watched()?;
            (watch, text.unwrap_or_default())
        }
    };
    Ok((watch, parse(&file, &text)?))
}

fn create(screen: &Screen, file: &Path, rng: &mut ChaCha20Rng) -> Result<(), SecretError> {
    let mut token = || {
        format!(
            "{:032x}",
            u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())
        )
    };
    let text = format!("relay relays {}\nclient clients {}\n", token(), token());
    secret::create(file, &text)?;
    screen.say(&format!(
        "Created {} with a token for relays and one for clients; each of them needs its token in a \
         `--token-file`",
        file.display()
    ));
    Ok(())
}

fn parse(file: &Path, text: &str) -> anyhow::Result<Tokens> {
    Tokens::parse(text).map_err(|error| anyhow!("{}: {error}", file.display()))
}

/// Gives the registry the tokens of its file whenever that has changed. As long as the file can't
/// be used, the previous tokens stay.
async fn follow(screen: Screen, mut watch: Watch, registry: Handle) {
    let file: PathBuf = watch.path().to_owned();
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(text) = watch.changed() else {
            continue;
        };
        let tokens = text.map_err(anyhow::Error::from).and_then(|text| {
            let text = text.ok_or_else(|| anyhow!("{} is gone", file.display()))?;
            parse(&file, &text)
        });
        match tokens {
            Ok(tokens) => {
                let [relays, clients] = [Role::Relay, Role::Client].map(|role| tokens.count(role));
                registry.set_tokens(tokens);
                screen.say(&format!(
                    "Read {} again. Tokens now: {relays} for relays, {clients} for clients",
                    file.display()
                ));
            }
            Err(error) => screen.error(&format!(
                "The registry can't use the token file and keeps the previous tokens: {error}"
            )),
        }
    }
}

/// Prints the registry's identity and its URL for others.
fn announce(screen: &Screen, server: &Server, args: &RegistryArgs) -> anyhow::Result<()> {
    let addresses = server.addresses();
    let listed: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    screen.say(&format!(
        "Registry {} listens on {}",
        server.id(),
        listed.join(" and ")
    ));
    let mut named = addresses.iter().map(SocketAddr::ip);
    let host = match &args.host {
        Some(host) => host.clone(),
        None => match named.find(|address| !address.is_unspecified()) {
            Some(address) => address.to_string(),
            None => "HOST".to_owned(),
        },
    };
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host,
    };
    let pin = match args.tls_cert {
        Some(_) => String::new(),
        None => format!("#{}", server.id()),
    };
    let url = format!("https://{host}:{}{pin}", addresses[0].port());
    url.parse::<RegistryUrl>()
        .map_err(|error| usage(format!("`--host`: {error}")))?;
    screen.say(&format!("For relays and clients: --registry {url}"));
    let (relays, _) = server.counts();
    if relays > 0 {
        screen.say(&format!("{relays} relays are enrolled"));
    }
    Ok(())
}

//! `manyway`: move data over every path you have.

mod access;
mod args;
mod children;
mod cidr;
mod close;
mod completion;
mod content;
#[cfg(feature = "research")]
mod criteria;
mod demo;
mod destination;
mod diagnosis;
mod doctor;
mod door;
mod end;
mod events;
mod exchange;
mod exit;
mod families;
mod forward;
mod hook;
mod id;
mod identity;
mod invites;
mod kernel;
mod laws;
mod link;
mod linux;
mod listener;
mod live;
mod logging;
mod meter;
mod metered;
mod metrics;
#[cfg(feature = "research")]
mod optimum;
mod options;
mod output;
mod paths;
mod peers;
mod progress;
mod publish;
mod qr;
mod recv;
#[cfg(feature = "registry")]
mod registry;
mod relay;
mod relays;
mod reports;
#[cfg(feature = "research")]
mod reproduce;
mod retry;
#[cfg(feature = "research")]
mod run;
#[cfg(feature = "research")]
mod scenario;
mod screen;
mod send;
mod shell;
mod ssh;
mod stall;
mod state;
mod summary;
mod text;
mod ticket;
mod top;

use std::process::ExitCode;
use std::time::Duration;

use crate::args::{Cli, Command};
use crate::screen::Screen;

fn main() -> ExitCode {
    let cli = Cli::read();
    let screen = Screen::new(cli.output.quiet, cli.output.verbose > 0);
    logging::start(&screen, &cli.output);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&screen, &error.into()),
    };
    let result = runtime.block_on(dispatch(&screen, cli));
    // Threads that remove incomplete files get their time, a disk that hangs doesn't get ours.
    runtime.shutdown_timeout(Duration::from_secs(3));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&screen, &error),
    }
}

async fn dispatch(screen: &Screen, cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Send(args) => send::run(screen, args).await,
        Command::Sync(args) => send::sync(screen, args.send).await,
        Command::Recv(args) => recv::run(screen, args).await,
        Command::Serve(args) => forward::serve::run(screen, args).await,
        Command::Forward(args) => forward::local::run(screen, args).await,
        Command::Connect(args) => forward::connect::run(screen, args).await,
        Command::Tun(args) => linux::tun(screen, args).await,
        Command::Paths(args) => paths::run(screen, args).await,
        Command::Top(args) => top::run(screen, args).await,
        Command::Doctor(args) => doctor::run(screen, args).await,
        Command::Id(args) => id::run(screen, &args),
        Command::Peers(args) => id::peers(screen, &args),
        Command::Demo(args) => demo::run(screen, args).await,
        Command::Laws(args) => laws::run(&args),
        Command::Kernel(args) => kernel::run(&args),
        Command::Relay(args) => relay::run(screen, args).await,
        #[cfg(feature = "research")]
        Command::Run(args) => run::run(screen, args).await,
        #[cfg(feature = "research")]
        Command::Merge(args) => run::merge(screen, args).await,
        #[cfg(feature = "research")]
        Command::Compare(args) => run::compare(screen, args).await,
        #[cfg(feature = "research")]
        Command::Scenario(args) => scenario::run(screen, args),
        #[cfg(feature = "research")]
        Command::Testbed(args) => linux::testbed(screen, args).await,
        #[cfg(feature = "research")]
        Command::Optimum(args) => optimum::run(screen, &args),
        #[cfg(feature = "research")]
        Command::Criteria(args) => criteria::run(screen, &args),
        #[cfg(feature = "research")]
        Command::Reproduce(args) => reproduce::run(screen, args).await,
        #[cfg(not(feature = "research"))]
        Command::Run(_)
        | Command::Merge(_)
        | Command::Compare(_)
        | Command::Scenario(_)
        | Command::Testbed(_)
        | Command::Optimum(_)
        | Command::Criteria(_)
        | Command::Reproduce(_) => Err(args::left_out("research")),
        #[cfg(feature = "registry")]
        Command::Registry(args) => registry::run(screen, args).await,
        #[cfg(not(feature = "registry"))]
        Command::Registry(_) => Err(args::left_out("registry")),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(screen, &args),
    }
}

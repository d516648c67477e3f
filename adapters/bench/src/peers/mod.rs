//! The two ends of a transfer, by the name of the program that runs it.

mod manyway;
mod noq;
mod quinn;
mod tcp;
mod tls;

use std::future::Future;
use std::net::SocketAddr;

use anyhow::bail;

use crate::end::Way;

/// Receives what one sender sends.
pub(crate) fn receive(program: &str, ack_every: u32, at: &[SocketAddr]) -> anyhow::Result<()> {
    match program {
        "bare" => crate::bare::receive(at, ack_every),
        "manyway" => on_one_thread(manyway::receive(at)),
        "noq" => on_one_thread(noq::receive(at)),
        "quinn" => on_one_thread(quinn::receive(at)),
        "tcp" => tcp::receive(at, tcp::Protocol::Tcp),
        "mptcp" => tcp::receive(at, tcp::Protocol::Mptcp),
        _ => bail!("there is no program `{program}`"),
    }
}

/// Sends so many bytes.
pub(crate) fn send(
    program: &str,
    ack_every: u32,
    bytes: usize,
    text: &str,
    ways: &[Way],
) -> anyhow::Result<()> {
    match program {
        "bare" => crate::bare::send(bytes, ways),
        "manyway" => on_one_thread(manyway::send(bytes, text, ways)),
        "noq" => on_one_thread(noq::send(bytes, text, ways, ack_every)),
        "quinn" => on_one_thread(quinn::send(bytes, text, ways, ack_every)),
        "tcp" => tcp::send(bytes, ways, tcp::Protocol::Tcp),
        "mptcp" => tcp::send(bytes, ways, tcp::Protocol::Mptcp),
        _ => bail!("there is no program `{program}`"),
    }
}

/// The cheapest of tokio's runtimes where there is one task that matters.
fn on_one_thread(task: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(task)
}

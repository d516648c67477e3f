//! What a packet and a byte cost: processor time, user and kernel, of sender and receiver, of
//! manyway, quinn, noq, the kernel's TCP and MPTCP and a bare loop of epoll and recvmmsg.
//!
//! `.ci/cpu` builds this program, makes network namespaces for it and runs it there. Programs take
//! turns, and both ends of a transfer are processes of their own, whose time the kernel counts.
#![allow(clippy::print_stdout)]

mod bare;
mod end;
mod measure;
mod peers;
mod table;

use std::net::SocketAddr;

use anyhow::{Context, bail};

const USAGE: &str = "\
usage: manyway-bench run NAME=PATH…     (ROUNDS=5, LOOPBACK_BYTES=500000000, BYTES=100000000)
       manyway-bench recv PROGRAM ACK_EVERY ADDRESS:PORT…
       manyway-bench send PROGRAM ACK_EVERY BYTES TEXT FROM=ADDRESS:PORT…

`run` measures all programs and the manyway programs named, in the namespaces that .ci/cpu makes.";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments {
        [command, programs @ ..] if command == "run" => measure::run(programs),
        [command, program, ack_every, at @ ..] if command == "recv" => {
            let at = at
                .iter()
                .map(|at| parse(at))
                .collect::<Result<Vec<_>, _>>()?;
            peers::receive(program, ack_every.parse()?, &at)
        }
        [command, program, ack_every, bytes, text, ways @ ..] if command == "send" => {
            let ways = ways.iter().map(|way| {
                let (from, to) = way.split_once('=').context(USAGE)?;
                let from = SocketAddr::new(from.parse().with_context(|| way.clone())?, 0);
                Ok((from, parse(to)?))
            });
            let ways = ways.collect::<anyhow::Result<Vec<_>>>()?;
            peers::send(program, ack_every.parse()?, bytes.parse()?, text, &ways)
        }
        _ => bail!(USAGE),
    }
}

fn parse(address: &str) -> anyhow::Result<SocketAddr> {
    let parsed = address.parse();
    parsed.with_context(|| format!("`{address}` is no address with a port"))
}

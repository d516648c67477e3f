//! The kernel's TCP, a connection over each way, and its MPTCP, one over all ways.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

use anyhow::Context;
use socket2::{Domain, Socket, Type};

use crate::end::{CHUNK, Way, done, parts, ready};

#[derive(Copy, Clone, PartialEq)]
pub(super) enum Protocol {
    Tcp,
    Mptcp,
}

impl Protocol {
    fn socket(self) -> anyhow::Result<Socket> {
        let protocol = match self {
            Protocol::Tcp => socket2::Protocol::TCP,
            Protocol::Mptcp => socket2::Protocol::MPTCP,
        };
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol));
        socket.context("the kernel has no MPTCP, or `sysctl net.mptcp.enabled` is 0")
    }

    /// MPTCP opens the other ways itself.
    fn connections<T>(self, of: &[T]) -> &[T] {
        match self {
            Protocol::Tcp => of,
            Protocol::Mptcp => &of[..1],
        }
    }
}

pub(super) fn receive(at: &[SocketAddr], protocol: Protocol) -> anyhow::Result<()> {
    let mut listeners = Vec::new();
    for at in protocol.connections(at) {
        let socket = protocol.socket()?;
        socket.set_reuse_address(true)?;
        let at = match protocol {
            Protocol::Tcp => *at,
            // Its other ways lead to other addresses.
            Protocol::Mptcp => (Ipv4Addr::UNSPECIFIED, at.port()).into(),
        };
        socket.bind(&at.into())?;
        socket.listen(1)?;
        listeners.push(TcpListener::from(socket));
    }
    ready("");
    let before = segments_sent()?;
    let threads = listeners.into_iter().map(|listener| {
        thread::spawn(move || {
            let (mut stream, _) = listener.accept()?;
            let mut buffer = vec![0; CHUNK];
            while stream.read(&mut buffer)? > 0 {}
            anyhow::Ok(())
        })
    });
    join(threads.collect())?;
    done(segments_sent()? - before);
    Ok(())
}

pub(super) fn send(bytes: usize, ways: &[Way], protocol: Protocol) -> anyhow::Result<()> {
    let before = segments_sent()?;
    let ways = protocol.connections(ways);
    let bytes = bytes / ways.len();
    let threads = ways.iter().copied().map(|(from, to)| {
        thread::spawn(move || {
            let socket = protocol.socket()?;
            socket.bind(&from.into())?;
            socket.connect(&to.into())?;
            let mut stream = TcpStream::from(socket);
            let chunk = vec![7; CHUNK];
            for part in parts(bytes) {
                stream.write_all(&chunk[..part])?;
            }
            stream.shutdown(std::net::Shutdown::Write)?;
            // Until the receiver has it all.
            stream.read_to_end(&mut Vec::new())?;
            anyhow::Ok(())
        })
    });
    join(threads.collect())?;
    done(segments_sent()? - before);
    Ok(())
}

fn join(threads: Vec<thread::JoinHandle<anyhow::Result<()>>>) -> anyhow::Result<()> {
    threads.into_iter().try_for_each(|thread| {
        let joined = thread.join();
        joined.map_err(|_| anyhow::anyhow!("a thread panicked"))?
    })
}

/// TCP segments that this network namespace has sent (RFC 1213 tcpOutSegs), of all connections.
fn segments_sent() -> anyhow::Result<u64> {
    let table = std::fs::read_to_string("/proc/self/net/snmp")?;
    let mut rows = table.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (rows.next(), rows.next());
    let names = names.unwrap_or_default().split(' ');
    let mut columns = names.zip(values.unwrap_or_default().split(' '));
    let column = columns.find(|(name, _)| *name == "OutSegs");
    Ok(column
        .context("/proc/self/net/snmp has no OutSegs")?
        .1
        .parse()?)
}

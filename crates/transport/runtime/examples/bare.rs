//! A bare receiver of datagrams, for `.ci/cpu`: what the kernel alone costs per packet.
//!
//! `bare recv ADDRESS…` reads sockets in a loop of epoll and recvmmsg, sends a short datagram back
//! for every tenth packet, as a session acknowledges, and prints its processor time per packet.
//! `bare send BYTES FROM=TO…` sends so many bytes over each way, as fast as the interface takes
//! them.
#![allow(clippy::print_stdout)]

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::thread;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use quinn_udp::{RecvMeta, UdpSocketState};

/// Bytes of a datagram, as a session's on an Ethernet.
const PACKET: usize = 1472;
const ACK: [u8; 80] = [0; 80];
const ACK_EVERY: usize = 10;
/// The last datagram of each way.
const END: &[u8] = b"end";
const BUFFER: usize = 65_536;
const BUFFERS: usize = 16;

fn processor_time() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("Linux has it");
    usage.user_time().num_microseconds() + usage.system_time().num_microseconds()
}

fn parse(address: &str) -> SocketAddr {
    address.parse().expect("ADDRESS:PORT")
}

fn receive(addresses: &[String]) -> io::Result<()> {
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    let mut sockets = Vec::new();
    for (n, address) in addresses.iter().enumerate() {
        let socket = UdpSocket::bind(parse(address))?;
        let state = UdpSocketState::new((&socket).into())?;
        epoll.add(
            socket.as_fd(),
            EpollEvent::new(EpollFlags::EPOLLIN, n as u64),
        )?;
        sockets.push((socket, state, 0));
    }
    let mut storage = vec![0; BUFFERS * BUFFER];
    let mut metas = [RecvMeta::default(); BUFFERS];
    let mut events = [EpollEvent::empty(); 8];
    let (mut packets, mut open, mut begin) = (0, sockets.len(), 0);
    while open > 0 {
        let ready = epoll.wait(&mut events, EpollTimeout::NONE)?;
        if packets == 0 {
            begin = processor_time();
        }
        for event in &events[..ready] {
            let (socket, state, unacked) = &mut sockets[event.data() as usize];
            let mut chunks = storage.chunks_exact_mut(BUFFER);
            let mut slices: [IoSliceMut<'_>; BUFFERS] =
                std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
            let Ok(count) = state.recv((&*socket).into(), &mut slices, &mut metas) else {
                continue;
            };
            for meta in &metas[..count] {
                open -= usize::from(meta.len == END.len());
                packets += meta.len.div_ceil(meta.stride.max(1));
                *unacked += meta.len.div_ceil(meta.stride.max(1));
                if *unacked >= ACK_EVERY {
                    *unacked = 0;
                    socket.send_to(&ACK, meta.addr)?;
                }
            }
        }
    }
    let spent = (processor_time() - begin) as f64;
    println!(
        "bare: {packets} packets, receiver {:.2} µs",
        spent / packets as f64
    );
    Ok(())
}

fn send(bytes: usize, from: SocketAddr, to: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind(from)?;
    for _ in 0..bytes / PACKET {
        socket.send_to(&[0; PACKET], to)?;
    }
    socket.send_to(END, to)?;
    Ok(())
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &*args {
        [what, addresses @ ..] if what == "recv" => receive(addresses),
        [what, bytes, ways @ ..] if what == "send" => {
            let bytes = bytes.parse().expect("a number of bytes");
            thread::scope(|scope| {
                let ways = ways.iter().filter_map(|way| way.split_once('='));
                let ways = ways.map(|(from, to)| (parse(from), parse(to)));
                let sends = ways.map(|(from, to)| scope.spawn(move || send(bytes, from, to)));
                let sends: Vec<_> = sends.collect();
                let mut results = sends.into_iter().map(|send| send.join().expect("no panic"));
                results.try_for_each(|result| result)
            })
        }
        _ => panic!("bare recv ADDRESS… or bare send BYTES FROM=TO…"),
    }
}

//! Packets as a capture file that Wireshark opens: pcapng (draft-ietf-opsawg-pcapng), with an
//! interface for each link.

use std::io::{self, Write};

use manyway_scenario::Experiment;
use manyway_units::Time;

use super::{Event, Observer, Owner, Seen, What, owners};

/// Section Header, Interface Description, Enhanced Packet and Interface Statistics Block
/// (sections 4.1, 4.2, 4.3 and 4.6).
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const STATISTICS: u32 = 5;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Packets begin with their IP header.
const LINKTYPE_RAW: u16 = 101;

/// Options.
const END: u16 = 0;
const USER_APPLICATION: u16 = 4;
const NAME: u16 = 2;
const SPEED: u16 = 8;
const RESOLUTION: u16 = 9;
const PACKET_ID: u16 = 5;
const RECEIVED: u16 = 4;
const DROPPED: u16 = 5;

/// Bytes of IPv4 and UDP headers.
const HEADERS: usize = 28;
/// A receiver's port.
const PORT: u16 = 4433;
/// The port of a flow's first subflow; the others count up, and begin again after the last port.
const FIRST_PORT: u16 = 49152;

/// Writes a capture: what a tap behind each link's queue sees, packets that the wire loses
/// included. Each link has an interface with its name.
///
/// Packets have made-up IPv4 and UDP headers and no payload. Flow n, counted from 0, is between
/// the addresses 10.0.0.0 + 2n + 1, the sender's, and 10.0.0.0 + 2n + 2. Its subflows have the
/// sender's ports from 49152 on; the receiver's port is 4433. The low bits of a packet's number
/// are in its IP identification, and subflow, direction and number in its packet id
/// (`epb_packetid`), which it keeps from link to link. Time begins in 1970. At its end, the file
/// says how many packets came to each link and how many the link dropped.
#[derive(Debug)]
pub struct Pcapng<W> {
    out: W,
    owners: Vec<Owner>,
    /// By link.
    interfaces: Vec<Option<Interface>>,
    block: Vec<u8>,
}

#[derive(Debug, Default)]
struct Interface {
    number: u32,
    came: u64,
    dropped: u64,
}

impl<W: Write> Pcapng<W> {
    /// A file of the links of `experiment` that `wanted` names by their indices, with its head.
    ///
    /// # Errors
    /// What keeps `out` from being written to.
    pub fn new(mut out: W, experiment: &Experiment, wanted: &[usize]) -> io::Result<Self> {
        let mut block = Vec::new();
        begin(&mut block, SECTION);
        block.extend(BYTE_ORDER.to_le_bytes());
        // Version 1.0, of a length that nobody knows yet.
        block.extend([1, 0, 0, 0]);
        block.extend((-1_i64).to_le_bytes());
        option(&mut block, USER_APPLICATION, b"manyway");
        option(&mut block, END, &[]);
        finish(&mut block, &mut out)?;
        let mut interfaces = Vec::new();
        let mut number = 0;
        for (index, link) in experiment.topology.links.iter().enumerate() {
            if !wanted.contains(&index) {
                interfaces.push(None);
                continue;
            }
            begin(&mut block, INTERFACE);
            block.extend(LINKTYPE_RAW.to_le_bytes());
            block.extend([0; 2]);
            // Nothing is cut off but what doesn't exist.
            block.extend(0_u32.to_le_bytes());
            option(&mut block, NAME, link.name.as_bytes());
            let speed = link.config.rate.bits_per_sec() as u64;
            option(&mut block, SPEED, &speed.to_le_bytes());
            // 10^-9 s.
            option(&mut block, RESOLUTION, &[9]);
            option(&mut block, END, &[]);
            finish(&mut block, &mut out)?;
            interfaces.push(Some(Interface {
                number,
                ..Interface::default()
            }));
            number += 1;
        }
        Ok(Self {
            out,
            owners: owners(experiment),
            interfaces,
            block,
        })
    }

    fn packet(&mut self, at: Time, interface: u32, packet: &Seen) -> io::Result<()> {
        let owner = self.owners.get(packet.subflow as usize);
        let headers = headers(
            packet,
            owner.map_or((0, 0), |owner| (owner.flow, owner.number)),
        );
        let captured = HEADERS.min(packet.bytes as usize);
        let block = &mut self.block;
        begin(block, PACKET);
        block.extend(interface.to_le_bytes());
        time(block, at);
        block.extend((captured as u32).to_le_bytes());
        block.extend(packet.bytes.to_le_bytes());
        padded(block, &headers[..captured]);
        if let Some(number) = packet.number {
            let id = u64::from(packet.subflow) << 41
                | u64::from(packet.back) << 40
                | number & ((1 << 40) - 1);
            option(block, PACKET_ID, &id.to_le_bytes());
            option(block, END, &[]);
        }
        finish(block, &mut self.out)
    }
}

impl<W: Write + Send + std::fmt::Debug> Observer for Pcapng<W> {
    fn wants(&self, link: usize) -> bool {
        self.interfaces.get(link).is_some_and(Option::is_some)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let Some(Some(interface)) = self.interfaces.get_mut(event.link) else {
            return Ok(());
        };
        match event.what {
            What::Enqueue => interface.came += 1,
            What::Drop { queued, .. } => {
                interface.dropped += 1;
                // What never entered the queue came, too.
                interface.came += u64::from(!queued);
            }
            What::Transmit => {
                let number = interface.number;
                return self.packet(event.at, number, &event.packet);
            }
            What::Mark | What::Deliver => {}
        }
        Ok(())
    }

    fn end(&mut self, now: Time) -> io::Result<()> {
        for interface in self.interfaces.iter().flatten() {
            let block = &mut self.block;
            begin(block, STATISTICS);
            block.extend(interface.number.to_le_bytes());
            time(block, now);
            option(block, RECEIVED, &interface.came.to_le_bytes());
            option(block, DROPPED, &interface.dropped.to_le_bytes());
            option(block, END, &[]);
            finish(block, &mut self.out)?;
        }
        self.out.flush()
    }
}

/// Begins a block, in the machine's order that the section's head tells.
fn begin(block: &mut Vec<u8>, kind: u32) {
    block.clear();
    block.extend(kind.to_le_bytes());
    block.extend([0; 4]);
}

/// Writes the block with its length at both ends.
fn finish(block: &mut Vec<u8>, out: &mut impl Write) -> io::Result<()> {
    let len = (block.len() as u32 + 4).to_le_bytes();
    block[4..8].copy_from_slice(&len);
    block.extend(len);
    out.write_all(block)
}

fn option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    block.extend(code.to_le_bytes());
    block.extend((value.len() as u16).to_le_bytes());
    padded(block, value);
}

/// Up to a multiple of four bytes.
fn padded(block: &mut Vec<u8>, bytes: &[u8]) {
    block.extend(bytes);
    block.resize(block.len().next_multiple_of(4), 0);
}

fn time(block: &mut Vec<u8>, at: Time) {
    let nanos = at.as_nanos();
    block.extend(((nanos >> 32) as u32).to_le_bytes());
    block.extend((nanos as u32).to_le_bytes());
}

/// The IPv4 (RFC 791) and UDP (RFC 768) headers of a packet of subflow `number` of a flow. The
/// class is the precedence; the ECN field is as in RFC 3168.
fn headers(packet: &Seen, (flow, number): (usize, usize)) -> [u8; HEADERS] {
    let ports = usize::from(u16::MAX - FIRST_PORT) + 1;
    let near = FIRST_PORT + (number % ports) as u16;
    let host = 0x0a00_0000_u32 | (2 * flow as u32 + 1) & 0xff_ffff;
    let mut ends = [(host, near), (host + 1, PORT)];
    if packet.back {
        ends.reverse();
    }
    let bytes = packet.bytes.min(u16::MAX.into()) as u16;
    let mut header = [0; HEADERS];
    let mut put = |at: usize, value: &[u8]| header[at..at + value.len()].copy_from_slice(value);
    put(0, &[0x45, packet.class.min(7) << 5 | packet.ecn as u8]);
    put(2, &bytes.to_be_bytes());
    put(4, &(packet.number.unwrap_or(0) as u16).to_be_bytes());
    // Don't fragment; 64 hops; UDP.
    put(6, &[0x40, 0, 64, 17]);
    let [(from, from_port), (to, to_port)] = ends;
    put(12, &from.to_be_bytes());
    put(16, &to.to_be_bytes());
    put(20, &from_port.to_be_bytes());
    put(22, &to_port.to_be_bytes());
    // No checksum.
    put(24, &bytes.saturating_sub(20).to_be_bytes());
    let words = header[..20].chunks(2);
    let sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
    let folded = fold(fold(sum));
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    header
}

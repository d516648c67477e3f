//! What the emulator has to know of a packet: whose it is.

/// The ports and the payload of a TCP segment or a UDP datagram in an IPv4 packet that isn't a
/// fragment.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Of its source and its destination.
    pub(crate) ports: [u16; 2],
    /// Bytes behind TCP's or UDP's header.
    pub(crate) payload: u32,
}

impl Segment {
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let first = *packet.first()?;
        let header = usize::from(first & 15) * 4;
        let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff;
        if first >> 4 != 4 || fragment != 0 {
            return None;
        }
        let segment = packet.get(header..)?;
        let own = match *packet.get(9)? {
            6 => usize::from(segment.get(12)? >> 4) * 4,
            17 => 8,
            _ => return None,
        };
        let port = |at: usize| {
            Some(u16::from_be_bytes([
                *segment.get(at)?,
                *segment.get(at + 1)?,
            ]))
        };
        Some(Self {
            ports: [port(0)?, port(2)?],
            payload: u32::try_from(segment.len().checked_sub(own)?).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8, segment: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol];
        packet.resize(20, 0);
        packet.extend(segment);
        packet
    }

    #[test]
    fn tcp_and_udp_have_ports_and_payload() {
        let mut tcp = vec![0x23, 0x28, 0xc0, 0x01];
        tcp.resize(12, 0);
        // 32 bytes of header, with timestamps.
        tcp.push(0x80);
        tcp.resize(32 + 1448, 0);
        let segment = Segment::of(&packet(6, &tcp)).unwrap();
        assert_eq!((segment.ports, segment.payload), ([9000, 0xc001], 1448));
        let udp = Segment::of(&packet(17, &[0, 1, 0, 2, 0, 10, 0, 0, 7, 7])).unwrap();
        assert_eq!((udp.ports, udp.payload), ([1, 2], 2));
    }

    #[test]
    fn others_have_none_and_no_length_is_trusted() {
        let udp = packet(17, &[0, 1, 0, 2, 0, 10, 0, 0]);
        assert!(Segment::of(&udp).is_some());
        let mut fragment = udp.clone();
        fragment[7] = 1;
        let mut six = udp.clone();
        six[0] = 0x65;
        let mut tcp = udp.clone();
        tcp[9] = 6;
        let icmp = packet(1, &[8, 0, 0, 0]);
        for other in [fragment, six, tcp, icmp] {
            assert_eq!(Segment::of(&other), None);
        }
        for len in 0..udp.len() {
            assert_eq!(Segment::of(&udp[..len]), None, "{len}");
        }
    }
}

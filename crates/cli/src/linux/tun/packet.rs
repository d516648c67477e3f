//! What a packet in the tunnel is: its number and an IP packet. Which of those that come out of it
//! go on to this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::cidr::Cidr;

/// Bytes in front of the IP packet: its number.
pub(super) const NUMBER_LEN: usize = 4;

/// A datagram with a packet.
pub(super) fn encode(number: u32, packet: &[u8]) -> Bytes {
    let mut datagram = BytesMut::with_capacity(NUMBER_LEN + packet.len());
    datagram.put_u32(number);
    datagram.put_slice(packet);
    datagram.freeze()
}

/// The number and the packet of a datagram, if it has both.
pub(super) fn decode(mut datagram: Bytes) -> Option<(u32, Bytes)> {
    let number = datagram.try_get_u32().ok()?;
    Some((number, datagram))
}

/// The source of an IP packet; `None` of what is none, or not as long as it says.
pub(super) fn source(packet: &[u8]) -> Option<IpAddr> {
    let be16 = |at: usize| {
        Some(usize::from(u16::from_be_bytes(
            *packet.get(at..)?.first_chunk()?,
        )))
    };
    match packet.first()? >> 4 {
        // RFC 791, section 3.1: the header's length is in words.
        4 => {
            let header = usize::from(packet[0] & 0xf) * 4;
            let source: [u8; 4] = *packet.get(12..)?.first_chunk()?;
            let fits = header >= 20 && header <= packet.len() && be16(2)? == packet.len();
            fits.then(|| Ipv4Addr::from(source).into())
        }
        // RFC 8200, section 3: the length is that of what follows the header.
        6 => {
            let source: [u8; 16] = *packet.get(8..)?.first_chunk()?;
            let fits = packet.len() >= 40 && be16(4)? == packet.len() - 40;
            fits.then(|| Ipv6Addr::from(source).into())
        }
        _ => None,
    }
}

/// From whom packets are taken.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    /// Where they may come from.
    pub(super) networks: Vec<Cidr>,
    /// This host's addresses in the tunnel: nobody else has them.
    pub(super) own: Vec<IpAddr>,
}

impl Filter {
    /// Whether a packet goes on to this host.
    pub(super) fn admits(&self, packet: &[u8]) -> bool {
        let Some(source) = source(packet) else {
            return false;
        };
        let nobody = source.is_loopback() || source.is_multicast() || source.is_unspecified();
        self.knows(source) && !nobody && !self.own.contains(&source)
    }

    /// Whether an address is in one of the networks.
    pub(super) fn knows(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|it| it.contains(address))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An IP packet with so many bytes of content.
    pub(crate) fn packet(source: &str, content: usize) -> Vec<u8> {
        match source.parse().unwrap() {
            IpAddr::V4(source) => {
                let mut packet = vec![0; 20 + content];
                packet[0] = 0x45;
                packet[2..4].copy_from_slice(&(20 + content as u16).to_be_bytes());
                packet[12..16].copy_from_slice(&source.octets());
                packet
            }
            IpAddr::V6(source) => {
                let mut packet = vec![0; 40 + content];
                packet[0] = 0x60;
                packet[4..6].copy_from_slice(&(content as u16).to_be_bytes());
                packet[8..24].copy_from_slice(&source.octets());
                packet
            }
        }
    }

    fn filter() -> Filter {
        let networks = ["10.77.0.0/24", "fd77::/64"];
        Filter {
            networks: networks.map(|text| text.parse().unwrap()).to_vec(),
            own: vec!["10.77.0.1".parse().unwrap(), "fd77::1".parse().unwrap()],
        }
    }

    #[test]
    fn a_datagram_is_a_number_and_a_packet() {
        let datagram = encode(0x0102_0304, b"packet");
        assert_eq!(&datagram[..], b"\x01\x02\x03\x04packet");
        assert_eq!(
            decode(datagram),
            Some((0x0102_0304, Bytes::from_static(b"packet")))
        );
        assert_eq!(decode(Bytes::from_static(&[1, 2, 3])), None);
        assert_eq!(decode(Bytes::from_static(&[0; 4])), Some((0, Bytes::new())));
    }

    #[test]
    fn only_whole_ip_packets_are_admitted() {
        for source in ["10.77.0.2", "fd77::2"] {
            for content in [0, 8, 1240] {
                let good = packet(source, content);
                assert!(filter().admits(&good), "{source} {content}");
                let mut long = good.clone();
                long.push(0);
                assert!(!filter().admits(&long));
                assert!(!filter().admits(&good[..good.len() - 1]));
                for version in [0u8, 5, 7, 15] {
                    let mut other = good.clone();
                    other[0] = other[0] & 0xf | version << 4;
                    assert!(!filter().admits(&other), "version {version}");
                }
            }
        }
        let mut no_header = packet("10.77.0.2", 40);
        for words in [0u8, 4] {
            no_header[0] = 0x40 | words;
            assert!(!filter().admits(&no_header), "{words} words");
        }
        let mut long_header = packet("10.77.0.2", 0);
        long_header[0] = 0x46;
        assert!(!filter().admits(&long_header));
        assert!(!filter().admits(&[]) && !filter().admits(b"GET / HTTP/1.1"));
    }

    #[test]
    fn nobody_else_can_be_pretended_to_be() {
        for (source, admitted) in [
            ("10.77.0.2", true),
            ("10.77.0.1", false),
            ("10.78.0.2", false),
            ("127.0.0.1", false),
            ("192.168.1.1", false),
            ("fd77::2", true),
            ("fd77::1", false),
            ("fe80::1", false),
            ("::1", false),
        ] {
            assert_eq!(filter().admits(&packet(source, 8)), admitted, "{source}");
        }
        let everything = Filter {
            networks: vec!["0.0.0.0/0".parse().unwrap()],
            ..filter()
        };
        for (source, admitted) in [
            ("192.168.1.1", true),
            ("10.77.0.1", false),
            ("127.0.0.1", false),
            ("0.0.0.0", false),
            ("224.0.0.1", false),
            ("fd77::2", false),
        ] {
            assert_eq!(everything.admits(&packet(source, 8)), admitted, "{source}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..100), first: u8) {
            filter().admits(&bytes);
            let mut bytes = bytes;
            if let Some(byte) = bytes.first_mut() {
                *byte = first & 0x2f | 0x40;
            }
            filter().admits(&bytes);
            decode(bytes.into());
        }
    }
}

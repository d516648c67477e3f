//! IP networks and a host's address in one, as text.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network: all addresses that begin with the same bits. Text: `192.168.5.0/24`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    network: IpAddr,
    bits: u8,
}

/// A host's address, and how many of its bits the network has. Text: `192.168.5.7/24`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

/// The address's bits from the left, and how many there are.
fn bits_of(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// The bits of a network's addresses that are all the same.
fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

// Only tunnels use it, which only Linux has.
#[allow(dead_code)]
impl Cidr {
    /// Whether it has this address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let ((ours, size), (theirs, other)) = (bits_of(self.network), bits_of(address));
        size == other && (ours ^ theirs) & mask(self.bits) == 0
    }

    /// Its first address, and how many bits all of them share.
    pub(crate) fn parts(&self) -> (IpAddr, u8) {
        (self.network, self.bits)
    }
}

impl Interface {
    /// The host's network.
    pub(crate) fn network(&self) -> Cidr {
        let (bits, _) = bits_of(self.address);
        let first = bits & mask(self.bits);
        let network = match self.address {
            IpAddr::V4(_) => IpAddr::V4(((first >> 96) as u32).into()),
            IpAddr::V6(_) => IpAddr::V6(first.into()),
        };
        Cidr {
            network,
            bits: self.bits,
        }
    }
}

fn parse(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || {
        format!(
            "`{text}` isn't an address with a prefix length, such as 10.77.0.1/24 or fd77::1/64"
        )
    };
    let (address, bits) = text.trim().split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let bits: u8 = bits.parse().map_err(|_| wrong())?;
    let (_, size) = bits_of(address);
    match bits <= size {
        true => Ok((address, bits)),
        false => Err(format!(
            "`{text}` has a prefix longer than the {size} bits of its address"
        )),
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = parse(text)?;
        let network = Interface { address, bits }.network();
        match network.network == address {
            true => Ok(network),
            false => Err(format!(
                "`{text}` is a host in a network: the network is {network}"
            )),
        }
    }
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = parse(text)?;
        if address.is_unspecified() || address.is_multicast() || address.is_loopback() {
            return Err(format!("`{text}` can't be a host's address in a tunnel"));
        }
        // RFC 919 and 950; of two addresses, both are hosts' (RFC 3021).
        let (ours, _) = bits_of(address);
        let host = ours & !mask(bits);
        let all = !mask(bits) & mask(32);
        match address.is_ipv4() && bits < 31 && (host == 0 || host == all) {
            true => Err(format!(
                "`{text}` isn't a host's address: it stands for its whole network"
            )),
            false => Ok(Self { address, bits }),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.bits)
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn networks_and_hosts_are_read() {
        let host: Interface = "10.77.3.9/20".parse().unwrap();
        assert_eq!(host.network().to_string(), "10.77.0.0/20");
        assert_eq!(host.to_string(), "10.77.3.9/20");
        let host: Interface = "fd77:1::9/64".parse().unwrap();
        assert_eq!(host.network().to_string(), "fd77:1::/64");
        for network in ["0.0.0.0/0", "::/0", "10.0.0.1/32", "fd77::1/128"] {
            assert_eq!(network.parse::<Cidr>().unwrap().to_string(), network);
        }
    }

    #[test]
    fn what_is_none_says_so() {
        for (text, says) in [
            ("10.0.0.1", "an address with a prefix length"),
            ("10.0.0.1/x", "an address with a prefix length"),
            ("ten/8", "an address with a prefix length"),
            ("10.0.0.0/33", "prefix longer than the 32 bits"),
            ("fd77::/129", "prefix longer than the 128 bits"),
            ("10.0.0.1/24", "the network is 10.0.0.0/24"),
        ] {
            let error = text.parse::<Cidr>().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        for text in ["10.77.0.0/24", "10.77.0.255/24", "10.255.255.255/8"] {
            let error = text.parse::<Interface>().unwrap_err();
            assert!(error.contains("stands for its whole network"), "{error}");
        }
        for text in ["10.77.0.0/31", "10.77.0.1/31", "10.77.0.1/32", "fd77::/64"] {
            assert_eq!(text.parse::<Interface>().unwrap().to_string(), text);
        }
        for text in ["0.0.0.0/8", "127.0.0.1/8", "224.0.0.1/4", "::1/64"] {
            let error = text.parse::<Interface>().unwrap_err();
            assert!(error.contains("can't be a host's"), "{error}");
        }
    }

    proptest! {
        /// Changing a bit leaves the network if and only if it is one of its bits.
        #[test]
        fn a_network_has_those_that_share_its_bits(address: IpAddr, bits: u8, flipped: u8) {
            let (value, size) = bits_of(address);
            let (bits, flipped) = (bits % (size + 1), flipped % size);
            let network = Interface { address, bits }.network();
            prop_assert!(network.contains(address));
            let other = value ^ 1 << (127 - flipped);
            let other = match address {
                IpAddr::V4(_) => IpAddr::V4(((other >> 96) as u32).into()),
                IpAddr::V6(_) => IpAddr::V6(other.into()),
            };
            prop_assert_eq!(network.contains(other), flipped >= bits);
        }
    }
}

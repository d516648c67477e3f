//! Packets of simulations: no encryption, and a checksum where the tag stands.

use super::error::{OpenError, SealError};
use super::packet_key::PacketKey;
use super::{TAG_LEN, Tag};

/// Tells apart what a tag tells apart where nobody forges: keys, paths, packet numbers, headers and
/// payloads.
pub(super) struct ChecksumKey(u64);

/// Words that are summed up side by side.
const LANES: usize = 8;

impl ChecksumKey {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(
            key[..8]
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
        )
    }

    fn tag(&self, path: u32, packet_number: u64, header: &[u8], payload: &[u8]) -> Tag {
        let mut ends = [mix(self.0 ^ packet_number), mix(self.0 ^ u64::from(path))];
        for part in [header, payload] {
            let sums = sums(part);
            for (end, sum) in ends.iter_mut().zip(sums) {
                *end = mix(*end ^ sum.wrapping_add(part.len() as u64));
            }
        }
        let mut tag = [0; TAG_LEN];
        tag[..8].copy_from_slice(&ends[0].to_le_bytes());
        tag[8..].copy_from_slice(&ends[1].to_le_bytes());
        tag
    }
}

impl PacketKey for ChecksumKey {
    fn seal_in_place(
        &self,
        path: u32,
        packet_number: u64,
        header: &[u8],
        payload: &mut [u8],
    ) -> Result<Tag, SealError> {
        Ok(self.tag(path, packet_number, header, payload))
    }

    fn open_in_place<'a>(
        &self,
        path: u32,
        packet_number: u64,
        header: &[u8],
        payload: &'a mut [u8],
    ) -> Result<&'a mut [u8], OpenError> {
        let end = payload
            .len()
            .checked_sub(TAG_LEN)
            .ok_or(OpenError::Forged)?;
        let (plain, tag) = payload.split_at_mut(end);
        match self.tag(path, packet_number, header, plain) == *tag {
            true => Ok(plain),
            false => Err(OpenError::Forged),
        }
    }
}

/// Fletcher's two sums (IEEE Trans. Comm. 30, 1982) over words of eight bytes, the second of which
/// depends on their order, lane by lane.
fn sums(bytes: &[u8]) -> [u64; 2] {
    let (mut first, mut second) = ([0_u64; LANES], [0_u64; LANES]);
    let mut add = |block: &[u8; 8 * LANES]| {
        for lane in 0..LANES {
            let mut word = [0; 8];
            word.copy_from_slice(&block[8 * lane..8 * lane + 8]);
            first[lane] = first[lane].wrapping_add(u64::from_le_bytes(word));
            second[lane] = second[lane].wrapping_add(first[lane]);
        }
    };
    let (blocks, rest) = bytes.as_chunks();
    blocks.iter().for_each(&mut add);
    let mut last = [0; 8 * LANES];
    last[..rest.len()].copy_from_slice(rest);
    add(&last);
    [first, second].map(|lanes| {
        let lanes = lanes.into_iter();
        lanes.fold(0, |sum, lane| mix(sum ^ lane))
    })
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::Suite;
    use crate::{Config, Endpoint};

    const HEADER: &[u8] = b"a header of some bytes";

    fn seal(payload: &[u8]) -> Vec<u8> {
        let mut packet = payload.to_vec();
        let tag = ChecksumKey::new(&[7; 32]).seal_in_place(3, 4, HEADER, &mut packet);
        packet.extend(tag.unwrap());
        packet
    }

    fn opens(key: u8, path: u32, number: u64, header: &[u8], packet: &[u8]) -> bool {
        let mut packet = packet.to_vec();
        let key = ChecksumKey::new(&[key; 32]);
        key.open_in_place(path, number, header, &mut packet).is_ok()
    }

    #[test]
    fn opens_what_it_sealed_and_nothing_else() {
        for len in [0, 1, 7, 8, 63, 64, 65, 1434] {
            let payload: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            let packet = seal(&payload);
            assert_eq!(packet.len(), len + TAG_LEN);
            assert_eq!(packet[..len], payload, "in the clear");
            assert!(opens(7, 3, 4, HEADER, &packet));
            assert!(!opens(8, 3, 4, HEADER, &packet), "another key");
            assert!(!opens(7, 2, 4, HEADER, &packet), "another path");
            assert!(!opens(7, 3, 5, HEADER, &packet), "another number");
            assert!(!opens(7, 3, 4, &HEADER[1..], &packet), "another header");
            for bit in 0..8 * packet.len() {
                let mut damaged = packet.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(!opens(7, 3, 4, HEADER, &damaged), "bit {bit} of {len}");
            }
            for end in 0..packet.len() {
                assert!(!opens(7, 3, 4, HEADER, &packet[..end]), "{end} of {len}");
            }
        }
    }

    #[test]
    fn no_configuration_asks_for_it() {
        assert!("checksum".parse::<Suite>().is_err());
        let config = Config {
            suite: Suite::Checksum,
            ..Config::default()
        };
        assert!(Endpoint::new(config.clone().into(), [0; 32]).is_err());
        assert!(Endpoint::simulated(config, [0; 32]).is_err());
    }

    #[test]
    fn order_matters() {
        let mut payload = [0; 256];
        payload[0] = 1;
        payload[64] = 2;
        let one = seal(&payload);
        payload.swap(0, 64);
        assert_ne!(one[256..], seal(&payload)[256..]);
    }
}

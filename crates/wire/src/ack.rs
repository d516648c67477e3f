use std::ops::RangeInclusive;

use crate::varint::{Reader, put_varint};
use crate::{DecodeError, PathId, varint_len};

/// Frame types of ACK without and with ECN counts.
pub(crate) const ACK: u8 = 0x02;
pub(crate) const ACK_ECN: u8 = 0x03;

/// Packets received on a path by their ECN mark, since its beginning.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// ECT(0).
    pub ect0: u64,
    /// ECT(1).
    pub ect1: u64,
    /// Congestion experienced.
    pub ce: u64,
}

/// What an ACK says beside its ranges.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckInfo {
    /// The path whose packets are acknowledged.
    pub path: PathId,
    /// How long the largest packet waited for this ACK, in µs.
    pub delay_us: u64,
    /// When the largest packet arrived, by the receiver's clock with an origin of its choice, in µs.
    pub receive_time_us: u64,
    /// ECN counts, if any mark was seen.
    pub ecn: Option<EcnCounts>,
}

/// An ACK as it arrived, checked: its ranges can be walked without errors.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckFrame<'a> {
    /// The path whose packets are acknowledged.
    pub path: PathId,
    /// The largest packet number.
    pub largest: u64,
    /// How long the largest packet waited for this ACK, in µs.
    pub delay_us: u64,
    /// When the largest packet arrived, by the receiver's clock, in µs.
    pub receive_time_us: u64,
    /// ECN counts, if the receiver saw any mark.
    pub ecn: Option<EcnCounts>,
    first_len: u64,
    more: &'a [u8],
}

impl<'a> AckFrame<'a> {
    /// The acknowledged packet numbers: descending, disjoint, the first range ending with `largest`.
    pub fn ranges(&self) -> AckRanges<'a> {
        AckRanges { next: Some(self.largest - self.first_len..=self.largest), more: Reader::new(self.more) }
    }

    pub(crate) fn decode(reader: &mut Reader<'a>, with_ecn: bool) -> Result<Self, DecodeError> {
        const WHAT: &str = "ACK frame";
        let path = PathId(reader.varint32(WHAT)?);
        let largest = reader.varint(WHAT)?;
        let delay_us = reader.varint(WHAT)?;
        let receive_time_us = reader.varint(WHAT)?;
        let count = reader.varint(WHAT)?;
        let first_len = reader.varint(WHAT)?;
        let mut smallest = largest.checked_sub(first_len).ok_or(DecodeError::Invalid { what: WHAT })?;
        let before = reader.rest();
        for _ in 0..count {
            smallest = next_range(reader, smallest).ok_or(DecodeError::Invalid { what: WHAT })?.start().to_owned();
        }
        let more = &before[..before.len() - reader.rest().len()];
        let ecn = if with_ecn {
            Some(EcnCounts { ect0: reader.varint(WHAT)?, ect1: reader.varint(WHAT)?, ce: reader.varint(WHAT)? })
        } else {
            None
        };
        Ok(Self { path, largest, delay_us, receive_time_us, ecn, first_len, more })
    }
}

/// Iterator over an ACK's ranges.
#[derive(Clone, Debug)]
pub struct AckRanges<'a> {
    next: Option<RangeInclusive<u64>>,
    more: Reader<'a>,
}

impl Iterator for AckRanges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        let range = self.next.take()?;
        if !self.more.is_empty() {
            self.next = next_range(&mut self.more, *range.start());
        }
        Some(range)
    }
}

/// The range below `smallest`: a gap and a length, each one less than what they count (RFC 9000, section 19.3.1).
fn next_range(reader: &mut Reader<'_>, smallest: u64) -> Option<RangeInclusive<u64>> {
    let gap = reader.varint("ACK range").ok()?;
    let len = reader.varint("ACK range").ok()?;
    let end = smallest.checked_sub(gap)?.checked_sub(2)?;
    Some(end.checked_sub(len)?..=end)
}

/// Appends an ACK of `ranges` (descending, disjoint, not adjacent) to `buf`: as many of them as fit into
/// `budget` bytes, the newest first. Returns the bytes written: 0 if there is no range or not even one fits.
pub fn encode_ack(
    buf: &mut Vec<u8>,
    info: &AckInfo,
    ranges: impl Iterator<Item = RangeInclusive<u64>> + Clone,
    budget: usize,
) -> usize {
    let Some(first) = ranges.clone().next() else { return 0 };
    let ecn = info.ecn.map_or(0, |e| varint_len(e.ect0) + varint_len(e.ect1) + varint_len(e.ce));
    let fixed = 1
        + [u64::from(info.path.0), *first.end(), info.delay_us, info.receive_time_us, first.end() - first.start()]
            .map(varint_len)
            .iter()
            .sum::<usize>()
        + ecn;
    let (mut count, mut len, mut smallest) = (0, 0, *first.start());
    for range in ranges.clone().skip(1) {
        let more = varint_len(smallest - range.end() - 2) + varint_len(range.end() - range.start());
        if fixed + varint_len(count + 1) + len + more > budget {
            break;
        }
        len += more;
        count += 1;
        smallest = *range.start();
    }
    let total = fixed + varint_len(count) + len;
    if total > budget {
        return 0;
    }
    buf.push(if info.ecn.is_some() { ACK_ECN } else { ACK });
    for value in
        [u64::from(info.path.0), *first.end(), info.delay_us, info.receive_time_us, count, first.end() - first.start()]
    {
        put_varint(buf, value);
    }
    let mut smallest = *first.start();
    for range in ranges.skip(1).take(count as usize) {
        put_varint(buf, smallest - range.end() - 2);
        put_varint(buf, range.end() - range.start());
        smallest = *range.start();
    }
    if let Some(ecn) = info.ecn {
        for value in [ecn.ect0, ecn.ect1, ecn.ce] {
            put_varint(buf, value);
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Frame, Frames};

    fn info(ecn: Option<EcnCounts>) -> AckInfo {
        AckInfo { path: PathId(3), delay_us: 9_999, receive_time_us: 1 << 40, ecn }
    }

    /// Descending, disjoint, not adjacent.
    fn ranges() -> impl Strategy<Value = Vec<RangeInclusive<u64>>> {
        prop::collection::vec((0u64..1 << 20, 0u64..1 << 20), 1..60).prop_map(|steps| {
            let mut ranges = Vec::new();
            let mut next = 0;
            for (gap, len) in steps {
                ranges.push(next + gap..=next + gap + len);
                next += gap + len + 2;
            }
            ranges.reverse();
            ranges
        })
    }

    proptest! {
        #[test]
        fn what_fits_comes_back(ranges in ranges(), budget in 0usize..400, with_ecn: bool) {
            let ecn = with_ecn.then_some(EcnCounts { ect0: 100, ect1: 0, ce: 1 << 30 });
            let mut buf = Vec::new();
            let written = encode_ack(&mut buf, &info(ecn), ranges.iter().cloned(), budget);
            prop_assert_eq!(written, buf.len());
            prop_assert!(written <= budget);
            if written == 0 {
                prop_assert!(budget < 80);
                return Ok(());
            }
            let frames: Vec<_> = Frames::new(&buf).collect();
            let [Ok(Frame::Ack(ack))] = frames.as_slice() else { panic!("{frames:?}") };
            let decoded: Vec<_> = ack.ranges().collect();
            prop_assert_eq!(&decoded[..], &ranges[..decoded.len()]);
            prop_assert_eq!(ack.largest, *ranges[0].end());
            prop_assert_eq!((ack.path, ack.delay_us, ack.receive_time_us, ack.ecn), (PathId(3), 9_999, 1 << 40, ecn));
            for end in 1..buf.len() {
                prop_assert!(Frames::new(&buf[..end]).any(|f| f.is_err()));
            }
        }
    }

    #[test]
    fn ranges_that_reach_below_zero_are_refused() {
        // Largest 5, one more range: gap 3 leads to 0..=0, gap 4 below zero.
        for (gap, fine) in [(3, true), (4, false)] {
            let bytes = [ACK, 0, 5, 0, 0, 1, 0, gap, 0];
            assert_eq!(Frames::new(&bytes).all(|f| f.is_ok()), fine);
        }
    }
}

use std::iter::FusedIterator;
use std::ops::RangeInclusive;

use crate::frame::kind;
use crate::reader::Reader;
use crate::sink::{Sink, count};
use crate::{DecodeError, PathId, varint};

/// The contents of an ACK besides the packet numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckInfo {
    /// The path whose packets are acknowledged; the ACK itself may travel on any.
    pub path: PathId,
    /// Microseconds between the arrival of the largest packet and this ACK.
    pub delay_us: u64,
    /// The receiver's clock, in microseconds, when the largest packet arrived. Its origin is
    /// arbitrary.
    pub receive_time_us: u64,
    /// How many packets of the path arrived with each ECN mark, if the receiver can see the marks.
    pub ecn: Option<EcnCounts>,
}

/// Packets that arrived on a path so far, by ECN mark (RFC 9000, section 13.4).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Packets marked ECT(0).
    pub ect0: u64,
    /// Packets marked ECT(1).
    pub ect1: u64,
    /// Packets marked CE: congestion experienced.
    pub ce: u64,
}

/// A received ACK, whose ranges are still in the packet's bytes. [`Frames`](crate::Frames) makes it
/// and checks the ranges.
#[derive(Copy, Clone, Debug)]
pub struct AckFrame<'a> {
    /// The contents of the ACK besides the packet numbers.
    pub info: AckInfo,
    largest: u64,
    first_len: u64,
    count: u64,
    ranges: &'a [u8],
}

impl<'a> AckFrame<'a> {
    /// The path whose packets are acknowledged.
    pub fn path(&self) -> PathId {
        self.info.path
    }

    /// The largest packet number that is acknowledged: the end of the first range.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// The acknowledged packet numbers, largest first: at least one range, none touching the next.
    pub fn ranges(&self) -> AckRanges<'a> {
        AckRanges {
            next: Some(self.largest.saturating_sub(self.first_len)..=self.largest),
            rest: Reader::new(self.ranges),
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'a>, with_ecn: bool) -> Result<Self, DecodeError> {
        let path = PathId(reader.varint_up_to(u32::MAX.into(), "an ACK's path")? as u32);
        let largest = reader.varint("an ACK's largest packet number")?;
        let delay_us = reader.varint("an ACK's delay")?;
        let receive_time_us = reader.varint("an ACK's receive time")?;
        let count = reader.count("an ACK's ranges")? as u64;
        let first_len = reader.varint_up_to(largest, "an ACK's first range")?;
        let start = reader.rest();
        let mut smallest = largest - first_len;
        for _ in 0..count {
            smallest = *next_range(reader, smallest)?.start();
        }
        let ranges = &start[..start.len() - reader.rest().len()];
        let ecn = if with_ecn {
            Some(EcnCounts::decode(reader)?)
        } else {
            None
        };
        let info = AckInfo {
            path,
            delay_us,
            receive_time_us,
            ecn,
        };
        Ok(Self {
            info,
            largest,
            first_len,
            count,
            ranges,
        })
    }

    pub(crate) fn write(&self, out: &mut impl Sink) {
        self.info.write_start(out, self.largest);
        out.varint(self.count);
        out.varint(self.first_len);
        out.slice(self.ranges);
        self.info.write_end(out);
    }
}

impl PartialEq for AckFrame<'_> {
    /// Whether both say the same, whatever the encoding of their numbers.
    fn eq(&self, other: &Self) -> bool {
        self.info == other.info && self.ranges().eq(other.ranges())
    }
}

impl Eq for AckFrame<'_> {}

/// Iterator over the ranges of an [`AckFrame`], largest first.
#[derive(Clone, Debug)]
pub struct AckRanges<'a> {
    next: Option<RangeInclusive<u64>>,
    rest: Reader<'a>,
}

impl Iterator for AckRanges<'_> {
    type Item = RangeInclusive<u64>;

    fn next(&mut self) -> Option<RangeInclusive<u64>> {
        let range = self.next.take()?;
        if !self.rest.is_empty() {
            // Decoding the frame has checked them.
            self.next = next_range(&mut self.rest, *range.start()).ok();
        }
        Some(range)
    }
}

impl FusedIterator for AckRanges<'_> {}

/// Appends an ACK of `ranges` (largest first, none overlapping or touching the next) to `buf`, with
/// as many of them as `budget` bytes have room for. Returns the bytes written: never more than
/// `budget`, and 0 if not even the first range fits. Stops at the first range that is out of order
/// or empty.
pub fn encode_ack(
    buf: &mut Vec<u8>,
    info: &AckInfo,
    mut ranges: impl Iterator<Item = RangeInclusive<u64>>,
    budget: usize,
) -> usize {
    let Some(first) = ranges
        .next()
        .filter(|first| !first.is_empty() && *first.end() <= varint::MAX)
    else {
        return 0;
    };
    let (largest, first_len) = (*first.end(), first.end() - first.start());
    let mut len = count(|out| {
        info.write_start(out, largest);
        out.varint(0);
        out.varint(first_len);
        info.write_end(out);
    });
    if len > budget {
        return 0;
    }
    let start = buf.len();
    info.write_start(buf, largest);
    // The count becomes known last. It has one byte, and gets more if there are 64 ranges or more.
    let count_at = buf.len();
    buf.push(0);
    varint::put(buf, first_len);
    let (mut more_ranges, mut smallest) = (0, *first.start());
    for range in ranges {
        // RFC 9000, section 19.3.1: a gap of 0 means one missing packet.
        let Some(gap) = smallest
            .checked_sub(*range.end())
            .and_then(|d| d.checked_sub(2))
        else {
            break;
        };
        let Some(range_len) = range.end().checked_sub(*range.start()) else {
            break;
        };
        let count_growth = varint::len(more_ranges + 1) - varint::len(more_ranges);
        let more = varint::len(gap) + varint::len(range_len) + count_growth;
        if len + more > budget {
            break;
        }
        varint::put(buf, gap);
        varint::put(buf, range_len);
        len += more;
        more_ranges += 1;
        smallest = *range.start();
    }
    put_count(buf, count_at, more_ranges);
    info.write_end(buf);
    debug_assert_eq!(buf.len() - start, len);
    len
}

/// Writes the count into the byte that was left for it.
fn put_count(buf: &mut Vec<u8>, at: usize, count: u64) {
    if let Ok(byte) = u8::try_from(count)
        && varint::len(count) == 1
    {
        buf[at] = byte;
        return;
    }
    let mut bytes = Vec::with_capacity(8);
    varint::put(&mut bytes, count);
    buf.splice(at..=at, bytes);
}

/// The range below the one that begins at `smallest`.
fn next_range(reader: &mut Reader<'_>, smallest: u64) -> Result<RangeInclusive<u64>, DecodeError> {
    const GAP: &str = "a gap between an ACK's ranges";
    let gap = reader.varint(GAP)?;
    let end = smallest
        .checked_sub(2)
        .and_then(|limit| limit.checked_sub(gap));
    let end = end.ok_or(DecodeError::Malformed { what: GAP })?;
    let len = reader.varint_up_to(end, "a range of an ACK")?;
    Ok(end - len..=end)
}

impl AckInfo {
    /// The fields before the ranges and their count.
    fn write_start(&self, out: &mut impl Sink, largest: u64) {
        out.byte(if self.ecn.is_some() {
            kind::ACK_ECN
        } else {
            kind::ACK
        });
        for field in [
            self.path.0.into(),
            largest,
            self.delay_us,
            self.receive_time_us,
        ] {
            out.varint(field);
        }
    }

    /// The fields behind the ranges.
    fn write_end(&self, out: &mut impl Sink) {
        for field in self.ecn.iter().flat_map(EcnCounts::fields) {
            out.varint(field);
        }
    }
}

impl EcnCounts {
    fn fields(&self) -> [u64; 3] {
        [self.ect0, self.ect1, self.ce]
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            ect0: reader.varint("an ACK's count of ECT(0)")?,
            ect1: reader.varint("an ACK's count of ECT(1)")?,
            ce: reader.varint("an ACK's count of CE")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Frame;

    const INFO: AckInfo = AckInfo {
        path: PathId(7),
        delay_us: 25,
        receive_time_us: 70_000,
        ecn: None,
    };

    fn ack(bytes: &[u8]) -> Result<AckFrame<'_>, DecodeError> {
        match Frame::decode(&mut &*bytes)? {
            Frame::Ack(ack) => Ok(ack),
            other => panic!("{other:?} is no ACK"),
        }
    }

    fn encoded(info: &AckInfo, ranges: &[RangeInclusive<u64>], budget: usize) -> Vec<u8> {
        let mut buf = vec![0xee; 3];
        let len = encode_ack(&mut buf, info, ranges.iter().cloned(), budget);
        assert_eq!(buf[..3], [0xee; 3], "what was there stays");
        assert_eq!(buf.len(), 3 + len);
        buf.split_off(3)
    }

    #[test]
    fn an_ack_byte_by_byte() {
        let ecn = Some(EcnCounts {
            ect0: 9,
            ect1: 0,
            ce: 64,
        });
        let bytes = encoded(&AckInfo { ecn, ..INFO }, &[90..=100, 88..=88, 2..=5], 1000);
        // One missing packet is a gap of 0, as in RFC 9000; the gaps here are {89} and {6, ...,
        // 87}.
        #[rustfmt::skip]
        let expected = [
            0x03, 7, 0x40, 100, 25, // type, path, largest, delay
            0x80, 0x01, 0x11, 0x70, // receive time
            2, 10, 0, 0, 0x40, 81, 3, // count, first range, gap and range, gap and range
            9, 0, 0x40, 64, // ECN
        ];
        assert_eq!(bytes, expected);
        let ack = ack(&bytes).unwrap();
        assert_eq!(
            (ack.path(), ack.largest(), ack.info.ecn),
            (PathId(7), 100, ecn)
        );
        assert_eq!(ack.ranges().collect::<Vec<_>>(), [90..=100, 88..=88, 2..=5]);
    }

    #[test]
    fn the_count_is_right_at_every_length_of_it() {
        for ranges in [1, 2, 63, 64, 65, 66, 16_383, 16_384, 16_385, 20_000] {
            let all: Vec<_> = (0..ranges).rev().map(|i| 2 * i..=2 * i).collect();
            let bytes = encoded(&INFO, &all, usize::MAX);
            assert!(ack(&bytes).unwrap().ranges().eq(all), "{ranges}");
        }
    }

    #[test]
    fn a_budget_is_never_passed_and_never_wasted() {
        let all: Vec<_> = (0..80).rev().map(|i| 2 * i..=2 * i).collect();
        let whole = encoded(&INFO, &all, usize::MAX).len();
        let smallest = encoded(&INFO, &all[..1], usize::MAX).len();
        for budget in 0..smallest {
            assert!(encoded(&INFO, &all, budget).is_empty());
        }
        for budget in smallest..=whole {
            let bytes = encoded(&INFO, &all, budget);
            let kept = ack(&bytes).unwrap().ranges().count();
            assert!(bytes.len() <= budget);
            let one_more = encoded(&INFO, &all[..(kept + 1).min(all.len())], usize::MAX);
            assert!(kept == all.len() || one_more.len() > budget, "{budget}");
        }
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges)]
    fn ranges_out_of_order_end_the_ack() {
        for bad in [5..=20, 9..=9, 10..=12, 30..=31, 7..=6, 0..=u64::MAX] {
            let bytes = encoded(&INFO, &[10..=20, bad, 0..=1], 1000);
            assert!(ack(&bytes).unwrap().ranges().eq([10..=20]));
        }
        assert!(encoded(&INFO, &[], 1000).is_empty());
        assert!(encoded(&INFO, &[2..=1], 1000).is_empty());
        assert!(encoded(&INFO, &[0..=varint::MAX + 1], 1000).is_empty());
    }

    #[test]
    fn ranges_below_zero_are_refused() {
        let bytes = |first: u8, gap: u8, len: u8| [0x02, 0, 9, 0, 0, 1, first, gap, len];
        assert!(ack(&bytes(4, 0, 3)).unwrap().ranges().eq([5..=9, 0..=3]));
        assert!(ack(&bytes(4, 3, 0)).unwrap().ranges().eq([5..=9, 0..=0]));
        for (first, gap, len) in [
            (10, 0, 0),
            (4, 0, 4),
            (4, 4, 0),
            (8, 0, 0),
            (9, 0, 0),
            (4, 63, 0),
        ] {
            ack(&bytes(first, gap, len)).unwrap_err();
        }
    }

    #[test]
    fn acks_are_equal_if_they_say_the_same() {
        let one = encoded(&INFO, &[10..=20, 0..=1], 1000);
        let other_ranges = encoded(&INFO, &[10..=20, 0..=2], 1000);
        let path = PathId(INFO.path.0 + 1);
        let other_path = encoded(&AckInfo { path, ..INFO }, &[10..=20, 0..=1], 1000);
        assert_eq!(ack(&one), ack(&one.clone()));
        assert_ne!(ack(&one), ack(&other_ranges));
        assert_ne!(ack(&one), ack(&other_path));
    }

    #[test]
    fn a_count_beyond_the_packet_costs_nothing() {
        let mut bytes = vec![0x02, 0, 9, 0, 0];
        varint::put(&mut bytes, varint::MAX);
        bytes.extend([0; 8]);
        assert_eq!(
            ack(&bytes),
            Err(DecodeError::Truncated {
                what: "an ACK's ranges"
            })
        );
    }

    proptest! {
        #[test]
        fn what_fits_comes_back(
            steps in prop::collection::vec((0u64..1 << 20, 0u64..1 << 20), 1..100),
            path: u32,
            times in (0..=varint::MAX, 0..=varint::MAX),
            ecn in prop::option::of(prop::array::uniform3(0..=varint::MAX)),
            budget in 0usize..700,
        ) {
            let mut ranges = Vec::new();
            let mut next = 0;
            for (gap, len) in steps {
                ranges.push(next + gap..=next + gap + len);
                next += gap + len + 2;
            }
            ranges.reverse();
            let info = AckInfo {
                path: PathId(path),
                delay_us: times.0,
                receive_time_us: times.1,
                ecn: ecn.map(|[ect0, ect1, ce]| EcnCounts { ect0, ect1, ce }),
            };
            let bytes = encoded(&info, &ranges, budget);
            prop_assert!(bytes.len() <= budget);
            if bytes.is_empty() {
                prop_assert!(encoded(&info, &ranges[..1], usize::MAX).len() > budget);
                return Ok(());
            }
            let frame = ack(&bytes).unwrap();
            prop_assert_eq!(frame.info, info);
            let kept = frame.ranges().count();
            prop_assert!(frame.ranges().eq(ranges[..kept].iter().cloned()));
            for cut in 0..bytes.len() {
                prop_assert!(ack(&bytes[..cut]).is_err());
            }
        }
    }
}

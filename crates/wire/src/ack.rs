use std::iter::FusedIterator;
use std::ops::RangeInclusive;

use bytes::BufMut;

use crate::frame::kind;
use crate::reader::Reader;
use crate::{DecodeError, PathId, varint};

/// What an ACK says besides the packet numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AckInfo {
    /// The path whose packets are acknowledged; the ACK itself may travel on any.
    pub path: PathId,
    /// Microseconds between the arrival of the largest packet and this ACK.
    pub delay_us: u64,
    /// The receiver's clock, in microseconds, when the largest packet arrived. Its origin is arbitrary.
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

/// A received ACK, its ranges still in the packet's bytes. Made by [`Frames`](crate::Frames), which checked them.
#[derive(Copy, Clone, Debug)]
pub struct AckFrame<'a> {
    /// What the ACK says besides the packet numbers.
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

    pub(crate) fn encode(&self, buf: &mut impl BufMut) {
        self.info.encode_start(buf, self.largest);
        varint::put(buf, self.count);
        varint::put(buf, self.first_len);
        buf.put_slice(self.ranges);
        self.info.encode_end(buf);
    }

    pub(crate) fn encoded_len(&self) -> usize {
        self.info.encoded_len(self.largest)
            + varint::len(self.count)
            + varint::len(self.first_len)
            + self.ranges.len()
    }
}

impl PartialEq for AckFrame<'_> {
    /// Whether both say the same, however their numbers are encoded.
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
            // They were checked when the frame was decoded.
            self.next = next_range(&mut self.rest, *range.start()).ok();
        }
        Some(range)
    }
}

impl FusedIterator for AckRanges<'_> {}

/// Appends an ACK of `ranges` (largest first, none overlapping or touching the next) to `buf`, with as many of
/// them as `budget` bytes have room for. Returns the bytes written: never more than `budget`, and 0 if not even
/// the first range fits. Stops at the first range that is out of order or empty.
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
    let mut len = info.encoded_len(largest) + varint::len(0) + varint::len(first_len);
    if len > budget {
        return 0;
    }
    let start = buf.len();
    info.encode_start(buf, largest);
    // The count is known last. It has a byte for now and gets more if there are 64 ranges or more.
    let count_at = buf.len();
    buf.push(0);
    varint::put(buf, first_len);
    let (mut count, mut smallest) = (0, *first.start());
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
        let count_growth = varint::len(count + 1) - varint::len(count);
        let more = varint::len(gap) + varint::len(range_len) + count_growth;
        if len + more > budget {
            break;
        }
        varint::put(buf, gap);
        varint::put(buf, range_len);
        len += more;
        count += 1;
        smallest = *range.start();
    }
    put_count(buf, count_at, count);
    info.encode_end(buf);
    debug_assert_eq!(buf.len() - start, len);
    len
}

/// Puts the count where a byte was left for it.
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
    /// Everything but the ranges and their count.
    fn encoded_len(&self, largest: u64) -> usize {
        1 + varint::len(self.path.0.into())
            + varint::len(largest)
            + varint::len(self.delay_us)
            + varint::len(self.receive_time_us)
            + self
                .ecn
                .map_or(0, |ecn| ecn.fields().map(varint::len).iter().sum())
    }

    fn encode_start(&self, buf: &mut impl BufMut, largest: u64) {
        buf.put_u8(if self.ecn.is_some() {
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
            varint::put(buf, field);
        }
    }

    fn encode_end(&self, buf: &mut impl BufMut) {
        for field in self.ecn.iter().flat_map(EcnCounts::fields) {
            varint::put(buf, field);
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

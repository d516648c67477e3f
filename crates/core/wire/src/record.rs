//! Packets as records on a byte stream: how a TCP connection carries what UDP carries as datagrams.

/// Bytes of the largest packet in a record.
pub const MAX_RECORD: usize = 16 << 10;
/// Bytes in front of each packet.
pub const RECORD_HEADER_LEN: usize = 2;

/// Room for a few records: the number of bytes that one read can take.
const CAPACITY: usize = 16 * (MAX_RECORD + RECORD_HEADER_LEN);
/// The memory of a connection that hasn't sent anything.
const FIRST_CAPACITY: usize = 2048;

/// A length that no record has: the stream's next record can't be found.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record has {0} bytes instead of 1 to 16384")]
pub struct RecordError(pub usize);

/// The bytes in front of a packet.
///
/// # Errors
/// The packet is empty or larger than a record.
pub fn record_header(len: usize) -> Result<[u8; RECORD_HEADER_LEN], RecordError> {
    match u16::try_from(len) {
        Ok(prefix) if (1..=MAX_RECORD).contains(&len) => Ok(prefix.to_be_bytes()),
        _ => Err(RecordError(len)),
    }
}

/// Splits a byte stream into records. Its memory grows with what has arrived, up to 256 KiB, never
/// with what a length claims.
#[derive(Debug, Default)]
pub struct RecordReader {
    buf: Vec<u8>,
    start: usize,
    end: usize,
}

impl RecordReader {
    /// An empty reader.
    pub fn new() -> Self {
        Self::default()
    }

    /// Room to read into; never empty after [`RecordReader::next`] has returned `Ok(None)`.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        // A read has filled all of it, so there is probably more.
        if self.end == self.buf.len() {
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            let len = (2 * self.buf.len()).clamp(FIRST_CAPACITY, CAPACITY);
            self.buf.resize(len, 0);
        }
        &mut self.buf[self.end..]
    }

    /// Notes how many bytes were read into the [space](RecordReader::space).
    pub fn filled(&mut self, len: usize) {
        self.end = (self.end + len).min(self.buf.len());
    }

    /// The next complete packet, to be opened in place.
    ///
    /// # Errors
    /// A length is out of range. Every further call returns the same error.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<&mut [u8]>, RecordError> {
        let waiting = &self.buf[self.start..self.end];
        let Some((prefix, rest)) = waiting.split_first_chunk::<RECORD_HEADER_LEN>() else {
            return Ok(None);
        };
        let len = usize::from(u16::from_be_bytes(*prefix));
        if !(1..=MAX_RECORD).contains(&len) {
            return Err(RecordError(len));
        }
        if rest.len() < len {
            return Ok(None);
        }
        let from = self.start + RECORD_HEADER_LEN;
        self.start = from + len;
        Ok(Some(&mut self.buf[from..from + len]))
    }

    /// Whether the stream may end here: between two records.
    pub fn is_between(&self) -> bool {
        self.start == self.end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn feed(
        reader: &mut RecordReader,
        mut bytes: &[u8],
        most: usize,
    ) -> Result<Vec<Vec<u8>>, RecordError> {
        let mut records = Vec::new();
        while !bytes.is_empty() {
            let space = reader.space();
            let len = space.len().min(bytes.len()).min(most);
            assert!(len > 0);
            space[..len].copy_from_slice(&bytes[..len]);
            reader.filled(len);
            bytes = &bytes[len..];
            while let Some(record) = reader.next()? {
                records.push(record.to_vec());
            }
        }
        Ok(records)
    }

    #[test]
    fn bad_lengths_are_errors_for_good() {
        for len in [0u16, 16_385, u16::MAX] {
            let mut reader = RecordReader::new();
            let error = feed(&mut reader, &len.to_be_bytes(), 9).unwrap_err();
            assert_eq!(error, RecordError(usize::from(len)));
            assert!(reader.next().is_err());
            assert!(record_header(usize::from(len)).is_err());
        }
        assert!(record_header(1 << 20).is_err());
    }

    /// A stream may end between records only, and its buffer grows in few steps.
    #[test]
    fn a_record_is_whole_at_its_last_byte() {
        let mut reader = RecordReader::new();
        let mut record = record_header(MAX_RECORD).unwrap().to_vec();
        record.resize(RECORD_HEADER_LEN + MAX_RECORD, 7);
        let mut capacities = std::collections::BTreeSet::new();
        assert!(reader.is_between());
        for (at, byte) in record.iter().enumerate() {
            let taken = feed(&mut reader, &[*byte], 1).unwrap();
            let last = at + 1 == record.len();
            assert_eq!((taken.len(), reader.is_between()), (last.into(), last));
            capacities.insert(reader.buf.len());
        }
        assert!(capacities.len() <= 8, "{capacities:?}");
    }

    #[test]
    fn a_length_alone_costs_no_memory() {
        let mut reader = RecordReader::new();
        feed(&mut reader, &16_384u16.to_be_bytes(), 9).unwrap();
        assert!(reader.buf.len() <= FIRST_CAPACITY);
        // Trickling costs what has trickled.
        feed(&mut reader, &[7; 3000], 1).unwrap();
        assert!(reader.buf.len() <= 2 * 3002, "{}", reader.buf.len());
    }

    proptest! {
        /// However a stream is cut, its records come out whole and in order, and the memory is
        /// bounded.
        #[test]
        fn records_survive_any_cut(
            lens in prop::collection::vec(prop_oneof![1usize..100, 1usize..=MAX_RECORD], 0..60),
            most in prop_oneof![1usize..50, 1usize..100_000],
        ) {
            let records: Vec<Vec<u8>> = lens
                .iter()
                .enumerate()
                .map(|(n, len)| vec![n as u8; *len])
                .collect();
            let mut stream = Vec::new();
            for record in &records {
                stream.extend(record_header(record.len()).unwrap());
                stream.extend(record);
            }
            let mut reader = RecordReader::new();
            prop_assert_eq!(feed(&mut reader, &stream, most).unwrap(), records);
            prop_assert!(reader.is_between());
            prop_assert!(reader.buf.len() <= CAPACITY);
        }

        #[test]
        fn any_bytes_are_safe(
            bytes in prop::collection::vec(any::<u8>(), 0..5000),
            most in 1usize..600,
        ) {
            let mut reader = RecordReader::new();
            if let Ok(records) = feed(&mut reader, &bytes, most) {
                prop_assert!(records.iter().all(|r| (1..=MAX_RECORD).contains(&r.len())));
            }
        }
    }
}

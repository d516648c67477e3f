use crate::varint::{Reader, put_varint};
use crate::{ConnectionId, DecodeError, varint_len};

/// What each side tells the other in the handshake's encrypted payload.
///
/// Encoded as a list of (id varint, length varint, value); unknown ids are skipped, a missing one has
/// the default given here, one given twice is an error. Only the connection id must be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportParameters {
    /// The sender's connection id for path 0 (id 1).
    pub cid: ConnectionId,
    /// Bytes the peer may send at first over all streams (id 2, default 0).
    pub initial_max_data: u64,
    /// Bytes the peer may send at first on each stream (id 3, default 0).
    pub initial_max_stream_data: u64,
    /// Streams the peer may open at first (id 4, default 0).
    pub initial_max_streams: u64,
    /// The sender gives the connection up after this long without a packet, in ms (id 5, default 30,000).
    pub max_idle_ms: u64,
    /// Longest time the sender holds an ACK back, in ms (id 6, default 10).
    pub ack_delay_ms: u64,
    /// Ack-eliciting packets after which the sender acknowledges at once (id 7, default 10).
    pub ack_every: u64,
    /// Paths the sender wants to have at most (id 8, default 64).
    pub max_paths: u64,
    /// Largest UDP payload the sender accepts, in bytes (id 9, default 1200).
    pub max_datagram: u64,
}

impl TransportParameters {
    const CID: u64 = 1;

    /// The defaults.
    pub fn new(cid: ConnectionId) -> Self {
        Self {
            cid,
            initial_max_data: 0,
            initial_max_stream_data: 0,
            initial_max_streams: 0,
            max_idle_ms: 30_000,
            ack_delay_ms: 10,
            ack_every: 10,
            max_paths: 64,
            max_datagram: 1200,
        }
    }

    /// The encoding.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut buf = Vec::new();
        put_varint(&mut buf, Self::CID);
        put_varint(&mut buf, self.cid.0.len() as u64);
        buf.extend_from_slice(&self.cid.0);
        for (id, value) in (2..).zip(self.numbers()) {
            put_varint(&mut buf, id);
            put_varint(&mut buf, varint_len(value) as u64);
            put_varint(&mut buf, value);
        }
        buf
    }

    /// Reads the encoding.
    ///
    /// # Errors
    /// A parameter is cut off, given twice or invalid, or the connection id is missing.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let mut cid = None;
        let mut params = Self::new(ConnectionId([0; 8]));
        let mut seen = 0u16;
        while !reader.is_empty() {
            let id = reader.varint("parameter id")?;
            let mut value = Reader::new(reader.counted(usize::MAX, "parameter")?);
            if (1..=9).contains(&id) {
                if seen & 1 << id != 0 {
                    return Err(DecodeError::Invalid { what: "parameter given twice" });
                }
                seen |= 1 << id;
            }
            match id {
                Self::CID => cid = Some(ConnectionId(value.array("connection id")?)),
                2..=9 => *params.numbers_mut()[id as usize - 2] = value.varint("parameter")?,
                _ => continue,
            }
            if !value.is_empty() {
                return Err(DecodeError::TrailingBytes { what: "parameter" });
            }
        }
        params.cid = cid.ok_or(DecodeError::Truncated { what: "connection id parameter" })?;
        if params.max_datagram < 1200 {
            return Err(DecodeError::Invalid { what: "max_datagram parameter (below 1200)" });
        }
        Ok(params)
    }

    /// The numeric parameters in the order of their ids, from 2 on.
    fn numbers(&self) -> [u64; 8] {
        let mut copy = self.clone();
        copy.numbers_mut().map(|number| *number)
    }

    fn numbers_mut(&mut self) -> [&mut u64; 8] {
        [
            &mut self.initial_max_data,
            &mut self.initial_max_stream_data,
            &mut self.initial_max_streams,
            &mut self.max_idle_ms,
            &mut self.ack_delay_ms,
            &mut self.ack_every,
            &mut self.max_paths,
            &mut self.max_datagram,
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unknown_parameters_are_skipped_and_missing_ones_have_defaults() {
        let cid = ConnectionId([5; 8]);
        let mut bytes = vec![0x3f, 2, 1, 2, 1, 8];
        bytes.extend_from_slice(&cid.0);
        assert_eq!(TransportParameters::decode(&bytes), Ok(TransportParameters::new(cid)));
    }

    #[test]
    fn a_parameter_given_twice_is_an_error() {
        let mut bytes = TransportParameters::new(ConnectionId([5; 8])).to_bytes();
        bytes.extend_from_slice(&[2, 1, 0]);
        assert!(TransportParameters::decode(&bytes).is_err());
        assert!(TransportParameters::decode(&[]).is_err());
    }

    proptest! {
        #[test]
        fn round_trip(cid: [u8; 8], numbers in prop::array::uniform8(1200u64..1 << 62)) {
            let mut params = TransportParameters::new(ConnectionId(cid));
            for (field, number) in params.numbers_mut().into_iter().zip(numbers) {
                *field = number;
            }
            let bytes = params.to_bytes();
            prop_assert_eq!(TransportParameters::decode(&bytes), Ok(params));
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = TransportParameters::decode(&bytes);
        }
    }
}

use bytes::BufMut;

use crate::reader::Reader;
use crate::relay::Grant;
use crate::{CID_LEN, ConnectionId, DecodeError, INIT_LEN, MAX_STREAM_COUNT, varint};

/// What each side announces in the handshake, inside its Noise message.
///
/// Everything but the connection id has a default, which counts if the parameter is missing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TransportParameters {
    /// The connection id for path 0 that packets to this side carry (parameter 1, required).
    pub cid: ConnectionId,
    /// Stream bytes, over all streams, that the peer may send at first (2; default 1 MiB).
    pub initial_max_data: u64,
    /// Bytes of each stream that the peer may send at first (3; default 1 MiB).
    pub initial_max_stream_data: u64,
    /// Streams that the peer may open at first (4; default 128, at most 2^61).
    pub initial_max_streams: u64,
    /// Milliseconds of silence on all paths after which this side ends the connection (5; default
    /// 30,000).
    pub max_idle_ms: u64,
    /// Milliseconds for which this side may delay an ACK (6; default 10, at most 16,383).
    pub ack_delay_ms: u64,
    /// Ack-eliciting packets on a path after which this side sends an ACK (7; default 10, at least
    /// 1).
    pub ack_every: u64,
    /// Paths that this side keeps open at a time (8; default 64, at least 1).
    pub max_paths: u64,
    /// The largest UDP payload that this side accepts, in bytes (9; default and minimum 1200, at
    /// most 65,527).
    pub max_datagram: u64,
    /// The most bytes of data in a DATAGRAM frame that this side accepts (11; default 0: it accepts
    /// none; at most 65,527).
    pub max_datagram_data: u64,
    /// The grant in front of the listener's datagrams, if they have to go through a relay (10; none
    /// by default).
    pub grant: Option<Grant>,
    /// Whether the initiator's static key is its identity, which others may know it by, and not
    /// made for this connection alone (12; not by default).
    pub identity: bool,
}

impl TransportParameters {
    /// The defaults, with the given connection id for path 0.
    pub const fn new(cid: ConnectionId) -> Self {
        Self {
            cid,
            initial_max_data: 1 << 20,
            initial_max_stream_data: 1 << 20,
            initial_max_streams: 128,
            max_idle_ms: 30_000,
            ack_delay_ms: 10,
            ack_every: 10,
            max_paths: 64,
            max_datagram: INIT_LEN as u64,
            max_datagram_data: 0,
            grant: None,
            identity: false,
        }
    }

    /// Reads a list of parameters: id, length in bytes, value, where id and length are varints.
    /// Skips unknown ids.
    ///
    /// # Errors
    /// A known parameter occurs twice, has a wrong length or a value out of range, or the
    /// connection id is missing.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut params = Self::new(ConnectionId::default());
        let mut seen = 0u16;
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let id = reader.varint("a transport parameter's id")?;
            let len = reader.count("a transport parameter")?;
            let value = reader.take(len, "a transport parameter")?;
            if id == CID {
                once(&mut seen, CID, CID_NAME)?;
                let found = value.len();
                let wrong = DecodeError::WrongLength {
                    what: CID_NAME,
                    expected: CID_LEN,
                    found,
                };
                params.cid = ConnectionId(value.try_into().map_err(|_| wrong)?);
            } else if id == GRANT {
                once(&mut seen, GRANT, GRANT_NAME)?;
                params.grant = Some(Grant::decode(value)?);
            } else if id == IDENTITY.id {
                once(&mut seen, IDENTITY.id, IDENTITY.name)?;
                params.identity = IDENTITY.decode(value)? == 1;
            } else if let Some(field) = FIELDS.iter().find(|field| field.number.id == id) {
                once(&mut seen, id, field.number.name)?;
                *(field.of_mut)(&mut params) = field.number.decode(value)?;
            }
        }
        if seen & 1 << CID == 0 {
            return Err(DecodeError::Missing { what: CID_NAME });
        }
        Ok(params)
    }

    /// Writes the parameters in the order of their ids, but a grant and what follows it last.
    /// Replaces a value out of range by the nearest one in range. Leaves out what says as little as
    /// a missing parameter.
    pub fn encode(&self, buf: &mut impl BufMut) {
        varint::put(buf, CID);
        varint::put(buf, CID_LEN as u64);
        buf.put_slice(&self.cid.0);
        for field in &FIELDS {
            let Number {
                id, least, most, ..
            } = field.number;
            let value = (field.of)(self).clamp(least, most);
            if (id, value) == (MAX_DATAGRAM_DATA, 0) {
                continue;
            }
            varint::put(buf, id);
            varint::put(buf, varint::len(value) as u64);
            varint::put(buf, value);
        }
        if let Some(grant) = &self.grant {
            varint::put(buf, GRANT);
            varint::put(buf, grant.as_bytes().len() as u64);
            buf.put_slice(grant.as_bytes());
        }
        if self.identity {
            varint::put(buf, IDENTITY.id);
            varint::put(buf, 1);
            varint::put(buf, 1);
        }
    }

    /// The bytes that [`encode`](Self::encode) writes: at most 146.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(146);
        self.encode(&mut bytes);
        bytes
    }
}

const CID: u64 = 1;
const CID_NAME: &str = "transport parameter 1 (connection id)";
const GRANT: u64 = 10;
const MAX_DATAGRAM_DATA: u64 = 11;
const GRANT_NAME: &str = "transport parameter 10 (grant)";

/// A parameter that is a number.
struct Number {
    id: u64,
    name: &'static str,
    least: u64,
    most: u64,
}

/// 1 or, which is as good as missing, 0.
const IDENTITY: Number = Number {
    id: 12,
    name: "transport parameter 12 (identity)",
    least: 0,
    most: 1,
};

/// A number that has its default if it is missing.
struct Field {
    number: Number,
    of: fn(&TransportParameters) -> u64,
    of_mut: fn(&mut TransportParameters) -> &mut u64,
}

macro_rules! field {
    ($id:literal, $name:ident, $range:expr) => {
        Field {
            number: Number {
                id: $id,
                name: concat!("transport parameter ", $id, " (", stringify!($name), ")"),
                least: *$range.start(),
                most: *$range.end(),
            },
            of: |params| params.$name,
            of_mut: |params| &mut params.$name,
        }
    };
}

const FIELDS: [Field; 9] = [
    field!(2, initial_max_data, (0..=varint::MAX)),
    field!(3, initial_max_stream_data, (0..=varint::MAX)),
    field!(4, initial_max_streams, (0..=MAX_STREAM_COUNT)),
    field!(5, max_idle_ms, (0..=varint::MAX)),
    field!(6, ack_delay_ms, (0..=(1 << 14) - 1)),
    field!(7, ack_every, (1..=varint::MAX)),
    field!(8, max_paths, (1..=varint::MAX)),
    field!(9, max_datagram, (INIT_LEN as u64..=65_527)),
    field!(11, max_datagram_data, (0..=65_527)),
];

impl Number {
    fn decode(&self, bytes: &[u8]) -> Result<u64, DecodeError> {
        let what = self.name;
        let mut reader = Reader::new(bytes);
        let value = reader.varint_up_to(self.most, what)?;
        if !reader.is_empty() {
            let expected = bytes.len() - reader.rest().len();
            return Err(DecodeError::WrongLength {
                what,
                expected,
                found: bytes.len(),
            });
        }
        if value < self.least {
            return Err(DecodeError::TooSmall {
                what,
                value,
                limit: self.least,
            });
        }
        Ok(value)
    }
}

/// Notes that the parameter has occurred.
fn once(seen: &mut u16, id: u64, what: &'static str) -> Result<(), DecodeError> {
    let bit = 1 << id;
    if *seen & bit != 0 {
        return Err(DecodeError::Duplicate { what });
    }
    *seen |= bit;
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fuzzing;

    const MY_CID: ConnectionId = ConnectionId(*b"12345678");

    /// A list of parameters: id and value.
    fn list(parameters: &[(u64, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (id, value) in parameters {
            varint::put(&mut bytes, *id);
            varint::put(&mut bytes, value.len() as u64);
            bytes.extend_from_slice(value);
        }
        bytes
    }

    #[test]
    fn the_defaults_byte_by_byte() {
        #[rustfmt::skip]
        let expected = [
            1, 8, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
            2, 4, 0x80, 0x10, 0, 0,
            3, 4, 0x80, 0x10, 0, 0,
            4, 2, 0x40, 0x80,
            5, 4, 0x80, 0, 0x75, 0x30,
            6, 1, 10,
            7, 1, 10,
            8, 2, 0x40, 64,
            9, 2, 0x44, 0xb0,
        ];
        assert_eq!(TransportParameters::new(MY_CID).to_bytes(), expected);
    }

    #[test]
    fn what_is_missing_has_its_default() {
        let bytes = list(&[(1, &MY_CID.0)]);
        assert_eq!(
            TransportParameters::decode(&bytes),
            Ok(TransportParameters::new(MY_CID))
        );
        let error = TransportParameters::decode(&list(&[(2, &[5])])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "transport parameter 1 (connection id) is missing"
        );
    }

    #[test]
    fn a_grant_comes_back() {
        use crate::relay::{ForwardHeader, Mac, RateClass};
        let grant = Grant::from(ForwardHeader {
            key: 1,
            class: RateClass::default(),
            expires: 7,
            tag: *b"whosetag",
            destination: "[2001:db8::1]:4433".parse().unwrap(),
            check: *b"chek",
            mac: Mac(*b"grantmac"),
        });
        let params = TransportParameters {
            grant: Some(grant),
            identity: true,
            ..TransportParameters::new(MY_CID)
        };
        let bytes = params.to_bytes();
        assert!(bytes.len() <= 146);
        assert_eq!(TransportParameters::decode(&bytes), Ok(params));
        let cut = list(&[(1, &MY_CID.0), (10, &grant.as_bytes()[1..])]);
        TransportParameters::decode(&cut).unwrap_err();
        let twice = list(&[
            (1, &MY_CID.0),
            (10, grant.as_bytes()),
            (10, grant.as_bytes()),
        ]);
        TransportParameters::decode(&twice).unwrap_err();
    }

    #[test]
    fn an_identity_is_told_by_one_byte() {
        let decode = |value: &[u8]| {
            let bytes = list(&[(1, &MY_CID.0), (12, value)]);
            TransportParameters::decode(&bytes).map(|params| params.identity)
        };
        assert_eq!((decode(&[0]), decode(&[1])), (Ok(false), Ok(true)));
        for wrong in [&[][..], &[2], &[1, 1]] {
            decode(wrong).unwrap_err();
        }
        TransportParameters::decode(&list(&[(1, &MY_CID.0), (12, &[1]), (12, &[1])])).unwrap_err();
        let params = TransportParameters {
            identity: true,
            ..TransportParameters::new(MY_CID)
        };
        let bytes = params.to_bytes();
        assert!(bytes.ends_with(&[12, 1, 1]));
        assert_eq!(TransportParameters::decode(&bytes), Ok(params));
    }

    #[test]
    fn what_is_unknown_is_skipped() {
        let bytes = list(&[
            (13, b"new"),
            (1, &MY_CID.0),
            (varint::MAX, &[]),
            (13, b"twice"),
            (7, &[3]),
        ]);
        let params = TransportParameters::decode(&bytes).unwrap();
        assert_eq!(
            params,
            TransportParameters {
                ack_every: 3,
                ..TransportParameters::new(MY_CID)
            }
        );
    }

    #[test]
    fn errors_name_the_parameter() {
        let cid = (1, &MY_CID.0[..]);
        for (parameters, message) in [
            (
                &[cid, cid][..],
                "transport parameter 1 (connection id) is given twice",
            ),
            (
                &[cid, (7, &[3]), (7, &[3])],
                "transport parameter 7 (ack_every) is given twice",
            ),
            (
                &[(1, b"short")],
                "transport parameter 1 (connection id) has 5 bytes instead of 8",
            ),
            (
                &[cid, (2, &[0x40])],
                "it ends in the middle of transport parameter 2 (initial_max_data)",
            ),
            (
                &[cid, (5, &[])],
                "it ends in the middle of transport parameter 5 (max_idle_ms)",
            ),
            (
                &[cid, (7, &[3, 3])],
                "transport parameter 7 (ack_every) has 2 bytes instead of 1",
            ),
            (
                &[cid, (7, &[0])],
                "transport parameter 7 (ack_every) is 0, and at least 1 is needed",
            ),
            (
                &[cid, (8, &[0])],
                "transport parameter 8 (max_paths) is 0, and at least 1 is needed",
            ),
            (
                &[cid, (9, &[0x44, 0xaf])],
                "transport parameter 9 (max_datagram) is 1199, and at least 1200 is needed",
            ),
            (
                &[cid, (9, &[0x80, 0, 0xff, 0xf8])],
                "transport parameter 9 (max_datagram) is 65528, and at most 65527 is allowed",
            ),
            (
                &[cid, (6, &[0x80, 0, 0x40, 0])],
                "transport parameter 6 (ack_delay_ms) is 16384, and at most 16383 is allowed",
            ),
        ] {
            let error = TransportParameters::decode(&list(parameters)).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn a_length_beyond_the_list_is_refused() {
        let mut bytes = vec![1];
        varint::put(&mut bytes, varint::MAX);
        bytes.extend(MY_CID.0);
        assert_eq!(
            TransportParameters::decode(&bytes),
            Err(DecodeError::Truncated {
                what: "a transport parameter"
            })
        );
    }

    proptest! {
        #[test]
        fn round_trip(cid: [u8; 8], numbers: [u64; 9]) {
            let mut params = TransportParameters::new(ConnectionId(cid));
            for (field, number) in FIELDS.iter().zip(numbers) {
                *(field.of_mut)(&mut params) = number;
            }
            let bytes = params.to_bytes();
            prop_assert!(bytes.len() <= 96);
            let decoded = TransportParameters::decode(&bytes).unwrap();
            for field in &FIELDS {
                prop_assert_eq!(
                    (field.of)(&decoded),
                    (field.of)(&params).clamp(field.number.least, field.number.most)
                );
            }
            prop_assert_eq!(decoded.to_bytes(), &*bytes);
            // A list that ends between two parameters is one, too; never another.
            for cut in 0..bytes.len() {
                fuzzing::params(&bytes[..cut]);
            }
        }

        #[test]
        fn anything_is_safe(
            bytes: Vec<u8>,
            mut damaged in Just(TransportParameters::new(MY_CID).to_bytes()),
            at: prop::sample::Index,
            byte: u8,
        ) {
            fuzzing::params(&bytes);
            *at.get_mut(&mut damaged) = byte;
            fuzzing::params(&damaged);
        }
    }
}

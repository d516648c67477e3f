//! What the fuzz targets in `fuzz/` run, and the test that replays their corpus. They decode any
//! input, and whatever decodes must come out the same after encoding and decoding once more. These
//! functions panic if the codecs are wrong.

use crate::relay::{
    Consent, ForwardHeader, Grant, Hello, Listen, Mint, RelayReply, RelayTicket, RelayType,
    StreamReply, StreamRequest, Voucher, stream_reply_len, stream_request_len,
};
use crate::{
    AckInfo, AnyInit, Cookie, DataHeader, DecodeError, Frame, Frames, Init, OtherVersion, PeerId,
    RecordReader, Reply, Ticket, TransportParameters, encode_ack, record_header,
};

/// Frames of a payload.
pub fn frames(bytes: &[u8]) {
    let mut left = bytes;
    for frame in Frames::new(bytes) {
        let Ok(frame) = frame else { return };
        let before = left.len();
        assert_eq!(
            Frame::decode(&mut left).as_ref(),
            Ok(&frame),
            "the two ways to decode agree"
        );
        assert!(left.len() < before, "every frame takes bytes");
        let encoded = frame_again(&frame);
        assert!(
            encoded.len() <= before - left.len(),
            "our encoding is the shortest"
        );
        if let Frame::Ack(ack) = &frame {
            ack_again(ack);
        }
    }
    assert!(left.is_empty());
}

/// The header of a DATA packet.
pub fn data_header(bytes: &[u8]) {
    if let Ok(header) = DataHeader::decode(bytes) {
        assert_eq!(header.to_bytes(), bytes[..DataHeader::LEN]);
    }
}

/// A byte stream of records; the first byte says how many bytes are read at a time.
pub fn records(bytes: &[u8]) {
    let Some((&most, mut left)) = bytes.split_first() else {
        return;
    };
    let mut reader = RecordReader::new();
    let mut again = Vec::new();
    while !left.is_empty() {
        let space = reader.space();
        let len = space.len().min(left.len()).min(usize::from(most) + 1);
        assert!(len > 0, "there is always room");
        space[..len].copy_from_slice(&left[..len]);
        reader.filled(len);
        left = &left[len..];
        loop {
            match reader.next() {
                Ok(Some(record)) => {
                    let header = record_header(record.len()).expect("it came that way");
                    again.extend(header);
                    again.extend_from_slice(record);
                }
                Ok(None) => break,
                Err(_) => {
                    assert!(reader.next().is_err(), "nothing comes behind an error");
                    left = &[];
                    break;
                }
            }
        }
    }
    assert_eq!(again, bytes[1..=again.len()], "what came out came in");
}

/// An INIT.
pub fn init(bytes: &[u8]) {
    if let Ok(init) = Init::decode(bytes) {
        let again = init.seal(|authenticated| {
            assert_eq!(authenticated, init.authenticated);
            *init.mac1
        });
        assert_eq!(again, bytes);
    }
}

/// A REPLY.
pub fn reply(bytes: &[u8]) {
    if let Ok(reply) = Reply::decode(bytes) {
        let again = reply.seal(|authenticated| {
            assert_eq!(authenticated, reply.authenticated);
            *reply.mac1
        });
        assert_eq!(again, bytes);
    }
}

/// A COOKIE.
pub fn cookie(bytes: &[u8]) {
    if let Ok(cookie) = Cookie::decode(bytes) {
        let again = cookie.seal(|authenticated| {
            assert_eq!(authenticated, cookie.authenticated);
            *cookie.mac1
        });
        assert_eq!(again, bytes);
    }
}

/// A VERSION, or the INIT that it answers.
pub fn other_version(bytes: &[u8]) {
    if let Ok(answer) = OtherVersion::decode(bytes) {
        let again = answer.seal(|authenticated| {
            assert_eq!(authenticated, answer.authenticated);
            *answer.mac1
        });
        assert_eq!(again, bytes);
    }
    // Whoever can't be read but is of another version is told ours.
    let unsupported = DecodeError::UnsupportedVersion { found: 0 };
    if let Err(error) = Init::decode(bytes)
        && std::mem::discriminant(&error) == std::mem::discriminant(&unsupported)
        && bytes.len() == crate::INIT_LEN
    {
        assert!(AnyInit::decode(bytes).is_ok());
    }
}

/// Transport parameters.
pub fn params(bytes: &[u8]) {
    if let Ok(params) = TransportParameters::decode(bytes) {
        assert_eq!(TransportParameters::decode(&params.to_bytes()), Ok(params));
    }
}

/// A ticket's text.
pub fn ticket(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Ok(ticket) = text.parse::<Ticket>() {
        assert_eq!(ticket.to_string(), text.trim());
    }
}

/// A peer id's text.
pub fn peer_id(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Ok(id) = text.parse::<PeerId>() {
        assert_eq!(id.to_string(), text.trim());
    }
}

/// A datagram to a relay: FORWARD, HELLO, LISTEN or MINT.
pub fn relay_request(bytes: &[u8]) {
    match RelayType::of(bytes) {
        Some(RelayType::Hello) => {
            if let Ok(hello) = Hello::decode(bytes) {
                assert_eq!(hello.to_bytes(), bytes);
            }
        }
        Some(RelayType::Listen) => {
            if let Ok(listen) = Listen::decode(bytes) {
                assert_eq!(listen.to_bytes(), bytes);
            }
        }
        Some(RelayType::Mint) => {
            if let Ok((mint, signature)) = Mint::decode(bytes) {
                assert_eq!(mint.seal(|_| signature), bytes);
            }
        }
        _ => forward(bytes),
    }
}

fn forward(bytes: &[u8]) {
    if let Ok(header) = ForwardHeader::decode(bytes) {
        let grant = Grant::from(header);
        assert_eq!(grant.header(), &header);
        assert_eq!(Grant::in_front_of(bytes), Ok(grant));
        assert!(bytes.starts_with(grant.as_bytes()));
        assert_eq!(Grant::decode(grant.as_bytes()), Ok(grant));
    }
}

/// A datagram from a relay to its clients, and what they pass on.
pub fn relay_reply(bytes: &[u8]) {
    match RelayReply::decode(bytes) {
        Ok(RelayReply::Consent(reply)) => {
            assert_eq!(reply.to_bytes(), bytes);
            let consent = reply.consent;
            assert_eq!(Consent::decode(&consent.to_bytes()), Ok(consent));
        }
        Ok(RelayReply::Minted(minted)) => {
            let mut again = Vec::new();
            minted.encode(&mut again);
            assert_eq!(again, bytes);
        }
        Ok(RelayReply::Refused(refused)) => assert_eq!(refused.to_bytes(), bytes),
        Ok(RelayReply::Stale(stale)) => assert_eq!(stale.to_bytes(), bytes),
        Err(_) => {}
    }
}

/// A message to a relay over TCP.
pub fn relay_stream_request(bytes: &[u8]) {
    if let Ok(request) = StreamRequest::decode(bytes) {
        assert_eq!(stream_request_len(bytes[0]), Some(bytes.len()));
        assert_eq!(request.to_bytes(), bytes);
    }
}

/// A message from a relay over TCP.
pub fn relay_stream_reply(bytes: &[u8]) {
    if let Ok(reply) = StreamReply::decode(bytes) {
        assert_eq!(stream_reply_len(bytes[0]), Some(bytes.len()));
        assert_eq!(reply.to_bytes(), bytes);
    }
}

/// A voucher.
pub fn voucher(bytes: &[u8]) {
    if let Ok(voucher) = Voucher::decode(bytes) {
        assert_eq!(voucher.to_bytes(), bytes);
    }
}

/// A relay's text.
pub fn relay_ticket(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Ok(ticket) = text.parse::<RelayTicket>() {
        assert_eq!(ticket.to_string(), text.trim());
    }
}

fn frame_again(frame: &Frame<'_>) -> Vec<u8> {
    let mut encoded = Vec::new();
    frame.encode(&mut encoded);
    assert_eq!(encoded.len(), frame.encoded_len());
    let mut rest = &*encoded;
    assert_eq!(Frame::decode(&mut rest).as_ref(), Ok(frame));
    assert!(rest.is_empty());
    encoded
}

/// The ACK builder writes the same as the given frame, and never exceeds its budget.
fn ack_again(ack: &crate::AckFrame<'_>) {
    let info: AckInfo = ack.info;
    let mut whole = Vec::new();
    let len = encode_ack(&mut whole, &info, ack.ranges(), usize::MAX);
    assert_eq!(len, whole.len());
    assert_eq!(Frame::decode(&mut &*whole), Ok(Frame::Ack(*ack)));
    for budget in [0, len / 2, len - 1] {
        let mut part = Vec::new();
        let len = encode_ack(&mut part, &info, ack.ranges(), budget);
        assert_eq!(len, part.len());
        assert!(len <= budget);
        if len == 0 {
            continue;
        }
        let Ok(Frame::Ack(shorter)) = Frame::decode(&mut &*part) else {
            panic!("no ACK came out")
        };
        assert_eq!(shorter.info, info);
        let kept = shorter.ranges().count();
        assert!(kept < ack.ranges().count());
        assert!(shorter.ranges().eq(ack.ranges().take(kept)));
    }
}

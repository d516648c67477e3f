//! What the fuzz targets in `fuzz/` run, and the test that replays their corpus: decode anything; what decodes must
//! come out the same after encoding and decoding once more. These functions panic where the codecs are wrong.

use crate::{
    AckInfo, Cookie, DataHeader, Frame, Frames, Init, Reply, Ticket, TransportParameters,
    encode_ack,
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

fn frame_again(frame: &Frame<'_>) -> Vec<u8> {
    let mut encoded = Vec::new();
    frame.encode(&mut encoded);
    assert_eq!(encoded.len(), frame.encoded_len());
    let mut rest = &*encoded;
    assert_eq!(Frame::decode(&mut rest).as_ref(), Ok(frame));
    assert!(rest.is_empty());
    encoded
}

/// The builder of ACKs says the same as the frame it was given, and never passes its budget.
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

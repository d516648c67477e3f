//! What the fuzz targets run, shared with the test that replays their corpus: decode, and whatever
//! decodes must survive its own encoding.

use crate::{DATA_HEADER_LEN, DataHeader, Frame, Frames, Init, Reply, Ticket, TransportParameters};

/// A packet's plaintext.
pub fn frames(bytes: &[u8]) {
    let Ok(frames) = Frames::new(bytes).collect::<Result<Vec<Frame<'_>>, _>>() else { return };
    let mut again = Vec::new();
    for frame in &frames {
        let before = again.len();
        frame.encode(&mut again);
        assert_eq!(again.len() - before, frame.encoded_len());
    }
    let decoded: Result<Vec<_>, _> = Frames::new(&again).collect();
    assert_eq!(decoded.as_deref(), Ok(&frames[..]));
}

/// The header of a DATA packet.
pub fn data_header(bytes: &[u8]) {
    let Ok(header) = DataHeader::decode(bytes) else { return };
    let mut again = Vec::new();
    header.encode(&mut again);
    assert_eq!(again, bytes[..DATA_HEADER_LEN]);
}

/// An INIT.
pub fn init(bytes: &[u8]) {
    let Ok(init) = Init::decode(bytes) else { return };
    let mac1 = init.mac1.try_into().expect("the decoder cut it to size");
    let again = init.message.seal(|_| mac1);
    assert_eq!(Init::decode(&again).map(|i| i.message), Ok(init.message));
}

/// A REPLY.
pub fn reply(bytes: &[u8]) {
    let Ok(reply) = Reply::decode(bytes) else { return };
    let mac1 = reply.mac1.try_into().expect("the decoder cut it to size");
    assert_eq!(reply.message.seal(|_| mac1), bytes);
}

/// Transport parameters.
pub fn params(bytes: &[u8]) {
    let Ok(params) = TransportParameters::decode(bytes) else { return };
    assert_eq!(TransportParameters::decode(&params.to_bytes()), Ok(params));
}

/// A ticket's text.
pub fn ticket(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(ticket) = text.parse::<Ticket>() else { return };
    assert_eq!(ticket.to_string().parse(), Ok(ticket));
}

//! The frames' type bytes.

pub(crate) const PADDING: u8 = 0x00;
pub(crate) const PING: u8 = 0x01;
pub(crate) const ACK: u8 = 0x02;
pub(crate) const ACK_ECN: u8 = 0x03;
pub(crate) const STREAM: u8 = 0x04;
pub(crate) const STREAM_FIN: u8 = 0x05;
pub(crate) const RESET_STREAM: u8 = 0x06;
pub(crate) const STOP_SENDING: u8 = 0x07;
pub(crate) const MAX_DATA: u8 = 0x08;
pub(crate) const MAX_STREAM_DATA: u8 = 0x09;
pub(crate) const MAX_STREAMS: u8 = 0x0a;
pub(crate) const FILLER: u8 = 0x0b;
pub(crate) const DATAGRAM: u8 = 0x0c;
pub(crate) const MAX_STREAMS_UNI: u8 = 0x0d;
pub(crate) const PATH_CHALLENGE: u8 = 0x10;
pub(crate) const PATH_RESPONSE: u8 = 0x11;
pub(crate) const PATH_ID: u8 = 0x12;
pub(crate) const PATH_ABANDON: u8 = 0x14;
pub(crate) const ADDRESSES: u8 = 0x18;
pub(crate) const RELAY: u8 = 0x19;
pub(crate) const CONSENT: u8 = 0x1a;
pub(crate) const GRANT: u8 = 0x1b;
pub(crate) const CLOSE: u8 = 0x1c;

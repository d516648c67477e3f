//! Packets and settings of all experiments with sessions.

use manyway_control::LawSpec;
use manyway_session::{Config, StreamId};
use manyway_simulate::World;
use manyway_simulate::stack::SessionHost;
use manyway_wire::{DATA_HEADER_LEN, Frame, TAG_LEN};

/// Bytes of an outer packet, with its IPv4 and UDP headers.
pub(super) const PACKET_BYTES: usize = 1500;

/// Stream bytes in a full packet of [`PACKET_BYTES`]: what is left beside IPv4 and UDP (28), our
/// header (14), the AEAD's tag (16) and the header of a STREAM frame (8, at an offset between 16
/// KiB and 1 GiB).
pub(super) fn payload_bytes() -> usize {
    let frame = Frame::Stream {
        stream: StreamId(0),
        offset: 1 << 29,
        fin: false,
        data: &[0; 1400],
    };
    let frame_header = frame.encoded_len() - 1400;
    udp_payload() - DATA_HEADER_LEN - TAG_LEN - frame_header
}

fn udp_payload() -> usize {
    PACKET_BYTES - World::<SessionHost>::HEADER_BYTES as usize
}

/// What both sides of an experiment's connection run with; everything else is a default.
pub(super) fn config(law: &LawSpec) -> Config {
    Config {
        max_datagram: udp_payload(),
        // Known here: nothing to look for.
        initial_datagram: udp_payload(),
        cc: law.clone(),
        ..Config::default()
    }
}

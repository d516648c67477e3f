//! The experiments that the house is judged by, as functions of a seed: the same code runs them in
//! full and, shortened, as tests.
//!
//! Everywhere one-way delays, DropTail of one bandwidth-delay product (rate × round trip) and outer
//! packets of 1500 bytes.

mod aggregation;
mod fairness;
mod return_path;

pub use aggregation::{AGGREGATION_NETWORKS, Aggregation, AggregationRun, PathRun};
pub use fairness::{Fairness, FairnessRun};
pub use return_path::{ReturnPath, ReturnPathRun};

use manyway_control::LawSpec;
use manyway_session::{Config, StreamId};
use manyway_wire::{DATA_HEADER_LEN, Frame, TAG_LEN};

use super::SessionHost;
use crate::World;

/// Bytes of an outer packet, with its IPv4 and UDP headers.
pub const PACKET_BYTES: usize = 1500;

/// Stream bytes in a full packet of [`PACKET_BYTES`]: what is left beside IPv4 and UDP (28), our
/// header (14), the AEAD's tag (16) and the header of a STREAM frame (8, at an offset between 16
/// KiB and 1 GiB).
pub fn payload_bytes() -> usize {
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

/// What both sides of an experiment's connection run with; all else as shipped.
fn config(law: &LawSpec) -> Config {
    Config {
        max_datagram: udp_payload(),
        // Known here: nothing to look for.
        initial_datagram: udp_payload(),
        cc: law.clone(),
        ..Config::default()
    }
}

use std::net::SocketAddr;

use manyway_wire::relay::{Consent, Grant};
use manyway_wire::{ConnectionId, Frame, PathId};

use crate::relays::RelayAddress;
use crate::streams;

/// A frame that has to arrive but is not stream data; sent again when its packet is lost.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Control {
    Stream(streams::Control),
    PathId {
        path: PathId,
        cid: ConnectionId,
    },
    Abandon {
        path: PathId,
        code: u64,
    },
    Addresses {
        seq: u64,
        addresses: Vec<SocketAddr>,
    },
    Relay {
        slot: u16,
        seq: u64,
        relay: Option<RelayAddress>,
    },
    Consent {
        slot: u16,
        seq: u64,
        consent: Consent,
    },
    Grant {
        path: PathId,
        seq: u64,
        grant: Grant,
    },
}

impl Control {
    /// Writes the frame if it fits into `room`.
    pub(super) fn encode(&self, buf: &mut Vec<u8>, room: usize) -> bool {
        let list;
        let frame = match self {
            Control::Stream(control) => stream_frame(control),
            Control::PathId { path, cid } => Frame::PathId {
                path: *path,
                cid: *cid,
            },
            Control::Abandon { path, code } => Frame::PathAbandon {
                path: *path,
                code: *code,
            },
            Control::Addresses { seq, addresses } => {
                list = addresses.clone();
                Frame::Addresses {
                    seq: *seq,
                    addresses: list,
                }
            }
            Control::Relay { slot, seq, relay } => Frame::Relay {
                slot: *slot,
                seq: *seq,
                relay: relay.map(|relay| (relay.address, relay.id)),
            },
            Control::Consent { slot, seq, consent } => Frame::Consent {
                slot: *slot,
                seq: *seq,
                consent: *consent,
            },
            Control::Grant { path, seq, grant } => Frame::Grant {
                path: *path,
                seq: *seq,
                grant: *grant,
            },
        };
        let fits = frame.encoded_len() <= room;
        if fits {
            frame.encode(buf);
        }
        fits
    }
}

fn stream_frame(control: &streams::Control) -> Frame<'static> {
    match *control {
        streams::Control::MaxData(max) => Frame::MaxData { max },
        streams::Control::MaxStreamData { stream, max } => Frame::MaxStreamData { stream, max },
        streams::Control::MaxStreams(count) => Frame::MaxStreams { count },
        streams::Control::Reset {
            stream,
            code,
            final_size,
        } => Frame::ResetStream {
            stream,
            code,
            final_size,
        },
        streams::Control::Stop { stream, code } => Frame::StopSending { stream, code },
    }
}

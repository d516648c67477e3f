//! The codecs against their seeds and their documents.

mod corpus;
mod protocol_md;
mod relays_md;

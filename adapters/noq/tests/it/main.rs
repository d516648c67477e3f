//! Real noq connections under our laws: in virtual time over simulated links, where shares are
//! compared, and over UDP sockets.

#[path = "../../examples/transfers/lab.rs"]
mod lab;
mod shares;
mod simulated;
mod transfers;

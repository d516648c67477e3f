//! `tun`: IP packets of any program over all paths.

use clap::Args;

use super::network::{NetworkArgs, RelaySourceArgs};
use super::transfer::{CodeArgs, LastingArgs, TicketArgs};
use crate::cidr::{Cidr, Interface};

/// Carry the packets of any program over all paths (Linux, root)
///
/// Makes a network device on each of two hosts. What programs send to the other side's addresses
/// goes over all paths, encrypted. Without a ticket, manyway prints one and waits; the other side
/// gets it. One peer at a time uses the tunnel: whoever connects with the ticket takes it over. The
/// device is there for as long as manyway runs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TunArgs {
    /// Ticket or code of the other side's `manyway tun` (mw1…, 7-guitar-saddle-orbit), @FILE with
    /// it, or the name of a peer
    #[arg(value_name = "TICKET")]
    pub(crate) ticket: Option<String>,

    /// Ticket or code of the other side's `manyway tun`, @FILE, or the name of a peer, as an option
    #[arg(long, value_name = "TICKET")]
    pub(crate) to: Option<String>,

    /// This host's address in the tunnel, with the bits of the tunnel's network, e.g. 10.77.0.1/24;
    /// repeatable
    ///
    /// Both sides choose an address of the same network that nothing else uses here.
    #[arg(
        long,
        value_name = "ADDR/BITS",
        required = true,
        value_delimiter = ',',
        help_heading = "Tunnel"
    )]
    pub(crate) address: Vec<Interface>,

    /// Name of the network device
    #[arg(
        long,
        value_name = "NAME",
        default_value = "mw0",
        help_heading = "Tunnel"
    )]
    pub(crate) name: String,

    /// Largest packet in the tunnel, in bytes; the smaller of the two sides' values applies
    ///
    /// manyway adds 100 bytes to each packet and uses only paths that carry the result. IPv6 needs
    /// at least 1280, which nearly every path carries. Paths with Ethernet's 1500 bytes carry 1350.
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1280,
        value_parser = clap::value_parser!(u16).range(576..=8800),
        help_heading = "Tunnel"
    )]
    pub(crate) mtu: u16,

    /// Network that this host reaches through the tunnel; repeatable
    ///
    /// manyway adds a route for it, and takes packets that come from it. `0.0.0.0/0` stands for all
    /// of IPv4; manyway's own packets keep to their interfaces.
    #[arg(
        long,
        value_name = "NET/BITS",
        value_delimiter = ',',
        help_heading = "Tunnel"
    )]
    pub(crate) route: Vec<Cidr>,

    /// Network whose packets this host takes from the tunnel, without a route; repeatable
    ///
    /// Without this option, manyway takes packets from the tunnel's network and from the networks
    /// of `--route`, and drops others: the other side can't pretend to be somebody else.
    #[arg(
        long,
        value_name = "NET/BITS",
        value_delimiter = ',',
        help_heading = "Tunnel"
    )]
    pub(crate) allow_from: Vec<Cidr>,

    #[command(flatten)]
    pub(crate) lasting: LastingArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) relays: RelaySourceArgs,
    #[command(flatten)]
    pub(crate) announce: TicketArgs,
    #[command(flatten)]
    pub(crate) code: CodeArgs,
}

const EXAMPLES: &str = "\
Examples:
  manyway tun --address 10.77.0.1/24                prints a ticket and waits
  manyway tun mw1… --address 10.77.0.2/24           then: ping 10.77.0.1
  manyway tun @ticket --address 10.77.0.2/24 --route 192.168.5.0/24
  manyway tun @ticket --address 10.77.0.2/24 --address fd77::2/64 --path eth0 --path wwan0";

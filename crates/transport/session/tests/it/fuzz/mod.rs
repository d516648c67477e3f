//! Whole connections, driven by bytes that a fuzzer chooses: `fuzz/` runs this, and so do tests.

mod choices;
mod frames;
mod hostile;
mod ledger;
mod network;
#[cfg(test)]
mod tests;

use choices::Choices;

/// One connection and what happens to it. The first choice says who is who: our listener and a
/// hostile initiator, our initiator and a hostile listener, or two honest ends and a hostile
/// network.
pub(crate) fn connection(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    match choices.byte() % 3 {
        0 => hostile::initiator(choices),
        1 => hostile::listener(choices),
        _ => network::network(choices),
    }
}

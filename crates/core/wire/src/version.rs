/// The version of the protocol that this crate speaks. `docs/protocol.md` lists what each changed.
pub const VERSION: u8 = 3;

//! Random numbers of a link: a generator for each purpose.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// What a link draws random numbers for: each purpose has a generator of its own, so that one
/// impairment doesn't change the draws of another.
#[derive(Debug, Copy, Clone)]
#[repr(u64)]
pub(crate) enum Purpose {
    Loss = 0,
    // Any numbers that seeds don't differ by in practice.
    Jitter = 0x9e6c_63d0_876a_4f35,
    Late = 0x2f1b_94d5_6ac3_e817,
    Rate = 0x85d3_1f6a_0be7_4c29,
    /// Of queues that drop at random.
    Queue = 0x4b7d_0c1e_f32a_98d6,
    /// Whether a packet finds room beside a fluid.
    Fluid = 0x1d6e_a839_5f04_c7b2,
}

pub(crate) type Generator = Pcg64Mcg;

pub(crate) fn generator(seed: u64, purpose: Purpose) -> Generator {
    Pcg64Mcg::seed_from_u64(seed ^ purpose as u64)
}

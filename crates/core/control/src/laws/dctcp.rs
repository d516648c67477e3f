//! DCTCP, a law that remembers which share of its packets was marked.

use crate::law::{Law, Path};

/// Data Center TCP (RFC 8257; Alizadeh et al., SIGCOMM 2010) on every path by itself: a window that
/// is marked shrinks by half of the share `α` of marked packets, `D_r = α_r w_r/2`, and by half of
/// itself when packets are lost; `I_r = 1/w_r`.
///
/// At the end of each round trip, `α ← (1 − g)α + gF`, where `F` is the share of its packets that
/// were marked. `α` is 1 at first (section 3.3). The window is that of a scalable law: it goes with
/// the inverse of the share of marks.
///
/// Where the RFC is silent, the law does as TCP Prague
/// (draft-briscoe-iccrg-prague-congestion-control): packets that weren't marked let the window grow
/// also in the round trip after a cut by marks. The peer counts marks, so that delayed
/// acknowledgements need no state machine (section 3.2).
#[derive(Clone, Debug, PartialEq)]
pub struct Dctcp {
    g: f64,
    memory: Vec<Memory>,
}

#[derive(Copy, Clone, Debug, PartialEq)]
struct Memory {
    /// `DCTCP.Alpha`.
    alpha: f64,
    /// Packets of this round trip, and those of them that were marked.
    acked: f64,
    marked: f64,
    /// The next cut is one by marks.
    by_marks: bool,
}

impl Dctcp {
    /// With the estimation gain `g`, above 0 and at most 1.
    pub fn new(g: f64) -> Self {
        Self {
            g,
            memory: Vec::new(),
        }
    }

    /// `α_r`; 0 without such a path.
    pub fn alpha(&self, r: usize) -> f64 {
        self.memory.get(r).map_or(0.0, |memory| memory.alpha)
    }
}

impl Law for Dctcp {
    fn increase(&self, paths: &[Path<f64>], r: usize) -> f64 {
        paths[r].window.recip()
    }

    fn decrease(&self, paths: &[Path<f64>], r: usize) -> f64 {
        let memory = &self.memory[r];
        let share = if memory.by_marks { memory.alpha } else { 1.0 };
        paths[r].window * share / 2.0
    }

    fn name(&self) -> &'static str {
        "dctcp"
    }

    fn min_ssthresh(&self, _: usize) -> f64 {
        2.0
    }

    fn grows_between_marks(&self) -> bool {
        true
    }

    fn on_path_added(&mut self, _: u32) {
        self.memory.push(Memory {
            alpha: 1.0,
            acked: 0.0,
            marked: 0.0,
            by_marks: false,
        });
    }

    fn on_path_removed(&mut self, r: usize) {
        self.memory.swap_remove(r);
    }

    fn on_acked(&mut self, r: usize, packets: f64, _: f64) {
        self.memory[r].acked += packets;
    }

    fn on_marked(&mut self, r: usize, packets: f64) {
        self.memory[r].marked += packets;
    }

    fn on_lost(&mut self, r: usize) {
        self.memory[r].by_marks = false;
    }

    fn on_cut_by_marks(&mut self, r: usize) {
        self.memory[r].by_marks = true;
    }

    fn on_round_end(&mut self, r: usize) {
        let (g, memory) = (self.g, &mut self.memory[r]);
        if memory.acked > 0.0 {
            // A marked packet may be smaller than one of the window.
            let share = (memory.marked / memory.acked).min(1.0);
            memory.alpha += g * (share - memory.alpha);
            (memory.acked, memory.marked) = (0.0, 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law() -> Dctcp {
        let mut law = Dctcp::new(0.25);
        law.on_path_added(1500);
        law.on_path_added(1500);
        law
    }

    /// Section 3.3, steps 1 to 7, worked by hand.
    #[test]
    fn alpha_averages_the_share_of_marks() {
        let mut law = law();
        assert_eq!(law.alpha(1), 1.0);
        for (acked, marked, alpha) in [
            (10.0, 0.0, 0.75),
            (10.0, 5.0, 0.6875),
            // Nothing came: nothing is learnt.
            (0.0, 0.0, 0.6875),
            (4.0, 8.0, 0.765625),
        ] {
            law.on_acked(1, acked, 0.1);
            law.on_marked(1, marked);
            law.on_round_end(1);
            assert!((law.alpha(1) - alpha).abs() < 1e-12, "{}", law.alpha(1));
        }
        assert_eq!(law.alpha(0), 1.0, "each path by itself");
    }

    /// A law that a program adds is in a box.
    #[test]
    fn in_a_box_it_hears_of_marks_too() {
        fn cut(mut law: impl Law) -> (f64, bool) {
            law.on_acked(0, 10.0, 0.1);
            law.on_marked(0, 2.0);
            law.on_round_end(0);
            law.on_cut_by_marks(0);
            let path = Path {
                window: 40.0,
                rtt: 0.1,
            };
            (law.decrease(&[path; 2], 0), law.grows_between_marks())
        }
        let boxed: Box<dyn Law> = Box::new(law());
        assert_eq!(cut(boxed), cut(law()));
        assert_eq!(cut(law()), (16.0, true));
    }

    #[test]
    fn marks_cut_by_their_share_and_losses_by_half() {
        let mut law = law();
        law.on_acked(0, 10.0, 0.1);
        law.on_round_end(0);
        let path = Path {
            window: 40.0,
            rtt: 0.1,
        };
        law.on_cut_by_marks(0);
        assert_eq!(law.decrease(&[path; 2], 0), 15.0);
        law.on_lost(0);
        assert_eq!(law.decrease(&[path; 2], 0), 20.0);
        assert_eq!(law.increase(&[path; 2], 0), 0.025);
    }
}

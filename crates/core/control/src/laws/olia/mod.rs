//! OLIA, a law that remembers each path's losses.

use crate::law::{Law, Path, total_rate};

/// OLIA, the opportunistic linked increases algorithm of Khalili et al. (CoNEXT 2012 and
/// draft-khalili-mptcp-congestion-control-05): `I_r = (w_r/τ_r²)/S² + α_r/w_r`, `D_r = w_r/2`.
///
/// `α` moves window from the paths with the largest ones, the set `M`, to the best paths among the
/// others. A path's quality is what a TCP flow would get from it: `ℓ_r`, the larger of the bytes
/// acknowledged between its last two losses and since its last one, estimates the inverse of its
/// loss probability, so the rate is `√(2ℓ_r)/τ_r`. The best paths `B` are those with the largest
/// `ℓ_r/τ_r²`. With n paths, `α_r` is `1/(n·|B∖M|)` for those in `B∖M`, `−1/(n·|M|)` for those in
/// `M`, and 0 for the rest, and for all when `B∖M` is empty. `Σ α_r = 0`.
///
/// Where the sources differ or are silent:
/// * `ℓ_r/τ_r²` is the rule of the authors' implementation in the Linux kernel, with which the
///   papers' experiments were made, and it ranks paths by the rate above. Implementations of the
///   draft elsewhere have `ℓ_r²/τ_r`, which prefers a long path with few losses to a quicker one.
/// * `M` compares whole packets, as the kernel does: windows that are spent in whole packets differ
///   by nothing else. Exact comparison of fractions would put one path alone into `M` at all times.
/// * The smallest window is 1 with more than one path, as in the authors' implementation (later
///   kernels have 2), else Reno's 2.
/// * `α_r` may shrink a window below the slow-start threshold; it then slow-starts back, as in the
///   kernel. So the threshold, half the window at the last loss, is the least that `α` leaves to a
///   path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Olia {
    memory: Vec<Memory>,
}

/// What OLIA remembers of a path.
#[derive(Copy, Clone, Debug, PartialEq)]
struct Memory {
    packet_size: f64,
    /// Bytes acknowledged between the last two losses (or before the first), and since the last
    /// one.
    between: f64,
    since: f64,
    /// `between` before the last loss.
    earlier: f64,
    rtt: f64,
    /// `ℓ/τ²`, in bytes/s²; kept, for it is compared more often than it changes.
    quality: f64,
}

impl Olia {
    /// `α_r`.
    fn alpha(&self, paths: &[Path<f64>], r: usize) -> f64 {
        let largest = paths.iter().map(whole).max().unwrap_or(0);
        let qualities = self.memory.iter().map(|memory| memory.quality);
        let best = qualities.fold(0.0, f64::max);

        let (mut in_m, mut in_b_not_m) = (0, 0);
        for (path, memory) in paths.iter().zip(&self.memory) {
            let is_in_m = whole(path) == largest;
            in_m += u32::from(is_in_m);
            in_b_not_m += u32::from(!is_in_m && memory.quality == best);
        }

        let n = paths.len() as f64;
        if in_b_not_m == 0 {
            0.0
        } else if whole(&paths[r]) == largest {
            -1.0 / (n * f64::from(in_m))
        } else if self.memory[r].quality == best {
            1.0 / (n * f64::from(in_b_not_m))
        } else {
            0.0
        }
    }
}

/// The window in whole packets.
fn whole(path: &Path<f64>) -> u64 {
    path.window as u64
}

impl Law for Olia {
    fn increase(&self, paths: &[Path<f64>], r: usize) -> f64 {
        let path = &paths[r];
        let total = total_rate(paths);
        path.rate() / (path.rtt * total * total) + self.alpha(paths, r) / path.window
    }

    fn decrease(&self, paths: &[Path<f64>], r: usize) -> f64 {
        paths[r].window / 2.0
    }

    fn name(&self) -> &'static str {
        "olia"
    }

    fn min_ssthresh(&self, paths: usize) -> f64 {
        if paths > 1 { 1.0 } else { 2.0 }
    }

    fn on_path_added(&mut self, packet_size: u32) {
        self.memory.push(Memory {
            packet_size: f64::from(packet_size),
            between: 0.0,
            since: 0.0,
            earlier: 0.0,
            rtt: 1.0,
            quality: 0.0,
        });
    }

    fn on_path_removed(&mut self, r: usize) {
        self.memory.swap_remove(r);
    }

    fn on_packet_size(&mut self, r: usize, bytes: u32) {
        self.memory[r].packet_size = f64::from(bytes);
    }

    #[inline]
    fn on_acked(&mut self, r: usize, packets: f64, rtt: f64) {
        let memory = &mut self.memory[r];
        memory.since += packets * memory.packet_size;
        memory.rtt = rtt;
        memory.judge();
    }

    fn on_lost(&mut self, r: usize) {
        let memory = &mut self.memory[r];
        memory.earlier = std::mem::replace(&mut memory.between, memory.since);
        memory.since = 0.0;
        memory.judge();
    }

    fn on_spurious_loss(&mut self, r: usize) {
        let memory = &mut self.memory[r];
        memory.since += std::mem::replace(&mut memory.between, memory.earlier);
        memory.judge();
    }
}

impl Memory {
    #[inline]
    fn judge(&mut self) {
        self.quality = self.between.max(self.since) / (self.rtt * self.rtt);
    }
}

#[cfg(test)]
mod tests;

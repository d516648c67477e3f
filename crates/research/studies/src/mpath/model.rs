//! The model of section 3, for one user with the direct path and one proxied path: time goes in
//! steps of a round trip, and the links have capacities instead of queues. The steps are those of
//! the law's own controller, so that eq. (3) to (6) are its behaviour here, and not written again.

use std::time::Duration;

use manyway_control::laws::AnyController;
use manyway_control::{
    Ack, Controller, LawSpec, Loss, NewPath, Options, PathVerdict, Slot, Target,
};
use manyway_units::Time;

use crate::failure::Failure;
use crate::gate::{Gate, gate};

/// The access link's capacity, X_goal, packets in flight: far above the law's smallest window.
const ACCESS: f64 = 1000.0;
/// So many shared losses are compared with eq. (7).
const LOSSES: usize = 4;
const STEPS: u32 = 20_000;
const RTT: Duration = Duration::from_millis(100);

/// One user, and what the direct path's core link carries, X_goal of path 0.
struct User {
    law: AnyController,
    direct: Slot,
    proxied: Slot,
    direct_core: f64,
    /// Whether the proxied path is closed when the law says that it is drained, as by a path
    /// manager.
    closes: bool,
    now: Time,
}

impl User {
    fn new(direct_core: f64) -> Result<Self, Failure> {
        let mut law = "mpath".parse::<LawSpec>()?.controller(&Options::default());
        let path = NewPath {
            now: Time::ZERO,
            initial_window: 10.0,
            packet_size: 1000,
            initial_rtt: RTT,
        };
        let (direct, proxied) = (law.add_path(path), law.add_path(path));
        let half = ACCESS / 2.0;
        law.set_window(direct, half, Target::Threshold(half));
        law.set_window(proxied, half, Target::Unchanged);
        Ok(Self {
            law,
            direct,
            proxied,
            direct_core,
            closes: false,
            now: Time::ZERO + RTT,
        })
    }

    fn closing(self) -> Self {
        User {
            closes: true,
            ..self
        }
    }

    /// So many steps later.
    fn after(mut self, steps: u32) -> Self {
        for _ in 0..steps {
            self.step();
        }
        self
    }

    fn loads(&self) -> (f64, f64) {
        (self.law.window(self.direct), self.law.window(self.proxied))
    }

    /// One step; whether there was a shared loss.
    fn step(&mut self) -> bool {
        self.now += RTT;
        let (direct, proxied) = self.loads();
        let shared = direct + proxied > ACCESS;
        let direct_loses = shared || direct > self.direct_core;
        for (slot, window, loses) in [
            (self.direct, direct, direct_loses),
            (self.proxied, proxied, shared),
        ] {
            match loses {
                true => self.lose(slot),
                false => self.acknowledge(slot, window),
            }
        }
        if self.closes && self.law.verdict(self.proxied) == PathVerdict::Drained {
            // A path that isn't there has no window.
            self.law.remove_path(self.proxied);
        }
        shared
    }

    fn lose(&mut self, slot: Slot) {
        self.law.on_loss(&Loss {
            slot,
            now: self.now,
            sent: Time::from_nanos((self.now.as_nanos()) - RTT.as_nanos() as u64 / 2),
            packets: 1.0,
        });
    }

    fn acknowledge(&mut self, slot: Slot, window: f64) {
        for _ in 0..window as u32 {
            self.law.on_ack(&Ack {
                slot,
                now: self.now,
                packets: 1.0,
                rtt: RTT,
                rtt_sampled: true,
                smoothed_rtt: RTT,
                min_rtt: RTT,
                sent: self.now,
                received: None,
                app_limited: false,
                in_recovery: false,
                delivery: None,
            });
        }
    }

    /// Mean loads of the direct and the proxied path over many steps.
    fn means(mut self) -> (f64, f64) {
        let (mut direct, mut proxied) = (0.0, 0.0);
        for _ in 0..STEPS {
            self.step();
            let loads = self.loads();
            direct += loads.0;
            proxied += loads.1;
        }
        (direct / f64::from(STEPS), proxied / f64::from(STEPS))
    }
}

/// The mean load of one AIMD flow on a link of this capacity, as in Chiu and Jain's model.
fn of_one_flow(capacity: f64) -> f64 {
    0.75 * capacity
}

/// How far the proxied path's load is from eq. (7) right after each of the first shared losses, %.
fn after_losses() -> Result<[f64; LOSSES], Failure> {
    /// Section 2's share.
    const ALPHA: f64 = 0.5;
    let mut user = User::new(f64::INFINITY)?;
    let mut first = None;
    let mut off = [0.0; LOSSES];
    for (losses, off) in (1..).zip(&mut off) {
        let mut before = user.loads().1;
        while !user.step() {
            before = user.loads().1;
        }
        let first = *first.get_or_insert(before);
        let theory = (1.0 - ALPHA).powi(losses) * first / 2.0;
        *off = 100.0 * (user.loads().1 / theory - 1.0);
    }
    Ok(off)
}

/// What the section says of one proxied path.
pub(super) fn gates() -> Result<Vec<Gate>, Failure> {
    let by_loss = after_losses()?;
    let losses = (1..=LOSSES).map(|k| format!("{k} losses"));
    let shown = by_loss.map(|off| format!("{off:+.1}")).join(", ");
    let (mut access, mut direct) = (Vec::new(), Vec::new());
    for share in [0.2, 0.5, 0.8] {
        let (own, proxied) = User::new(share * ACCESS)?.means();
        let name = format!("core link of {share} of the access link");
        access.push((name.clone(), (own + proxied) / of_one_flow(ACCESS)));
        direct.push((name, own / of_one_flow(share * ACCESS)));
    }
    let part = |user: User| {
        let (direct, proxied) = user.means();
        proxied / (direct + proxied)
    };
    let redundant = part(User::new(f64::INFINITY)?);
    let closed = part(User::new(f64::INFINITY)?.closing());
    let late = part(User::new(f64::INFINITY)?.after(STEPS / 2));
    let list = |values: &[(String, f64)]| {
        let values = values.iter().map(|(_, value)| format!("{value:.2}"));
        values.collect::<Vec<_>>().join(", ")
    };
    let (access_found, direct_found) = (list(&access), list(&direct));
    Ok(vec![
        gate("mpath/figure-6").cases(losses.zip(by_loss), format!("{shown} %")),
        gate("mpath/figure-5-access").cases(access, access_found),
        gate("mpath/figure-5-direct").cases(direct, direct_found),
        gate("mpath/figure-5-redundant").value(redundant, format!("{redundant:.4}")),
        gate("mpath/figure-5-redundant-closed").value(closed, format!("{closed:.4}")),
        gate("mpath/figure-5-redundant-late").value(late, format!("{late:.4}")),
    ])
}

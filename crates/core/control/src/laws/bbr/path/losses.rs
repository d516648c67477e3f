//! What losses and marks do to a path, and what becomes of it if there were none.

use manyway_units::Time;

use super::super::state::State;
use super::{BETA, LOSS_THRESHOLD, Path, Undo};
use crate::controller::LostPacket;

impl Path {
    /// A loss event begins (§5.5.11.1, §5.6.4.4).
    pub(in crate::laws::bbr) fn on_loss(&mut self) {
        self.save_window();
        self.recovering = true;
        self.undo = Undo {
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// §5.5.10.2.
    pub(in crate::laws::bbr) fn on_packet_lost(&mut self, packet: &LostPacket) {
        self.note_loss();
        let before = packet.number.checked_sub(1);
        let adjoins = before.is_some() && before == self.last_lost;
        self.gaps += u32::from(!adjoins);
        self.last_lost = Some(packet.number);
        let (in_flight, lost) = (packet.in_flight_then as f64, packet.lost as f64);
        if self.probe_sample && lost > in_flight * LOSS_THRESHOLD {
            // What was in flight when the losses became too many, within this packet.
            let bytes = packet.bytes as f64;
            let before = in_flight - bytes;
            let prefix = (LOSS_THRESHOLD * before - (lost - bytes)) / (1.0 - LOSS_THRESHOLD);
            self.probe_lost(before + prefix, packet.app_limited, packet.now);
        }
    }

    fn note_loss(&mut self) {
        if !self.loss_in_round {
            self.loss_round = self.delivered;
        }
        self.loss_in_round = true;
    }

    /// `HandleInflightTooHigh`: a probe has put too much in flight.
    fn probe_lost(&mut self, in_flight: f64, limited: bool, now: Time) {
        self.probe_too_high = true;
        self.probe_sample = false;
        if !limited {
            self.inflight_longterm = in_flight.max(self.target() * BETA);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down(now);
        }
    }

    /// A packet came marked.
    pub(in crate::laws::bbr) fn on_mark(&mut self, now: Time) {
        self.on_loss();
        self.note_loss();
        if self.state == State::Startup {
            self.startup_lost();
        } else if self.probe_sample {
            self.probe_lost(self.target(), false, now);
        }
    }

    /// §5.6.4.4.
    pub(in crate::laws::bbr) fn on_timeout(&mut self) {
        self.on_loss();
        self.window = self.least();
    }

    /// §5.5.11.2.
    pub(in crate::laws::bbr) fn undo(&mut self, now: Time) {
        if !self.recovering {
            return;
        }
        self.recovering = false;
        self.restore_window();
        self.loss_in_round = false;
        self.reset_full();
        let before = self.undo;
        self.bw_shortterm = self.bw_shortterm.max(before.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(before.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(before.inflight_longterm);
        let resume = self.undo.state.take();
        match resume {
            Some(State::Startup) => {
                self.full_reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(_) if !matches!(self.state, State::Up | State::ProbeRtt) => {
                self.cycle_from = now;
                self.start_refill();
            }
            _ => {}
        }
    }
}

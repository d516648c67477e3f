//! What relays and carriers want, and what they have to hear.

use std::net::SocketAddr;

use manyway_units::Time;
use manyway_wire::PathId;
use manyway_wire::relay::{Consent, Grant, RelayId, RelayReply, Stale};

use crate::carrier::Carrier;
use crate::driver::LocalId;
use crate::event::PathDownReason;
use crate::relays::{Fresh, RelayAccess, RelayRoute};

use super::super::core::Core;
use super::super::detours::Change;
use super::super::paths::PathTransport;
use super::super::relayed::{Action, View};
use super::super::violation::Violation;
use super::Traffic;

fn view(core: &Core) -> View<'_> {
    View {
        paths: core.paths(),
        unsatisfied: core.data().has_any(),
        acked: core.data().acked(),
    }
}

impl Traffic {
    /// Does what relays have made necessary: after each call that may have.
    pub(super) fn carry_out(&mut self, now: Time) {
        while let Some(action) = self.relayed.next_action(now, view(&self.core)) {
            self.act(now, action);
        }
    }

    fn act(&mut self, now: Time, action: Action) {
        match action {
            Action::Open(route, transport) => self.open_route(now, route, transport),
            Action::Close(index, reason) => self.close_path(now, index, reason, true),
            Action::Backup(index, backup) => self.core.set_backup(now, index, backup),
            Action::Renew(index, header, back) => self.core.renew_relay(now, index, header, back),
            Action::Say(frame) => self.core.say_instead(frame),
            Action::Tell(event) => self.core.tell(event),
        }
    }

    fn open_route(&mut self, now: Time, route: RelayRoute, transport: PathTransport) {
        let rtt = self.core.paths().best_rtt();
        let ids = self.core.next_path();
        let begun = ids.and_then(|ids| self.relayed.begin(now, (route, transport), ids, rtt));
        let Some((new, backup)) = begun else {
            self.relayed.on_not_begun(now, route, transport);
            return;
        };
        let index = self.core.open_path(now, new);
        self.core.set_backup(now, index, backup);
    }

    /// Whether paths through relays help, if it is time to look at that.
    pub(super) fn look_at_detours(&mut self, now: Time) {
        for change in self.detours.look(now, &view(&self.core)) {
            match change {
                Change::Standby(index, standby) => self.core.set_standby(now, index, standby),
                Change::Window(index, window) => self.core.set_window(now, index, window),
            }
        }
    }

    /// Looks at what has happened to relays; costs nothing if that is nothing.
    pub(crate) fn drive(&mut self, now: Time) {
        self.relayed.drive();
        self.carry_out(now);
    }

    /// Chooses among the relays if it is time; costs nothing if it isn't.
    pub(crate) fn select(&mut self, now: Time) {
        self.relayed.select(now, view(&self.core));
        self.carry_out(now);
    }

    /// What came of a path's packets is settled. Its window was `before`, and packets are lost, or
    /// not.
    pub(super) fn observe(&mut self, now: Time, index: usize, what: (f64, bool)) {
        self.relayed.observe(now, index, what, view(&self.core));
        self.carry_out(now);
    }

    /// A probe timeout on a path. True if the path manager has dealt with it, whatever became of
    /// the path.
    pub(super) fn on_silence(&mut self, now: Time, index: usize) -> bool {
        let id = self.core.paths()[index].id();
        let dealt_with = self.relayed.on_silence(now, index, view(&self.core));
        self.carry_out(now);
        dealt_with || self.core.paths().index_of(id) != Some(index)
    }

    // The initiator.

    /// Offers relays to go through; how many were new.
    pub(crate) fn add_relays(&mut self, now: Time, relays: &[RelayAccess]) -> usize {
        let locals = self.core.locals();
        let rng = &mut self.choices;
        let added = self.relayed.add(now, relays, &locals, rng);
        self.carry_out(now);
        added
    }

    /// These relays could be dialled over TCP now.
    pub(crate) fn relays_over_tcp(&mut self, relays: &[RelayAccess]) {
        self.relayed.set_over_tcp(relays);
    }

    /// The relays that are to have a TCP connection now; `None` if all of them may.
    pub(crate) fn relays_to_dial(&self) -> Option<Vec<RelayId>> {
        self.relayed.to_dial()
    }

    /// A TCP connection to the relay, or through it, didn't come about.
    pub(crate) fn on_dial_failed(&mut self, now: Time, relay: RelayId) {
        self.relayed.on_dial_failed(now, relay);
    }

    /// Takes what a relay says; whether it was meant for us.
    pub(crate) fn on_relay_reply(
        &mut self,
        now: Time,
        from: (LocalId, SocketAddr),
        reply: &RelayReply,
    ) -> bool {
        let taken = self.relayed.on_reply(now, from, reply);
        self.carry_out(now);
        taken
    }

    /// The listener consents to a relay.
    pub(crate) fn on_consent(
        &mut self,
        now: Time,
        slot: u16,
        seq: u64,
        consent: Consent,
    ) -> Result<(), Violation> {
        if !self.initiator {
            return Err(Violation("CONSENT: only the listener consents".into()));
        }
        self.relayed.on_consent(now, slot, seq, consent);
        Ok(())
    }

    // The listener.

    /// The initiator names a relay.
    pub(crate) fn on_relay(
        &mut self,
        now: Time,
        slot: u16,
        seq: u64,
        relay: Option<(SocketAddr, RelayId)>,
    ) -> Result<(), Violation> {
        if self.initiator {
            return Err(Violation("RELAY: only the initiator names relays".into()));
        }
        for change in self.consents.on_relay(now, slot, seq, relay) {
            self.core.change(change);
        }
        Ok(())
    }

    /// The initiator says what goes in front of our datagrams on a path.
    pub(crate) fn on_grant(
        &mut self,
        now: Time,
        path: PathId,
        seq: u64,
        grant: Grant,
    ) -> Result<(), Violation> {
        if self.initiator {
            return Err(Violation("GRANT: only the initiator has grants".into()));
        }
        let path = (path, self.core.ids().local(path).is_some());
        let action = self.consents.on_grant(path, seq, grant, self.core.paths());
        action.into_iter().for_each(|action| self.act(now, action));
        Ok(())
    }

    /// Charges the peer for what goes to a relay that it has named; whether it may go.
    pub(crate) fn charge_greeting(&mut self, now: Time, bytes: u64) -> bool {
        self.consents.charge(now, bytes)
    }

    /// The relay has answered.
    pub(crate) fn refund_greetings(&mut self, bytes: u64) {
        self.consents.refund(bytes);
    }

    /// A relay has just consented to forward to us: the initiator hears of it when it needs to.
    pub(crate) fn on_fresh_consent(&mut self, now: Time, fresh: Fresh) {
        for action in self.consents.on_fresh(now, fresh, self.core.paths()) {
            self.act(now, action);
        }
    }

    /// A relay doesn't honour what goes in front of some datagrams. Whether they are ours.
    pub(crate) fn on_stale_grant(&mut self, now: Time, relay: SocketAddr, stale: &Stale) -> bool {
        let paths = self.core.paths();
        let actions = self.consents.on_stale(now, relay, stale, paths);
        let ours = actions.is_some();
        for action in actions.into_iter().flatten() {
            self.act(now, action);
        }
        ours
    }

    // Carriers.

    /// Opens a path on a carrier, as soon as the peer's connection ids are there. Whether it is
    /// wanted.
    pub(crate) fn offer_carrier(&mut self, now: Time, carrier: Carrier) -> bool {
        let wanted = self.initiator
            && (!carrier.facts.relay || self.relayed.takes_carrier_at(carrier.remote))
            && self.carriers.offer(carrier);
        if wanted {
            self.open_carriers(now);
        }
        wanted
    }

    /// Opens paths on the carriers that wait.
    pub(super) fn open_carriers(&mut self, now: Time) {
        while self.carriers.is_waiting()
            && let Some(ids) = self.core.next_path()
            && let Some(new) = self.carriers.next(ids)
        {
            let index = self.core.open_path(now, new);
            self.core.refresh(now, index);
        }
    }

    /// A carrier has broken or was closed: what was in flight on it goes over the other paths.
    pub(crate) fn remove_carrier(&mut self, now: Time, id: LocalId, reason: PathDownReason) {
        self.carriers.withdraw(id);
        if let Some(index) = self.core.paths().on_carrier(id) {
            self.close_path(now, index, reason, true);
        }
    }

    /// The driver wrote `bytes` more bytes of packets to a carrier.
    pub(crate) fn on_carrier_written(&mut self, now: Time, id: LocalId, bytes: u64) {
        if let Some(index) = self.core.paths().on_carrier(id) {
            self.core.on_written(now, index, bytes);
        }
    }

    /// The rate at which a carrier delivers, bytes/s.
    pub(crate) fn carrier_rate(&self, id: LocalId) -> Option<f64> {
        let index = self.core.paths().on_carrier(id)?;
        self.core.paths()[index].sender().carried()?.rate()
    }

    /// Holds carriers to other rates if it is time.
    pub(super) fn control_rates(&mut self, now: Time) {
        let (paths, rng) = (self.core.paths(), &mut self.choices);
        for (index, rate) in self.carriers.on_timeout(now, paths, rng) {
            self.core.set_rate(now, index, rate);
        }
    }
}

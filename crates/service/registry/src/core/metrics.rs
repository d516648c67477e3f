//! What the registry's core tells of itself.

use manyway_relay::exposition::Exposition;

use super::Core;

impl Core {
    /// Adds its counters, and those of each account.
    pub(crate) fn expose(&self, text: &mut Exposition) {
        let gauges = [
            (
                "relays",
                "Relays that clients can get.",
                self.relays.usable(),
            ),
            (
                "tcp_relays",
                "Those of them that forward streams over TCP.",
                self.relays.over_tcp(),
            ),
            (
                "listeners",
                "Listeners that can be found.",
                self.meetings.len(),
            ),
            (
                "codes",
                "One-time codes, with those that ended lately.",
                self.mailboxes.len(),
            ),
        ];
        for (name, help, value) in gauges {
            text.single(&format!("manyway_registry_{name}"), "gauge", help, value);
        }
        let help = "HELLOs over UDP that were answered with the sender's address.";
        let name = "manyway_registry_observed_total";
        text.single(name, "counter", help, self.observed);
        self.accounts.expose(text, &self.key.id());
    }
}

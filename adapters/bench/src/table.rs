//! Figures of transfers, their medians, and what they are held against.

use std::fmt::{self, Write};
use std::time::Duration;

/// The gates at 2×100 Mbps, µs a packet: a receiver's above the bare loop's, and a sender's.
const RECEIVER_ABOVE_BARE: f64 = 4.0;
const SENDER: f64 = 8.0;
/// The targets over loopback, ns a byte, of sender and receiver.
const TARGETS: [f64; 2] = [0.35, 0.42];
const QUINN: &str = "quinn, ACKs as manyway";
const ENDS: [&str; 2] = ["sender", "receiver"];

/// One transfer.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Of payload.
    pub(crate) bytes: usize,
    /// Datagrams or segments that the sender sent.
    pub(crate) packets: u64,
    /// Those that the receiver sent, if it is known.
    pub(crate) acks: Option<u64>,
    pub(crate) took: Duration,
    /// Processor time of sender and receiver.
    pub(crate) spent: [Duration; 2],
}

impl Figures {
    pub(crate) fn packets_per_ack(&self) -> Option<f64> {
        let acks = self.acks.filter(|acks| *acks > 0)?;
        Some(self.packets as f64 / acks as f64)
    }

    /// µs a packet.
    fn per_packet(&self, end: usize) -> f64 {
        self.spent[end].as_secs_f64() * 1e6 / self.packets as f64
    }

    /// ns a byte.
    fn per_byte(&self, end: usize) -> f64 {
        self.spent[end].as_secs_f64() * 1e9 / self.bytes as f64
    }

    /// Payload per time, Mbps, start and end of the processes included.
    fn rate(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.took.as_secs_f64()
    }
}

/// The rounds of every program, in the order in which they came first.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<(String, Vec<Figures>)>,
}

impl Table {
    pub(crate) fn add(&mut self, name: &str, figures: Figures) {
        match self.rows.iter_mut().find(|(known, _)| known == name) {
            Some((_, rounds)) => rounds.push(figures),
            None => self.rows.push((name.to_owned(), vec![figures])),
        }
    }

    fn median(&self, name: &str, figure: impl Fn(&Figures) -> f64) -> Option<f64> {
        let (_, rounds) = self.rows.iter().find(|(known, _)| known == name)?;
        Some(spread(rounds, figure).1)
    }

    /// What must hold at 2×100 Mbps, and whether it does.
    pub(crate) fn gates(&self) -> String {
        let mut text = String::new();
        let per_packet = |name, end| self.median(name, |figures| figures.per_packet(end));
        let bare = per_packet("bare", 1).map(|bare| bare + RECEIVER_ABOVE_BARE);
        for (end, limit, what) in [
            (0, Some(SENDER), "8".to_owned()),
            (1, bare, format!("the bare loop's + {RECEIVER_ABOVE_BARE}")),
            (0, per_packet(QUINN, 0), "quinn's".to_owned()),
            (1, per_packet(QUINN, 1), "quinn's".to_owned()),
        ] {
            if let (Some(is), Some(limit)) = (per_packet("manyway", end), limit) {
                let what = format!("manyway's {} at most {what}, µs a packet", ENDS[end]);
                verdict(&mut text, "gate", &what, is, limit);
            }
        }
        text
    }

    /// What is aimed at over loopback, and whether it is reached.
    pub(crate) fn targets(&self) -> String {
        let mut text = String::new();
        for (end, target) in TARGETS.into_iter().enumerate() {
            if let Some(is) = self.median("manyway", |figures| figures.per_byte(end)) {
                let what = format!("manyway's {} at most {target} ns a byte", ENDS[end]);
                verdict(&mut text, "target", &what, is, target);
            }
        }
        text
    }
}

fn verdict(text: &mut String, kind: &str, what: &str, is: f64, limit: f64) {
    let met = if is <= limit { "met" } else { "NOT MET" };
    // Writing to a string doesn't fail.
    let _ = writeln!(text, "{kind}: {what}: {is:.2} of {limit:.2}: {met}");
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| medians (least–most) | bytes a packet | ACKs per 100 packets | Mbps \
             | sender, µs a packet | receiver, µs a packet \
             | sender, ns a byte | receiver, ns a byte |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|")?;
        for (name, rounds) in &self.rows {
            let size = spread(rounds, |one| one.bytes as f64 / one.packets as f64).1;
            let rate = spread(rounds, Figures::rate).1;
            let acks = match rounds[0].acks {
                Some(_) => {
                    let acks = |one: &Figures| one.acks.unwrap_or(0) as f64 / one.packets as f64;
                    format!("{:.1}", 100.0 * spread(rounds, acks).1)
                }
                None => "–".to_owned(),
            };
            write!(f, "| {name} | {size:.0} | {acks} | {rate:.0} |")?;
            for end in 0..ENDS.len() {
                let (least, median, most) = spread(rounds, |one| one.per_packet(end));
                write!(f, " {median:.2} ({least:.2}–{most:.2}) |")?;
            }
            for end in 0..ENDS.len() {
                let (least, median, most) = spread(rounds, |one| one.per_byte(end));
                write!(f, " {median:.3} ({least:.3}–{most:.3}) |")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Least, median and most.
fn spread(rounds: &[Figures], figure: impl Fn(&Figures) -> f64) -> (f64, f64, f64) {
    let mut values: Vec<f64> = rounds.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    let (least, most) = (values[0], values[values.len() - 1]);
    (least, values[values.len() / 2], most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(micros: [u64; 2]) -> Figures {
        Figures {
            bytes: 1_000_000,
            packets: 1000,
            acks: Some(100),
            took: Duration::from_millis(80),
            spent: micros.map(|each| Duration::from_micros(each * 1000)),
        }
    }

    fn table(manyway: [u64; 2]) -> Table {
        let mut table = Table::default();
        for noise in [3, 0, 50] {
            table.add("manyway", figures(manyway.map(|each| each + noise)));
        }
        table.add("bare", figures([1, 6]));
        table.add(QUINN, figures([9, 14]));
        table
    }

    #[test]
    fn gates_take_medians() {
        let met = table([5, 7]).gates();
        assert_eq!(met.matches(": met").count(), 4, "{met}");
        // A µs more than the limits, 8 and 10; quinn's are 9 and 14.
        let sender = table([6, 7]).gates();
        assert!(sender.starts_with("gate: manyway's sender at most 8, µs a packet: 9.00 of 8.00"));
        assert_eq!(sender.matches("NOT MET").count(), 1, "{sender}");
        let receiver = table([5, 8]).gates();
        assert_eq!(receiver.matches("NOT MET").count(), 1, "{receiver}");
        assert_eq!(table([7, 12]).gates().matches("NOT MET").count(), 4);
    }

    #[test]
    fn the_table_shows_medians_and_how_far_they_spread() {
        let text = table([5, 7]).to_string();
        let row = "| manyway | 1000 | 10.0 | 100 | 8.00 (5.00–55.00) | 10.00 (7.00–57.00) \
                   | 8.000 (5.000–55.000) | 10.000 (7.000–57.000) |";
        assert!(text.contains(row), "{text}");
    }
}

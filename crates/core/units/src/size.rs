use std::fmt;
use std::iter::Sum;
use std::ops::Add;
use std::str::FromStr;

use crate::ParseQuantityError;
use crate::text::{Kind, pad_scaled};

/// A number of bytes.
///
/// Reads `1500`, `1500 B`, `64 kB`, `64 MB` (powers of 1000), `64 KiB`, `64 MiB` (powers of 1024).
/// `Display` picks a unit and writes four significant digits: a binary unit when it fits exactly,
/// else a decimal one. `{:#}` writes the exact number of bytes.
#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(u64);

const KIND: Kind = Kind {
    what: "size",
    units: "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
    examples: "1500, 64 MB or 64 MiB",
};

impl ByteSize {
    /// `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        ByteSize(bytes)
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// In decimal units, for sizes that are compared: 1.5 MB of 4.194 MB rather than of 4 MiB.
    pub const fn decimal(self) -> Decimal {
        Decimal(self.0)
    }
}

/// A number of bytes, written in decimal units.
#[derive(Debug, Copy, Clone)]
pub struct Decimal(u64);

/// Saturates.
impl Add for ByteSize {
    type Output = ByteSize;
    fn add(self, other: ByteSize) -> ByteSize {
        ByteSize(self.0.saturating_add(other.0))
    }
}

impl Sum for ByteSize {
    fn sum<I: Iterator<Item = ByteSize>>(sizes: I) -> ByteSize {
        sizes.fold(ByteSize(0), Add::add)
    }
}

impl From<u64> for ByteSize {
    fn from(bytes: u64) -> Self {
        ByteSize(bytes)
    }
}

impl From<ByteSize> for u64 {
    fn from(size: ByteSize) -> Self {
        size.0
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return write!(f, "{} B", self.0);
        }
        const BINARY: [(u64, &str); 4] = [
            (1 << 40, "TiB"),
            (1 << 30, "GiB"),
            (1 << 20, "MiB"),
            (1 << 10, "KiB"),
        ];
        if let Some((unit, name)) = BINARY.iter().find(|(unit, _)| {
            (*unit..*unit * 1024).contains(&self.0) && self.0.is_multiple_of(*unit)
        }) {
            return pad_scaled(f, self.0 as f64, &[(*unit as f64, name)]);
        }
        self.decimal().fmt(f)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(f64, &str); 7] = [
            (1e18, "EB"),
            (1e15, "PB"),
            (1e12, "TB"),
            (1e9, "GB"),
            (1e6, "MB"),
            (1e3, "kB"),
            (1.0, "B"),
        ];
        pad_scaled(f, self.0 as f64, &UNITS)
    }
}

impl FromStr for ByteSize {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, unit) = KIND.number(text, text)?;
        let unit = unit.trim_end();
        let prefix = if unit.is_empty() {
            Some("")
        } else {
            ["bytes", "byte", "B"]
                .iter()
                .find_map(|base| unit.strip_suffix(base))
        };
        let factor = prefix
            .and_then(prefix_factor)
            .ok_or_else(|| KIND.unknown_unit(text, unit))?;
        number
            .times(factor)
            .map(ByteSize)
            .ok_or_else(|| KIND.too_large(text))
    }
}

/// What a prefix multiplies by: `k` 1000, `Ki` 1024, and so on; upper and lower case mean the same
/// (nobody counts millibytes).
pub(crate) fn prefix_factor(prefix: &str) -> Option<u64> {
    let (letter, base) = match prefix.strip_suffix('i') {
        Some(letter) if !letter.is_empty() => (letter, 1024_u64),
        Some(_) => return None,
        None => (prefix, 1000),
    };
    let power = match letter {
        "" => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        "p" | "P" => 5,
        "e" | "E" => 6,
        _ => return None,
    };
    Some(base.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(text: &str) -> u64 {
        text.parse::<ByteSize>().unwrap().bytes()
    }

    #[test]
    fn reads_what_people_write() {
        assert_eq!(bytes("1500"), 1500);
        assert_eq!(bytes("1500 B"), 1500);
        assert_eq!(bytes("1500 bytes"), 1500);
        assert_eq!(bytes("64 MB"), 64_000_000);
        assert_eq!(bytes("64MiB"), 64 << 20);
        assert_eq!(bytes("1.5 GB"), 1_500_000_000);
        assert_eq!(bytes("1.5kB"), 1500);
        assert_eq!(bytes("18446744073709551615"), u64::MAX);
    }

    #[test]
    fn refuses_with_the_text_and_the_units() {
        for text in [
            "", "MB", "-1", "64 Mb", "64 M", "64 iB", "1e3", "64 MB MB", "0x10",
        ] {
            let error = text.parse::<ByteSize>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
            assert!(error.contains("64 MiB"), "{error}");
        }
        for text in ["18446744073709551616", "17 EiB", "18446744073709551616.0 B"] {
            let error = text.parse::<ByteSize>().unwrap_err().to_string();
            assert!(error.contains("too large"), "{error}");
        }
    }

    #[test]
    fn shows_a_readable_unit() {
        let show = |bytes: u64| ByteSize::new(bytes).to_string();
        assert_eq!(show(64 << 20), "64 MiB");
        assert_eq!(show(64_000_000), "64 MB");
        assert_eq!(show(1500), "1.5 kB");
        assert_eq!(show(0), "0 B");
        assert_eq!(show(999), "999 B");
        assert_eq!(show(123_456_789), "123.5 MB");
        assert_eq!(format!("{:#}", ByteSize::new(64 << 20)), "67108864 B");
        assert_eq!(format!("{:>8}|", ByteSize::new(1500)), "  1.5 kB|");
    }

    proptest! {
        #[test]
        fn exact_form_round_trips(n: u64) {
            prop_assert_eq!(bytes(&format!("{:#}", ByteSize::new(n))), n);
        }

        #[test]
        fn readable_form_is_close(n: u64, shift in 0u32..64) {
            let n = n >> shift;
            let back = bytes(&ByteSize::new(n).to_string());
            prop_assert!(back.abs_diff(n) as f64 <= 5.1e-4 * n as f64, "{} {}", n, back);
        }

        #[test]
        fn whole_units_round_trip(
            n in 1u64..1000,
            unit in prop::sample::select(vec!["kB", "MB", "GB", "TB"]),
        ) {
            let text = format!("{n} {unit}");
            prop_assert_eq!(bytes(&text.parse::<ByteSize>().unwrap().to_string()), bytes(&text));
        }

        #[test]
        fn never_panics(text in "\\PC{0,12}") {
            let _ = text.parse::<ByteSize>();
        }
    }
}

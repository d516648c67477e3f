use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Div, Mul};
use std::str::FromStr;
use std::time::Duration;

use crate::text::{Kind, pad_scaled};
use crate::{ByteSize, ParseQuantityError};

/// A transmission rate in bits per second: finite and never negative.
///
/// Reads `20 Mbps`, `1.5Gbit/s`, `800 kb/s`, `20 MB/s`, `2 MiB/s`: decimal prefixes are powers of
/// 1000, binary ones (`Ki`, `Mi`, …) of 1024, a small `b` is a bit and a capital `B` a byte.
/// `Display` picks a unit and writes four significant digits (`{:.1}`: one decimal); `{:#}` writes
/// it exactly, in bits per second.
#[derive(Debug, Copy, Clone, PartialEq, PartialOrd, Default)]
pub struct Rate(f64);

const KIND: Kind = Kind {
    what: "rate",
    units: "bps, kbps, Mbps, Gbps, Tbps, B/s, kB/s, MB/s, GB/s, KiB/s, MiB/s, GiB/s",
    examples: "20 Mbps, 1.5 Gbps or 20 MB/s",
};

impl Rate {
    /// Nothing per second.
    pub const ZERO: Rate = Rate(0.0);

    /// A rate of `bits` per second; negative values and NaN give zero, infinity the largest finite
    /// value.
    pub fn from_bits_per_sec(bits: f64) -> Self {
        if bits.is_nan() {
            return Rate::ZERO;
        }
        Rate(bits.clamp(0.0, f64::MAX))
    }

    /// A rate of `bytes` per second, with the limits of [`Rate::from_bits_per_sec`].
    pub fn from_bytes_per_sec(bytes: f64) -> Self {
        Rate::from_bits_per_sec(bytes * 8.0)
    }

    /// A rate of `mbps` million bits per second, with the limits of [`Rate::from_bits_per_sec`].
    pub fn from_mbps(mbps: f64) -> Self {
        Rate::from_bits_per_sec(mbps * 1e6)
    }

    /// What `bytes` in `time` amount to; zero when no time passed.
    pub fn of(bytes: u64, time: Duration) -> Self {
        if time.is_zero() {
            return Rate::ZERO;
        }
        Rate::from_bytes_per_sec(bytes as f64 / time.as_secs_f64())
    }

    /// Bits per second.
    pub const fn bits_per_sec(self) -> f64 {
        self.0
    }

    /// Bytes per second.
    pub fn bytes_per_sec(self) -> f64 {
        self.0 / 8.0
    }

    /// Millions of bits per second.
    pub fn mbps(self) -> f64 {
        self.0 / 1e6
    }

    /// Whether nothing gets through at all.
    pub fn is_zero(self) -> bool {
        self.0 == 0.0
    }

    /// How long `bytes` take at this rate, rounded to a nanosecond; [`Duration::MAX`] when that is
    /// 584 years or more, or for ever.
    pub fn time_for(self, bytes: u64) -> Duration {
        let nanos = bytes as f64 * 8e9 / self.0;
        if nanos < u64::MAX as f64 {
            Duration::from_nanos(nanos.round() as u64)
        } else if bytes == 0 {
            Duration::ZERO
        } else {
            Duration::MAX
        }
    }

    /// How many whole bytes pass within `time`.
    pub fn bytes_in(self, time: Duration) -> u64 {
        (self.bytes_per_sec() * time.as_secs_f64()) as u64
    }

    /// The bandwidth-delay product: what is under way on a path of this rate and this round-trip
    /// time.
    pub fn times_delay(self, rtt: Duration) -> ByteSize {
        ByteSize::new(self.bytes_in(rtt))
    }
}

impl Add for Rate {
    type Output = Rate;
    fn add(self, other: Rate) -> Rate {
        Rate::from_bits_per_sec(self.0 + other.0)
    }
}

impl Sum for Rate {
    fn sum<I: Iterator<Item = Rate>>(rates: I) -> Rate {
        rates.fold(Rate::ZERO, Add::add)
    }
}

impl Mul<f64> for Rate {
    type Output = Rate;
    fn mul(self, factor: f64) -> Rate {
        Rate::from_bits_per_sec(self.0 * factor)
    }
}

/// The ratio of two rates.
impl Div for Rate {
    type Output = f64;
    fn div(self, other: Rate) -> f64 {
        self.0 / other.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return write!(f, "{} bps", self.0);
        }
        let units = [
            (1e12, "Tbps"),
            (1e9, "Gbps"),
            (1e6, "Mbps"),
            (1e3, "kbps"),
            (1.0, "bps"),
        ];
        pad_scaled(f, self.0, &units)
    }
}

impl FromStr for Rate {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, unit) = KIND.number(text, text)?;
        let unit = unit.trim_end();
        if unit.is_empty() {
            return Err(KIND.no_unit(text));
        }
        let bits = bits_of(unit).ok_or_else(|| KIND.unknown_unit(text, unit))?;
        let value = number.value * bits;
        if !value.is_finite() {
            return Err(KIND.too_large(text));
        }
        Ok(Rate(value))
    }
}

/// Bits per second in one `unit`.
fn bits_of(unit: &str) -> Option<f64> {
    const BASES: [(&str, f64); 6] = [
        ("bit/s", 1.0),
        ("bps", 1.0),
        ("b/s", 1.0),
        ("byte/s", 8.0),
        ("Bps", 8.0),
        ("B/s", 8.0),
    ];
    let (prefix, bits) = BASES
        .iter()
        .find_map(|(base, bits)| Some((unit.strip_suffix(base)?, *bits)))?;
    crate::size::prefix_factor(prefix).map(|factor| factor as f64 * bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mbps(text: &str) -> f64 {
        text.parse::<Rate>().unwrap().mbps()
    }

    #[test]
    fn reads_what_people_write() {
        for text in [
            "20 Mbps",
            "20Mbps",
            " 20  Mbit/s ",
            "20 Mb/s",
            "20mbps",
            "20000 kbps",
            "20000 Kbps",
            "0.02 Gbps",
            ".02 Gbps",
            "20000000 bps",
            "2.5 MB/s",
            "2500 kB/s",
            "2.5 MBps",
        ] {
            assert_eq!(mbps(text), 20.0, "{text}");
        }
        assert_eq!(mbps("1.5 Gbps"), 1500.0);
        assert_eq!(
            "1 MiB/s".parse::<Rate>().unwrap().bytes_per_sec(),
            1048576.0
        );
        assert!("0 bps".parse::<Rate>().unwrap().is_zero());
    }

    #[test]
    fn refuses_with_the_text_and_the_units() {
        for text in [
            "",
            "20",
            "Mbps",
            "-1 Mbps",
            "+1 Mbps",
            "1e6 bps",
            "NaN bps",
            "inf bps",
            "20 M",
            "20 Mbps x",
            "1.2.3 bps",
            "20 mbus",
            "20 MB",
            "ü",
        ] {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
            assert!(error.contains("20 Mbps"), "{error}");
        }
        let error = "20 lightyears".parse::<Rate>().unwrap_err().to_string();
        assert!(
            error.contains("lightyears") && error.contains("MiB/s"),
            "{error}"
        );
        let huge = format!("{} Tbps", "9".repeat(308));
        assert!(
            huge.parse::<Rate>()
                .unwrap_err()
                .to_string()
                .contains("too large")
        );
    }

    #[test]
    fn shows_a_readable_unit() {
        let show = |bits: f64| Rate::from_bits_per_sec(bits).to_string();
        assert_eq!(show(20e6), "20 Mbps");
        assert_eq!(show(1.5e9), "1.5 Gbps");
        assert_eq!(show(19_365_432.0), "19.37 Mbps");
        assert_eq!(show(999_960.0), "1 Mbps");
        assert_eq!(show(999_940.0), "999.9 kbps");
        assert_eq!(show(0.0), "0 bps");
        assert_eq!(show(12e15), "12000 Tbps");
        assert_eq!(format!("{:.1}", Rate::from_mbps(19.37)), "19.4 Mbps");
        assert_eq!(
            format!("{:>12.1}|", Rate::from_mbps(19.37)),
            "   19.4 Mbps|"
        );
        assert_eq!(format!("{:<10}|", Rate::from_mbps(1.0)), "1 Mbps    |");
        assert_eq!(format!("{:#}", Rate::from_mbps(20.0)), "20000000 bps");
    }

    #[test]
    fn arithmetic() {
        let rate = Rate::from_mbps(20.0);
        assert_eq!(rate.time_for(1500), Duration::from_micros(600));
        assert_eq!(rate.bytes_in(Duration::from_millis(20)), 50_000);
        assert_eq!(
            rate.times_delay(Duration::from_millis(20)),
            ByteSize::new(50_000)
        );
        assert_eq!(Rate::of(50_000, Duration::from_millis(20)), rate);
        assert_eq!(Rate::of(1, Duration::ZERO), Rate::ZERO);
        assert_eq!(Rate::ZERO.time_for(1), Duration::MAX);
        assert_eq!(Rate::ZERO.time_for(0), Duration::ZERO);
        assert_eq!([rate, rate].into_iter().sum::<Rate>(), rate * 2.0);
        assert_eq!(rate / (rate * 2.0), 0.5);
        assert_eq!(Rate::from_bits_per_sec(f64::NAN), Rate::ZERO);
        assert_eq!(Rate::from_bits_per_sec(-1.0), Rate::ZERO);
        assert!(
            Rate::from_bits_per_sec(f64::INFINITY)
                .bits_per_sec()
                .is_finite()
        );
    }

    proptest! {
        #[test]
        fn exact_form_round_trips(bits in 0.0..1e15_f64) {
            let rate = Rate::from_bits_per_sec(bits);
            prop_assert_eq!(format!("{rate:#}").parse::<Rate>().unwrap(), rate);
        }

        #[test]
        fn readable_form_is_close(bits in 1.0..1e15_f64) {
            let back: Rate = Rate::from_bits_per_sec(bits).to_string().parse().unwrap();
            prop_assert!((back.bits_per_sec() / bits - 1.0).abs() < 5.1e-4, "{}", back);
        }

        #[test]
        fn never_panics(text in "[0-9. ]{0,6}[a-zA-Z/é]{0,7}") {
            let _ = text.parse::<Rate>();
        }
    }
}

//! Time in fractions of a nanosecond, so that roundings of service times don't add up.

use manyway_units::{Rate, Time};

/// Bits of a fraction of a nanosecond. With 31 of them a byte's time at 1 bps still fits 64 bits.
pub(crate) const FRACTION_BITS: u32 = 31;

/// A point or a span of time, finer than a nanosecond, so that the fractions of many packets add
/// up. Arithmetic saturates.
#[derive(Debug, Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Fine {
    nanos: u64,
    /// In 2^-31 ns, less than 2^31.
    fraction: u32,
}

impl Fine {
    #[inline]
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self { nanos, fraction: 0 }
    }

    /// From 2^-31 ns.
    #[inline]
    pub(crate) const fn from_bits(bits: u128) -> Self {
        let nanos = bits >> FRACTION_BITS;
        if nanos > u64::MAX as u128 {
            return Self::from_nanos(u64::MAX);
        }
        Self {
            nanos: nanos as u64,
            fraction: bits as u32 & (u32::MAX >> 1),
        }
    }

    /// This, or `nanos` if that is later.
    #[inline]
    pub(crate) const fn at_least(self, nanos: u64) -> Self {
        if self.nanos >= nanos {
            self
        } else {
            Self::from_nanos(nanos)
        }
    }

    /// In 2^-31 ns: at most 95 bits.
    #[inline]
    pub(crate) const fn bits(self) -> u128 {
        (self.nanos as u128) << FRACTION_BITS | self.fraction as u128
    }

    /// Whole nanoseconds, rounded down.
    #[inline]
    pub(crate) const fn floor(self) -> u64 {
        self.nanos
    }

    /// Whole nanoseconds, rounded up.
    #[inline]
    pub(crate) const fn ceil(self) -> u64 {
        self.nanos.saturating_add((self.fraction > 0) as u64)
    }

    /// Rounded up.
    #[inline]
    pub(crate) const fn time(self) -> Time {
        Time::from_nanos(self.ceil())
    }

    #[inline]
    pub(crate) const fn plus(self, span: Fine) -> Fine {
        let fraction = self.fraction + span.fraction;
        let carry = (fraction >> FRACTION_BITS) as u64;
        Fine {
            nanos: self.nanos.saturating_add(span.nanos).saturating_add(carry),
            fraction: fraction & (u32::MAX >> 1),
        }
    }
}

/// Time that one byte takes, in 2^-31 ns, rounded up from the exact quotient: no rounding ever
/// makes a link faster than its rate.
///
/// `rate` is at least 1 bps. 8·10⁹ · 2^31 has 64 bits.
pub(crate) fn time_per_byte(rate: Rate) -> u64 {
    let numerator = 8_000_000_000_u128 << FRACTION_BITS;
    // A number of at least 1 is `mantissa` × 2^`exponent` with an exponent of at least -52.
    let bits = rate.bits_per_sec().to_bits();
    let exponent = (bits >> 52) as i32 - 1075;
    let mantissa = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
    let quotient = match exponent {
        ..=0 => (numerator << -exponent).div_ceil(mantissa),
        1..=64 => numerator.div_ceil(mantissa << exponent),
        _ => 1,
    };
    u64::try_from(quotient).unwrap_or(u64::MAX)
}

/// Time that so many bytes take at so many 2^-31 ns each.
#[inline]
pub(crate) fn service_time(per_byte: u64, bytes: u32) -> Fine {
    Fine::from_bits(u128::from(per_byte) * u128::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_byte_takes_what_it_takes_and_never_less() {
        let of = |bits_per_sec: f64| time_per_byte(Rate::from_bits_per_sec(bits_per_sec));
        assert_eq!(of(8e9), 1 << 31);
        assert_eq!(of(1.0), 8_000_000_000 << 31);
        // 2666.66… ns.
        assert_eq!(of(3e6), (8_000_u64 << 31).div_ceil(3));
        assert_eq!(of(2.0_f64.powi(80)), 1);
        assert_eq!(of(f64::MAX), 1);
    }

    #[test]
    fn arithmetic_carries_and_saturates() {
        let half = Fine::from_bits(1 << 30);
        assert_eq!(half.plus(half), Fine::from_nanos(1));
        assert_eq!((half.floor(), half.ceil()), (0, 1));
        assert_eq!(Fine::from_nanos(u64::MAX).plus(half).ceil(), u64::MAX);
        assert_eq!(Fine::from_bits(u128::MAX), Fine::from_nanos(u64::MAX));
    }

    proptest! {
        #[test]
        fn bits_round_trip_and_add(a in 0u128..1 << 90, b in 0u128..1 << 90) {
            prop_assert_eq!(Fine::from_bits(a).bits(), a);
            prop_assert_eq!(Fine::from_bits(a).plus(Fine::from_bits(b)).bits(), a + b);
            prop_assert_eq!(Fine::from_bits(a) < Fine::from_bits(b), a < b);
        }

        #[test]
        fn no_rate_is_exceeded(bits_per_sec in 1u64..1 << 53) {
            // The least number of units for which a byte × rate is at least 8 bits, in integers.
            let per_byte = u128::from(time_per_byte(Rate::from_bits_per_sec(bits_per_sec as f64)));
            let exact = 8_000_000_000_u128 << FRACTION_BITS;
            prop_assert!(per_byte * u128::from(bits_per_sec) >= exact);
            prop_assert!((per_byte - 1) * u128::from(bits_per_sec) < exact);
        }

        #[test]
        fn fractions_of_bits_per_second_count(eighths in 8u64..1 << 50) {
            let per_byte = u128::from(time_per_byte(Rate::from_bits_per_sec(eighths as f64 / 8.0)));
            let exact = 64_000_000_000_u128 << FRACTION_BITS;
            prop_assert!(per_byte * u128::from(eighths) >= exact);
            prop_assert!((per_byte - 1) * u128::from(eighths) < exact);
        }
    }
}

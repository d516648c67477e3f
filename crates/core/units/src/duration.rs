use std::time::Duration;

use crate::ParseQuantityError;
use crate::text::{Kind, four_digits};

const KIND: Kind = Kind {
    what: "duration",
    units: "ns, us, ms, s, min, h, d",
    examples: "10 ms, 1.5 s or 1 h 30 min",
};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Reads `10 ms`, `1.5s`, `90 us`, `2 min`, or several parts in descending order: `1 h 30 min`.
///
/// # Errors
/// When there is no number or no known unit, when parts don't descend, or when the sum exceeds 584
/// years (64 bits of nanoseconds); the message quotes the text and lists the units.
pub fn parse_duration(text: &str) -> Result<Duration, ParseQuantityError> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    let mut previous = u64::MAX;
    loop {
        let (number, after) = KIND.number(text, rest)?;
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.' || c.is_whitespace())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() {
            return Err(KIND.no_unit(text));
        }
        let nanos = nanos_of(unit).ok_or_else(|| KIND.unknown_unit(text, unit))?;
        if nanos >= previous {
            return Err(KIND.error(
                text,
                "its parts must descend from large units to small ones",
            ));
        }
        previous = nanos;
        total = number
            .times(nanos)
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| KIND.too_large(text))?;
        rest = after.trim_start();
        if rest.is_empty() {
            return Ok(Duration::from_nanos(total));
        }
    }
}

/// Writes a duration for people: four significant digits below a minute (`10 ms`, `1.5 s`), the two
/// leading units above (`1 h 30 min`), rounded to the smaller one. [`parse_duration`] reads it
/// back.
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos() as f64;
    if nanos < 59.995e9 {
        let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
        let (unit, name) = units
            .into_iter()
            .find(|(unit, _)| nanos >= unit * 0.99995)
            .unwrap_or((1e9, "s"));
        return format!("{} {name}", four_digits(nanos / unit));
    }
    let seconds = duration
        .as_secs()
        .saturating_add(u64::from(duration.subsec_millis() >= 500));
    let minutes = seconds.saturating_add(30) / MINUTE;
    let hours = seconds.saturating_add(HOUR / 2) / HOUR;
    let (large, small) = if seconds < HOUR {
        ((seconds / MINUTE, "min"), (seconds % MINUTE, "s"))
    } else if minutes < DAY / MINUTE {
        ((minutes / 60, "h"), (minutes % 60, "min"))
    } else {
        ((hours / 24, "d"), (hours % 24, "h"))
    };
    match small.0 {
        0 => format!("{} {}", large.0, large.1),
        n => format!("{} {} {n} {}", large.0, large.1, small.1),
    }
}

fn nanos_of(unit: &str) -> Option<u64> {
    const SECOND: u64 = 1_000_000_000;
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" | "sec" => SECOND,
        "m" | "min" => MINUTE * SECOND,
        "h" => HOUR * SECOND,
        "d" => DAY * SECOND,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        let cases = [
            ("10 ms", Duration::from_millis(10)),
            ("10ms", Duration::from_millis(10)),
            (" 1.5 s ", Duration::from_millis(1500)),
            ("250 us", Duration::from_micros(250)),
            ("250µs", Duration::from_micros(250)),
            ("7 ns", Duration::from_nanos(7)),
            ("2 min", Duration::from_secs(120)),
            ("1h30m", Duration::from_secs(5400)),
            ("1 d 2 h 3 min 4 s", Duration::from_secs(93_784)),
            ("0 s", Duration::ZERO),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refuses_with_the_text_and_the_units() {
        for text in [
            "",
            "10",
            "ms",
            "-1 s",
            "1 s 1 min",
            "1 s 2 s",
            "1 fortnight",
            "1 s 2",
            "1e3 s",
            "600 y",
        ] {
            let error = parse_duration(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
            assert!(error.contains("1 h 30 min"), "{error}");
        }
        let error = parse_duration("300000 d").unwrap_err().to_string();
        assert!(error.contains("too large"), "{error}");
    }

    #[test]
    fn shows_what_people_read() {
        let show = |secs: f64| format_duration(Duration::from_secs_f64(secs));
        assert_eq!(show(0.0), "0 s");
        assert_eq!(show(0.01), "10 ms");
        assert_eq!(show(0.0123456), "12.35 ms");
        assert_eq!(show(1.5), "1.5 s");
        assert_eq!(show(59.994), "59.99 s");
        assert_eq!(show(59.996), "1 min");
        assert_eq!(show(61.2), "1 min 1 s");
        assert_eq!(show(3599.6), "1 h");
        assert_eq!(show(5400.0), "1 h 30 min");
        assert_eq!(show(86_399.0), "1 d");
        assert_eq!(show(100_000.0), "1 d 4 h");
        assert_eq!(format_duration(Duration::from_nanos(1)), "1 ns");
        // The largest value has to come out too.
        assert!(format_duration(Duration::MAX).contains(" d"));
    }

    proptest! {
        #[test]
        fn round_trip_is_close(nanos: u64, shift in 1u32..64) {
            let duration = Duration::from_nanos(nanos >> shift);
            let text = format_duration(duration);
            let back = parse_duration(&text).unwrap();
            // Half of the smaller unit shown: 5e-4 below a minute, at worst half a minute in an
            // hour above.
            let tolerance = if duration < Duration::from_secs(60) { 5.1e-4 } else { 1.0 / 47.0 };
            let error = back.as_secs_f64() - duration.as_secs_f64();
            prop_assert!(error.abs() <= tolerance * duration.as_secs_f64(), "{}", text);
        }

        #[test]
        fn milliseconds_round_trip(ms in 0u64..10_000) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn never_panics(text in "[0-9. ]{0,4}[a-zµ]{0,3}[0-9. ]{0,4}\\PC{0,3}") {
            let _ = parse_duration(&text);
        }
    }
}

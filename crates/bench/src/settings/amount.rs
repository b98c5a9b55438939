//! Amounts as people write them. Bytes have K, M and G of 1,024 each, as everywhere with memory; whatever else is counted has
//! those of 1,000.

/// The factor of a letter at the end of `text`, if there is one, by how often the unit is multiplied with itself; and what
/// stands in front of it.
fn split_unit(text: &str) -> (&str, u32) {
    let times = match text.as_bytes().last() {
        Some(b'k' | b'K') => 1,
        Some(b'm' | b'M') => 2,
        Some(b'g' | b'G') => 3,
        _ => return (text, 0),
    };
    (&text[..text.len() - 1], times)
}

/// A number of bytes with an optional K, M or G (powers of 1,024).
///
/// # Errors
/// The text, and what would be right.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let (digits, times) = split_unit(text);
    let number = digits.parse::<usize>().ok();
    number
        .and_then(|number| number.checked_mul(1024_usize.checked_pow(times)?))
        .ok_or_else(|| format!("{text:?} is not a size; write 4096, 4K, 64M or 1G (K is 1,024)"))
}

/// A number of things with an optional K, M or G (powers of 1,000). `1.5M` and `1e6` are understood too, when that many are whole.
///
/// ```
/// use kingtide_bench::parse_count;
///
/// assert_eq!(parse_count("500K"), Ok(500_000));
/// assert_eq!(parse_count("1e6"), parse_count("1M"));
/// assert!(parse_count("1.5").is_err());
/// ```
///
/// # Errors
/// The text, and what would be right.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (digits, times) = split_unit(text);
    let exact = digits.parse::<u64>().ok();
    exact
        .and_then(|number| number.checked_mul(1000_u64.checked_pow(times)?))
        .or_else(|| whole(digits, times))
        .ok_or_else(|| {
            format!("{text:?} is not a number; write 500000, 500K, 1M or 1e6 (K is 1,000)")
        })
}

/// A number with a point or an exponent, times a power of 1,000; `None` unless it comes out whole, and exact.
fn whole(digits: &str, times: u32) -> Option<u64> {
    // Every whole number up to this has a floating-point number of its own.
    const EXACT_MAX: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;
    if !digits.starts_with(|letter: char| letter.is_ascii_digit()) {
        return None;
    }
    let number = digits.parse::<f64>().ok()? * 1000_f64.powi(i32::try_from(times).ok()?);
    let is_whole = (0.0..=EXACT_MAX).contains(&number) && number.fract() == 0.0;
    is_whole.then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_limits() {
        assert_eq!(parse_bytes("64M"), Ok(64 << 20));
        assert_eq!(parse_bytes("0"), Ok(0));
        assert_eq!(parse_bytes("1k"), Ok(1024));
        for wrong in [
            "",
            "M",
            "1T",
            "-1",
            "99999999999999999999G",
            "18446744073709551615K",
            "1\u{e9}",
        ] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_have_units_of_a_thousand() {
        for (text, number) in [
            ("0", 0),
            ("1000000", 1_000_000),
            ("500k", 500_000),
            ("1M", 1_000_000),
            ("2G", 2_000_000_000),
            ("1e6", 1_000_000),
            ("1.5M", 1_500_000),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_count(text), Ok(number), "{text}");
        }
        for wrong in [
            "",
            "K",
            "1T",
            "-1",
            "-1K",
            "1.5",
            "1e-3",
            "1e30",
            "inf",
            "nan",
            "1_000",
            "1\u{e9}",
            "18446744073709551615K",
        ] {
            let message = parse_count(wrong).expect_err(wrong);
            assert!(message.contains("500K"), "{message}");
        }
    }
}

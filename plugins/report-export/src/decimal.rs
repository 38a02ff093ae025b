//! Exact decimal numbers: read from text, added, divided once for a mean, and written back.
//!
//! A value is a whole number of 10^-18 units in an `i128`. Sums are therefore exact and do not
//! depend on the order of the rows, which floating point could not promise across a resume.

use thiserror::Error;

/// Digits after the point that a value may have.
pub const DECIMALS_MAX: u8 = 18;
/// Digits before the point that a value may have, so that a value always fits an `i128` of units.
pub const WHOLE_DIGITS_MAX: u32 = 20;
/// A mean is written with at least this many digits after the point.
pub const MEAN_DECIMALS: u8 = 6;

const POWERS: [u64; 19] = {
    let mut powers = [1; 19];
    let mut index = 1;
    while index < 19 {
        powers[index] = powers[index - 1] * 10;
        index += 1;
    }
    powers
};

/// A number as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// In units of 10^-18.
    pub units: i128,
    /// How many digits after the point the text had.
    pub decimals: u8,
}

/// Why a text is no number here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecimalError {
    #[error("is not a number")]
    NotANumber,
    #[error("has more than {WHOLE_DIGITS_MAX} digits before the point or {DECIMALS_MAX} after it")]
    OutOfRange,
}

/// Reads `-12`, `+0.50`, `.5`, `1.` or `1.5e-3`, with blanks around it. No thousands separators.
pub fn parse(text: &[u8]) -> Result<Decimal, DecimalError> {
    let text = text.trim_ascii();
    let (negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (magnitude, decimals) = match parse_short(digits) {
        Some(short) => short,
        None => parse_long(digits)?,
    };
    let units = match negative {
        true => -magnitude,
        false => magnitude,
    };
    Ok(Decimal { units, decimals })
}

/// The usual case, at most 18 digits and no exponent: everything fits 64 bits until the end.
#[inline]
fn parse_short(digits: &[u8]) -> Option<(i128, u8)> {
    if digits.len() < 2 || digits.len() > 18 {
        return match digits {
            [digit @ b'0'..=b'9'] => Some((i128::from(digit - b'0') * i128::from(POWERS[18]), 0)),
            _ => None,
        };
    }
    let mut value = 0u64;
    let mut point = None;
    for (index, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => value = value * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(index),
            _ => return None,
        }
    }
    let decimals = point.map_or(0, |index| digits.len() - index - 1);
    let scale = POWERS[DECIMALS_MAX as usize - decimals];
    Some((i128::from(value) * i128::from(scale), decimals as u8))
}

/// Any other text: long numbers, exponents, and what is no number.
fn parse_long(text: &[u8]) -> Result<(i128, u8), DecimalError> {
    let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let (whole, fraction) = match mantissa.iter().position(|&byte| byte == b'.') {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &b""[..]),
    };
    let digits = || whole.iter().chain(fraction);
    if digits().next().is_none() || !digits().all(u8::is_ascii_digit) {
        return Err(DecimalError::NotANumber);
    }
    // The value is the digits as one whole number, times 10^-decimals.
    let decimals = fraction.len() as i64 - exponent;
    let mut value: i128 = 0;
    for digit in digits() {
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(i128::from(digit - b'0')))
            .ok_or(DecimalError::OutOfRange)?;
    }
    if decimals > i64::from(DECIMALS_MAX) && value != 0 {
        return Err(DecimalError::OutOfRange);
    }
    let limit = 10i128.pow(WHOLE_DIGITS_MAX + u32::from(DECIMALS_MAX));
    for _ in decimals.max(-100)..i64::from(DECIMALS_MAX) {
        value = value.checked_mul(10).ok_or(DecimalError::OutOfRange)?;
    }
    if value >= limit {
        return Err(DecimalError::OutOfRange);
    }
    Ok((value, decimals.clamp(0, i64::from(DECIMALS_MAX)) as u8))
}

fn parse_exponent(text: &[u8]) -> Result<i64, DecimalError> {
    let (sign, digits) = match text.first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(DecimalError::NotANumber);
    }
    // Anything of more digits is out of range unless the number is zero, whatever it is exactly.
    let value = digits.iter().fold(0i64, |value, digit| {
        (value * 10 + i64::from(digit - b'0')).min(10_000)
    });
    Ok(sign * value)
}

/// `units` with exactly `decimals` digits after the point, rounded half away from zero.
pub fn format(units: i128, decimals: u8) -> String {
    let step = u128::from(POWERS[(DECIMALS_MAX - decimals.min(DECIMALS_MAX)) as usize]);
    let magnitude = units.unsigned_abs();
    // Cannot overflow: an i128's magnitude is at most half of what a u128 holds.
    let rounded = (magnitude + step / 2) / step;
    let power = u128::from(POWERS[decimals.min(DECIMALS_MAX) as usize]);
    let sign = if units < 0 && rounded > 0 { "-" } else { "" };
    match decimals {
        0 => format!("{sign}{rounded}"),
        _ => format!(
            "{sign}{}.{:0width$}",
            rounded / power,
            rounded % power,
            width = decimals.min(DECIMALS_MAX) as usize
        ),
    }
}

/// The mean of `count` values that add up to `sum`, written with `decimals` digits after the point
/// or [`MEAN_DECIMALS`], whichever is more, rounded half away from zero once.
pub fn format_mean(sum: i128, count: u64, decimals: u8) -> String {
    let decimals = decimals.max(MEAN_DECIMALS);
    let step = u128::from(POWERS[(DECIMALS_MAX - decimals) as usize]);
    let divisor = step * u128::from(count.max(1));
    let magnitude = sum.unsigned_abs();
    let (quotient, rest) = (magnitude / divisor, magnitude % divisor);
    let rounded = quotient + u128::from(rest >= divisor - rest);
    let units = (rounded * step) as i128;
    format(if sum < 0 { -units } else { units }, decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<String> {
        let value = parse(text.as_bytes()).ok()?;
        Some(format(value.units, value.decimals))
    }

    #[test]
    fn numbers_come_back_with_the_decimals_they_had() {
        for (text, expected) in [
            ("0", "0"),
            ("7", "7"),
            ("-7", "-7"),
            ("+42", "42"),
            (" 1.50 ", "1.50"),
            (".5", "0.5"),
            ("1.", "1"),
            ("-0.00", "0.00"),
            ("1.5e3", "1500"),
            ("1.5E-3", "0.0015"),
            ("12e+0", "12"),
            ("0e99999", "0"),
            ("0.123456789012345678", "0.123456789012345678"),
            ("99999999999999999999", "99999999999999999999"),
            ("-123456789012345678.25", "-123456789012345678.25"),
            ("00000000000000000000000001", "1"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_number_is_told_from_what_is_too_long() {
        for text in [
            "", " ", "-", ".", "abc", "1,000", "$5", "1.2.3", "e5", "1e", "NaN", "--1", "1 2",
            "0x10",
        ] {
            assert_eq!(
                parse(text.as_bytes()),
                Err(DecimalError::NotANumber),
                "{text:?}"
            );
        }
        for text in [
            "1e20",
            "100000000000000000000",
            "1e-19",
            "0.1234567890123456789",
            "1e999999999999",
        ] {
            assert_eq!(
                parse(text.as_bytes()),
                Err(DecimalError::OutOfRange),
                "{text:?}"
            );
        }
        assert!(parse(b"99999999999999999999").is_ok());
    }

    #[test]
    fn rounding_is_half_away_from_zero() {
        let unit = 10i128.pow(18);
        assert_eq!(format(5 * unit / 2, 0), "3");
        assert_eq!(format(-5 * unit / 2, 0), "-3");
        assert_eq!(format(-unit / 4, 0), "0");
        assert_eq!(format_mean(2 * unit, 3, 0), "0.666667");
        assert_eq!(format_mean(-unit, 3, 2), "-0.333333");
        assert_eq!(format_mean(10 * unit, 4, 0), "2.500000");
        assert_eq!(format_mean(unit, 3, 18), "0.333333333333333333");
        assert_eq!(format_mean(i128::MAX, 1, 18), format(i128::MAX, 18));
    }

    #[test]
    fn a_sum_of_tenths_has_no_drift() {
        let tenth = parse(b"0.1").unwrap().units;
        assert_eq!(format(tenth * 1_000_000, 1), "100000.0");
    }
}

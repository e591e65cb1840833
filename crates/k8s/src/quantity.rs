//! Quantities of CPU, memory and other resources, parsed and printed as by apimachinery's
//! `resource.Quantity`. API servers serve the canonical form: `1000m` becomes `1`, `1024Mi` becomes
//! `1Gi`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::json::Json;

const NANO: i128 = 1_000_000_000;
/// Maximum amount: 2^63 - 1 units.
const NANOS_MAX: i128 = i64::MAX as i128 * NANO;

/// An amount with a precision of 10^-9, and the family of suffixes that it was written with.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// `n u m k M G T P E`
    Decimal,
    /// `Ki Mi Gi Ti Pi Ei`
    Binary,
    /// `e3`
    Exponent,
}

/// Why a string is not a quantity. The messages are those of upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The string has another form.
    #[error(
        "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The number has no digits, or two points.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// Parses a quantity in JSON, which is a string or a number.
    ///
    /// # Errors
    /// If the value is not a quantity.
    pub fn of_json(value: &impl Json) -> Result<Self, ParseError> {
        match value.string() {
            Some(text) => text.trim().parse(),
            None => value.to_string().parse(),
        }
    }

    /// True if the amount is less than zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// True if the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// The amount in whole units, rounded away from zero.
    pub fn value(&self) -> i64 {
        i64::try_from(div_away(self.nanos, NANO)).expect("amounts are capped at 64 bits")
    }

    /// The amount in thousandths, rounded away from zero and limited to 64 bits.
    pub fn milli_value(&self) -> i64 {
        let milli = div_away(self.nanos, NANO / 1000);
        i64::try_from(milli).unwrap_or(if milli < 0 { i64::MIN } else { i64::MAX })
    }

    /// True if the amount is not a whole number of thousandths.
    pub fn is_finer_than_milli(&self) -> bool {
        self.nanos % (NANO / 1000) != 0
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let number_length =
            unsigned.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, suffix) = unsigned.split_at(number_length);
        if number.is_empty() {
            return Err(ParseError::Format);
        }
        let (scale, format) = parse_suffix(suffix)?;
        let nanos = scale.apply(parse_number(number)?);
        Ok(Self { nanos: if text.starts_with('-') { -nanos } else { nanos }, format })
    }
}

impl fmt::Display for Quantity {
    /// Writes the canonical form, with the largest suffix that leaves no fraction. Small or
    /// fractional binary amounts get a decimal suffix, so that nothing is rounded. Upstream:
    /// `CanonicalizeBytes`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_small = self.nanos.abs() < 1024 * NANO;
        let is_whole = self.nanos % NANO == 0;
        match self.format {
            _ if self.nanos == 0 => formatter.write_str("0"),
            Format::Binary if is_whole && !is_small => self.fmt_binary(formatter),
            Format::Binary | Format::Decimal => self.fmt_decimal(formatter, &DECIMAL_SUFFIXES),
            Format::Exponent => self.fmt_decimal(formatter, &EXPONENT_SUFFIXES),
        }
    }
}

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const EXPONENT_SUFFIXES: [&str; 10] =
    ["e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    fn fmt_decimal(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        suffixes: &[&str; 10],
    ) -> fmt::Result {
        let (mantissa, steps) = remove_factors(self.nanos, 1000, suffixes.len() - 1);
        write!(formatter, "{mantissa}{}", suffixes[steps])
    }

    fn fmt_binary(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mantissa, steps) = remove_factors(self.nanos / NANO, 1024, BINARY_SUFFIXES.len() - 1);
        write!(formatter, "{mantissa}{}", BINARY_SUFFIXES[steps])
    }
}

/// Divides by `factor` while there is no remainder, at most `steps_max` times.
fn remove_factors(mut mantissa: i128, factor: i128, steps_max: usize) -> (i128, usize) {
    let mut steps = 0;
    while steps < steps_max && mantissa % factor == 0 {
        mantissa /= factor;
        steps += 1;
    }
    (mantissa, steps)
}

/// The factor of a suffix: a power of ten or of two.
#[derive(Clone, Copy)]
enum Scale {
    Ten(i32),
    Two(u32),
}

impl Scale {
    /// The number `digits × 10^-decimals` times this factor, in nanos, rounded away from zero and
    /// limited to the maximum.
    fn apply(self, (digits, decimals): (i128, i32)) -> i128 {
        let (digits, exponent) = match self {
            Self::Ten(exponent) => (digits, exponent),
            Self::Two(exponent) => (digits.saturating_mul(1 << exponent), 0),
        };
        let exponent = exponent.saturating_sub(decimals).saturating_add(9);
        let nanos = match 10_i128.checked_pow(exponent.unsigned_abs()) {
            Some(power) if exponent >= 0 => digits.saturating_mul(power),
            Some(power) => div_away(digits, power),
            None if exponent >= 0 => digits.saturating_mul(i128::MAX),
            None => i128::from(digits > 0),
        };
        nanos.min(NANOS_MAX)
    }
}

fn parse_suffix(suffix: &str) -> Result<(Scale, Format), ParseError> {
    if let Some(steps) = BINARY_SUFFIXES.iter().skip(1).position(|known| *known == suffix) {
        let steps = u32::try_from(steps).expect("there are six");
        return Ok((Scale::Two(10 * (steps + 1)), Format::Binary));
    }
    if let Some(steps) = DECIMAL_SUFFIXES.iter().position(|known| *known == suffix) {
        let steps = i32::try_from(steps).expect("there are ten");
        return Ok((Scale::Ten(3 * steps - 9), Format::Decimal));
    }
    let letters_length = suffix.bytes().take_while(|byte| b"eEinumkKMGTP".contains(byte)).count();
    let (letters, rest) = suffix.split_at(letters_length);
    let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseError::Format);
    }
    match letters {
        "e" | "E" => rest
            .parse()
            .map(|exponent| (Scale::Ten(exponent), Format::Exponent))
            .map_err(|_| ParseError::Suffix),
        _ => Err(ParseError::Suffix),
    }
}

/// The digits of a number without the point, and the number of digits after the point. Digits
/// beyond the precision are dropped; if one of them is not zero, the last digit is increased by
/// one, so that rounding away from zero remains correct.
fn parse_number(number: &str) -> Result<(i128, i32), ParseError> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(ParseError::Number);
    }
    let mut digits: i128 = 0;
    let mut decimals: i32 = 0;
    let kept = 30 - whole.len().min(30);
    for digit in whole.bytes().chain(fraction.bytes().take(kept)) {
        digits = digits
            .saturating_mul(10)
            .saturating_add(i128::from(digit - b'0'))
            .min(NANOS_MAX * NANO);
    }
    let fraction_kept = fraction.len().min(kept);
    decimals += i32::try_from(fraction_kept).expect("at most 30");
    let dropped_something = fraction.bytes().skip(kept).any(|digit| digit != b'0');
    Ok((digits.saturating_add(i128::from(dropped_something)), decimals))
}

/// Divides and rounds away from zero, as upstream rounds quantities.
fn div_away(amount: i128, divisor: i128) -> i128 {
    amount / divisor + if amount % divisor == 0 { 0 } else { amount.signum() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        match text.parse::<Quantity>() {
            Ok(quantity) => quantity.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// S9, S21: quantities are served in the canonical form of apimachinery.
    #[test]
    fn quantities_print_in_canonical_form() {
        let cases = [
            ("0", "0"),
            ("0Ki", "0"),
            ("-0", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("-1", "-1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("2.5k", "2500"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1024Mi", "1Gi"),
            ("1536Mi", "1536Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("0.5Ki", "512"),
            ("1000Ki", "1000Ki"),
            ("100Mi", "100Mi"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("1E", "1E"),
            ("100e-1", "10"),
            ("1e-1", "100e-3"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775807"),
            ("1e99", "9223372036854775807"),
            ("0.3Ki", "307200m"),
            (".36Ti", "395824185999360m"),
            ("99999999999999999999999999999999999999Ei", "9223372036854775807"),
            ("100n", "100n"),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text), expected, "{text}");
        }
    }

    /// S9: other strings are refused with upstream's messages.
    #[test]
    fn malformed_quantities_are_errors() {
        let format = "quantities must match the regular expression \
                      '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        let number = "unable to parse numeric part of quantity";
        let suffix = "unable to parse quantity's suffix";
        let cases = [
            ("", format),
            ("abc", format),
            ("1 Gi", format),
            ("1Gi ", format),
            ("--1", format),
            ("1x", format),
            ("1.2.3", number),
            (".", number),
            ("1GI", suffix),
            ("1K", suffix),
            ("1mm", suffix),
            ("1e", suffix),
            ("1m3", suffix),
        ];
        for (text, expected) in cases {
            let expected = if text == "1GI" { format } else { expected };
            assert_eq!(canonical(text), expected, "{text:?}");
        }
    }

    /// S9: whole and thousandth values are rounded away from zero.
    #[test]
    fn values_round_away_from_zero() {
        let quantity: Quantity = "1500m".parse().expect("a quantity");
        assert_eq!(
            (quantity.value(), quantity.milli_value(), quantity.is_finer_than_milli()),
            (2, 1500, false)
        );
        let quantity: Quantity = "-1500m".parse().expect("a quantity");
        assert_eq!((quantity.value(), quantity.is_negative()), (-2, true));
    }

    proptest! {
        /// S9: no string makes the parser panic, and the canonical form of a quantity is its own.
        #[test]
        fn canonical_forms_are_fixed_points(
            text in "[-+]?[0-9.]{0,40}([eE][-+]?[0-9]{1,3}|[numkMGTPE]|[KMGTPE]i|)",
        ) {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let printed = quantity.to_string();
                let again: Quantity = printed.parse().expect("canonical forms parse");
                prop_assert!(again == quantity);
                prop_assert_eq!(again.to_string(), printed);
            }
        }

        /// S9: no text makes the parser panic.
        #[test]
        fn arbitrary_text_never_panics(text in ".{0,20}") {
            let _ = text.parse::<Quantity>();
        }
    }
}

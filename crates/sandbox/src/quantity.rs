//! Kubernetes' resource quantities (`500m`, `1Gi`, `1e3`), as whole thousandths.
//!
//! Decides nothing; refuses what upstream's parser refuses.

/// A quantity in thousandths of its unit (`1` is 1000, `500m` is 500). What is finer is rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub i128);

impl Millis {
    /// Whole units, rounded up, as upstream's `Quantity.Value`.
    pub fn value(self) -> i64 {
        clamp(self.0.div_euclid(1000) + i128::from(self.0.rem_euclid(1000) > 0))
    }

    /// Thousandths, as upstream's `Quantity.MilliValue`.
    pub fn milli_value(self) -> i64 {
        clamp(self.0)
    }
}

fn clamp(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// Parses a quantity; `None` if it is none.
pub fn parse(text: &str) -> Option<Millis> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let number_end =
        unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let (digits, decimals) = decimal(number)?;
    let (multiplier, divisor) = scale(suffix)?;
    let numerator = digits.checked_mul(multiplier)?.checked_mul(1000)?;
    let denominator = divisor.checked_mul(10i128.checked_pow(decimals)?)?;
    let millis = numerator / denominator + i128::from(numerator % denominator != 0);
    Some(Millis(if negative { -millis } else { millis }))
}

/// The digits of a decimal number as one integer, and how many of them are decimals.
fn decimal(number: &str) -> Option<(i128, u32)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let digits = if fraction.is_empty() { whole.to_owned() } else { format!("{whole}{fraction}") };
    Some((digits.parse().ok()?, u32::try_from(fraction.len()).ok()?))
}

/// What a suffix multiplies and divides by.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => return decimal_exponent(exponent),
    })
}

fn decimal_exponent(suffix: &str) -> Option<(i128, i128)> {
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = 10i128.checked_pow(exponent.unsigned_abs())?;
    Some(if exponent < 0 { (1, power) } else { (power, 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S9, S21: quantities are read as upstream reads them.
    #[test]
    fn quantities_are_read_in_every_form() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("500m", Some(500)),
            ("0.5", Some(500)),
            (".5", Some(500)),
            ("5.", Some(5000)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("1e3", Some(1_000_000)),
            ("1E-1", Some(100)),
            ("1E", Some(1_000_000_000_000_000_000_000)),
            ("100n", Some(1)),
            ("-2k", Some(-2_000_000)),
            ("+3", Some(3000)),
            ("", None),
            ("m", None),
            ("1.2.3", None),
            ("1 Gi", None),
            ("1gi", None),
            ("1e", None),
            ("é", None),
            ("99999999999999999999999999999999999999Ei", None),
        ] {
            assert_eq!(parse(text).map(|quantity| quantity.0), expected, "{text}");
        }
    }

    /// S21: whole units round up, as upstream's `Value` does.
    #[test]
    fn whole_units_round_up() {
        assert_eq!(Millis(1).value(), 1);
        assert_eq!(Millis(1000).value(), 1);
        assert_eq!(Millis(1001).value(), 2);
    }
}

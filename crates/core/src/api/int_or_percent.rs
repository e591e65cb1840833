//! Numbers of nodes, as policies and strategies state them.

use std::fmt;

use serde::Deserialize;

use super::schema;

/// An absolute number or a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub enum IntOrPercent {
    /// An absolute number.
    Int(u32),
    /// A percentage; it may exceed 100.
    Percent(u32),
}

impl IntOrPercent {
    /// The number itself, or the percentage of `total`, rounded up (C51).
    pub fn resolve(self, total: usize) -> usize {
        match self {
            Self::Int(number) => number as usize,
            Self::Percent(percent) => (total * percent as usize).div_ceil(100),
        }
    }

    /// The number itself, or the percentage of `total`, rounded down (G15).
    pub fn resolve_floor(self, total: usize) -> usize {
        match self {
            Self::Int(number) => number as usize,
            Self::Percent(percent) => total * percent as usize / 100,
        }
    }
}

/// As a policy has it: the number, or `5%`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(u32),
    Text(String),
}

impl TryFrom<Written> for IntOrPercent {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let percent = |text: String| text.strip_suffix('%')?.parse().ok();
        match written {
            Written::Number(number) => Ok(Self::Int(number)),
            Written::Text(text) => percent(text).map(Self::Percent).ok_or("it is no percentage"),
        }
    }
}

schema::schema_of!(IntOrPercent, schema::int_or_percent);

impl fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C51: a percentage is rounded up, and may exceed 100; a number does not depend on the total.
    #[test]
    fn a_percentage_is_rounded_up() {
        for (percent, total, expected) in [
            (0, 10, 0),
            (10, 0, 0),
            (1, 1, 1),
            (25, 4, 1),
            (25, 5, 2),
            (30, 7, 3),
            (33, 10, 4),
            (50, 3, 2),
            (99, 101, 100),
            (100, 7, 7),
            (150, 3, 5),
        ] {
            let nodes = IntOrPercent::Percent(percent).resolve(total);
            assert_eq!(nodes, expected, "{percent}% of {total}");
        }
        assert_eq!([0, 2, 10].map(|total| IntOrPercent::Int(3).resolve(total)), [3; 3]);
    }
}

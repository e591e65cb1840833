//! Validates numbers that may be percentages.

use super::field::{Causes, Field};
use super::metadata::nonnegative;
use crate::format;

/// Neither negative nor another text than a percentage.
pub fn check(field: &Field, causes: &mut Causes) {
    match field.value().as_str() {
        Some(text) => causes.invalid_each(field, format::percent(text)),
        None => nonnegative(field, causes),
    }
}

/// The value is at most 100%, if it is a percentage.
pub fn at_most_100_percent(field: &Field, causes: &mut Causes) {
    if percentage(field).is_some_and(|percentage| percentage > 100) {
        causes.invalid(field, "must not be greater than 100%");
    }
}

fn percentage(field: &Field) -> Option<i64> {
    let text = field.value().as_str()?;
    if !format::percent(text).is_empty() {
        return None;
    }
    Some(text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

/// A number, or the number of a percentage. Any other string counts as the integer in it, or as 0.
pub fn value(field: &Field) -> i64 {
    percentage(field).unwrap_or_else(|| match field.value().as_str() {
        Some(text) => text.parse().unwrap_or(0),
        None => field.int(),
    })
}

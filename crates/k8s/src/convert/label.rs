//! Valid label keys and values.
//!
//! A requirement with a key or value that no label can have is malformed, as it is in upstream's
//! `labels.NewRequirement`. Otherwise `NotIn` with such a value would match every node.

use std::sync::Arc;

const NAME_LENGTH_MAX: usize = 63;
const PREFIX_LENGTH_MAX: usize = 253;

/// Checks a key: a name, optionally after a DNS subdomain and a slash.
pub(super) fn checked_key(key: &str) -> Result<Arc<str>, String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_valid = !name.is_empty() && is_name(name) && prefix.is_none_or(is_subdomain);
    is_valid.then(|| key.into()).ok_or_else(|| format!("\"{key}\" is not a valid label key"))
}

/// Checks a value: a name, or empty.
pub(super) fn checked_value(value: &str) -> Result<Arc<str>, String> {
    let is_valid = value.is_empty() || is_name(value);
    is_valid.then(|| value.into()).ok_or_else(|| format!("\"{value}\" is not a valid label value"))
}

fn is_name(text: &str) -> bool {
    text.len() <= NAME_LENGTH_MAX
        && has_valid_ends(text, |byte| byte.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

pub(super) fn is_subdomain(text: &str) -> bool {
    let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        has_valid_ends(part, is_lower) && part.bytes().all(|byte| is_lower(byte) || byte == b'-')
    };
    text.len() <= PREFIX_LENGTH_MAX && text.split('.').all(is_part)
}

/// True if the first and the last byte are allowed there.
fn has_valid_ends(text: &str, is_valid: impl Fn(u8) -> bool) -> bool {
    let ends = text.bytes().next().zip(text.bytes().next_back());
    ends.is_some_and(|(first, last)| is_valid(first) && is_valid(last))
}

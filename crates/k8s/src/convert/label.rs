//! What a label's key and value may be. A requirement with one that no label can have is malformed, as to upstream's
//! `labels.NewRequirement`: else a `NotIn` of it would match every node.

use std::sync::Arc;

const NAME_LENGTH_MAX: usize = 63;
const PREFIX_LENGTH_MAX: usize = 253;

/// A name, or a DNS subdomain, a slash and a name.
pub(super) fn checked_key(key: &str) -> Result<Arc<str>, String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_valid = !name.is_empty() && is_name(name) && prefix.is_none_or(is_subdomain);
    is_valid.then(|| key.into()).ok_or_else(|| format!("\"{key}\" is not a valid label key"))
}

/// Unlike a key it may be empty.
pub(super) fn checked_value(value: &str) -> Result<Arc<str>, String> {
    let is_valid = value.is_empty() || is_name(value);
    is_valid.then(|| value.into()).ok_or_else(|| format!("\"{value}\" is not a valid label value"))
}

fn is_name(text: &str) -> bool {
    text.len() <= NAME_LENGTH_MAX
        && is_framed(text, |byte| byte.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

fn is_subdomain(text: &str) -> bool {
    let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_part = |part: &str| {
        is_framed(part, is_lower) && part.bytes().all(|byte| is_lower(byte) || byte == b'-')
    };
    text.len() <= PREFIX_LENGTH_MAX && text.split('.').all(is_part)
}

/// Whether the first and the last byte are of this kind.
fn is_framed(text: &str, is_right: impl Fn(u8) -> bool) -> bool {
    let ends = text.bytes().next().zip(text.bytes().next_back());
    ends.is_some_and(|(first, last)| is_right(first) && is_right(last))
}

//! The values of fields of a policy.

use std::sync::Arc;
use std::time::Duration;

use everynode_core::api::IntOrPercent;
use serde_json::Value;

use crate::convert::label::checked_key;

pub(super) fn int_or_percent(value: &Value) -> Result<IntOrPercent, &'static str> {
    let percent = |text: &str| {
        let digits = text.strip_suffix('%')?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let has_leading_zero = digits.len() > 1 && digits.starts_with('0');
        let percent = digits.parse().ok().filter(|percent| *percent <= 100)?;
        (is_number && !has_leading_zero).then_some(percent)
    };
    let number = value.as_u64().and_then(|number| i32::try_from(number).ok()?.try_into().ok());
    let percentage = value.as_str().and_then(percent);
    number
        .map(IntOrPercent::Int)
        .or_else(|| percentage.map(IntOrPercent::Percent))
        .ok_or("must be a number that is not negative, or a percentage from 0% to 100%")
}

pub(super) fn positive(value: &Value) -> Result<Option<IntOrPercent>, &'static str> {
    match int_or_percent(value)? {
        IntOrPercent::Int(0) | IntOrPercent::Percent(0) => Err("must be greater than 0"),
        max => Ok(Some(max)),
    }
}

pub(super) fn label_key(value: &Value) -> Result<Option<Arc<str>>, &'static str> {
    let key = value.as_str().and_then(|key| checked_key(key).ok());
    key.map(Some).ok_or("must be the key of a label")
}

/// A duration such as `1h30m`: one to four numbers of at most five digits, each with a unit, as in
/// Kubernetes' Gateway API.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut duration = Duration::ZERO;
    for _ in 0..4 {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let number: u32 = number.parse().ok().filter(|_| digits <= 5)?;
        let units = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
        let (tail, millis) =
            units.iter().find_map(|(unit, millis)| Some((tail.strip_prefix(unit)?, *millis)))?;
        duration += number * Duration::from_millis(millis);
        rest = tail;
        if rest.is_empty() {
            return Some(duration);
        }
    }
    None
}

/// A name of lower case letters, digits and `-`.
pub(super) fn dns_label(value: &Value) -> Result<Arc<str>, &'static str> {
    let name = value.as_str().filter(|name| is_dns_label(name));
    name.map(Into::into).ok_or(
        "must consist of lower case letters, digits and '-', at most 63, and start and end with a \
         letter or digit",
    )
}

fn is_dns_label(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = text.bytes().next().zip(text.bytes().next_back());
    text.len() <= 63
        && ends.is_some_and(|(first, last)| is_letter(first) && is_letter(last))
        && text.bytes().all(|byte| is_letter(byte) || byte == b'-')
}

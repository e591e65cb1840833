//! Numbers and percentages of nodes.

use everynode_sandbox::json::Value;

/// A number, or a percentage of `total`, rounded up (C51).
pub(super) fn of(number: &Value, total: usize) -> usize {
    if let Some(number) = number.as_u64() {
        return usize::try_from(number).unwrap_or(usize::MAX);
    }
    let percent = number.as_str().and_then(|text| text.strip_suffix('%')?.parse::<usize>().ok());
    let hundredths = percent.unwrap_or_default() * total;
    hundredths / 100 + usize::from(!hundredths.is_multiple_of(100))
}

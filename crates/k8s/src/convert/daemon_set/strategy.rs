//! `spec.updateStrategy` (C50, C51).

use everynode_core::api::{IntOrPercent, Problem, UpdateStrategy};
use serde_json::Value;

/// The update strategy; a malformed one is among the problems.
pub(super) fn update_strategy(
    strategy: Option<&Value>,
    problems: &mut Vec<Problem>,
) -> UpdateStrategy {
    parse_update_strategy(strategy.unwrap_or(&Value::Null)).unwrap_or_else(|(field, message)| {
        let field = format!("spec.updateStrategy.{field}").into();
        problems.push(Problem::UpdateStrategy { field, message: message.into() });
        UpdateStrategy::Malformed
    })
}

fn parse_update_strategy(strategy: &Value) -> Result<UpdateStrategy, (&'static str, String)> {
    match strategy.get("type").and_then(Value::as_str).unwrap_or("RollingUpdate") {
        "OnDelete" => Ok(UpdateStrategy::OnDelete),
        "RollingUpdate" => {
            let number = |key| strategy.get("rollingUpdate").and_then(|rolling| rolling.get(key));
            Ok(UpdateStrategy::RollingUpdate {
                max_unavailable: int_or_percent(number("maxUnavailable"), 1)
                    .map_err(|message| ("rollingUpdate.maxUnavailable", message))?,
                max_surge: int_or_percent(number("maxSurge"), 0)
                    .map_err(|message| ("rollingUpdate.maxSurge", message))?,
            })
        }
        other => Err(("type", format!("\"{other}\" is not a valid update strategy"))),
    }
}

/// Parses a number that is not negative, or a percentage (C51).
fn int_or_percent(value: Option<&Value>, default: u32) -> Result<IntOrPercent, String> {
    let invalid = |value: &Value| format!("{value} is neither a number of pods nor a percentage");
    match value {
        None | Some(Value::Null) => Ok(IntOrPercent::Int(default)),
        Some(value @ Value::Number(number)) => {
            let number = number.as_u64().and_then(|number| u32::try_from(number).ok());
            number.map(IntOrPercent::Int).ok_or_else(|| invalid(value))
        }
        Some(value @ Value::String(text)) => {
            let digits = text.strip_suffix('%').filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
            let percent = digits.and_then(|digits| digits.parse().ok());
            percent.map(IntOrPercent::Percent).ok_or_else(|| invalid(value))
        }
        Some(value) => Err(invalid(value)),
    }
}

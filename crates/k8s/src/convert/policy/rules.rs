//! The rules of the schema of policies in Rust. The definitions of policies have them in CEL.

use everynode_core::api::schema::rule;
use everynode_core::api::{CheckKind, FINALLY, time_zone};
use serde_json::Value;

/// The values that break a rule, with their paths below the value that has the rule.
pub(super) type Broken<'a> = Vec<(String, &'a Value)>;

/// The rule with this message: it says which values break it.
pub(super) fn rule_of(message: &str) -> Option<fn(&Value) -> Broken<'_>> {
    Some(match message {
        rule::VALUES => |value| {
            let operator = text(value, "operator");
            let needs_values = operator == Some("In") || operator == Some("NotIn");
            whole(value, needs_values == items(&value["values"]).is_empty())
        },
        rule::GROWING => not_growing,
        rule::DIFFERENT_TIMES => |value| {
            let (from, to) = (text(value, "from"), text(value, "to"));
            whole(value, from.unwrap_or("00:00") == to.unwrap_or("24:00"))
        },
        rule::TIME_ZONE => |value| whole(value, value.as_str().and_then(time_zone).is_none()),
        CheckKind::ONE_QUESTION => |value| whole(value, count(value, &CheckKind::FIELDS) != 1),
        CheckKind::ONE_ANSWER => |value| whole(value, count(value, &["cronJob", "failures"]) == 2),
        rule::A_BOUND => |value| whole(value, count(value, &["min", "max"]) == 0),
        rule::ORDERED_BOUNDS => |value| {
            let bound = |key| text(value, key)?.parse::<f64>().ok();
            whole(value, bound("min").zip(bound("max")).is_some_and(|(min, max)| min > max))
        },
        rule::KNOWN_CHECKS => unknown_checks,
        rule::KNOWN_LAST_CHECKS => |policy| {
            let names = items(&policy["finally"]["checks"]).iter().enumerate();
            let unknown = names.filter(|(_, name)| !is_check(policy, name));
            unknown.map(|(index, name)| (format!("[{index}]"), name)).collect()
        },
        rule::BY_OR_EACH => |step| whole(&step["each"], count(step, &["by", "each"]) == 2),
        rule::FINALLY_IS_NO_STEP => |policy| {
            let names = items(&policy["steps"]).iter().map(|step| &step["name"]).enumerate();
            let taken = names.filter(|(_, name)| policy["finally"].is_object() && *name == FINALLY);
            taken.map(|(index, name)| (format!("[{index}].name"), name)).collect()
        },
        rule::IN_PLACE_ONLY_FAILS => |policy| {
            let is_only = policy["update"] == "InPlaceOnly";
            whole(&policy["update"], is_only && !policy["failure"].is_object())
        },
        rule::SOME_CONFIG_RULE => {
            |value| whole(value, count(value, &["require", "configMaps"]) == 0)
        }
        rule::ONLY_WITH_COPIES => |value| {
            let needs_copies = count(value, &["settle", "except"]) > 0;
            whole(value, needs_copies && count(value, &["configMaps"]) == 0)
        },
        rule::ONE_TARGET => |value| whole(value, count(value, &["name", "selector"]) != 1),
        _ => return None,
    })
}

fn whole(value: &Value, is_broken: bool) -> Broken<'_> {
    is_broken.then(|| (String::new(), value)).into_iter().collect()
}

/// The items that are not greater than one before. A number and a percentage cannot be compared.
fn not_growing(list: &Value) -> Broken<'_> {
    let size = |item: &Value| {
        let percent = item.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u64>().ok());
        percent.or(item.as_u64())
    };
    let grows = |before: &Value, item: &Value| {
        before.is_number() != item.is_number() || size(before) < size(item)
    };
    let items_before = |index: usize| items(list).iter().take(index);
    let numbered = items(list).iter().enumerate();
    numbered
        .filter(|(index, item)| !items_before(*index).all(|before| grows(before, item)))
        .map(|(index, item)| (format!("[{index}]"), item))
        .collect()
}

fn unknown_checks(policy: &Value) -> Broken<'_> {
    let steps = items(&policy["steps"]).iter().enumerate();
    steps
        .flat_map(|(index, step)| items(&step["checks"]).iter().map(move |name| (index, name)))
        .filter(|(_, name)| !is_check(policy, name))
        .map(|(index, name)| (format!("[{index}].checks"), name))
        .collect()
}

fn is_check(policy: &Value, name: &Value) -> bool {
    items(&policy["checks"]).iter().any(|check| check["name"] == *name)
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object[key].as_str()
}

fn count(object: &Value, keys: &[&str]) -> usize {
    keys.iter().filter(|key| !object[**key].is_null()).count()
}

//! The quality of service class of a pod (S10).

use crate::json::Value;

/// `Guaranteed` if every container's requests for CPU and memory equal its limits, `BestEffort` if
/// no container has any, else `Burstable`.
pub(super) fn qos_class(pod: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    for field in ["initContainers", "containers"] {
        for container in pod["spec"][field].as_array().into_iter().flatten() {
            for resource in ["cpu", "memory"] {
                let request = quantity(&container["resources"]["requests"][resource]);
                let limit = quantity(&container["resources"]["limits"][resource]);
                any |= request.is_some() || limit.is_some();
                guaranteed &= limit.is_some() && (request.is_none() || request == limit);
            }
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// A quantity that is set and not zero.
fn quantity(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| {
        text.trim_end_matches(|character: char| character.is_ascii_alphabetic())
            .chars()
            .any(|character| matches!(character, '1'..='9'))
    })
}

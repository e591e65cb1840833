//! The update strategy and its budgets (C50, C51).

use everynode_sandbox::json::Value;

use super::percent::of;
use super::policy::Policy;

/// `spec.updateStrategy`, as a policy leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::checker) struct Strategy {
    is_rolling: bool,
    max_unavailable: Value,
    max_surge: Value,
    /// `maxUnavailable` of the policy, or null.
    limit: Value,
}

/// How many nodes a rolling update may work on at the same time (C51).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::checker) enum Budget {
    /// Nodes without an available pod.
    Unavailable(usize),
    /// Nodes with a new pod beside the old one.
    Surge(usize),
}

impl Strategy {
    pub(super) fn parse(spec: &Value) -> Self {
        let strategy = &spec["updateStrategy"];
        let rolling = &strategy["rollingUpdate"];
        let or = |value: &Value, default: i64| match value {
            Value::Null => default.into(),
            given => given.clone(),
        };
        Self {
            is_rolling: strategy["type"].as_str().unwrap_or("RollingUpdate") == "RollingUpdate",
            max_unavailable: or(&rolling["maxUnavailable"], 1),
            max_surge: or(&rolling["maxSurge"], 0),
            limit: Value::Null,
        }
    }

    /// The strategy under a policy, which guards `OnDelete` as well (G5, G18).
    pub(super) fn guarded_by(self, policy: Option<&Policy>) -> Self {
        let Some(policy) = policy else { return self };
        let limit = policy.max_unavailable.clone();
        if self.is_rolling {
            return Self { limit, ..self };
        }
        let max_unavailable = if limit.is_null() { 1.into() } else { limit };
        Self { is_rolling: true, max_unavailable, max_surge: 0.into(), limit: Value::Null }
    }

    /// True if a node may have two pods during an update (C26).
    pub(in crate::checker) fn surges(&self) -> bool {
        self.is_rolling && of(&self.max_surge, 1) > 0
    }

    /// The budget if this number of nodes should run a pod; `None` without rolling updates.
    pub(in crate::checker) fn budget(&self, desired: usize) -> Option<Budget> {
        let surge = of(&self.max_surge, desired);
        let unavailable = of(&self.max_unavailable, desired);
        let limit = if self.limit.is_null() { usize::MAX } else { of(&self.limit, desired) };
        self.is_rolling.then_some(match (surge, unavailable) {
            (0, 0) => Budget::Unavailable(usize::from(desired > 0).min(limit)),
            (0, unavailable) => Budget::Unavailable(unavailable.min(limit)),
            (surge, _) => Budget::Surge(surge.min(limit)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_sandbox::json::json;

    fn budget(unavailable: Value, surge: Value, desired: usize) -> Option<Budget> {
        let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge});
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        Strategy::parse(&json!({"updateStrategy": strategy})).budget(desired)
    }

    /// C51: percentages are rounded up, and a rolling update can always go on.
    #[test]
    fn budgets_are_rounded_up() {
        assert_eq!(budget(json!("40%"), json!(0), 3), Some(Budget::Unavailable(2)));
        assert_eq!(budget(json!("40%"), json!(0), 5), Some(Budget::Unavailable(2)));
        assert_eq!(budget(json!("1%"), json!(0), 5), Some(Budget::Unavailable(1)));
        assert_eq!(budget(json!(0), json!("50%"), 3), Some(Budget::Surge(2)));
        assert_eq!(budget(json!(0), json!(0), 3), Some(Budget::Unavailable(1)));
        assert_eq!(budget(json!(0), json!("50%"), 0), Some(Budget::Unavailable(0)));
        assert_eq!(Strategy::parse(&json!({})).budget(9), Some(Budget::Unavailable(1)));
        let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
        assert_eq!(Strategy::parse(&on_delete).budget(9), None);
    }
}

//! What the replica reads of policies, with a deliberate bug.

use everynode_sandbox::json::{Map, Value, json};

use super::GuardedMutation;

impl GuardedMutation {
    pub(super) fn change_policy(self, policy: &mut Value) {
        for step in policy["steps"].as_array_mut().into_iter().flatten() {
            self.change_step(step);
        }
        let max = policy["maxUnavailable"].clone();
        let Some(policy) = policy.as_object_mut() else { return };
        match self {
            Self::IgnorePolicyBudget => drop(policy.remove("maxUnavailable")),
            Self::LargerPolicyBudget => {
                if let Some(number) = max.as_u64() {
                    policy.insert("maxUnavailable".to_owned(), json!(number + 1));
                }
            }
            Self::IgnoreGroupLimit => drop(policy.remove("maxUnavailablePer")),
            Self::LargerGroupLimit => {
                if let Some(per) = policy.get_mut("maxUnavailablePer") {
                    per["max"] = json!(2);
                }
            }
            Self::IgnoreInitialDelay | Self::ShorterInitialDelay => {
                let checks = policy.get_mut("checks").and_then(Value::as_array_mut);
                checks.into_iter().flatten().for_each(|check| self.change_check(check));
            }
            Self::IgnoreFinally => drop(policy.insert("finally".to_owned(), json!({}))),
            Self::IgnoreLastApproval => {
                if let Some(finally) = policy.get_mut("finally") {
                    finally["approval"] = json!(false);
                }
            }
            Self::AwaitLastApproval => {
                policy.entry("finally").or_insert_with(|| json!({"approval": true}));
            }
            Self::IgnorePace => drop(policy.remove("podsPerMinute")),
            Self::LargerPace => {
                if let Some(limit) = policy.get_mut("podsPerMinute") {
                    *limit = json!(limit.as_u64().unwrap_or(0) + 1);
                }
            }
            Self::IgnoreWindows => drop(policy.remove("windows")),
            Self::LateWindows | Self::WindowsInUtc => {
                let windows = policy.get_mut("windows").and_then(Value::as_array_mut);
                windows.into_iter().flatten().for_each(|window| self.change_window(window));
            }
            Self::IgnoreFailures => drop(policy.remove("failure")),
            Self::AllowRemovals | Self::LargerRemovals => {
                let failure = policy.entry("failure").or_insert_with(|| json!({}));
                let max = failure["maxRemoved"].clone();
                failure["maxRemoved"] = match self {
                    Self::AllowRemovals => json!("100%"),
                    _ if max.is_string() => max,
                    _ => json!(max.as_u64().unwrap_or(0) + 1),
                };
            }
            Self::PauseGoingBack => {
                if policy.get("failure").is_some_and(|rule| !rule["rollbackAfter"].is_null()) {
                    policy.insert("paused".to_owned(), json!(true));
                }
            }
            _ => {
                let failure = policy.get_mut("failure").and_then(Value::as_object_mut);
                failure.into_iter().for_each(|failure| self.change_failure(failure));
            }
        }
    }

    fn change_failure(self, failure: &mut Map) {
        match self {
            Self::GoBackUnasked => drop(failure.insert("rollbackAfter".to_owned(), json!("0s"))),
            Self::NeverGoBack => drop(failure.remove("rollbackAfter")),
            Self::IgnoreRestarts => drop(failure.remove("maxRestarts")),
            Self::BlameEarly if failure.contains_key("readyWithin") => {
                failure.insert("readyWithin".to_owned(), json!("30s"));
            }
            Self::IgnoreLost => drop(failure.insert("maxLost".to_owned(), json!("100%"))),
            _ => {}
        }
    }

    fn change_check(self, check: &mut Value) {
        let delay = check["initialDelay"].as_str().and_then(|text| text.strip_suffix('s'));
        let Some(seconds) = delay.and_then(|delay| delay.parse::<u32>().ok()) else { return };
        let seconds = if self == Self::ShorterInitialDelay { seconds / 3 } else { 0 };
        check["initialDelay"] = json!(format!("{seconds}s"));
    }

    fn change_window(self, window: &mut Value) {
        let minute = |text: &str| {
            let (hour, minute) = text.split_once(':')?;
            Some(hour.parse::<u32>().ok()? * 60 + minute.parse::<u32>().ok()?)
        };
        match (self, window["to"].as_str().and_then(minute)) {
            (Self::LateWindows, Some(to)) => {
                let to = (to + 10) % (24 * 60);
                window["to"] = json!(format!("{:02}:{:02}", to / 60, to % 60));
            }
            (Self::WindowsInUtc, _) => {
                window.as_object_mut().map(|window| window.remove("timeZone"));
            }
            _ => {}
        }
    }

    fn change_step(self, step: &mut Value) {
        let sizes = step["upTo"].as_array().cloned().unwrap_or_default();
        match self {
            Self::LargerWaves if !sizes.is_empty() => {
                let larger = |size: &Value| size.as_u64().map_or(size.clone(), |n| json!(n + 1));
                step["upTo"] = sizes.iter().map(larger).collect();
            }
            Self::WholeWaves if sizes.iter().any(|size| *size == "50%") => {
                step["upTo"] = json!(["99%", "100%"]);
            }
            Self::IgnoreBake => step["bake"] = json!("0s"),
            Self::IgnoreApproval => step["approval"] = json!(false),
            Self::IgnoreChecks => {
                step.as_object_mut().map(|step| step.remove("checks"));
            }
            _ => {}
        }
    }
}

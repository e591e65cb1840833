//! The reading of policies, with a deliberate bug.

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
            Self::IgnoreInitialDelay
            | Self::ShorterInitialDelay
            | Self::ShorterInterval
            | Self::ForgiveChecks => {
                let checks = policy.get_mut("checks").and_then(Value::as_array_mut);
                checks.into_iter().flatten().for_each(|check| self.change_check(check));
            }
            Self::IgnorePace => drop(policy.remove("podsPerMinute")),
            Self::LargerPace => {
                if let Some(limit) = policy.get_mut("podsPerMinute") {
                    *limit = json!(limit.as_u64().unwrap_or(0) + 1);
                }
            }
            Self::IgnoreImages => drop(policy.remove("prepare")),
            Self::LargerParallel => {
                if let Some(images) = policy.get_mut("prepare").map(|it| &mut it["images"]) {
                    images["parallel"] = json!(images["parallel"].as_u64().unwrap_or(0) + 1);
                }
            }
            Self::ChangeUnasked | Self::IgnoreOnly => self.change_update(policy),
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
                self.change_finally(policy);
            }
        }
    }

    fn change_update(self, policy: &mut Map) {
        let update = policy.entry("update").or_insert_with(|| json!("Replace"));
        match self {
            Self::ChangeUnasked if *update == "Replace" => *update = json!("InPlaceIfPossible"),
            Self::IgnoreOnly if *update == "InPlaceOnly" => *update = json!("Replace"),
            _ => {}
        }
    }

    fn change_finally(self, policy: &mut Map) {
        let finally = policy.get_mut("finally");
        match (self, finally) {
            (Self::IgnoreFinally, _) | (Self::NoDefault, None) => {
                policy.insert("finally".to_owned(), json!({}));
            }
            (Self::FinallyAsLastStep, Some(_)) => drop(policy.remove("finally")),
            (Self::IgnoreLastApproval, Some(finally)) => finally["approval"] = json!(false),
            (Self::IgnoreLastChecks, Some(finally)) => finally["checks"] = json!([]),
            (Self::AwaitLastApproval, None) => {
                policy.insert("finally".to_owned(), json!({"approval": true}));
            }
            _ => {}
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
        let divide = |time: &mut Value, divisor: u32| {
            let seconds =
                time.as_str().and_then(|text| text.strip_suffix('s')?.parse::<u32>().ok());
            if let Some(seconds) = seconds {
                *time = json!(format!("{}s", seconds / divisor));
            }
        };
        match self {
            Self::IgnoreInitialDelay => check["initialDelay"] = json!("0s"),
            Self::ShorterInitialDelay => divide(&mut check["initialDelay"], 3),
            Self::ShorterInterval => divide(&mut check["interval"], 5),
            Self::ForgiveChecks => {
                let failures = check["failures"].as_u64().unwrap_or_default();
                check["failures"] = json!(failures + 1);
            }
            _ => {}
        }
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

//! Policies in the language of transcripts.

use super::*;

/// A policy in words: `max-unavailable=2 step=canary nodes=pool=canary up-to=1,100% bake=5m
/// images=50:15m (or images-ahead, which no old pod waits for) approval step=zones by=zone finally
/// bake=1h`. Words after `step` are about that step, and after `finally` about the end.
pub(super) fn policy(words: &[&str]) -> PolicySource {
    match words {
        ["none"] => return PolicySource::None,
        ["invalid"] => return PolicySource::Invalid("it is wrong".into()),
        _ => {}
    }
    let mut policy = RolloutPolicy { steps_hash: steps_hash(words), ..RolloutPolicy::default() };
    for word in words {
        let (key, value) = pair(word, '=');
        let step = policy.steps.last_mut();
        match (key, step) {
            ("step", _) => policy.steps.push(RolloutStep {
                name: value.into(),
                nodes: LabelSelector::default(),
                by: None,
                each: None,
                up_to: vec![IntOrPercent::Percent(100)],
                wait: Wait::default(),
            }),
            ("paused", _) => policy.paused = true,
            (
                "max-failed" | "max-restarts" | "max-lost" | "max-removed" | "cannot-start"
                | "ready-within" | "rollback-after",
                _,
            ) => {
                edit_failure_rule(&mut policy, key, value);
            }
            ("max-unavailable", _) => policy.max_unavailable = Some(int_or_percent(value)),
            ("max-unavailable-per", _) => {
                let (label, max) = pair(value, ':');
                let (label, max) = (label.into(), int_or_percent(max));
                policy.max_unavailable_per = Some(GroupLimit { label, max });
            }
            ("check" | "job", _) => policy.checks.push(check(key, value)),
            ("pods-per-minute", _) => policy.pods_per_minute = value.parse().ok(),
            ("windows", _) => policy.windows = windows(value),
            ("progress-deadline", _) => policy.progress_deadline = duration(value),
            ("hold", _) => policy.hold = has_label(value, LabelOperator::Exists),
            ("hashed-names" | "snapshot" | "except", _) => {
                edit_config_rule(&mut policy, key, value);
            }
            ("agree", _) => {
                let within = duration(value);
                policy.prepare.get_or_insert_default().agree = Some(Agree { within });
            }
            ("images" | "images-ahead", _) => {
                policy.prepare.get_or_insert_default().images = Some(images(key, value));
            }
            ("in-place", _) => policy.update = UpdateMethod::InPlaceIfPossible,
            ("in-place-only", _) => policy.update = UpdateMethod::InPlaceOnly,
            ("resize-within", _) => policy.resize_within = duration(value),
            ("override", _) => policy.overrides = with_override(&policy.overrides, value),
            ("absent-taint", _) => policy.absent.taints.push(value.into()),
            ("absent-condition", _) => policy.absent.conditions.push(value.into()),
            ("nodes", Some(step)) => {
                let (key, value) = pair(value, '=');
                step.nodes = has_label(key, LabelOperator::In(vec![value.into()]));
            }
            ("by", Some(step)) => step.by = Some(value.into()),
            ("each", Some(step)) => step.each = Some(value.into()),
            ("up-to", Some(step)) => step.up_to = value.split(',').map(int_or_percent).collect(),
            ("finally", _) => policy.finally = Some(Wait::default()),
            ("bake" | "checks" | "approval", step) => {
                let wait = policy.finally.as_mut().or(step.map(|step| &mut step.wait));
                edit_wait(wait.expect("a step, or finally"), key, value);
            }
            (other, _) => panic!("policy has no {other}"),
        }
    }
    PolicySource::Valid(Arc::new(policy))
}

/// Identifies the words but those about overrides.
fn steps_hash(words: &[&str]) -> Arc<str> {
    let mut of_steps = words.to_vec();
    of_steps.retain(|word| !word.starts_with("override="));
    of_steps.join(" ").into()
}

fn edit_config_rule(policy: &mut RolloutPolicy, key: &str, value: &str) {
    let rule = policy.config.get_or_insert(ConfigRule {
        require: None,
        config_maps: None,
        settle: Duration::ZERO,
        except: Vec::new(),
    });
    match key {
        "hashed-names" => rule.require = Some(ConfigRequirement::HashedNames),
        "except" => rule.except.push(value.into()),
        _ => (rule.config_maps, rule.settle) = (Some(ConfigMapRule::Snapshot), duration(value)),
    }
}

/// One more override, `override=NAME:LABEL:CONTENT:SETTLE`, on nodes with the label.
fn with_override(before: &Overrides, text: &str) -> Arc<Overrides> {
    let mut words = text.split(':');
    let mut word = || words.next().expect("four words");
    let (name, label, content, settle) = (word(), word(), word(), word());
    let added = NodeOverride {
        name: name.into(),
        nodes: OverriddenNodes {
            labels: has_label(label, LabelOperator::Exists),
            ..OverriddenNodes::default()
        },
        containers: Vec::new(),
        settle: duration(settle),
        allow_larger: false,
        tag: format!("{name}-{content}").into(),
        copies: None,
    };
    let list = before.list.iter().cloned().chain([Arc::new(added)]).collect();
    let text = format!("{} {text}", before.text).into();
    Arc::new(Overrides { list, text, copies: None })
}

/// `images=PARALLEL:WITHIN`.
fn images(key: &str, value: &str) -> PrepareImages {
    let (parallel, within) = pair(value, ':');
    let parallel = parallel.parse().expect("a number");
    PrepareImages { parallel, within: duration(within), required: key == "images" }
}

fn edit_wait(wait: &mut Wait, key: &str, value: &str) {
    match key {
        "bake" => wait.bake = duration(value),
        "checks" => wait.checks = value.split(',').map(Into::into).collect(),
        _ => wait.approval = true,
    }
}

/// `check=NAME:INTERVAL:FAILURES:DELAY`, of which the last may be absent, or `job=NAME:INTERVAL`.
fn check(key: &str, value: &str) -> RolloutCheck {
    let mut words = value.split(':');
    let mut word = || words.next().unwrap_or_default();
    let name = word();
    RolloutCheck {
        name: name.into(),
        interval: duration(word()),
        failures: word().parse().unwrap_or(1),
        initial_delay: Some(word()).filter(|it| !it.is_empty()).map_or(Duration::ZERO, duration),
        kind: match key {
            "job" => CheckKind::CronJob(format!("{name}-test").into()),
            _ => CheckKind::Http { url: format!("http://{name}/").into() },
        },
    }
}

/// Windows of all days in UTC, such as `22:00-04:00,12:00-13:00`.
fn windows(text: &str) -> Windows {
    let time = |text| {
        let (hour, minute) = pair(text, ':');
        let number = |text: &str| text.parse().expect("a number");
        TimeOfDay::new(number(hour), number(minute)).expect("a time of day")
    };
    let windows = text.split(',').map(|window| {
        let (from, to) = pair(window, '-');
        Window { days: Days::ALL, from: time(from), to: time(to), zone: jiff::tz::TimeZone::UTC }
    });
    Windows::new(windows.collect())
}

fn edit_failure_rule(policy: &mut RolloutPolicy, key: &str, value: &str) {
    let rule = policy.failure.get_or_insert(FailureRule {
        max_nodes: IntOrPercent::Int(0),
        max_restarts: None,
        max_lost: None,
        cannot_start: false,
        max_removed: IntOrPercent::Int(0),
        ready_within: None,
        rollback_after: None,
    });
    match key {
        "max-failed" => rule.max_nodes = int_or_percent(value),
        "max-restarts" => rule.max_restarts = value.parse().ok(),
        "max-lost" => rule.max_lost = Some(int_or_percent(value)),
        "cannot-start" => rule.cannot_start = true,
        "max-removed" => rule.max_removed = int_or_percent(value),
        "ready-within" => rule.ready_within = Some(duration(value)),
        _ => rule.rollback_after = Some(duration(value)),
    }
}

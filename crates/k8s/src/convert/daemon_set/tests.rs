//! The conversion of a DaemonSet.

use everynode_core::api::{IntOrPercent, RolloutReason, UpdateStrategy};
use serde_json::json;

use super::*;
use crate::convert::timestamp;

fn base() -> Value {
    json!({
        "metadata": { "name": "d", "namespace": "ns", "uid": "u", "resourceVersion": "12",
            "generation": 3,
            "annotations": { TEMPLATE_GENERATION_ANNOTATION: "2", "x": "y" } },
        "spec": {
            "selector": { "matchLabels": { "app": "d" } },
            "template": { "metadata": { "labels": { "app": "d" } },
                "spec": { "hostNetwork": true, "new": {} } },
            "updateStrategy": { "type": "RollingUpdate",
                "rollingUpdate": { "maxUnavailable": "10%", "maxSurge": 0 } },
            "minReadySeconds": 5,
        },
        "status": { "observedGeneration": 3, "numberReady": 4, "conditions": [] },
    })
}

fn of(change: impl FnOnce(&mut Value)) -> DaemonSetObject {
    let mut value = base();
    change(&mut value);
    daemon_set(value.to_string().as_bytes(), None).unwrap()
}

/// C2, C3: decisions get narrow types, and the raw template is kept beside them.
#[test]
fn a_daemon_set_is_read_narrowly_and_its_template_kept_raw() {
    let DaemonSetObject { daemon_set, raw } = of(|_| ());
    assert_eq!(daemon_set.key.to_string(), "ns/d");
    assert_eq!(daemon_set.template_generation, Some(2));
    assert_eq!((daemon_set.min_ready_seconds, daemon_set.revision_history_limit), (5, 10));
    assert_eq!(daemon_set.status.number_ready, 4);
    assert!(daemon_set.template.placement.host_network);
    assert!(daemon_set.problems.is_empty());
    assert_eq!(raw.template(), base()["spec"]["template"]);
    assert_eq!(raw.annotations["x"], "y");
}

/// C51: numbers, percentages and defaults.
#[test]
fn budgets_are_numbers_or_percentages() {
    let strategy = |strategy: Value| of(|ds| ds["spec"]["updateStrategy"] = strategy).daemon_set;
    let default = UpdateStrategy::RollingUpdate {
        max_unavailable: IntOrPercent::Int(1),
        max_surge: IntOrPercent::Int(0),
    };
    assert_eq!(strategy(Value::Null).update_strategy, default);
    assert_eq!(strategy(json!({ "type": "OnDelete" })).update_strategy, UpdateStrategy::OnDelete);
    let surge = strategy(json!({ "rollingUpdate": { "maxSurge": "33%", "maxUnavailable": 0 } }));
    let expected = UpdateStrategy::RollingUpdate {
        max_unavailable: IntOrPercent::Int(0),
        max_surge: IntOrPercent::Percent(33),
    };
    assert_eq!(surge.update_strategy, expected);
}

/// G6, G7: the annotation pauses the rollout, also with a value that is none of its own.
#[test]
fn the_annotation_pauses_the_rollout() {
    for (value, paused, problems) in
        [("true", true, 0), ("false", false, 0), ("True", true, 1), ("", true, 1)]
    {
        let ds = of(|ds| ds["metadata"]["annotations"][PAUSED_ANNOTATION] = value.into());
        let found = (ds.daemon_set.paused, ds.daemon_set.problems.len());
        assert_eq!(found, (paused, problems), "{value:?}");
    }
    assert!(!of(|_| ()).daemon_set.paused);
}

/// G4, G7, G10: policy and order are read; malformed ones are reported, and a malformed policy
/// is not the same as none.
#[test]
fn policy_and_order_are_read() {
    let with = |policy: &str, order: &str| {
        of(|ds| {
            ds["metadata"]["annotations"][POLICY_ANNOTATION] = policy.into();
            ds["metadata"]["annotations"][ORDER_ANNOTATION] = order.into();
        })
        .daemon_set
    };
    let valid = with("steps: [{name: canary}]", "abort 5d4f now");
    assert_eq!(valid.policy.valid().map(|policy| policy.steps.len()), Some(1));
    assert!(valid.order.is_some() && valid.problems.is_empty());
    let bad = with("steps: [{}]", "abort");
    let why = "annotation everynode.dev/rollout-policy: steps[0].name: Required value";
    assert_eq!((bad.policy, bad.order), (PolicySource::Invalid(why.into()), None));
    assert_eq!(bad.problems.len(), 1);
    assert_eq!(of(|_| ()).daemon_set.policy, PolicySource::None);
}

/// G21: the status states what is known of the rollout, beside other conditions.
#[test]
fn the_condition_of_a_rollout_is_read() {
    let since = |conditions: Value| {
        let status = of(|ds| ds["status"]["conditions"] = conditions).daemon_set.status;
        status
            .rollout
            .filter(|rollout| rollout.reason == RolloutReason::Paused)
            .map(|rollout| rollout.since)
    };
    let at = "2026-01-01T00:00:00Z";
    let pause = json!({ "type": "Progressing", "status": "Unknown", "reason": "Paused",
        "lastTransitionTime": at });
    let other = json!({ "type": "Sane", "status": "True" });
    assert_eq!(since(json!([other, pause])), timestamp(at));
    for none in [
        json!(null),
        json!([other]),
        json!([{ "type": "Progressing", "reason": "Other", "lastTransitionTime": at }]),
        json!([{ "type": "Progressing", "reason": "Paused", "lastTransitionTime": "soon" }]),
    ] {
        assert_eq!(since(none.clone()), None, "{none}");
    }
}

/// G16: a pod of an older revision is made from that revision's template alone.
#[test]
fn a_pod_of_an_older_revision_is_made_from_its_template() {
    let raw = of(|_| ()).raw;
    let older = json!({ "metadata": { "labels": { "app": "d", "old": "yes" } },
        "spec": { "containers": [{ "name": "c" }], "volumes": [{ "emptyDir": {} }] } });
    let new = NewPod {
        name: Some("d-1".into()),
        node: "n".into(),
        hash: "older".into(),
        template_generation: None,
        template: Some(canonical(&older).into()),
        r#override: None,
        schedule_by: everynode_core::plan::ScheduleBy::Scheduler,
    };
    let pod: Value = serde_json::from_str(&raw.pod(&new)).unwrap();
    let labels = json!({ "app": "d", "old": "yes", "controller-revision-hash": "older" });
    assert_eq!(pod["metadata"]["labels"], labels);
    assert_eq!(pod["metadata"]["name"], "d-1");
    assert_eq!(pod["spec"]["containers"], older["spec"]["containers"]);
    assert_eq!(pod["spec"]["volumes"], older["spec"]["volumes"]);
    assert_eq!(pod["spec"]["hostNetwork"], Value::Null, "that of the target");
    let next = NewPod { template: None, hash: "new".into(), ..new };
    let pod: Value = serde_json::from_str(&raw.pod(&next)).unwrap();
    assert_eq!(pod["spec"]["hostNetwork"], true);
}

/// C4: a malformed percentage, selector or strategy is a problem, and the DaemonSet is kept.
#[test]
fn a_malformed_field_becomes_a_problem() {
    for bad in
        [json!("10 %"), json!("ten"), json!("-1%"), json!("%"), json!(-1), json!(1.5), json!({})]
    {
        let ds =
            of(|ds| ds["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = bad.clone());
        let problems = &ds.daemon_set.problems;
        assert_eq!(ds.daemon_set.update_strategy, UpdateStrategy::Malformed, "{bad}");
        assert!(matches!(&problems[..], [Problem::UpdateStrategy { .. }]), "{problems:?}");
    }
    let ds = of(|ds| {
        ds["spec"]["selector"]["matchExpressions"] = json!([{ "key": "a", "operator": "~" }])
    });
    assert_eq!(ds.daemon_set.selector, None);
    assert!(matches!(&ds.daemon_set.problems[..], [Problem::Selector { .. }]));
}

/// C4: a malformed template is a problem of its DaemonSet, even if the JSON around it is valid.
#[test]
fn a_malformed_template_is_a_problem() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for bad in [r#"{"spec":{"x":"\ud800"}}"#, r#"{"spec":{"x":1e999}}"#, &deep] {
        let json = format!(
            r#"{{"metadata":{{"name":"d","namespace":"ns","uid":"u"}},
            "spec":{{"selector":{{"matchLabels":{{"app":"d"}}}},"template":{bad}}}}}"#
        );
        let ds = daemon_set(json.as_bytes(), None).unwrap();
        let problems = &ds.daemon_set.problems;
        assert!(matches!(&problems[..], [Problem::Template { .. }]), "{bad}: {problems:?}");
        assert_eq!(ds.raw.template(), Value::Null);
        let again = daemon_set(json.as_bytes(), Some(&ds)).unwrap();
        assert_eq!(&again.daemon_set.problems, problems);
    }
}

/// C1, C4: a DaemonSet that is malformed outside its template is an error with its name.
#[test]
fn a_malformed_object_is_an_error_with_its_name() {
    for bad in [
        r#""annotations":{"a":"\ud800"}},"spec":{}"#,
        r#""annotations":{}},"spec":{"selector":{"matchLabels":{"a":"\ud800"}}}"#,
        r#""generation":1e999},"spec":{}"#,
    ] {
        let json = format!(r#"{{"metadata":{{"name":"d","namespace":"ns",{bad}}}"#);
        let error = daemon_set(json.as_bytes(), None).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("DaemonSet "), "{error}");
    }
}

/// C2, C4: invalid UTF-8 becomes U+FFFD, as in Go.
#[test]
fn a_daemon_set_with_invalid_utf_8_is_kept() {
    let json = b"{\"metadata\":{\"name\":\"d\",\"namespace\":\"ns\",\
        \"annotations\":{\"a\":\"\xff\"}},\
        \"spec\":{\"template\":{\"x\":\"\xff\"}}}";
    let ds = daemon_set(json, None).unwrap();
    assert_eq!(ds.raw.annotations["a"], "\u{fffd}");
    assert_eq!(ds.raw.template(), json!({ "x": "\u{fffd}" }));
}

/// C80: a change of the status alone does not parse the template again.
#[test]
fn an_unchanged_template_is_shared() {
    let malformed = json!({ "matchExpressions": [{ "key": "a", "operator": "~" }] });
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [malformed] } } });
    let mut value = base();
    value["spec"]["template"]["spec"]["affinity"] = affinity;
    let first = daemon_set(value.to_string().as_bytes(), None).unwrap();
    value["status"]["numberReady"] = 5.into();
    let second = daemon_set(value.to_string().as_bytes(), Some(&first)).unwrap();
    assert!(Arc::ptr_eq(
        &first.daemon_set.template.canonical,
        &second.daemon_set.template.canonical
    ));
    assert!(Arc::ptr_eq(&first.raw.template, &second.raw.template));
    assert_eq!(first.daemon_set.problems, second.daemon_set.problems);
    assert_eq!(second.daemon_set.problems.len(), 1);
}

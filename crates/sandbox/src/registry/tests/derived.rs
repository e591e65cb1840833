//! The values that the registry derives from all objects of a kind: they are right, and save
//! reading the objects.

use super::*;
use crate::kinds::{POD_DISRUPTION_BUDGET, PRIORITY_CLASS, SERVICE};
use crate::object::reads;
use crate::value::integer;

fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
}

/// S12, S13: creating a Service, a pod or an eviction reads as many objects beside 500 Services,
/// PriorityClasses or budgets as beside 5.
#[test]
fn a_write_reads_no_objects_of_others() {
    let mut costs = Vec::new();
    for count in [5, 500] {
        let mut registry = registry();
        for index in 0..count {
            create(&mut registry, &SERVICE, service(&format!("s{index}")));
            let class = json!({"metadata": {"name": format!("c{index}")}, "value": index});
            create(&mut registry, &PRIORITY_CLASS, class);
            let selector = json!({"matchLabels": {"app": format!("b{index}")}});
            let budget = json!({
                "metadata": {"name": format!("b{index}")},
                "spec": {"minAvailable": 1, "selector": selector},
            });
            create(&mut registry, &POD_DISRUPTION_BUDGET, budget);
        }
        costs.push([
            reads::of(|| {
                create(&mut registry, &SERVICE, service("new"));
            }),
            reads::of(|| {
                create(&mut registry, &POD, pod("new"));
            }),
            reads::of(|| {
                let mut running = create(&mut registry, &POD, pod("run")).value().clone();
                running["status"]["phase"] = "Running".into();
                let updated = registry.update_status(&POD, "default", "run", running, &options());
                updated.expect("it is valid");
                let evicted = registry.evict("default", "run", &json!({}), &options());
                assert_eq!(evicted, Ok(()));
            }),
        ]);
    }
    assert_eq!(costs[0], costs[1], "reads of a Service, a pod, an eviction");
}

/// S13: a pod without a class gets the default class that exists at that time.
#[test]
fn the_default_class_follows_the_classes() {
    let mut registry = registry();
    let class = |name: &str, value: i64| {
        let metadata = json!({"name": name});
        json!({"metadata": metadata, "value": value, "globalDefault": true})
    };
    let priority = |registry: &mut Registry, name: &str| {
        integer(create(registry, &POD, pod(name)).value(), "/spec/priority")
    };
    create(&mut registry, &PRIORITY_CLASS, class("a", 3));
    assert_eq!(priority(&mut registry, "p1"), 3);
    let delete = DeleteOptions::default();
    registry.delete(&PRIORITY_CLASS, "", "a", &delete, &options()).expect("it is there");
    assert_eq!(priority(&mut registry, "p2"), 0);
    create(&mut registry, &PRIORITY_CLASS, class("b", 5));
    assert_eq!(priority(&mut registry, "p3"), 5);
}

/// S9: a template generation that is no number is refused, in Go's words.
#[test]
fn a_template_generation_is_a_number() {
    for (text, why) in [
        ("abc", "invalid syntax"),
        ("", "invalid syntax"),
        ("1.5", "invalid syntax"),
        ("9223372036854775808", "value out of range"),
    ] {
        let mut object = daemon_set("a");
        object["metadata"]["annotations"] =
            json!({ "deprecated.daemonset.template.generation": text });
        let refused = registry().create(&DAEMON_SET, "default", object, &options());
        let status = refused.expect_err(text);
        assert_eq!(status.code(), 400, "{text}");
        let kind = "DaemonSet in version \"v1\" cannot be handled as a DaemonSet";
        assert_eq!(status.message, format!("{kind}: strconv.ParseInt: parsing {text:?}: {why}"));
    }
}

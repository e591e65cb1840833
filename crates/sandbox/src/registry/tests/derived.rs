//! The values that the registry derives from all objects of a kind: they are right, and save
//! reading the objects.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::kinds::{POD_DISRUPTION_BUDGET, PRIORITY_CLASS, SERVICE};
use crate::object::reads;
use crate::value::integer;

fn service(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

fn node_port_service(name: &str, ports: impl IntoIterator<Item = u32>) -> Value {
    let ports: Vec<Value> =
        ports.into_iter().map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
    service(name, json!({"type": "NodePort", "ports": ports}))
}

/// S12, S13: creating a Service, a pod or an eviction reads as many objects beside 500 Services,
/// PriorityClasses or budgets as beside 5.
#[test]
fn a_write_reads_no_objects_of_others() {
    let mut costs = Vec::new();
    for count in [5, 500] {
        let mut registry = registry();
        for index in 0..count {
            create(&mut registry, &SERVICE, node_port_service(&format!("s{index}"), [80]));
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
                create(&mut registry, &SERVICE, node_port_service("new", [80]));
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

/// S13: after any writes, a Service gets the lowest address and node port that no other
/// Service has.
#[test]
fn addresses_and_node_ports_are_the_lowest_free_ones() {
    let mut rng = Pcg64::seed_from_u64(1);
    let mut registry = registry();
    for round in 0..300 {
        let name = format!("s{}", rng.random_range(0..40));
        let found = registry.store().find(&SERVICE, "default", &name).cloned();
        match (found, rng.random_range(0..4)) {
            (Some(_), 0) => {
                let delete = DeleteOptions::default();
                registry.delete(&SERVICE, "default", &name, &delete, &options()).expect("it is");
            }
            (Some(found), 1) => {
                let mut external = found.value().clone();
                external["spec"] = json!({"type": "ExternalName", "externalName": "x.example"});
                registry.update(&SERVICE, "default", &name, external, &options()).expect("valid");
            }
            (Some(found), _) => {
                let mut changed = found.value().clone();
                let ports = (0..rng.random_range(1..4)).map(|_| rng.random_range(80..90));
                let ports: BTreeSet<u32> = ports.collect();
                let spec = &node_port_service(&name, ports)["spec"];
                changed["spec"]["ports"] = spec["ports"].clone();
                changed["spec"]["type"] = spec["type"].clone();
                registry.update(&SERVICE, "default", &name, changed, &options()).expect("valid");
            }
            (None, _) => {
                create(&mut registry, &SERVICE, node_port_service(&name, [80, 81]));
            }
        }
        if round % 50 == 0 {
            let newest = registry.store().resource_version();
            registry.store_mut().compact(newest);
        }
        let (address, port) = lowest_free(&registry);
        let probe = node_port_service("probe", [80]);
        let dry_run = WriteOptions { dry_run: true, ..options() };
        let created = registry.create(&SERVICE, "default", probe, &dry_run).expect("it is valid");
        assert_eq!(created.text(&["spec", "clusterIP"]), address, "round {round}");
        assert_eq!(integer(created.value(), "/spec/ports/0/nodePort"), port, "round {round}");
    }
}

fn lowest_free(registry: &Registry) -> (String, i64) {
    let services: Vec<_> = registry.store().iter(&SERVICE, None).collect();
    let has = |address: &String| {
        services.iter().any(|service| service.text(&["spec", "clusterIP"]) == address)
    };
    let ports: BTreeSet<i64> = services
        .iter()
        .flat_map(|service| service.value()["spec"]["ports"].as_array().into_iter().flatten())
        .map(|port| integer(port, "/nodePort"))
        .collect();
    let address = (1..250).map(|last| format!("10.96.0.{last}")).find(|address| !has(address));
    let port = (30_000..).find(|port| !ports.contains(port));
    (address.expect("few are taken"), port.expect("few are taken"))
}

/// S13: without a free node port a Service is refused, and takes none.
#[test]
fn a_service_without_a_free_node_port_is_refused() {
    let mut registry = registry();
    create(&mut registry, &SERVICE, node_port_service("all", 1..2_768));
    let two = node_port_service("two", [80, 81]);
    let (code, text) = message(registry.create(&SERVICE, "default", two, &options()));
    assert_eq!(code, 500);
    assert_eq!(text, "Internal error occurred: failed to allocate a nodePort: range is full");
    create(&mut registry, &SERVICE, node_port_service("one", [80]));
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

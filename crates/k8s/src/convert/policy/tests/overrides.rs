//! Overrides of a policy, what is said of wrong ones, and their use with a template.

use everynode_core::api::{MayOverride, Node, Template};
use serde_json::json;

use super::*;
use crate::convert::policy::stored_overrides;
use crate::convert::{daemon_set, node};

const BIG: &str = r#"overrides: [{name: big, nodes: {matchLabels: {pool: big}}, containers:
    [{name: agent, resources: {requests: {memory: 64Mi, cpu: 1}, limits: {memory: 128Mi}},
    env: [{name: WORKERS, value: "16"}], args: ["--workers=16"]}]}]"#;

fn overrides(yaml: &str) -> std::sync::Arc<everynode_core::api::Overrides> {
    rollout_policy(yaml).expect("a valid policy").overrides
}

fn node_with(labels: &[(&str, &str)], kubelet: &str) -> Node {
    let labels: serde_json::Map<_, _> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    let object = json!({ "metadata": { "name": "n", "labels": labels },
        "status": { "nodeInfo": { "kubeletVersion": kubelet } } });
    node(object.to_string().as_bytes(), &mut Interner::default()).unwrap()
}

/// G57: all fields, and their defaults. A revision stores the same.
#[test]
fn overrides_are_read_as_a_revision_stores_them() {
    let read = overrides(BIG);
    let [big] = &read.list[..] else { panic!("one") };
    assert_eq!((big.settle, big.allow_larger), (Duration::from_secs(300), false));
    let memory = &big.containers[0].resources.requests["memory"];
    assert_eq!((&*memory.text, memory.millis), ("64Mi", 64 * 1024 * 1024 * 1000));
    assert_eq!(big.containers[0].resources.requests["cpu"].millis, 1000, "a number");
    assert!(big.tag.starts_with("big-") && big.tag.len() <= 63, "{}", big.tag);
    let stored = stored_overrides(&read.text).expect("the same");
    assert_eq!((&stored.text, &stored.list[0].tag), (&read.text, &big.tag));
    assert_eq!(&stored.list[0].containers, &big.containers);
    assert!(overrides("{}").list.is_empty() && overrides("overrides: []").text.is_empty());
    assert!(stored_overrides("[{}]").is_err() && stored_overrides("x").is_err());
}

/// G57: the tag changes with the difference, and with nothing else.
#[test]
fn the_tag_is_that_of_the_difference() {
    let tag = |yaml: &str| overrides(yaml).list[0].tag.clone();
    assert_eq!(tag(BIG), tag(&BIG.replace("pool: big", "pool: huge")));
    assert_eq!(tag(BIG), tag(&BIG.replace("}]}]", "}], settle: 1m, allowLarger: true}]")));
    assert_ne!(tag(BIG), tag(&BIG.replace("64Mi", "65Mi")));
    assert_ne!(tag(BIG), tag(&BIG.replace("name: big", "name: huge")));
    assert_eq!(tag(BIG), tag(&BIG.replace("cpu: 1", "cpu: '1'")), "a number and its text");
    let text = |yaml: &str| overrides(yaml).text.clone();
    assert_eq!(text(BIG), text(&BIG.replace("}]}]", "}], settle: 1m, allowLarger: true}]")));
    assert_ne!(text(BIG), text(&BIG.replace("pool: big", "pool: huge")));
    let larger = rollout_policy(&BIG.replace("}]}]", "}], allowLarger: true}]"));
    assert_ne!(rollout_policy(BIG), larger, "it is another policy");
}

/// G57: labels, version, operating system and architecture must all match; the first override that
/// matches counts.
#[test]
fn the_first_override_that_matches_counts() {
    let all = overrides(
        "overrides: [{name: a, nodes: {matchLabels: {p: x}, kubeletVersion: '1.35'}, containers: \
         [{name: c}]}, {name: b, nodes: {os: linux, arch: arm64}, containers: [{name: c}]}, \
         {name: c, nodes: {matchExpressions: [{key: p, operator: Exists}]}, containers: \
         [{name: c}]}]",
    );
    let arm = [("kubernetes.io/os", "linux"), ("kubernetes.io/arch", "arm64"), ("p", "x")];
    for (labels, kubelet, expected) in [
        (&arm[..], "v1.35.2", Some("a")),
        (&arm[..], "v1.36.0", Some("b")),
        (&arm[2..], "", Some("c")),
        (&arm[..1], "v1.35.2", None),
    ] {
        let of_node = all.of_node(&node_with(labels, kubelet)).map(|it| it.name.to_string());
        assert_eq!(of_node.as_deref(), expected, "{labels:?} {kubelet}");
    }
}

/// G57: each field that is wrong gives an error that names it.
#[test]
fn an_error_in_an_override_names_the_field() {
    let one = |fields: &str| format!("overrides: [{{name: a, nodes: {{}}, {fields}}}]");
    let of_container = |fields: &str| one(&format!("containers: [{{name: c, {fields}}}]"));
    for (yaml, expected) in [
        ("overrides: {}".to_owned(), "overrides: Invalid value: {}: must be a list"),
        ("overrides: [{name: a}]".to_owned(), "overrides[0].nodes: Required value"),
        (one("settle: 1m"), "overrides[0].containers: Required value"),
        (one("containers: []"), "overrides[0].containers: Invalid value: []: must have at"),
        (one("containers: [{}]"), "overrides[0].containers[0].name: Required value"),
        (one("containers: [{name: c}, {name: c}]"), "containers[1].name: Duplicate value: \"c\""),
        (of_container("image: ''"), "containers[0].image: Invalid value: \"\""),
        (of_container("args: x"), "containers[0].args: Invalid value: \"x\": must be a list"),
        (of_container("securityContext: {privileged: true}"), "securityContext: unknown field"),
        (of_container("volumeMounts: []"), "containers[0].volumeMounts: unknown field"),
        (of_container("command: [x]"), "containers[0].command: unknown field"),
        (of_container("env: [{name: 1A, value: x}]"), "env[0].name: Invalid value: \"1A\""),
        (of_container("env: [{name: A}]"), "containers[0].env[0].value: Required value"),
        (of_container("env: [{name: A, valueFrom: {}}]"), "env[0].valueFrom: unknown field"),
        (of_container("resources: {claims: []}"), "resources.claims: unknown field"),
        (
            of_container("resources: {requests: {memory: lots}}"),
            "resources.requests[memory]: Invalid value: \"lots\": must be a quantity",
        ),
        (of_container("resources: {requests: {cpu: -1}}"), "requests[cpu]: Invalid value: -1"),
        (
            "overrides: [{name: a, nodes: {kubeletVersion: v1.35}, containers: [{name: c}]}]"
                .to_owned(),
            "overrides[0].nodes.kubeletVersion: Invalid value: \"v1.35\": must be a version",
        ),
        (
            format!("overrides: [{{name: {}, nodes: {{}}}}]", "a".repeat(41)),
            "overrides[0].name: Invalid value",
        ),
        (format!("overrides: [{}]", "{},".repeat(17)), "overrides: Too many: 17: must have at"),
    ] {
        let error = rollout_policy(&yaml).expect_err(&yaml);
        assert!(error.contains(expected), "{yaml}: {error}");
    }
    let variables: String =
        (0..32).map(|n| format!("{{name: A{n}, value: {}}},", "x".repeat(4_000))).collect();
    let error = rollout_policy(&of_container(&format!("env: [{variables}]"))).expect_err("long");
    assert!(error.starts_with("overrides: Too long: "), "{error}");
}

fn template() -> Template {
    let object = json!({ "metadata": { "name": "d", "namespace": "ns" }, "spec": { "template": {
        "spec": { "containers": [{ "name": "agent", "resources": {
            "requests": { "memory": "100Mi" }, "limits": { "memory": "200Mi", "cpu": "2" },
        } }], "initContainers": [
            { "name": "init" }, { "name": "sidecar", "restartPolicy": "Always" },
        ] },
    } } });
    daemon_set(object.to_string().as_bytes(), None).unwrap().daemon_set.template
}

/// G57: overrides that a template does not allow are refused with the field; a limit without a
/// request is one.
#[test]
fn overrides_are_refused_that_a_template_does_not_allow() {
    let problem = |container: &str, may: MayOverride| {
        let yaml =
            format!("overrides: [{{name: a, nodes: {{}}, containers: [{{name: {container}}}]}}]");
        overrides(&yaml).problem(&template().amounts, may)
    };
    let refused = |container: &str, expected: &str| {
        let problem = problem(container, MayOverride::AllButImage).expect(container);
        assert!(problem.starts_with(expected), "{problem}");
    };
    for allowed in [
        "agent, resources: {requests: {memory: 50Mi, cpu: 2}}",
        "agent, resources: {limits: {memory: 100Mi}}",
        "agent, resources: {limits: {cpu: 1}}",
        "init, args: [x]",
    ] {
        assert_eq!(problem(allowed, MayOverride::AllButImage), None, "{allowed}");
    }
    let container = "overrides[0].containers[0]";
    let larger = "its request is larger than that of the template";
    refused("agnet", &format!("{container}.name: Invalid value: \"agnet\": the template has no"));
    for (fields, resource, amount) in [
        ("agent, resources: {requests: {memory: 101Mi}}", "memory", "101Mi"),
        ("agent, resources: {limits: {cpu: 3}}", "cpu", "3"),
        ("init, resources: {requests: {cpu: 1m}}", "cpu", "1m"),
        ("init, resources: {limits: {cpu: 1m}}", "cpu", "1m"),
    ] {
        let expected =
            format!("{container}.resources[{resource}]: Invalid value: \"{amount}\": {larger}");
        refused(fields, &expected);
    }
    refused(
        "agent, resources: {limits: {memory: 99Mi}}",
        &format!("{container}.resources[memory]: Invalid value: \"99Mi\": its request would be"),
    );
    refused(
        "agent, image: x",
        &format!("{container}.image: Invalid value: \"x\": overrides may set images only if"),
    );
    assert_eq!(problem("agent, image: x", MayOverride::All), None);
}

/// G57: overrides of pods that run already set amounts of CPU and memory, and nothing else.
#[test]
fn overrides_of_running_pods_set_resources_only() {
    let problem = |container: &str| {
        let yaml =
            format!("overrides: [{{name: a, nodes: {{}}, containers: [{{name: {container}}}]}}]");
        overrides(&yaml).problem(&template().amounts, MayOverride::Running)
    };
    let allowed = "agent, resources: {requests: {memory: 50Mi, cpu: 2}, limits: {memory: 300Mi}}";
    assert_eq!(problem(allowed), None);
    let stated = "overrides may set only amounts that the template states";
    let only = "overrides may set only amounts of CPU and memory";
    for (container, field, why) in [
        ("agent, env: [{name: A, value: x}]", "env", only),
        ("agent, args: [x]", "args", only),
        ("agent, image: x", "image", only),
        (
            "agent, resources: {limits: {ephemeral-storage: 1Gi}}",
            "resources[ephemeral-storage]",
            only,
        ),
        ("sidecar, resources: {limits: {cpu: 0}}", "resources[cpu]", stated),
        ("sidecar, resources: {requests: {memory: 0}}", "resources[memory]", stated),
        ("init, resources: {requests: {cpu: 0}}", "name", "init containers have ended before pods"),
    ] {
        let problem = problem(container).expect(container);
        let expected = format!(
            "overrides[0].containers[0].{field}: Forbidden: beside the built-in controller, which \
             makes the pods, {why}"
        );
        assert!(problem.starts_with(&expected), "{problem}");
    }
}

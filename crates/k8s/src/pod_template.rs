//! From a pod template to the pod that is created (C2, C14, C30, C31).
//!
//! The template remains JSON. Only the parts that differ in the pods of a DaemonSet are changed;
//! all others are copied, including those that this program does not know.

use everynode_core::api::{
    CHANGED_ANNOTATION, CHANGING_ANNOTATION, CONFIG_LABEL, HASH_LABEL, OVERRIDDEN_ANNOTATION,
    OVERRIDE_LABEL, TEMPLATE_GENERATION_LABEL, Toleration, default_tolerations,
};
use everynode_core::plan::{NewPod, ScheduleBy};
use serde_json::{Map, Value, json};

use crate::overrides;
use crate::patch::Owner;

/// Maximum length of a name, and so of a prefix.
const NAME_LENGTH_MAX: usize = 253;
/// Length to which an API server cuts `generateName` before it appends a random suffix.
const GENERATED_NAME_BASE_LENGTH_MAX: usize = 58;

/// Fields of `metadata` that the API server or this controller sets, whatever the template
/// contains.
const METADATA_NOT_FROM_TEMPLATE: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "managedFields",
];

/// Annotations of pods that say how they were made or changed, which no template states.
const OWN_ANNOTATIONS: [&str; 5] =
    [CHANGED_ANNOTATION, CHANGING_ANNOTATION, OVERRIDDEN_ANNOTATION, OVERRIDE_LABEL, CONFIG_LABEL];

/// The pod to create from a template. Upstream: `GetPodFromTemplate` and `CreatePodTemplate` (C30).
pub fn pod(owner: &Owner, template: &Value, new: &NewPod) -> Value {
    let mut metadata = object(template.get("metadata"));
    for key in METADATA_NOT_FROM_TEMPLATE {
        metadata.remove(*key);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        for key in OWN_ANNOTATIONS {
            annotations.remove(key);
        }
    }
    metadata.insert("generateName".into(), generate_name(owner.name).into());
    if let Some(name) = &new.name {
        metadata.insert("name".into(), name.as_str().into());
    }
    metadata.insert("ownerReferences".into(), Value::Array(vec![owner.reference()]));
    let labels = member(&mut metadata, "labels");
    labels.remove(OVERRIDE_LABEL);
    labels.remove(CONFIG_LABEL);
    labels.insert(HASH_LABEL.into(), new.hash.as_str().into());
    if let Some(generation) = new.template_generation {
        labels.insert(TEMPLATE_GENERATION_LABEL.into(), generation.to_string().into());
    }
    let mut spec = object(template.get("spec"));
    if let Some(of_node) = &new.r#override {
        overrides::apply(&mut spec, of_node);
        for (key, tag) in of_node.labels() {
            for field in ["labels", "annotations"] {
                member(&mut metadata, field).insert(key.into(), tag.into());
            }
        }
        if of_node.label().is_some() {
            let changed = overrides::text_of_changes(of_node).into();
            member(&mut metadata, "annotations").insert(OVERRIDDEN_ANNOTATION.into(), changed);
        }
    }
    add_default_tolerations(&mut spec);
    match new.schedule_by {
        ScheduleBy::Scheduler => pin_to(&mut spec, new.node.as_str()),
        ScheduleBy::Controller => {
            spec.insert("nodeName".into(), new.node.as_str().into());
        }
    }
    // json! would copy metadata and spec.
    Value::Object(Map::from_iter([
        ("apiVersion".to_owned(), "v1".into()),
        ("kind".to_owned(), "Pod".into()),
        ("metadata".to_owned(), metadata.into()),
        ("spec".to_owned(), spec.into()),
    ]))
}

/// The common beginning of the names of a DaemonSet's pods, cut as an API server cuts
/// `generateName`. Upstream: `simpleNameGenerator` (C35).
pub fn name_base(daemon_set: &str) -> String {
    let mut base = generate_name(daemon_set);
    base.truncate(base.floor_char_boundary(GENERATED_NAME_BASE_LENGTH_MAX));
    base
}

fn object(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// The member with this key, replaced by an empty object if it is not an object.
fn member<'a>(parent: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let member = parent.entry(key).or_insert(Value::Null);
    if !member.is_object() {
        *member = Value::Object(Map::new());
    }
    member.as_object_mut().expect("it is an object now")
}

/// The value of `generateName`. Upstream: `getPodsPrefix`.
fn generate_name(name: &str) -> String {
    if name.len() < NAME_LENGTH_MAX { format!("{name}-") } else { name.to_owned() }
}

/// Adds the default tolerations. One that differs in `tolerationSeconds` only is replaced.
/// Upstream: `AddOrUpdateDaemonPodTolerations` (C14).
fn add_default_tolerations(spec: &mut Map<String, Value>) {
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    let tolerations = spec.entry("tolerations").or_insert(Value::Null);
    if !tolerations.is_array() {
        *tolerations = json!([]);
    }
    let tolerations = tolerations.as_array_mut().expect("it is an array now");
    for default in default_tolerations(host_network).map(|toleration| to_json(&toleration)) {
        let mut exists = false;
        for toleration in tolerations.iter_mut().filter(|t| is_same_toleration(t, &default)) {
            *toleration = default.clone();
            exists = true;
        }
        if !exists {
            tolerations.push(default);
        }
    }
}

/// A default toleration, which has a key and an effect, and no value.
fn to_json(toleration: &Toleration) -> Value {
    json!({
        "key": &*toleration.key,
        "operator": toleration.operator.to_string(),
        "effect": toleration.effect.map(|effect| effect.to_string()),
    })
}

fn is_same_toleration(a: &Value, b: &Value) -> bool {
    ["key", "operator", "value", "effect"].iter().all(|key| text(a, key) == text(b, key))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

/// Replaces the required node affinity by one that pins the pod to this node; preferred terms and
/// pod (anti-)affinity stay. Upstream: `ReplaceDaemonSetPodNodeNameNodeAffinity` (C30).
fn pin_to(spec: &mut Map<String, Value>, node: &str) {
    let required = json!({ "nodeSelectorTerms": [
        { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] },
    ] });
    member(member(spec, "affinity"), "nodeAffinity")
        .insert("requiredDuringSchedulingIgnoredDuringExecution".into(), required);
}

#[cfg(test)]
mod tests {
    use super::*;
    use everynode_core::api::Uid;

    fn new_pod(schedule_by: ScheduleBy, template_generation: Option<i64>) -> NewPod {
        let (name, node, hash) = (None, "n1".into(), "h4sh".into());
        NewPod {
            name,
            node,
            hash,
            template_generation,
            template: None,
            r#override: None,
            schedule_by,
        }
    }

    fn pod_of(template: &Value, new: &NewPod) -> Value {
        let uid = Uid::new("u-1");
        pod(&Owner { namespace: "ns", name: "fluentd", uid: &uid }, template, new)
    }

    fn scheduled(template: &Value) -> Value {
        pod_of(template, &new_pod(ScheduleBy::Scheduler, None))
    }

    fn keys(tolerations: &Value) -> Vec<&str> {
        let tolerations = tolerations.as_array().unwrap();
        tolerations.iter().map(|t| t["key"].as_str().unwrap()).collect()
    }

    /// C30: name, labels, annotations, owner and node of a created pod.
    #[test]
    fn a_pod_has_the_metadata_of_its_template_and_its_owner() {
        let template = json!({
            "metadata": {
                "creationTimestamp": null,
                "name": "not this",
                "labels": { "app": "fluentd", HASH_LABEL: "other" },
                "annotations": { "a": "b" },
                "finalizers": ["example.com/f"],
            },
            "spec": { "containers": [{ "name": "c" }] },
        });
        let pod = pod_of(&template, &new_pod(ScheduleBy::Scheduler, Some(7)));
        assert_eq!(
            pod["metadata"],
            json!({
                "generateName": "fluentd-",
                "labels": { "app": "fluentd", HASH_LABEL: "h4sh", TEMPLATE_GENERATION_LABEL: "7" },
                "annotations": { "a": "b" },
                "finalizers": ["example.com/f"],
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "fluentd", "uid": "u-1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            })
        );
        assert_eq!(pod["spec"]["containers"], template["spec"]["containers"]);
    }

    /// G57: the override of a node changes the containers that it names, and no others; the
    /// template itself states none.
    #[test]
    fn a_pod_has_the_override_of_its_node() {
        let policy = crate::convert::rollout_policy(
            "overrides: [{name: big, nodes: {}, containers: [{name: c, args: [x], image: i2, \
             resources: {requests: {memory: 64Mi}, limits: {cpu: 2}}, env: [{name: A, value: '1'}, \
             {name: B, value: '2'}]}, {name: i, args: [w]}]}]",
        )
        .unwrap();
        let of_node = policy.overrides.list[0].clone();
        let template = json!({
            "metadata": {
                "labels": { "app": "a", OVERRIDE_LABEL: "forged" },
                "annotations": { OVERRIDE_LABEL: "forged" },
            },
            "spec": {
                "containers": [
                    { "name": "c", "image": "i1", "args": ["z", "z"],
                      "env": [{ "name": "A", "valueFrom": { "fieldRef": {} } }, { "name": "Z" }],
                      "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } },
                    { "name": "other" },
                ],
                "initContainers": [{ "name": "i" }],
            },
        });
        let tag = of_node.tag.to_string();
        let new = NewPod { r#override: Some(of_node), ..new_pod(ScheduleBy::Scheduler, Some(1)) };
        let pod = pod_of(&template, &new);
        assert_eq!(
            pod["spec"]["containers"],
            json!([
                { "name": "c", "image": "i2", "args": ["x"],
                  "env": [{ "name": "A", "value": "1" }, { "name": "Z" },
                      { "name": "B", "value": "2" }],
                  "resources": { "requests": { "cpu": "1", "memory": "64Mi" },
                      "limits": { "cpu": "2" } } },
                { "name": "other" },
            ])
        );
        assert_eq!(pod["spec"]["initContainers"], json!([{ "name": "i", "args": ["w"] }]));
        for field in ["labels", "annotations"] {
            assert_eq!(pod["metadata"][field][OVERRIDE_LABEL], json!(tag), "{field}");
        }
        let plain = pod_of(&template, &new_pod(ScheduleBy::Scheduler, Some(1)));
        assert_eq!(plain["metadata"]["labels"].get(OVERRIDE_LABEL), None);
        assert_eq!(plain["metadata"]["annotations"].get(OVERRIDE_LABEL), None);
    }

    /// C35: the name of the plan is set beside generateName, whatever the template contains.
    #[test]
    fn a_pod_has_the_name_of_the_plan() {
        let template = json!({ "metadata": { "name": "not this" } });
        let new =
            NewPod { name: Some("fluentd-bcdfg".into()), ..new_pod(ScheduleBy::Scheduler, None) };
        let pod = pod_of(&template, &new);
        assert_eq!(pod["metadata"]["name"], "fluentd-bcdfg");
        assert_eq!(pod["metadata"]["generateName"], "fluentd-");
    }

    /// C2: unknown fields reach the pod, at any depth.
    #[test]
    fn unknown_fields_reach_the_pod() {
        let template = json!({
            "metadata": { "inventedMeta": [1] },
            "spec": {
                "invented": { "x": [{ "y": null }, 1.5] },
                "containers": [{ "name": "c", "alsoInvented": true }],
                "affinity": { "inventedAffinity": {}, "nodeAffinity": { "inventedNode": 1 } },
            },
        });
        let pod = scheduled(&template);
        assert_eq!(pod["metadata"]["inventedMeta"], json!([1]));
        assert_eq!(pod["spec"]["invented"], template["spec"]["invented"]);
        assert_eq!(pod["spec"]["containers"], template["spec"]["containers"]);
        assert_eq!(pod["spec"]["affinity"]["inventedAffinity"], json!({}));
        assert_eq!(pod["spec"]["affinity"]["nodeAffinity"]["inventedNode"], json!(1));
    }

    /// C30: the required node affinity is replaced; preferred terms and pod (anti-)affinity stay.
    #[test]
    fn only_the_required_node_affinity_is_replaced() {
        let kept = json!({
            "podAffinity": { "p": 1 },
            "podAntiAffinity": { "q": 2 },
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1 }],
            },
        });
        let mut affinity = kept.clone();
        affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            json!({ "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "a" }] }] });
        let mut expected = kept;
        expected["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
            "nodeSelectorTerms": [
                { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] },
            ],
        });
        assert_eq!(
            scheduled(&json!({ "spec": { "affinity": affinity } }))["spec"]["affinity"],
            expected
        );
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let bare = scheduled(&json!({ "spec": { "affinity": null } }));
        let found = &bare["spec"]["affinity"]["nodeAffinity"][required];
        assert_eq!(*found, expected["nodeAffinity"][required]);
    }

    /// C14: the taint network-unavailable is tolerated with hostNetwork only.
    #[test]
    fn default_tolerations_are_added() {
        let mut expected = vec![
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
            "node.kubernetes.io/disk-pressure",
            "node.kubernetes.io/memory-pressure",
            "node.kubernetes.io/pid-pressure",
            "node.kubernetes.io/unschedulable",
        ];
        assert_eq!(keys(&scheduled(&json!({}))["spec"]["tolerations"]), expected);
        expected.push("node.kubernetes.io/network-unavailable");
        let host_network = scheduled(&json!({ "spec": { "hostNetwork": true } }));
        assert_eq!(keys(&host_network["spec"]["tolerations"]), expected);
    }

    /// C14: a default toleration of the template is not added again; one with another effect is.
    #[test]
    fn no_default_toleration_is_added_twice() {
        let (not_ready, unreachable) =
            ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable");
        let pod = scheduled(&json!({ "spec": { "tolerations": [
            { "key": not_ready, "operator": "Exists", "effect": "NoExecute",
              "tolerationSeconds": 5 },
            { "key": unreachable, "operator": "Exists", "effect": "NoSchedule" },
        ] } }));
        let tolerations = &pod["spec"]["tolerations"];
        assert_eq!(tolerations.as_array().unwrap().len(), 7);
        assert_eq!(tolerations[0].get("tolerationSeconds"), None);
        assert_eq!(tolerations[2]["key"], unreachable);
        assert_eq!(tolerations[2]["effect"], "NoExecute");
    }

    /// C31: with `--schedule-by=controller` the pod has spec.nodeName, and its affinity stays.
    #[test]
    fn a_pod_that_the_controller_schedules_has_a_node_name() {
        let template = json!({ "spec": { "affinity": { "nodeAffinity": { "x": 1 } } } });
        let pod = pod_of(&template, &new_pod(ScheduleBy::Controller, None));
        assert_eq!(pod["spec"]["nodeName"], "n1");
        assert_eq!(pod["spec"]["affinity"], template["spec"]["affinity"]);
    }

    /// C30: the prefix of a name of maximum length has no hyphen.
    #[test]
    fn a_name_of_maximum_length_is_its_own_prefix() {
        assert_eq!(generate_name("a"), "a-");
        assert_eq!(generate_name(&"a".repeat(252)).len(), 253);
        assert_eq!(generate_name(&"a".repeat(253)).len(), 253);
    }

    /// C35: the base of a name is cut to 58 characters, including the hyphen, as in an API server.
    #[test]
    fn the_base_of_a_name_is_cut_as_an_api_server_cuts_it() {
        assert_eq!(name_base("fluentd"), "fluentd-");
        assert_eq!(name_base(&"a".repeat(57)), format!("{}-", "a".repeat(57)));
        assert_eq!(name_base(&"a".repeat(58)), "a".repeat(58));
        assert_eq!(name_base(&"a".repeat(253)), "a".repeat(58));
    }
}

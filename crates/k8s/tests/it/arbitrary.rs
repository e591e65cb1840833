//! Arbitrary JSON and nearly valid objects: no function panics, and nothing is lost.

use everynode_core::plan::{NewPod, ScheduleBy};
use everynode_k8s::canonical::canonical;
use everynode_k8s::convert::{self, Interner};
use everynode_k8s::patch::Owner;
use everynode_k8s::revision_data::{data_of_template, template_of_data};
use everynode_k8s::{go_json, pod_template};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Keys that the conversions read, and some others.
const KEYS: &[&str] = &[
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "uid",
    "labels",
    "annotations",
    "ownerReferences",
    "controller",
    "selector",
    "template",
    "matchLabels",
    "matchExpressions",
    "key",
    "operator",
    "values",
    "updateStrategy",
    "rollingUpdate",
    "maxUnavailable",
    "maxSurge",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    "matchFields",
    "tolerations",
    "taints",
    "effect",
    "conditions",
    "type",
    "lastTransitionTime",
    "data",
    "revision",
    "resources",
    "emptyDir",
    "$patch",
    "x",
];

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1i64 << 53)..(1i64 << 53)).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        prop::sample::select(vec!["In", "Exists", "10%", "NoExecute", "DaemonSet", "True"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let key = prop::sample::select(KEYS).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// An object with valid metadata, so that the rest is decoded.
fn objects() -> impl Strategy<Value = Value> {
    (values(), values(), values()).prop_map(|(metadata, spec, status)| {
        let mut object = json!({ "metadata": { "name": "n", "namespace": "ns", "uid": "u" } });
        if let (Value::Object(extra), Some(known)) = (metadata, object["metadata"].as_object_mut())
        {
            known.extend(extra);
        }
        object["spec"] = spec;
        object["status"] = status;
        object
    })
}

proptest! {
    /// C41: parsing an encoded value returns the value.
    #[test]
    fn parsing_an_encoded_value_returns_it(value in values()) {
        let text = go_json::encode(&value);
        prop_assert_eq!(go_json::parse(text.as_bytes()).unwrap(), value);
    }

    /// C41: the canonical form is its own canonical form, and that of the template in a revision.
    #[test]
    fn a_revision_keeps_the_canonical_form(spec in values()) {
        let template = json!({ "spec": spec });
        let canonical_text = canonical(&template);
        let again: Value = serde_json::from_str(&canonical_text).unwrap();
        prop_assert_eq!(&canonical(&again), &canonical_text);
        let data: Value = serde_json::from_str(&data_of_template(&template)).unwrap();
        prop_assert_eq!(template_of_data(&data), Ok(canonical_text));
    }

    /// C4: any object is either decoded or an error that names it.
    #[test]
    fn any_object_is_decoded_or_an_error(object in prop_oneof![objects(), values()]) {
        let json = object.to_string();
        let mut interner = Interner::default();
        let errors = [
            convert::node(json.as_bytes(), &mut interner).err(),
            convert::pod(json.as_bytes(), &mut interner).err(),
            convert::revision(json.as_bytes(), &mut interner).err(),
            convert::namespace(json.as_bytes(), &mut interner).err(),
            convert::daemon_set(json.as_bytes(), None).err(),
        ];
        for error in errors.into_iter().flatten() {
            prop_assert!(error.to_string().starts_with(error.kind));
        }
    }

    /// C2, C30: any template gives a pod, which keeps all fields that need no change.
    #[test]
    fn any_template_gives_a_pod(template in values(), unknown in values()) {
        let mut template = template;
        if !template.is_object() {
            template = json!({});
        }
        template["spec"] = json!({ "unknown": unknown.clone(), "affinity": template["affinity"] });
        let uid = "u".into();
        let owner = Owner { namespace: "ns", name: "d", uid: &uid };
        let new = NewPod {
            name: None,
            node: "n1".into(),
            hash: "h".into(),
            template_generation: None,
            template: None,
            r#override: None,
            schedule_by: ScheduleBy::Scheduler,
        };
        let pod = pod_template::pod(&owner, &template, &new);
        prop_assert_eq!(&pod["spec"]["unknown"], &unknown);
        let name = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/\
            nodeSelectorTerms/0/matchFields/0/values/0";
        prop_assert_eq!(pod.pointer(name), Some(&json!("n1")));
    }
}

//! What OpenAPI documents say of fields beyond their types: which lists are merged and by which
//! keys, and which maps and lists are replaced as a whole. Strategic merge patches and server-side
//! apply both depend on it.
//!
//! The tables follow the OpenAPI documents of Kubernetes 1.36, for all types of its stable
//! versions. Lists that they do not mention are atomic, and maps are granular.

use serde_json::{Map, Value, json};

/// A field with an extension.
#[derive(Debug)]
struct Extension {
    field: &'static str,
    topology: Topology,
    patch: PatchStrategy,
}

/// How the elements of a list or map belong together: `x-kubernetes-list-type`,
/// `x-kubernetes-list-map-keys` and `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topology {
    /// The default of the field's type.
    Default,
    Set,
    /// A list of structs that are identified by key fields.
    Keyed(&'static [&'static str]),
    AtomicMap,
    GranularMap,
}

/// How a strategic merge patch treats a field: `x-kubernetes-patch-strategy` and
/// `x-kubernetes-patch-merge-key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchStrategy {
    /// Objects are merged field by field, other values are replaced.
    Default,
    /// An object is replaced as well.
    Replace,
    /// An object; clients also list the fields that it keeps (`$retainKeys`).
    RetainKeys,
    /// A list of objects is merged element by element, matched by a key.
    MergeBy(&'static str),
    /// As `MergeBy`; clients also list the fields that each element keeps (`$retainKeys`).
    MergeRetainKeysBy(&'static str),
    /// A list of scalars is merged as an ordered set.
    MergeSet,
}

/// How a strategic merge patch treats a field of a definition, such as `containers` of
/// `io.k8s.api.core.v1.PodSpec`.
pub(crate) fn patch_strategy(definition: &str, field: &str) -> PatchStrategy {
    of(definition, field).map_or(PatchStrategy::Default, |extension| extension.patch)
}

fn of(definition: &str, field: &str) -> Option<&'static Extension> {
    let name = short_name(definition);
    let index = FIELDS.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    FIELDS[index].1.iter().find(|known| known.field == field)
}

/// Adds the extensions and the defaults of fields to the schema of a built-in definition.
pub(crate) fn annotate(definition: &str, schema: &mut Value) {
    let name = short_name(definition);
    if ATOMIC_TYPES.contains(&name) {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    let required: Vec<String> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|field| field.as_str().map(str::to_owned))
        .collect();
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (field, schema) in properties {
        let Some(schema) = schema.as_object_mut() else { continue };
        let items_of_list = field == "items" && definition.ends_with("List");
        if schema.get("type").is_some_and(|name| name == "array") && !items_of_list {
            schema.insert("x-kubernetes-list-type".to_owned(), "atomic".into());
        }
        if let Some(extension) = of(definition, field) {
            extension.annotate(schema);
        }
        if let Some(default) = default(name, field, schema, &required) {
            schema.insert("default".to_owned(), default);
        }
    }
}

/// The paths of the structs that are part of a kind without a pointer, apart from the metadata,
/// spec and status.
pub(super) fn embedded(definition: &str) -> impl Iterator<Item = &'static [&'static str]> {
    let name = short_name(definition);
    EMBEDDED.iter().filter(move |(known, _)| *known == name).map(|(_, path)| *path)
}

impl Extension {
    fn annotate(&self, schema: &mut Map<String, Value>) {
        let mut set = |name: &str, value: Value| {
            schema.insert(format!("x-kubernetes-{name}"), value);
        };
        match self.topology {
            Topology::Default => {}
            Topology::Set => set("list-type", "set".into()),
            Topology::Keyed(keys) => {
                set("list-type", "map".into());
                set("list-map-keys", json!(keys));
            }
            Topology::AtomicMap => set("map-type", "atomic".into()),
            Topology::GranularMap => set("map-type", "granular".into()),
        }
        let (strategy, key) = match self.patch {
            PatchStrategy::Default => return,
            PatchStrategy::Replace => ("replace", None),
            PatchStrategy::RetainKeys => ("retainKeys", None),
            PatchStrategy::MergeBy(key) => ("merge", Some(key)),
            PatchStrategy::MergeRetainKeysBy(key) => ("merge,retainKeys", Some(key)),
            PatchStrategy::MergeSet => ("merge", None),
        };
        set("patch-strategy", strategy.into());
        if let Some(key) = key {
            set("patch-merge-key", key.into());
        }
    }
}

/// The group, version and kind at the end of a definition's name: `core.v1.PodSpec`.
fn short_name(definition: &str) -> &str {
    let dots = definition.rmatch_indices('.');
    dots.map(|(index, _)| index).nth(2).map_or(definition, |index| &definition[index + 1..])
}

/// The default of a field. Required scalars have their zero value.
fn default(
    name: &str,
    field: &str,
    schema: &Map<String, Value>,
    required: &[String],
) -> Option<Value> {
    match (name, field) {
        ("core.v1.ContainerPort" | "core.v1.ServicePort", "protocol") => return Some("TCP".into()),
        ("core.v1.LocalObjectReference", "name") => return Some("".into()),
        _ if !required.iter().any(|required| required == field) => return None,
        _ => {}
    }
    match schema.get("type")?.as_str()? {
        "string" if !schema.contains_key("format") => Some("".into()),
        "integer" => Some(0.into()),
        "boolean" => Some(false.into()),
        _ => None,
    }
}

const fn merged(field: &'static str, keys: &'static [&'static str]) -> Extension {
    Extension { field, topology: Topology::Keyed(keys), patch: PatchStrategy::MergeBy(keys[0]) }
}

const fn retained(field: &'static str, keys: &'static [&'static str]) -> Extension {
    let patch = PatchStrategy::MergeRetainKeysBy(keys[0]);
    Extension { field, topology: Topology::Keyed(keys), patch }
}

const fn keyed(field: &'static str, keys: &'static [&'static str]) -> Extension {
    Extension { field, topology: Topology::Keyed(keys), patch: PatchStrategy::Default }
}

const fn set(field: &'static str) -> Extension {
    Extension { field, topology: Topology::Set, patch: PatchStrategy::Default }
}

const fn merged_set(field: &'static str) -> Extension {
    Extension { field, topology: Topology::Set, patch: PatchStrategy::MergeSet }
}

/// A list that only strategic merge patches merge.
const fn patched_by(field: &'static str, key: &'static str) -> Extension {
    Extension { field, topology: Topology::Default, patch: PatchStrategy::MergeBy(key) }
}

const fn atomic_map(field: &'static str) -> Extension {
    Extension { field, topology: Topology::AtomicMap, patch: PatchStrategy::Default }
}

const fn granular_map(field: &'static str) -> Extension {
    Extension { field, topology: Topology::GranularMap, patch: PatchStrategy::Default }
}

const fn plain(field: &'static str, patch: PatchStrategy) -> Extension {
    Extension { field, topology: Topology::Default, patch }
}

/// The structs in the spec of a kind that are part of it without a pointer.
const EMBEDDED: &[(&str, &[&str])] = &[
    ("apps.v1.DaemonSet", &["spec", "template", "metadata"]),
    ("apps.v1.DaemonSet", &["spec", "template", "spec"]),
    ("apps.v1.DaemonSet", &["spec", "updateStrategy"]),
    ("apps.v1.Deployment", &["spec", "strategy"]),
    ("apps.v1.Deployment", &["spec", "template", "metadata"]),
    ("apps.v1.Deployment", &["spec", "template", "spec"]),
    ("apps.v1.ReplicaSet", &["spec", "template", "metadata"]),
    ("apps.v1.ReplicaSet", &["spec", "template", "spec"]),
    ("apps.v1.StatefulSet", &["spec", "template", "metadata"]),
    ("apps.v1.StatefulSet", &["spec", "template", "spec"]),
    ("apps.v1.StatefulSet", &["spec", "updateStrategy"]),
    ("autoscaling.v2.HorizontalPodAutoscaler", &["spec", "scaleTargetRef"]),
    ("batch.v1.CronJob", &["spec", "jobTemplate", "metadata"]),
    ("batch.v1.CronJob", &["spec", "jobTemplate", "spec", "template", "metadata"]),
    ("batch.v1.CronJob", &["spec", "jobTemplate", "spec", "template", "spec"]),
    ("batch.v1.Job", &["spec", "template", "metadata"]),
    ("batch.v1.Job", &["spec", "template", "spec"]),
    ("core.v1.Event", &["source"]),
    ("core.v1.PersistentVolumeClaim", &["spec", "resources"]),
    ("core.v1.PodTemplate", &["template", "metadata"]),
    ("core.v1.PodTemplate", &["template", "spec"]),
    ("events.v1.Event", &["deprecatedSource"]),
    ("apiextensions.v1.CustomResourceDefinition", &["spec", "names"]),
    ("storage.v1.VolumeAttachment", &["spec", "source"]),
];

/// The fields with extensions of each type, ordered by type.
#[rustfmt::skip]
static FIELDS: &[(&str, &[Extension])] = &[
    ("admissionregistration.v1.MutatingAdmissionPolicySpec", &[
        merged("matchConditions", &["name"]),
    ]),
    ("admissionregistration.v1.MutatingWebhook", &[merged("matchConditions", &["name"])]),
    ("admissionregistration.v1.MutatingWebhookConfiguration", &[merged("webhooks", &["name"])]),
    ("admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec", &[set("validationActions")]),
    ("admissionregistration.v1.ValidatingAdmissionPolicySpec", &[
        merged("matchConditions", &["name"]),
        merged("variables", &["name"]),
    ]),
    ("admissionregistration.v1.ValidatingAdmissionPolicyStatus", &[keyed("conditions", &["type"])]),
    ("admissionregistration.v1.ValidatingWebhook", &[merged("matchConditions", &["name"])]),
    ("admissionregistration.v1.ValidatingWebhookConfiguration", &[merged("webhooks", &["name"])]),
    ("apiextensions.v1.CustomResourceDefinitionStatus", &[keyed("conditions", &["type"])]),
    ("apiextensions.v1.JSONSchemaProps", &[merged("x-kubernetes-validations", &["rule"])]),
    ("apiregistration.v1.APIServiceStatus", &[merged("conditions", &["type"])]),
    ("apps.v1.DaemonSetStatus", &[merged("conditions", &["type"])]),
    ("apps.v1.DeploymentSpec", &[plain("strategy", PatchStrategy::RetainKeys)]),
    ("apps.v1.DeploymentStatus", &[merged("conditions", &["type"])]),
    ("apps.v1.ReplicaSetStatus", &[merged("conditions", &["type"])]),
    ("apps.v1.StatefulSetStatus", &[merged("conditions", &["type"])]),
    ("autoscaling.v2.HorizontalPodAutoscalerStatus", &[merged("conditions", &["type"])]),
    ("batch.v1.JobStatus", &[patched_by("conditions", "type")]),
    ("batch.v1.PodFailurePolicyOnExitCodesRequirement", &[set("values")]),
    ("batch.v1.UncountedTerminatedPods", &[set("failed"), set("succeeded")]),
    ("certificates.v1.CertificateSigningRequestStatus", &[keyed("conditions", &["type"])]),
    ("core.v1.ComponentStatus", &[merged("conditions", &["type"])]),
    ("core.v1.Container", &[
        merged("env", &["name"]),
        merged("ports", &["containerPort", "protocol"]),
        merged("volumeDevices", &["devicePath"]),
        merged("volumeMounts", &["mountPath"]),
    ]),
    ("core.v1.ContainerRestartRuleOnExitCodes", &[set("values")]),
    ("core.v1.ContainerStatus", &[
        merged("allocatedResourcesStatus", &["name"]),
        merged("volumeMounts", &["mountPath"]),
    ]),
    ("core.v1.EphemeralContainer", &[
        merged("env", &["name"]),
        merged("ports", &["containerPort", "protocol"]),
        merged("volumeDevices", &["devicePath"]),
        merged("volumeMounts", &["mountPath"]),
    ]),
    ("core.v1.NamespaceStatus", &[merged("conditions", &["type"])]),
    ("core.v1.NodeAllocatableResourceClaimStatus", &[set("containers")]),
    ("core.v1.NodeSpec", &[merged_set("podCIDRs")]),
    ("core.v1.NodeStatus", &[merged("addresses", &["type"]), merged("conditions", &["type"])]),
    ("core.v1.PersistentVolumeClaimStatus", &[
        granular_map("allocatedResourceStatuses"),
        merged("conditions", &["type"]),
    ]),
    ("core.v1.PersistentVolumeSpec", &[granular_map("claimRef")]),
    ("core.v1.PodSpec", &[
        merged("containers", &["name"]),
        merged("ephemeralContainers", &["name"]),
        merged("hostAliases", &["ip"]),
        merged("imagePullSecrets", &["name"]),
        merged("initContainers", &["name"]),
        atomic_map("nodeSelector"),
        retained("resourceClaims", &["name"]),
        merged("schedulingGates", &["name"]),
        merged("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
        retained("volumes", &["name"]),
    ]),
    ("core.v1.PodStatus", &[
        merged("conditions", &["type"]),
        patched_by("hostIPs", "ip"),
        merged("podIPs", &["ip"]),
        retained("resourceClaimStatuses", &["name"]),
    ]),
    ("core.v1.ReplicationControllerSpec", &[atomic_map("selector")]),
    ("core.v1.ReplicationControllerStatus", &[merged("conditions", &["type"])]),
    ("core.v1.ResourceRequirements", &[keyed("claims", &["name"])]),
    ("core.v1.ResourceStatus", &[keyed("resources", &["resourceID"])]),
    ("core.v1.ServiceAccount", &[merged("secrets", &["name"])]),
    ("core.v1.ServiceSpec", &[merged("ports", &["port", "protocol"]), atomic_map("selector")]),
    ("core.v1.ServiceStatus", &[merged("conditions", &["type"])]),
    ("discovery.v1.Endpoint", &[set("addresses")]),
    ("flowcontrol.v1.FlowSchemaStatus", &[merged("conditions", &["type"])]),
    ("flowcontrol.v1.NonResourcePolicyRule", &[set("nonResourceURLs"), set("verbs")]),
    ("flowcontrol.v1.PriorityLevelConfigurationStatus", &[merged("conditions", &["type"])]),
    ("flowcontrol.v1.ResourcePolicyRule", &[
        set("apiGroups"),
        set("namespaces"),
        set("resources"),
        set("verbs"),
    ]),
    ("meta.v1.ObjectMeta", &[merged_set("finalizers"), merged("ownerReferences", &["uid"])]),
    ("networking.v1.ServiceCIDRStatus", &[merged("conditions", &["type"])]),
    ("node.v1.Scheduling", &[atomic_map("nodeSelector")]),
    ("policy.v1.PodDisruptionBudgetSpec", &[plain("selector", PatchStrategy::Replace)]),
    ("policy.v1.PodDisruptionBudgetStatus", &[merged("conditions", &["type"])]),
    ("resource.v1.AllocatedDeviceStatus", &[keyed("conditions", &["type"])]),
    ("resource.v1.ResourceClaimStatus", &[
        keyed("devices", &["driver", "device", "pool", "shareID"]),
        merged("reservedFor", &["uid"]),
    ]),
    ("storage.v1.CSIDriverSpec", &[set("volumeLifecycleModes")]),
    ("storage.v1.CSINodeSpec", &[merged("drivers", &["name"])]),
];

/// The structs that are replaced as a whole.
const ATOMIC_TYPES: &[&str] = &[
    "admissionregistration.v1.NamedRuleWithOperations",
    "admissionregistration.v1.ParamKind",
    "admissionregistration.v1.ParamRef",
    "admissionregistration.v1.Variable",
    "autoscaling.v1.CrossVersionObjectReference",
    "core.v1.ConfigMapKeySelector",
    "core.v1.EndpointAddress",
    "core.v1.EndpointPort",
    "core.v1.FileKeySelector",
    "core.v1.LocalObjectReference",
    "core.v1.NodeSelector",
    "core.v1.NodeSelectorTerm",
    "core.v1.ObjectFieldSelector",
    "core.v1.ObjectReference",
    "core.v1.ResourceFieldSelector",
    "core.v1.ScopeSelector",
    "core.v1.SecretKeySelector",
    "core.v1.SecretReference",
    "core.v1.TopologySelectorTerm",
    "core.v1.TypedLocalObjectReference",
    "discovery.v1.EndpointPort",
    "meta.v1.LabelSelector",
    "meta.v1.OwnerReference",
    "networking.v1.ServiceBackendPort",
    "rbac.v1.RoleRef",
    "rbac.v1.Subject",
    "admissionregistration.v1.MatchResources",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// S5, S14: the table is ordered, and each row is a field of its type; keys are fields of the
    /// elements.
    #[test]
    fn every_row_is_a_field_of_the_api_definition() {
        assert!(FIELDS.is_sorted_by_key(|(name, _)| *name));
        let definitions = super::super::definitions();
        let properties = |name: &str| definitions[name]["properties"].clone();
        let mut checked = 0;
        for name in definitions.keys() {
            let Ok(index) = FIELDS.binary_search_by(|(known, _)| (*known).cmp(short_name(name)))
            else {
                continue;
            };
            for extension in FIELDS[index].1 {
                let property = &properties(name)[extension.field];
                assert!(property.is_object(), "{name} {}", extension.field);
                let Topology::Keyed(keys) = extension.topology else { continue };
                let element = property["items"]["$ref"].as_str().expect("keys are of structs");
                let element = element.rsplit('/').next().expect("a name");
                for key in keys {
                    assert!(properties(element)[*key].is_object(), "{key} of {}", extension.field);
                }
                checked += 1;
            }
        }
        assert!(checked > 20, "{checked}");
    }

    /// S3, S5, S14: OpenAPI documents, patches and applies use the same table.
    #[test]
    fn openapi_documents_contain_the_extensions() {
        let definitions = super::super::definitions();
        for (definition, field, expected) in [
            (
                "core.v1.PodSpec",
                "volumes",
                json!({"list-type": "map", "list-map-keys": ["name"],
                    "patch-strategy": "merge,retainKeys", "patch-merge-key": "name"}),
            ),
            ("core.v1.PodSpec", "tolerations", json!({"list-type": "atomic"})),
            ("core.v1.PodSpec", "nodeSelector", json!({"map-type": "atomic"})),
            (
                "core.v1.Container",
                "ports",
                json!({"list-type": "map", "list-map-keys": ["containerPort", "protocol"],
                    "patch-strategy": "merge", "patch-merge-key": "containerPort"}),
            ),
            (
                "core.v1.NodeSpec",
                "podCIDRs",
                json!({"list-type": "set", "patch-strategy": "merge"}),
            ),
            (
                "core.v1.PodStatus",
                "hostIPs",
                json!({"list-type": "atomic", "patch-strategy": "merge", "patch-merge-key": "ip"}),
            ),
            ("apps.v1.DeploymentSpec", "strategy", json!({"patch-strategy": "retainKeys"})),
            ("apps.v1.DaemonSet", "spec", json!({})),
        ] {
            let schema = &definitions[&format!("io.k8s.api.{definition}")]["properties"][field];
            let found: Map<String, Value> = schema
                .as_object()
                .into_iter()
                .flatten()
                .filter_map(|(name, value)| {
                    Some((name.strip_prefix("x-kubernetes-")?.to_owned(), value.clone()))
                })
                .collect();
            assert_eq!(Value::Object(found), expected, "{definition} {field}");
        }
        let selector = &definitions["io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"];
        assert_eq!(selector["x-kubernetes-map-type"], "atomic");
        let port = &definitions["io.k8s.api.core.v1.ContainerPort"]["properties"];
        assert_eq!(
            (&port["protocol"]["default"], &port["containerPort"]["default"]),
            (&json!("TCP"), &json!(0))
        );
    }
}

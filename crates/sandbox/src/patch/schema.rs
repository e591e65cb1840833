//! The lists of the API types that a strategic merge patch merges, and their merge keys.
//!
//! The table follows the struct tags of Kubernetes' API types (1.36). It contains the types with
//! such a list and the types that lead to one. For any other field objects are merged, and lists
//! and scalars are replaced.

use crate::kind::{self, Kind};

/// An API type, by the name of its OpenAPI definition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Type {
    definition: &'static str,
    fields: &'static [Field],
}

/// A field with a merge strategy, or one that leads to such a field.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    name: &'static str,
    /// The type of the field, or of its elements if it is a list.
    pub(super) of: Option<&'static Type>,
    pub(super) strategy: MergeStrategy,
}

/// The merge strategy of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MergeStrategy {
    /// Objects are merged field by field, other values are replaced.
    Plain,
    /// A list of objects is merged element by element, matched by a key.
    MergeBy(&'static str),
    /// As `MergeBy`; clients also list the fields that each element keeps (`$retainKeys`).
    MergeRetainKeysBy(&'static str),
    /// A list of scalars is merged as an ordered set.
    MergeSet,
}

/// The strategy in OpenAPI documents: `x-kubernetes-patch-strategy` and
/// `x-kubernetes-patch-merge-key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchMeta {
    /// The name of the strategy: `merge`, or `merge,retainKeys`.
    pub strategy: &'static str,
    /// The merge key; `None` for a list of scalars.
    pub merge_key: Option<&'static str>,
}

/// The merge strategy of a field of a definition, such as `containers` of
/// `io.k8s.api.core.v1.PodSpec`; `None` for the default strategy.
pub fn merge_key(definition: &str, field: &str) -> Option<PatchMeta> {
    let strategy =
        TYPES.iter().find(|known| known.definition == definition)?.field(field)?.strategy;
    let meta = |strategy, merge_key| Some(PatchMeta { strategy, merge_key });
    match strategy {
        MergeStrategy::Plain => None,
        MergeStrategy::MergeBy(key) => meta("merge", Some(key)),
        MergeStrategy::MergeRetainKeysBy(key) => meta("merge,retainKeys", Some(key)),
        MergeStrategy::MergeSet => meta("merge", None),
    }
}

/// The type of a kind; `None` for a kind that was defined at run time and has no Go type.
pub(super) fn of(kind: &Kind) -> Option<&'static Type> {
    let rows: &[(&Kind, &'static Type)] = &[
        (&kind::POD, &POD),
        (&kind::NODE, &NODE),
        (&kind::NAMESPACE, &NAMESPACE),
        (&kind::SERVICE_ACCOUNT, &SERVICE_ACCOUNT),
        (&kind::DAEMON_SET, &DAEMON_SET),
    ];
    let is = |other: &Kind| {
        (other.group, other.version, other.kind) == (kind.group, kind.version, kind.kind)
    };
    let listed = rows.iter().find(|(row, _)| is(row)).map(|&(_, root)| root);
    let plain = || kind::BUILT_IN.iter().any(|row| is(row)).then_some(&OBJECT);
    listed.or_else(plain)
}

impl Type {
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl MergeStrategy {
    pub(super) fn merges_lists(self) -> bool {
        match self {
            Self::Plain => false,
            Self::MergeBy(_) | Self::MergeRetainKeysBy(_) | Self::MergeSet => true,
        }
    }

    pub(super) fn key(self) -> Option<&'static str> {
        match self {
            Self::MergeBy(key) | Self::MergeRetainKeysBy(key) => Some(key),
            Self::Plain | Self::MergeSet => None,
        }
    }
}

/// A field that leads to fields with a strategy.
const fn object(name: &'static str, of: &'static Type) -> Field {
    Field { name, of: Some(of), strategy: MergeStrategy::Plain }
}

/// A list whose elements contain no merging lists.
const fn merge_by(name: &'static str, key: &'static str) -> Field {
    Field { name, of: None, strategy: MergeStrategy::MergeBy(key) }
}

/// A list whose elements contain merging lists.
const fn merge_each_by(name: &'static str, of: &'static Type, key: &'static str) -> Field {
    Field { name, of: Some(of), strategy: MergeStrategy::MergeBy(key) }
}

const fn merge_set(name: &'static str) -> Field {
    Field { name, of: None, strategy: MergeStrategy::MergeSet }
}

static TYPES: &[&Type] = &[
    &OBJECT_META,
    &POD,
    &POD_TEMPLATE_SPEC,
    &POD_SPEC,
    &CONTAINER,
    &EPHEMERAL_CONTAINER,
    &CONTAINER_STATUS,
    &VOLUME,
    &EPHEMERAL_VOLUME_SOURCE,
    &PERSISTENT_VOLUME_CLAIM_TEMPLATE,
    &POD_STATUS,
    &NODE,
    &NODE_SPEC,
    &NODE_STATUS,
    &NAMESPACE,
    &NAMESPACE_STATUS,
    &SERVICE_ACCOUNT,
    &DAEMON_SET,
    &DAEMON_SET_SPEC,
    &DAEMON_SET_STATUS,
];

/// Any type whose only merging lists are in its metadata.
static OBJECT: Type = Type { definition: "", fields: &[object("metadata", &OBJECT_META)] };

static OBJECT_META: Type = Type {
    definition: "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    fields: &[merge_by("ownerReferences", "uid"), merge_set("finalizers")],
};

static POD: Type = Type {
    definition: "io.k8s.api.core.v1.Pod",
    fields: &[
        object("metadata", &OBJECT_META),
        object("spec", &POD_SPEC),
        object("status", &POD_STATUS),
    ],
};

static POD_TEMPLATE_SPEC: Type = Type {
    definition: "io.k8s.api.core.v1.PodTemplateSpec",
    fields: &[object("metadata", &OBJECT_META), object("spec", &POD_SPEC)],
};

/// The list of tolerations is replaced as a whole.
static POD_SPEC: Type = Type {
    definition: "io.k8s.api.core.v1.PodSpec",
    fields: &[
        Field {
            name: "volumes",
            of: Some(&VOLUME),
            strategy: MergeStrategy::MergeRetainKeysBy("name"),
        },
        merge_each_by("initContainers", &CONTAINER, "name"),
        merge_each_by("containers", &CONTAINER, "name"),
        merge_each_by("ephemeralContainers", &EPHEMERAL_CONTAINER, "name"),
        merge_by("imagePullSecrets", "name"),
        merge_by("hostAliases", "ip"),
        merge_by("topologySpreadConstraints", "topologyKey"),
        merge_by("schedulingGates", "name"),
        Field {
            name: "resourceClaims",
            of: None,
            strategy: MergeStrategy::MergeRetainKeysBy("name"),
        },
    ],
};

const CONTAINER_FIELDS: &[Field] = &[
    merge_by("ports", "containerPort"),
    merge_by("env", "name"),
    merge_by("volumeMounts", "mountPath"),
    merge_by("volumeDevices", "devicePath"),
];

static CONTAINER: Type =
    Type { definition: "io.k8s.api.core.v1.Container", fields: CONTAINER_FIELDS };

static EPHEMERAL_CONTAINER: Type =
    Type { definition: "io.k8s.api.core.v1.EphemeralContainer", fields: CONTAINER_FIELDS };

/// Only OpenAPI documents use this: the lists of container statuses are replaced as a whole.
static CONTAINER_STATUS: Type = Type {
    definition: "io.k8s.api.core.v1.ContainerStatus",
    fields: &[merge_by("volumeMounts", "mountPath"), merge_by("allocatedResourcesStatus", "name")],
};

static VOLUME: Type = Type {
    definition: "io.k8s.api.core.v1.Volume",
    fields: &[object("ephemeral", &EPHEMERAL_VOLUME_SOURCE)],
};

static EPHEMERAL_VOLUME_SOURCE: Type = Type {
    definition: "io.k8s.api.core.v1.EphemeralVolumeSource",
    fields: &[object("volumeClaimTemplate", &PERSISTENT_VOLUME_CLAIM_TEMPLATE)],
};

static PERSISTENT_VOLUME_CLAIM_TEMPLATE: Type = Type {
    definition: "io.k8s.api.core.v1.PersistentVolumeClaimTemplate",
    fields: &[object("metadata", &OBJECT_META)],
};

static POD_STATUS: Type = Type {
    definition: "io.k8s.api.core.v1.PodStatus",
    fields: &[
        merge_by("conditions", "type"),
        merge_by("hostIPs", "ip"),
        merge_by("podIPs", "ip"),
        Field {
            name: "resourceClaimStatuses",
            of: None,
            strategy: MergeStrategy::MergeRetainKeysBy("name"),
        },
    ],
};

static NODE: Type = Type {
    definition: "io.k8s.api.core.v1.Node",
    fields: &[
        object("metadata", &OBJECT_META),
        object("spec", &NODE_SPEC),
        object("status", &NODE_STATUS),
    ],
};

/// The list of taints is replaced as a whole.
static NODE_SPEC: Type =
    Type { definition: "io.k8s.api.core.v1.NodeSpec", fields: &[merge_set("podCIDRs")] };

static NODE_STATUS: Type = Type {
    definition: "io.k8s.api.core.v1.NodeStatus",
    fields: &[merge_by("conditions", "type"), merge_by("addresses", "type")],
};

static NAMESPACE: Type = Type {
    definition: "io.k8s.api.core.v1.Namespace",
    fields: &[object("metadata", &OBJECT_META), object("status", &NAMESPACE_STATUS)],
};

static NAMESPACE_STATUS: Type = Type {
    definition: "io.k8s.api.core.v1.NamespaceStatus",
    fields: &[merge_by("conditions", "type")],
};

static SERVICE_ACCOUNT: Type = Type {
    definition: "io.k8s.api.core.v1.ServiceAccount",
    fields: &[object("metadata", &OBJECT_META), merge_by("secrets", "name")],
};

static DAEMON_SET: Type = Type {
    definition: "io.k8s.api.apps.v1.DaemonSet",
    fields: &[
        object("metadata", &OBJECT_META),
        object("spec", &DAEMON_SET_SPEC),
        object("status", &DAEMON_SET_STATUS),
    ],
};

static DAEMON_SET_SPEC: Type = Type {
    definition: "io.k8s.api.apps.v1.DaemonSetSpec",
    fields: &[object("template", &POD_TEMPLATE_SPEC)],
};

static DAEMON_SET_STATUS: Type = Type {
    definition: "io.k8s.api.apps.v1.DaemonSetStatus",
    fields: &[merge_by("conditions", "type")],
};

#[cfg(test)]
mod tests {
    use super::*;

    /// S5: every built-in kind supports strategic merge patches.
    #[test]
    fn every_built_in_kind_has_a_type() {
        for kind in kind::BUILT_IN {
            assert!(of(kind).is_some(), "{}", kind.kind);
        }
    }

    /// S5: every row refers to a field of the API definition.
    #[test]
    fn every_row_is_a_field_of_the_api_definition() {
        let settings = schemars::generate::SchemaSettings::draft07();
        let mut generator = schemars::SchemaGenerator::new(settings);
        generator.subschema_for::<k8s_openapi::api::core::v1::Pod>();
        generator.subschema_for::<k8s_openapi::api::core::v1::Node>();
        generator.subschema_for::<k8s_openapi::api::core::v1::Namespace>();
        generator.subschema_for::<k8s_openapi::api::core::v1::ServiceAccount>();
        generator.subschema_for::<k8s_openapi::api::apps::v1::DaemonSet>();
        let definitions = generator.take_definitions(true);
        let properties = |definition: &str| definitions[definition]["properties"].clone();
        for known in TYPES {
            for field in known.fields {
                let property = &properties(known.definition)[field.name];
                assert!(property.is_object(), "{} {}", known.definition, field.name);
                let (Some(key), Some(element)) = (field.strategy.key(), field.of) else {
                    continue;
                };
                assert!(properties(element.definition)[key].is_object(), "{key} of {}", field.name);
            }
        }
    }

    /// S3, S5: OpenAPI documents and patches use the same table.
    #[test]
    fn the_openapi_document_contains_patch_strategies_and_keys() {
        let meta = |strategy, merge_key| Some(PatchMeta { strategy, merge_key });
        for (definition, field, expected) in [
            ("io.k8s.api.core.v1.PodSpec", "containers", meta("merge", Some("name"))),
            ("io.k8s.api.core.v1.PodSpec", "volumes", meta("merge,retainKeys", Some("name"))),
            ("io.k8s.api.core.v1.PodSpec", "tolerations", None),
            ("io.k8s.api.core.v1.Container", "ports", meta("merge", Some("containerPort"))),
            ("io.k8s.api.core.v1.NodeSpec", "podCIDRs", meta("merge", None)),
            ("io.k8s.api.core.v1.NodeSpec", "taints", None),
            ("io.k8s.api.apps.v1.DaemonSet", "spec", None),
            ("io.k8s.api.apps.v1.DaemonSetStatus", "conditions", meta("merge", Some("type"))),
            (
                "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
                "ownerReferences",
                meta("merge", Some("uid")),
            ),
            ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers", meta("merge", None)),
            ("io.example.Unknown", "containers", None),
        ] {
            assert_eq!(merge_key(definition, field), expected, "{definition} {field}");
        }
    }
}

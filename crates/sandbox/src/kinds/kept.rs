//! The kept kinds that need no code of their own: their rules, defaults and columns are data (S13).

use super::pod::template;
use crate::format;
use crate::kind::columns::{AGE, Cell, Column, NAME, text, text_or};
use crate::kind::defaults::Defaults;
use crate::kind::defaults::Literal::{self, Bool, Int, List, Struct, Text};
use crate::kind::rules::Rules;
use crate::kind::strategy::Strategy;
use crate::kind::{FieldLabels, Kind, STATUS, kept};

const ADMISSION: &str = "admissionregistration.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const RESOURCE: &str = "resource.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

const CREATED_BY_UPDATE: Strategy = Strategy { is_created_by_update: true, ..Strategy::PLAIN };
const NEEDS_VERSION: Strategy = Strategy { needs_resource_version: true, ..Strategy::PLAIN };
const RETURNS_DELETED: Strategy = Strategy { returns_deleted_object: true, ..Strategy::PLAIN };

const ANY_NAME: Rules = Rules { names: format::path_segment, ..Rules::NONE };

const fn values(values: &'static [(&'static str, Literal)]) -> Defaults {
    Defaults { values, ..Defaults::KEPT }
}

pub(super) static ALL: &[Kind] = &[
    Kind {
        short_names: &["ep"],
        deprecation: Some(
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ),
        defaults: values(&[("subsets[].ports[].protocol", Text("TCP"))]),
        strategy: CREATED_BY_UPDATE,
        ..kept("", "Endpoints", "endpoints", "endpoints")
    },
    Kind {
        short_names: &["limits"],
        strategy: CREATED_BY_UPDATE,
        ..kept("", "LimitRange", "limitranges", "limitrange")
    },
    Kind {
        counts_generations: true,
        defaults: Defaults { each: &[("template", template::complete)], ..values(&[]) },
        rules: Rules {
            each: &[("template", template::check)],
            warnings: |new, old| template::warnings("template", new, old),
            ..Rules::NONE
        },
        strategy: RETURNS_DELETED,
        ..kept("", "PodTemplate", "podtemplates", "podtemplate")
    },
    Kind {
        short_names: &["quota"],
        subresources: STATUS,
        strategy: RETURNS_DELETED,
        ..kept("", "ResourceQuota", "resourcequotas", "resourcequota")
    },
    Kind {
        short_names: &["csr"],
        namespaced: false,
        subresources: STATUS,
        field_labels: FieldLabels::Listed(&["spec.signerName"]),
        rules: ANY_NAME,
        ..kept(
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "certificatesigningrequests",
            "certificatesigningrequest",
        )
    },
    Kind {
        namespaced: false,
        counts_generations: true,
        columns: &[
            NAME,
            text("Controller", "/spec/controller"),
            text_or("Parameters", "/spec/parameters/name", "<none>"),
            AGE,
        ],
        defaults: values(&[("spec.parameters?.scope", Text("Cluster"))]),
        ..kept(NETWORKING, "IngressClass", "ingressclasses", "ingressclass")
    },
    Kind {
        short_names: &["ip"],
        namespaced: false,
        rules: ANY_NAME,
        ..kept(NETWORKING, "IPAddress", "ipaddresses", "ipaddress")
    },
    Kind {
        namespaced: false,
        subresources: STATUS,
        ..kept(NETWORKING, "ServiceCIDR", "servicecidrs", "servicecidr")
    },
    Kind {
        namespaced: false,
        columns: &[
            NAME,
            Column::new("AttachRequired", Cell::Boolean("/spec/attachRequired")),
            Column::new("PodInfoOnMount", Cell::Boolean("/spec/podInfoOnMount")),
            Column::new("StorageCapacity", Cell::Boolean("/spec/storageCapacity")),
            Column::new(
                "TokenRequests",
                Cell::Joined("/spec/tokenRequests", "/audience", "<unset>"),
            ),
            Column::new("RequiresRepublish", Cell::Boolean("/spec/requiresRepublish")),
            Column::new("Modes", Cell::Joined("/spec/volumeLifecycleModes", "", "<none>")),
            AGE,
        ],
        defaults: values(&[
            ("spec.attachRequired", Bool(true)),
            ("spec.podInfoOnMount", Bool(false)),
            ("spec.storageCapacity", Bool(false)),
            ("spec.requiresRepublish", Bool(false)),
            ("spec.seLinuxMount", Bool(false)),
            ("spec.fsGroupPolicy", Text("ReadWriteOnceWithFSType")),
            ("spec.volumeLifecycleModes", List(&["Persistent"])),
        ]),
        rules: Rules {
            choices: &[
                ("spec.fsGroupPolicy", &["File", "None", "ReadWriteOnceWithFSType"]),
                ("spec.volumeLifecycleModes[]", &["Ephemeral", "Persistent"]),
            ],
            immutable: &["spec.attachRequired", "spec.volumeLifecycleModes"],
            ..Rules::NONE
        },
        strategy: NEEDS_VERSION,
        ..kept(STORAGE, "CSIDriver", "csidrivers", "csidriver")
    },
    Kind {
        namespaced: false,
        columns: &[NAME, Column::new("Drivers", Cell::Count("/spec/drivers")).integer(), AGE],
        strategy: NEEDS_VERSION,
        ..kept(STORAGE, "CSINode", "csinodes", "csinode")
    },
    Kind {
        strategy: NEEDS_VERSION,
        ..kept(STORAGE, "CSIStorageCapacity", "csistoragecapacities", "csistoragecapacity")
    },
    Kind {
        namespaced: false,
        subresources: STATUS,
        strategy: NEEDS_VERSION,
        ..kept(STORAGE, "VolumeAttachment", "volumeattachments", "volumeattachment")
    },
    Kind {
        short_names: &["vac"],
        namespaced: false,
        ..kept(STORAGE, "VolumeAttributesClass", "volumeattributesclasses", "volumeattributesclass")
    },
    Kind {
        defaults: values(POLICY),
        ..admission(
            "MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicy",
        )
    },
    Kind {
        defaults: values(BINDING),
        ..admission(
            "MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
            "mutatingadmissionpolicybinding",
        )
    },
    Kind {
        subresources: STATUS,
        defaults: values(POLICY),
        ..admission(
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            "validatingadmissionpolicy",
        )
    },
    Kind {
        defaults: values(BINDING),
        ..admission(
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            "validatingadmissionpolicybinding",
        )
    },
    Kind {
        namespaced: false,
        columns: &[NAME, text("Handler", "/handler"), AGE],
        rules: Rules { required: &[("handler", "")], immutable: &["handler"], ..Rules::NONE },
        strategy: Strategy { needs_resource_version: true, ..CREATED_BY_UPDATE },
        ..kept("node.k8s.io", "RuntimeClass", "runtimeclasses", "runtimeclass")
    },
    Kind {
        counts_generations: true,
        defaults: values(&[("ports[].name", Text("")), ("ports[].protocol", Text("TCP"))]),
        ..kept("discovery.k8s.io", "EndpointSlice", "endpointslices", "endpointslice")
    },
    Kind {
        namespaced: false,
        counts_generations: true,
        ..kept(RESOURCE, "DeviceClass", "deviceclasses", "deviceclass")
    },
    Kind {
        subresources: STATUS,
        defaults: values(&[(
            "spec.devices?.requests[].exactly?.allocationMode",
            Text("ExactCount"),
        )]),
        ..kept(RESOURCE, "ResourceClaim", "resourceclaims", "resourceclaim")
    },
    Kind {
        defaults: values(&[(
            "spec.spec?.devices?.requests[].exactly?.allocationMode",
            Text("ExactCount"),
        )]),
        ..kept(RESOURCE, "ResourceClaimTemplate", "resourceclaimtemplates", "resourceclaimtemplate")
    },
    Kind {
        namespaced: false,
        counts_generations: true,
        field_labels: FieldLabels::Listed(&["spec.nodeName", "spec.driver"]),
        ..kept(RESOURCE, "ResourceSlice", "resourceslices", "resourceslice")
    },
    Kind {
        namespaced: false,
        subresources: STATUS,
        counts_generations: true,
        defaults: values(&[("spec.matchingPrecedence", Int(1000))]),
        rules: ANY_NAME,
        ..kept(FLOW_CONTROL, "FlowSchema", "flowschemas", "flowschema")
    },
    Kind {
        namespaced: false,
        subresources: STATUS,
        counts_generations: true,
        defaults: values(&[
            ("spec.limited?.nominalConcurrencyShares", Int(30)),
            ("spec.limited?.lendablePercent", Int(0)),
            ("spec.limited?.limitResponse.queuing?.queues", Int(64)),
            ("spec.limited?.limitResponse.queuing?.handSize", Int(8)),
            ("spec.limited?.limitResponse.queuing?.queueLengthLimit", Int(50)),
            ("spec.exempt?.nominalConcurrencyShares", Int(0)),
            ("spec.exempt?.lendablePercent", Int(0)),
        ]),
        ..kept(
            FLOW_CONTROL,
            "PriorityLevelConfiguration",
            "prioritylevelconfigurations",
            "prioritylevelconfiguration",
        )
    },
];

/// A policy of admission or its binding.
const fn admission(kind: &'static str, plural: &'static str, singular: &'static str) -> Kind {
    Kind {
        categories: &["api-extensions"],
        namespaced: false,
        counts_generations: true,
        strategy: NEEDS_VERSION,
        ..kept(ADMISSION, kind, plural, singular)
    }
}

const POLICY: &[(&str, Literal)] = &[
    ("spec.failurePolicy", Text("Fail")),
    ("spec.matchConstraints?.namespaceSelector", Struct),
    ("spec.matchConstraints?.objectSelector", Struct),
    ("spec.matchConstraints?.matchPolicy", Text("Equivalent")),
    ("spec.matchConstraints?.resourceRules[].scope", Text("*")),
    ("spec.matchConstraints?.excludeResourceRules[].scope", Text("*")),
];

const BINDING: &[(&str, Literal)] = &[
    ("spec.matchResources?.namespaceSelector", Struct),
    ("spec.matchResources?.objectSelector", Struct),
    ("spec.matchResources?.matchPolicy", Text("Equivalent")),
    ("spec.matchResources?.resourceRules[].scope", Text("*")),
    ("spec.matchResources?.excludeResourceRules[].scope", Text("*")),
];

//! The kinds on which nothing in the sandbox acts: their objects are kept, so that manifests can be
//! applied as a whole, and their writers are warned (S13).

use super::simulated::PLAIN;
use super::{FieldLabels, Kind, Strategy, Subresource};

const STATUS: &[Subresource] = &[Subresource::Status];
const SCALE: &[Subresource] = &[Subresource::Scale, Subresource::Status];

/// A kept kind in version v1 and in namespaces.
const fn kept(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
) -> Kind {
    Kind { group, kind, plural, singular, strategy: Strategy::Kept, ..PLAIN }
}

/// Services.
pub static SERVICE: Kind = Kind {
    short_names: &["svc"],
    categories: &["all"],
    subresources: STATUS,
    field_labels: FieldLabels::Listed(&["spec.clusterIP", "spec.type"]),
    strategy: Strategy::Service,
    ..kept("", "Service", "services", "service")
};

static OTHERS: &[Kind] = &[
    Kind {
        short_names: &["ep"],
        deprecation: Some(
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ),
        ..kept("", "Endpoints", "endpoints", "endpoints")
    },
    Kind { short_names: &["limits"], ..kept("", "LimitRange", "limitranges", "limitrange") },
    Kind {
        short_names: &["pvc"],
        subresources: STATUS,
        ..kept("", "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim")
    },
    Kind {
        short_names: &["pv"],
        namespaced: false,
        subresources: STATUS,
        ..kept("", "PersistentVolume", "persistentvolumes", "persistentvolume")
    },
    Kind { counts_generations: true, ..kept("", "PodTemplate", "podtemplates", "podtemplate") },
    Kind {
        short_names: &["rc"],
        categories: &["all"],
        subresources: SCALE,
        counts_generations: true,
        field_labels: FieldLabels::Listed(&["status.replicas"]),
        ..kept("", "ReplicationController", "replicationcontrollers", "replicationcontroller")
    },
    Kind {
        short_names: &["quota"],
        subresources: STATUS,
        ..kept("", "ResourceQuota", "resourcequotas", "resourcequota")
    },
    Kind {
        categories: &["api-extensions"],
        namespaced: false,
        subresources: STATUS,
        ..kept("apiregistration.k8s.io", "APIService", "apiservices", "apiservice")
    },
    Kind {
        short_names: &["deploy"],
        categories: &["all"],
        subresources: SCALE,
        counts_generations: true,
        ..kept("apps", "Deployment", "deployments", "deployment")
    },
    Kind {
        short_names: &["rs"],
        categories: &["all"],
        subresources: SCALE,
        counts_generations: true,
        field_labels: FieldLabels::Listed(&["status.replicas"]),
        ..kept("apps", "ReplicaSet", "replicasets", "replicaset")
    },
    Kind {
        short_names: &["sts"],
        categories: &["all"],
        subresources: SCALE,
        counts_generations: true,
        ..kept("apps", "StatefulSet", "statefulsets", "statefulset")
    },
    Kind {
        version: "v2",
        short_names: &["hpa"],
        categories: &["all"],
        subresources: STATUS,
        ..kept(
            "autoscaling",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            "horizontalpodautoscaler",
        )
    },
    Kind {
        short_names: &["cj"],
        categories: &["all"],
        subresources: STATUS,
        counts_generations: true,
        ..kept("batch", "CronJob", "cronjobs", "cronjob")
    },
    Kind {
        categories: &["all"],
        subresources: STATUS,
        counts_generations: true,
        field_labels: FieldLabels::Listed(&["status.successful"]),
        ..kept("batch", "Job", "jobs", "job")
    },
    Kind {
        short_names: &["csr"],
        namespaced: false,
        subresources: STATUS,
        field_labels: FieldLabels::Listed(&["spec.signerName"]),
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
        ..kept("networking.k8s.io", "IngressClass", "ingressclasses", "ingressclass")
    },
    Kind {
        short_names: &["ing"],
        subresources: STATUS,
        counts_generations: true,
        ..kept("networking.k8s.io", "Ingress", "ingresses", "ingress")
    },
    Kind {
        short_names: &["ip"],
        namespaced: false,
        ..kept("networking.k8s.io", "IPAddress", "ipaddresses", "ipaddress")
    },
    Kind {
        short_names: &["netpol"],
        counts_generations: true,
        ..kept("networking.k8s.io", "NetworkPolicy", "networkpolicies", "networkpolicy")
    },
    Kind {
        namespaced: false,
        subresources: STATUS,
        ..kept("networking.k8s.io", "ServiceCIDR", "servicecidrs", "servicecidr")
    },
    Kind { namespaced: false, ..kept("storage.k8s.io", "CSIDriver", "csidrivers", "csidriver") },
    Kind { namespaced: false, ..kept("storage.k8s.io", "CSINode", "csinodes", "csinode") },
    Kind {
        ..kept("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities", "csistoragecapacity")
    },
    Kind {
        short_names: &["sc"],
        namespaced: false,
        ..kept("storage.k8s.io", "StorageClass", "storageclasses", "storageclass")
    },
    Kind {
        namespaced: false,
        subresources: STATUS,
        ..kept("storage.k8s.io", "VolumeAttachment", "volumeattachments", "volumeattachment")
    },
    Kind {
        short_names: &["vac"],
        namespaced: false,
        ..kept(
            "storage.k8s.io",
            "VolumeAttributesClass",
            "volumeattributesclasses",
            "volumeattributesclass",
        )
    },
    Kind {
        categories: &["api-extensions"],
        namespaced: false,
        counts_generations: true,
        ..kept(
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicy",
        )
    },
    Kind {
        categories: &["api-extensions"],
        namespaced: false,
        counts_generations: true,
        ..kept(
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
            "mutatingadmissionpolicybinding",
        )
    },
    Kind {
        categories: &["api-extensions"],
        namespaced: false,
        counts_generations: true,
        ..kept(
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            "mutatingwebhookconfiguration",
        )
    },
    Kind {
        categories: &["api-extensions"],
        namespaced: false,
        subresources: STATUS,
        counts_generations: true,
        ..kept(
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            "validatingadmissionpolicy",
        )
    },
    Kind {
        categories: &["api-extensions"],
        namespaced: false,
        counts_generations: true,
        ..kept(
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            "validatingadmissionpolicybinding",
        )
    },
    Kind {
        categories: &["api-extensions"],
        namespaced: false,
        counts_generations: true,
        ..kept(
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            "validatingwebhookconfiguration",
        )
    },
    Kind {
        namespaced: false,
        ..kept("node.k8s.io", "RuntimeClass", "runtimeclasses", "runtimeclass")
    },
    Kind {
        counts_generations: true,
        ..kept("discovery.k8s.io", "EndpointSlice", "endpointslices", "endpointslice")
    },
    Kind {
        namespaced: false,
        counts_generations: true,
        ..kept("resource.k8s.io", "DeviceClass", "deviceclasses", "deviceclass")
    },
    Kind {
        subresources: STATUS,
        ..kept("resource.k8s.io", "ResourceClaim", "resourceclaims", "resourceclaim")
    },
    Kind {
        ..kept(
            "resource.k8s.io",
            "ResourceClaimTemplate",
            "resourceclaimtemplates",
            "resourceclaimtemplate",
        )
    },
    Kind {
        namespaced: false,
        counts_generations: true,
        field_labels: FieldLabels::Listed(&["spec.nodeName", "spec.driver"]),
        ..kept("resource.k8s.io", "ResourceSlice", "resourceslices", "resourceslice")
    },
    Kind {
        namespaced: false,
        subresources: STATUS,
        counts_generations: true,
        ..kept("flowcontrol.apiserver.k8s.io", "FlowSchema", "flowschemas", "flowschema")
    },
    Kind {
        namespaced: false,
        subresources: STATUS,
        counts_generations: true,
        ..kept(
            "flowcontrol.apiserver.k8s.io",
            "PriorityLevelConfiguration",
            "prioritylevelconfigurations",
            "prioritylevelconfiguration",
        )
    },
];

/// The rows of this file.
pub(super) fn rows() -> impl Iterator<Item = &'static Kind> {
    OTHERS.iter().chain([&SERVICE])
}

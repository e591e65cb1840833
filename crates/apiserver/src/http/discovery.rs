//! Discovery documents, generated from the table of kinds (S3).

use base64::prelude::{BASE64_STANDARD, Engine};

use crate::json::{Value, json};
use crate::kind::{Kind, Subresource, Verb, named};
use crate::kinds::Kinds;
use crate::schema::kubernetes_version;

/// The version of the server: a Kubernetes version that clients can parse, with a suffix of our
/// own.
pub(crate) fn git_version() -> String {
    format!("{}+everynode", kubernetes_version())
}

/// A group and version of the API.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupVersion {
    pub group: &'static str,
    pub version: &'static str,
}

impl GroupVersion {
    fn of(kind: &Kind) -> Self {
        Self { group: kind.group, version: kind.version }
    }

    /// `v1`, `apps/v1`.
    pub(crate) fn name(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    pub(crate) fn is_of(&self, kind: &Kind) -> bool {
        *self == Self::of(kind)
    }

    /// The kinds of this group and version.
    fn kinds(self, kinds: &Kinds) -> impl Iterator<Item = &'static Kind> {
        kinds.iter().chain(REVIEWS).filter(move |kind| self.is_of(kind))
    }
}

/// The kinds that are never stored: reviews of the user and its permissions.
pub(crate) static REVIEWS: &[Kind] = &[
    review("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", "selfsubjectreview"),
    review(
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
    ),
    review(
        "authorization.k8s.io",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
    ),
];

const fn review(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
) -> Kind {
    Kind { namespaced: false, verbs: &[Verb::Create], ..named(group, kind, plural, singular) }
}

/// The group of the body of `pods/eviction`. Without it in discovery, `kubectl drain` deletes pods
/// instead of evicting them.
const POLICY: GroupVersion = GroupVersion { group: "policy", version: "v1" };

/// All groups and versions without duplicates, the core group first.
pub(crate) fn group_versions(kinds: &Kinds) -> Vec<GroupVersion> {
    let mut all: Vec<GroupVersion> = Vec::new();
    for group_version in kinds.iter().chain(REVIEWS).map(GroupVersion::of).chain([POLICY]) {
        if !all.contains(&group_version) {
            all.push(group_version);
        }
    }
    all
}

/// The names of the groups without duplicates.
fn group_names(all: &[GroupVersion]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for group_version in all {
        if !names.contains(&group_version.group) {
            names.push(group_version.group);
        }
    }
    names
}

/// The document at `/version`.
pub(crate) fn version() -> Value {
    let minor = kubernetes_version().split('.').nth(1);
    json!({
        "major": "1",
        "minor": minor.unwrap_or_default(),
        "gitVersion": git_version(),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none (Rust)",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, platform()),
    })
}

/// Go's name of the architecture.
fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The document at `/api`.
pub(crate) fn core_versions(kinds: &Kinds, server_address: &str) -> Value {
    let versions: Vec<&str> = group_versions(kinds)
        .into_iter()
        .filter(|group_version| group_version.group.is_empty())
        .map(|group_version| group_version.version)
        .collect();
    json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs":
            [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    })
}

/// The document at `/apis`.
pub(crate) fn groups(kinds: &Kinds) -> Value {
    let all = group_versions(kinds);
    let names = group_names(&all);
    let groups: Vec<Value> = names
        .into_iter()
        .filter(|name| !name.is_empty())
        .map(|name| group_entry(&all, name))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// The document at `/apis/GROUP`; `None` if there is no such group.
pub(crate) fn group(kinds: &Kinds, name: &str) -> Option<Value> {
    let all = group_versions(kinds);
    if name.is_empty() || !all.iter().any(|group_version| group_version.group == name) {
        return None;
    }
    let mut entry = group_entry(&all, name);
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    Some(entry)
}

fn group_entry(all: &[GroupVersion], name: &str) -> Value {
    let versions: Vec<Value> = all
        .iter()
        .filter(|version| version.group == name)
        .map(|version| json!({"groupVersion": version.name(), "version": version.version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions[0]})
}

/// The document at `/api/v1` or `/apis/GROUP/VERSION`; `None` if there is no such version.
pub(crate) fn resources(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let wanted = group_versions(kinds)
        .into_iter()
        .find(|known| known.group == group && known.version == version)?;
    let mut resources = Vec::new();
    for kind in wanted.kinds(kinds) {
        resources.push(resource(kind));
        resources.extend(kind.subresources.iter().map(|name| subresource(kind, *name)));
    }
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": wanted.name(),
        "resources": resources,
    }))
}

fn resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs(kind),
    });
    // Reviews are not stored.
    if kind.supports(Verb::Get) {
        entry["storageVersionHash"] = hash(&kind.group_kind()).into();
    }
    insert_lists(&mut entry, kind);
    entry
}

fn insert_lists(entry: &mut Value, kind: &Kind) {
    for (name, list) in [("shortNames", kind.short_names), ("categories", kind.categories)] {
        if !list.is_empty() {
            entry[name] = json!(list);
        }
    }
}

fn verbs(kind: &Kind) -> Vec<&'static str> {
    kind.verbs.iter().copied().map(Verb::name).collect()
}

/// The type of a subresource's bodies, and its verbs.
struct SubresourceType {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
}

fn subresource_type(kind: &'static str, subresource: Subresource) -> SubresourceType {
    let (group, version, kind, verbs): (_, _, _, &[_]) = match subresource {
        Subresource::Status | Subresource::Resize => ("", "", kind, &["get", "patch", "update"]),
        Subresource::Finalize => ("", "", kind, &["update"]),
        Subresource::Binding => ("", "", "Binding", &["create"]),
        Subresource::Eviction => ("policy", "v1", "Eviction", &["create"]),
        Subresource::Scale => ("autoscaling", "v1", "Scale", &["get", "patch", "update"]),
        Subresource::Token => ("authentication.k8s.io", "v1", "TokenRequest", &["create"]),
    };
    SubresourceType { group, version, kind, verbs }
}

fn subresource(kind: &'static Kind, subresource: Subresource) -> Value {
    let body_type = subresource_type(kind.kind, subresource);
    let mut entry = json!({
        "name": format!("{}/{}", kind.plural, subresource.name()),
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": body_type.kind,
        "verbs": body_type.verbs,
    });
    if !body_type.version.is_empty() {
        entry["group"] = body_type.group.into();
        entry["version"] = body_type.version.into();
    }
    entry
}

/// The aggregated form of `/api` (`is_core`) or `/apis`: all versions and resources in one document
/// of `apidiscovery.k8s.io/VERSION`.
pub(crate) fn aggregated(kinds: &Kinds, is_core: bool, api_version: &str) -> Value {
    let all = group_versions(kinds);
    let names = group_names(&all);
    let items: Vec<Value> = names
        .into_iter()
        .filter(|name| name.is_empty() == is_core)
        .map(|name| aggregated_group(kinds, &all, name))
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{api_version}"),
        "metadata": {},
        "items": items,
    })
}

fn aggregated_group(kinds: &Kinds, all: &[GroupVersion], name: &str) -> Value {
    let versions: Vec<Value> = all
        .iter()
        .filter(|group_version| group_version.group == name)
        .map(|group_version| {
            let version = group_version.version;
            let resources: Value = group_version.kinds(kinds).map(aggregated_resource).collect();
            json!({"version": version, "freshness": "Current", "resources": resources})
        })
        .collect();
    // The core group has neither a name nor a `metadata.name`.
    let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(kind: &'static Kind) -> Value {
    let response_kind = |body_type: &SubresourceType| {
        json!({
            "group": body_type.group, "version": body_type.version, "kind": body_type.kind,
        })
    };
    let subresources: Vec<Value> = kind
        .subresources
        .iter()
        .map(|subresource| {
            let body_type = subresource_type(kind.kind, *subresource);
            json!({
                "subresource": subresource.name(),
                "responseKind": response_kind(&body_type),
                "verbs": body_type.verbs,
            })
        })
        .collect();
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": verbs(kind),
    });
    insert_lists(&mut entry, kind);
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

/// A storage version hash that never changes: the FNV-1a hash of `text` in base64.
pub(crate) fn hash(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    BASE64_STANDARD.encode(hash.to_be_bytes())
}

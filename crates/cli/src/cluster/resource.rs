//! The resources that the commands read, and their paths in the API.

use std::fmt;

use everynode_controller::orphans::SELECTOR_BYTES_MAX;
use everynode_core::api::{DaemonSetKey, HASH_LABEL, NodeName, PULLS_FOR_LABEL};
use everynode_insight::snapshot::ObjectKind;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::args::ConnectionArguments;

/// A resource of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    ControllerRevisions,
    DaemonSets,
    Events,
    Leases,
    Namespaces,
    Nodes,
    Pods,
    PriorityClasses,
    RolloutPolicies,
    ClusterRolloutPolicies,
    ServiceAccounts,
}

impl Resource {
    /// The plural name, as in URLs and roles.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ControllerRevisions => "controllerrevisions",
            Self::DaemonSets => "daemonsets",
            Self::Events => "events",
            Self::Leases => "leases",
            Self::Namespaces => "namespaces",
            Self::Nodes => "nodes",
            Self::Pods => "pods",
            Self::PriorityClasses => "priorityclasses",
            Self::RolloutPolicies => "rolloutpolicies",
            Self::ClusterRolloutPolicies => "clusterrolloutpolicies",
            Self::ServiceAccounts => "serviceaccounts",
        }
    }

    /// The API group; empty for the core group.
    pub(crate) const fn group(self) -> &'static str {
        match self {
            Self::ControllerRevisions | Self::DaemonSets => "apps",
            Self::Leases => "coordination.k8s.io",
            Self::PriorityClasses => "scheduling.k8s.io",
            Self::RolloutPolicies | Self::ClusterRolloutPolicies => "everynode.dev",
            Self::Events | Self::Namespaces | Self::Nodes | Self::Pods | Self::ServiceAccounts => {
                ""
            }
        }
    }

    /// The version of the API group.
    const fn version(self) -> &'static str {
        match self {
            Self::RolloutPolicies | Self::ClusterRolloutPolicies => "v1alpha1",
            Self::ControllerRevisions
            | Self::DaemonSets
            | Self::Events
            | Self::Leases
            | Self::Namespaces
            | Self::Nodes
            | Self::Pods
            | Self::PriorityClasses
            | Self::ServiceAccounts => "v1",
        }
    }

    /// The singular name, for messages.
    pub(crate) const fn singular(self) -> &'static str {
        match self {
            Self::ControllerRevisions => "controllerrevision",
            Self::DaemonSets => "daemonset",
            Self::Events => "event",
            Self::Leases => "lease",
            Self::Namespaces => "namespace",
            Self::Nodes => "node",
            Self::Pods => "pod",
            Self::PriorityClasses => "priorityclass",
            Self::RolloutPolicies => "rolloutpolicy",
            Self::ClusterRolloutPolicies => "clusterrolloutpolicy",
            Self::ServiceAccounts => "serviceaccount",
        }
    }

    /// The path of all objects, of those in a namespace, or of one object.
    pub(crate) fn path(self, namespace: Option<&str>, name: Option<&str>) -> String {
        let version = self.version();
        let mut path = match self.group() {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        if let Some(namespace) = namespace {
            path = format!("{path}/namespaces/{}", encoded(namespace));
        }
        path = format!("{path}/{}", self.name());
        if let Some(name) = name {
            path = format!("{path}/{}", encoded(name));
        }
        path
    }
}

impl From<ObjectKind> for Resource {
    fn from(kind: ObjectKind) -> Self {
        match kind {
            ObjectKind::ControllerRevision => Self::ControllerRevisions,
            ObjectKind::DaemonSet => Self::DaemonSets,
            ObjectKind::Event | ObjectKind::PodWarning => Self::Events,
            ObjectKind::Namespace => Self::Namespaces,
            ObjectKind::Node => Self::Nodes,
            ObjectKind::Pod | ObjectKind::ImagePuller | ObjectKind::PodOnNode => Self::Pods,
            ObjectKind::RolloutPolicy => Self::RolloutPolicies,
            ObjectKind::ClusterRolloutPolicy => Self::ClusterRolloutPolicies,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The objects of a resource to list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Selection {
    namespace: Option<String>,
    labels: Option<String>,
    fields: Option<String>,
}

impl Selection {
    /// The objects of all namespaces, or of a resource without namespaces.
    pub(crate) fn all() -> Self {
        Self::default()
    }

    /// The objects in a namespace.
    pub(crate) fn in_namespace(namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..Self::default() }
    }

    /// The objects of the namespace that the command line names, or of all.
    pub(crate) fn in_scope(arguments: &ConnectionArguments) -> Self {
        arguments.namespace.as_deref().map_or_else(Self::all, Self::in_namespace)
    }

    /// The objects that a DaemonSet's selector matches in its namespace; its pods and revisions are
    /// among them.
    pub(crate) fn selected_by(daemon_set: &DaemonSet) -> Self {
        let namespace = daemon_set.metadata.namespace.as_deref().unwrap_or_default();
        let selection = Self::in_namespace(namespace);
        match &daemon_set.spec {
            Some(spec) => selection.matching(&spec.selector),
            None => selection,
        }
    }

    /// Only the objects that the selector matches. A selector that can't be parsed, or is too long
    /// for a URI, is ignored, since readers check the owner of each object anyway.
    #[must_use]
    pub(crate) fn matching(self, selector: &LabelSelector) -> Self {
        let selector = kube::core::Selector::try_from(selector.clone()).ok();
        let labels = selector.map(|selector| selector.to_string()).filter(|text| !text.is_empty());
        let fits = |text: &String| {
            let encoded = form_urlencoded::byte_serialize(text.as_bytes());
            encoded.map(str::len).sum::<usize>() <= SELECTOR_BYTES_MAX
        };
        Self { labels: labels.filter(fits), ..self }
    }

    /// Only the objects with these labels. The server reports a selector that it can't parse.
    #[must_use]
    pub(crate) fn labelled(self, selector: &str) -> Self {
        Self { labels: Some(selector.to_owned()), ..self }
    }

    /// Only the object with this name.
    #[must_use]
    pub(crate) fn named(self, name: &str) -> Self {
        Self { fields: Some(format!("metadata.name={name}")), ..self }
    }

    /// Only the pods on this node.
    #[must_use]
    pub(crate) fn on_node(self, node: &NodeName) -> Self {
        Self { fields: Some(format!("spec.nodeName={node}")), ..self }
    }

    /// Of pods only those that have ended and that a DaemonSet or StatefulSet has created.
    #[must_use]
    pub(crate) fn ended(self) -> Self {
        Self { labels: Some(HASH_LABEL.to_owned()), ..self }
            .and_field("status.phase!=Running,status.phase!=Pending,status.phase!=Unknown")
    }

    /// Of namespaces only those that are being deleted.
    #[must_use]
    pub(crate) fn terminating(self) -> Self {
        self.and_field("status.phase=Terminating")
    }

    fn and_field(self, field: &str) -> Self {
        let fields = self.fields.iter().map(String::as_str).chain([field]);
        Self { fields: Some(fields.collect::<Vec<_>>().join(",")), ..self }
    }

    /// The events about a DaemonSet.
    pub(crate) fn events(key: &DaemonSetKey) -> (ObjectKind, Self) {
        let fields = format!("involvedObject.kind=DaemonSet,involvedObject.name={}", key.name);
        (ObjectKind::Event, Self::in_namespace(key.namespace.as_str()).and_field(&fields))
    }

    /// The pods of a DaemonSet's namespace that pull images.
    pub(crate) fn image_pullers(key: &DaemonSetKey) -> (ObjectKind, Self) {
        let here = Self::in_namespace(key.namespace.as_str());
        (ObjectKind::ImagePuller, here.labelled(PULLS_FOR_LABEL))
    }

    /// The warnings about all pods of a DaemonSet's namespace.
    pub(crate) fn pod_warnings(key: &DaemonSetKey) -> (ObjectKind, Self) {
        let fields = "involvedObject.kind=Pod,type=Warning";
        (ObjectKind::PodWarning, Self::in_namespace(key.namespace.as_str()).and_field(fields))
    }

    /// The namespace; `None` for all.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The path with query parameters.
    pub(crate) fn path(
        &self,
        resource: Resource,
        limit: Option<u32>,
        token: Option<&str>,
    ) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(limit) = limit {
            query.append_pair("limit", &limit.to_string());
        }
        let parameters = [
            ("continue", token),
            ("labelSelector", self.labels.as_deref()),
            ("fieldSelector", self.fields.as_deref()),
        ];
        for (name, value) in parameters {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        let path = resource.path(self.namespace.as_deref(), None);
        match query.finish().as_str() {
            "" => path,
            query => format!("{path}?{query}"),
        }
    }
}

impl fmt::Display for Selection {
    /// In words: `all namespaces`, or `namespace infra, app=x`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(formatter, "namespace {namespace}")?,
            None => formatter.write_str("all namespaces")?,
        }
        let selectors = self.labels.iter().chain(&self.fields);
        selectors.into_iter().try_for_each(|selector| write!(formatter, ", {selector}"))
    }
}

/// Escapes a name from the command line, so that it stays one segment of the path.
fn encoded(name: &str) -> String {
    form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_those_of_the_api() {
        for (resource, namespace, name, expected) in [
            (Resource::Namespaces, None, None, "/api/v1/namespaces"),
            (Resource::Namespaces, None, Some("a"), "/api/v1/namespaces/a"),
            (Resource::Pods, None, None, "/api/v1/pods"),
            (Resource::Pods, Some("a"), None, "/api/v1/namespaces/a/pods"),
            (Resource::DaemonSets, Some("a"), Some("b"), "/apis/apps/v1/namespaces/a/daemonsets/b"),
            (
                Resource::ClusterRolloutPolicies,
                None,
                None,
                "/apis/everynode.dev/v1alpha1/clusterrolloutpolicies",
            ),
            (Resource::Pods, Some("../x"), Some("../y"), "/api/v1/namespaces/..%2Fx/pods/..%2Fy"),
        ] {
            assert_eq!(resource.path(namespace, name), expected);
        }
    }

    /// A selector that no proxy would let pass is left to the readers.
    #[test]
    fn a_selector_that_does_not_fit_a_uri_is_left_out() {
        for (labels, has_selector) in [(1, true), (1000, false)] {
            let labels = (0..labels).map(|label| (format!("label-{label}"), "v".to_owned()));
            let selector =
                LabelSelector { match_labels: Some(labels.collect()), ..LabelSelector::default() };
            let path = Selection::in_namespace("n").matching(&selector);
            let path = path.path(Resource::Pods, None, None);
            assert_eq!(path.contains("labelSelector"), has_selector, "{path}");
        }
    }

    #[test]
    fn a_selection_becomes_query_parameters() {
        let selector = serde_json::from_value(json!({
            "matchLabels": {"app": "a"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}],
        }));
        let selection = Selection::in_namespace("n").matching(&selector.unwrap());
        assert_eq!(
            selection.path(Resource::Pods, Some(500), Some("t=1")),
            "/api/v1/namespaces/n/pods?limit=500&continue=t%3D1\
             &labelSelector=app%3Da%2Ctier+in+%28x%2Cy%29"
        );
        assert_eq!(Selection::all().path(Resource::Pods, None, None), "/api/v1/pods");
        let named = Selection::in_namespace("n").named("a");
        assert_eq!(
            named.path(Resource::DaemonSets, None, None),
            "/apis/apps/v1/namespaces/n/daemonsets?fieldSelector=metadata.name%3Da"
        );
        let (_, events) = Selection::events(&DaemonSetKey::new("n", "a"));
        assert_eq!(
            events.path(Resource::Events, None, None),
            "/api/v1/namespaces/n/events\
             ?fieldSelector=involvedObject.kind%3DDaemonSet%2CinvolvedObject.name%3Da"
        );
    }
}
